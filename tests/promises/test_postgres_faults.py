"""When the server or the way to it fails: what is safe is done again, and what nobody can know is said."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from processes import exit_code, fork

import threadline
from threadline import (
    Damaged,
    Session,
    Store,
    StoreBusy,
    StoreFailed,
    StoreFull,
    ThreadlineError,
    Uncertain,
)
from threadline.backends.postgres import connections
from threadline.backends.postgres.backend import PostgresBackend
from threadline.testing.postgres import FORGETFUL, Server
from threadline.testing.proxy import Proxy


@pytest.fixture
def store(postgres_url: str) -> Iterator[Store]:
    with threadline.open(postgres_url) as store:
        yield store


@pytest.fixture
def session(store: Store) -> Session:
    session = store.session("k")
    session.append("first")
    return session


def told(session: Session) -> list[str]:
    return [message.text for message in session.messages()]


# -- the line is cut -----------------------------------------------------------------------------------


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[Proxy]:
    """A line to the store that can be cut."""
    folder = Path(str(psycopg.conninfo.conninfo_to_dict(postgres_url)["host"]))
    with tempfile.TemporaryDirectory() as own, Proxy(Path(own), folder) as proxy:
        yield proxy


@pytest.fixture
def distant(proxy: Proxy, postgres_url: str) -> Iterator[Session]:
    """A session at the other end of that line, warmed up."""
    with threadline.open(proxy.url(str(psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"]))) as store:
        session = store.session("k")
        session.append("first")
        session.extend(["second", "third"])
        session.append("fourth")
        yield session


def test_a_lost_answer_to_an_unkeyed_write_is_uncertain(distant: Session, proxy: Proxy) -> None:
    proxy.lose_answers()
    with pytest.raises(Uncertain) as caught:
        distant.append("fifth")

    assert (caught.value.session, caught.value.head) == (distant.id, 4)
    assert told(distant)[4:] == ["fifth"]  # it was stored: to write it again would have made two of it


@pytest.mark.parametrize("lost", [1, 2])
def test_a_lost_answer_to_a_keyed_write_is_asked_for_again(distant: Session, proxy: Proxy, lost: int) -> None:
    """The second one is that to the new connection."""
    proxy.lose_answers(lost)
    entry = distant.append("fifth", key="5")

    assert entry.seq == 5
    assert told(distant)[4:] == ["fifth"]


def test_a_keyed_write_that_never_gets_an_answer_is_uncertain(distant: Session, proxy: Proxy) -> None:
    proxy.lose_answers(1_000)
    with pytest.raises(Uncertain):
        distant.append("fifth", key="5")

    proxy.lose_answers(0)
    assert distant.append("fifth", key="5").seq == 5
    assert told(distant)[4:] == ["fifth"]


def test_a_lost_answer_to_a_commit_in_python_is_uncertain(distant: Session, proxy: Proxy) -> None:
    distant.rewind(4)
    backend: Any = distant._backend
    lock = psycopg.Connection.execute

    def execute(self: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        if query == "COMMIT":
            proxy.lose_answers()
        return lock(self, query, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.Connection, "execute", execute)
        with pytest.raises(Uncertain):
            distant.rewind(2)
    proxy.lose_answers(0)

    assert told(distant) == ["first", "second"]
    assert backend.verify()[0] == []


@pytest.mark.parametrize("read", [lambda s: s.messages(), lambda s: s.info, lambda s: s.pending, lambda s: s.head])
def test_a_lost_answer_to_a_read_is_asked_for_again(
    distant: Session, proxy: Proxy, read: Callable[[Session], object]
) -> None:
    before = read(distant)
    proxy.lose_answers()

    assert read(distant) == before


@pytest.mark.parametrize("name", ["making", "forking", "renaming"])
def test_a_cut_line_before_the_commit_is_no_harm(distant: Session, proxy: Proxy, name: str) -> None:
    """The first answer is lost: of a reservation, or of the lock. So nothing is stored, and all of it is done again."""
    calls: dict[str, Callable[[], object]] = {
        "making": lambda: distant._store.new(id="new"),
        "forking": lambda: distant.fork(2, id="new"),
        "renaming": lambda: distant.rename("new"),
    }
    proxy.lose_answers()
    calls[name]()

    assert (distant.info.title if name == "renaming" else distant._store.get("new").id) == "new"


# -- round trips ---------------------------------------------------------------------------------------


TRIPS: dict[str, tuple[int, Callable[[Session], object]]] = {
    "append": (1, lambda s: s.append("more")),
    "append with a key": (1, lambda s: s.append("more", key="new key")),
    "append that expects": (1, lambda s: s.append("more", expect=7)),
    "extend": (1, lambda s: s.extend(["more", "and more"])),
    "a batch of appends": (1, lambda s: _batch(s)),
    "note": (1, lambda s: s.note({"n": 1})),
    "clear": (2, lambda s: s.clear()),
    "head": (1, lambda s: s.head),
    "info": (1, lambda s: s.info),
}


def _batch(session: Session) -> None:
    with session.batch() as batch:
        batch.append("more", key="a")
        batch.extend(["and", "more"], key="b")
        batch.note({"n": 1})


@pytest.mark.parametrize("name", TRIPS)
def test_it_takes_so_many_round_trips(distant: Session, proxy: Proxy, name: str) -> None:
    trips, call = TRIPS[name]
    distant.clear()
    distant.rewind(4)
    distant.note({"head": distant.head, "title": distant.info.title}, key="warm")  # every statement is prepared by now
    before = proxy.trips
    call(distant)

    assert proxy.trips - before == trips


# -- connections are killed ----------------------------------------------------------------------------


def kill_connections(admin: psycopg.Connection, *, waiting: bool = False) -> int:
    """End every connection of a store to this database, or only those that wait for a lock; how many there were."""
    mine = "pid <> pg_backend_pid() AND datname = current_database() AND application_name = 'threadline'"
    which = f"{mine} AND wait_event_type = 'Lock'" if waiting else mine
    found = admin.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {which}").fetchall()
    return len(found)


def test_killed_idle_connections_are_not_noticed(
    store: Store, session: Session, postgres_schema: psycopg.Connection
) -> None:
    assert kill_connections(postgres_schema) > 0
    time.sleep(0.1)  # until the server said goodbye

    session.append("second")
    assert told(session) == ["first", "second"]


def in_thread(call: Callable[[], object]) -> tuple[threading.Thread, list[Any]]:
    """A call in a thread of its own, and what came of it."""
    outcome: list[Any] = []

    def work() -> None:
        try:
            outcome.append(call())
        except ThreadlineError as error:
            outcome.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, outcome


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_write_that_is_killed_while_it_waits_is_uncertain_or_done_again(
    session: Session, postgres_schema: psycopg.Connection, postgres_database: str
) -> None:
    with psycopg.connect(postgres_database) as blocker:
        blocker.execute("SELECT 1 FROM threadline.head FOR UPDATE")
        unkeyed, unsure = in_thread(lambda: session.append("second"))
        wait_for(lambda: kill_connections(postgres_schema, waiting=True))
        unkeyed.join()
        keyed, done = in_thread(lambda: session.append("third", key="3"))
        wait_for(lambda: kill_connections(postgres_schema, waiting=True))
        blocker.rollback()
    keyed.join()

    assert [type(outcome) for outcome in unsure] == [Uncertain]
    assert [outcome.seq for outcome in done] == [2]
    assert told(session) == ["first", "third"]


# -- the server refuses --------------------------------------------------------------------------------


@pytest.fixture
def refusing(session: Session, postgres_schema: psycopg.Connection) -> Iterator[Callable[[str, int], None]]:
    """Makes the server answer the next writes with an error of that code."""

    def refuse(code: str, times: int) -> None:
        postgres_schema.execute("CREATE SEQUENCE public.refused")
        postgres_schema.execute(
            f"""CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF nextval('public.refused') <= {times} THEN RAISE EXCEPTION 'no' USING ERRCODE = '{code}'; END IF;
                RETURN NEW; END $$;
            CREATE TRIGGER refuse BEFORE UPDATE ON threadline.head FOR EACH ROW EXECUTE FUNCTION public.refuse()"""
        )

    yield refuse
    postgres_schema.execute("DROP FUNCTION IF EXISTS public.refuse CASCADE; DROP SEQUENCE IF EXISTS public.refused")


REFUSALS = [
    ("53100", StoreFull),
    ("55P03", StoreBusy),
    ("57014", StoreBusy),
    ("53300", StoreBusy),
    ("XX001", Damaged),
    ("25006", StoreFailed),
    ("42501", StoreFailed),
    ("53200", StoreFailed),
]


@pytest.mark.parametrize(("code", "kind"), REFUSALS)
def test_an_error_of_the_server_is_one_of_ours_and_nothing_is_written(
    session: Session, refusing: Callable[[str, int], None], code: str, kind: type[ThreadlineError]
) -> None:
    refusing(code, 1)
    with pytest.raises(kind) as caught:
        session.append("second")

    assert isinstance(caught.value.__cause__, psycopg.Error)
    assert told(session) == ["first"]


@pytest.mark.parametrize("code", ["40001", "40P01"])
@pytest.mark.parametrize("call", [lambda s: s.append("second"), lambda s: s.replace(["second"], since=1, upto=1)])
def test_a_deadlock_or_serialisation_error_is_run_again(
    session: Session, refusing: Callable[[str, int], None], code: str, call: Callable[[Session], object]
) -> None:
    refusing(code, 2)
    call(session)

    assert told(session)[-1] == "second"
    assert session._store.verify().problems == []


def test_one_that_comes_again_and_again_is_told(session: Session, refusing: Callable[[str, int], None]) -> None:
    refusing("40P01", 1_000)

    with pytest.raises(StoreBusy):
        session.append("second")


@contextmanager
def set_for_all(admin: psycopg.Connection, setting: str, value: str) -> Iterator[None]:
    """A setting of the database, for all connections made from now on."""
    (name,) = admin.execute("SELECT current_database()").fetchone() or ("",)
    admin.execute(f"ALTER DATABASE {name} SET {setting} = '{value}'")
    try:
        yield
    finally:
        admin.execute(f"ALTER DATABASE {name} RESET {setting}")


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_writers_under_a_stricter_isolation_lose_nothing(
    session: Session, postgres_schema: psycopg.Connection, postgres_url: str, level: str
) -> None:
    """Somebody made it the default: then a wait for a lock ends in a serialisation error."""
    with set_for_all(postgres_schema, "default_transaction_isolation", level), threadline.open(postgres_url) as store:
        threads = [in_thread(lambda: [store.session("k").append("more").seq for _ in range(5)]) for _ in range(6)]
        for thread, _ in threads:
            thread.join()

    assert sorted(seq for _, (seqs,) in threads for seq in seqs) == list(range(2, 32))


def test_a_lock_that_nobody_lets_go_of_is_told(
    session: Session, postgres_schema: psycopg.Connection, postgres_database: str, postgres_url: str
) -> None:
    with (
        set_for_all(postgres_schema, "lock_timeout", "100ms"),
        threadline.open(postgres_url) as store,
        psycopg.connect(postgres_database) as blocker,
    ):
        blocker.execute("SELECT 1 FROM threadline.head FOR UPDATE")
        with pytest.raises(StoreBusy):
            store.session("k").append("second")
        with pytest.raises(StoreBusy):
            store.session("k").clear()
        blocker.rollback()

    assert told(session) == ["first"]


def test_all_connections_in_use_is_told(
    session: Session, postgres_url: str, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "WAIT_S", 0.1)
    with Store(PostgresBackend(postgres_url, connections=1)) as store, psycopg.connect(postgres_database) as blocker:
        blocker.execute("SELECT 1 FROM threadline.head FOR UPDATE")
        busy, outcome = in_thread(lambda: store.session("k").append("second"))
        wait_for(lambda: store._backend._pool._taken)  # type: ignore[attr-defined]
        time.sleep(0.05)

        with pytest.raises(StoreBusy, match="1 connections"):
            store.session("k").append("third")
        blocker.rollback()
        busy.join()

        assert [entry.seq for entry in outcome] == [2]
        assert store.session("k").append("third").seq == 3  # and it came back


def test_more_threads_than_connections_all_get_their_turn(session: Session, postgres_url: str) -> None:
    with Store(PostgresBackend(postgres_url, connections=2)) as store:
        threads = [in_thread(lambda: store.session("k").append("more")) for _ in range(16)]
        for thread, _ in threads:
            thread.join()

    assert sorted(outcome[0].seq for _, outcome in threads) == list(range(2, 18))


# -- no server at all ----------------------------------------------------------------------------------


def test_an_unreachable_server_is_told_at_once() -> None:
    with pytest.raises(StoreFailed, match="no connection"):
        threadline.open("postgresql://postgres@/x?host=/nowhere&connect_timeout=2")


def test_a_password_is_never_told() -> None:
    with pytest.raises(StoreFailed) as caught:
        threadline.open("postgresql://me:secret@/x?host=/nowhere")

    assert "secret" not in str(caught.value)


def test_a_handle_survives_a_restart_of_the_server() -> None:
    with Server(FORGETFUL) as server, threadline.open(server.url(), durability="relaxed") as store:
        session = store.session("k")
        session.append("before")
        server.restart()
        session.append("after")

        server.stop()
        with pytest.raises(StoreFailed, match="nothing was written"):
            session.append("while it is down")
        with pytest.raises(StoreFailed):
            session.messages()
        server.start()

        assert session.append("up again").seq == 3
        assert told(session) == ["before", "after", "up again"]


# -- fork ----------------------------------------------------------------------------------------------


def test_a_forked_child_has_connections_of_its_own(store: Store, session: Session) -> None:
    """The child uses the same store, while other threads of the parent are writing."""
    stop = threading.Event()

    def write_on(writer: int) -> None:
        mine = store.session(f"writer {writer}")
        while not stop.is_set():
            mine.append("more")

    threads = [threading.Thread(target=write_on, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    try:
        pids = [fork(lambda n=n: [session.append(f"child {n}") for _ in range(5)]) for n in range(4)]  # type: ignore[misc]
        codes = [exit_code(pid) for pid in pids]
    finally:
        stop.set()
        for thread in threads:
            thread.join()

    session.append("parent")
    assert codes == [0] * 4
    assert len(told(session)) == 22
    assert store.verify().problems == []


def test_a_child_that_only_exits_ends_no_connection_of_its_parent(store: Store, session: Session) -> None:
    before = backend_pids(store)
    assert exit_code(fork(lambda: None)) == 0

    session.append("second")
    assert before
    assert before <= backend_pids(store)


def backend_pids(store: Store) -> set[int]:
    pool = store._backend._pool  # type: ignore[attr-defined]
    return {connection.info.backend_pid for connection in pool._all}


def test_a_closed_store_leaves_no_connection(
    store: Store, session: Session, postgres_schema: psycopg.Connection
) -> None:
    store.close()
    mine = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'threadline' AND datname = current_database()"
    )

    wait_for(lambda: postgres_schema.execute(mine).fetchone() == (0,))
