"""The contract: what every store promises, one test a claim, whatever it stands on.

A backend is proven by a subclass that says how to open a store:

    class TestMine(StoreContract):
        @pytest.fixture
        def open_store(self, tmp_path):
            return lambda **options: threadline.open(tmp_path / "store", **options)

`open_store(**options)` takes the options of `threadline.open`. A backend that outlives its process inherits from
`DurableContract`, too: there a later call opens the same place again. Every test ends with `store.verify()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import pytest

from threadline import (
    Closed,
    Conflict,
    Entry,
    InvalidArgument,
    InvalidMessage,
    KeyReused,
    Message,
    NotActive,
    NotFound,
    NothingToCompact,
    NotVisible,
    Plan,
    ReadOnly,
    Session,
    Stale,
    Store,
    Text,
    ThreadlineError,
    ToolCall,
)

OpenStore = Callable[..., Store]

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
A_SECOND = timedelta(seconds=1)

# Names that file systems, URLs, collations and normal forms take for one another, or for something else than a name.
NAMES = (
    "a:b",
    "a_b",
    "a/b",
    "a\\b",
    "A:B",
    "a:b ",
    " a:b",
    "a:b\n",
    "a:b\0",
    "a",
    "\0",
    "\u00e9",  # é as one character
    "e\u0301",  # and as two
    "\ufb01",
    "fi",
    "..",
    "../..",
    "/etc/passwd",
    "con",
    "0",
    "0.0",
    "00",
    "null",
    "%",
    "_",
    "*",
    "'; DROP TABLE session; --",
    "\ud83d",
    "\ude00",
    "\ud83d\ude00",  # two lone surrogates
    "\U0001f600",  # the character that they would make
    "\uffff",
    "k" * 512,
    "k" * 511 + "K",
    "k" * 511,
    "\U0001f600" * 512,
)


# -- builders ------------------------------------------------------------------------------------------


def asks(*call_ids: str, text: str | None = None) -> Message:
    """An assistant's message that calls a tool once per id."""
    return Message.assistant(text, *(ToolCall(id, "search", {"for": id}) for id in call_ids))


def answers(call_id: str, output: str = "found") -> Message:
    return Message.tool(call_id, output)


def talk(session: Session, turns: int) -> Session:
    """So many turns of two entries each: q1, a1, q2, a2 …"""
    for i in range(1, turns + 1):
        session.extend([f"q{i}", Message.assistant(f"a{i}")])
    return session


def busy(session: Session) -> Session:
    """A session on which every kind of write is possible: see WRITES."""
    talk(session, 1)
    session.compact("so far")  # entry 3
    session.extend(["go on", asks("c1")])  # entries 4 and 5
    return session


def told(session: Session, at: int | None = None) -> list[str]:
    return [message.text for message in session.messages(at)]


def seqs(session: Session, at: int | None = None) -> list[int]:
    return [entry.seq for entry in session.view(at).entries]


def made(page: Any) -> list[str]:
    """The ids of a whole walk through a listing."""
    return [info.id for info in page]


Write = Callable[..., Entry | list[Entry]]

# Everything that writes an entry, each possible on a busy session.
WRITES: dict[str, Write] = {
    "append": lambda s, **o: s.append("more", **o),
    "extend": lambda s, **o: s.extend(["more", "and more"], **o),
    "note": lambda s, **o: s.note({"seen": True}, **o),
    "compact": lambda s, **o: s.compact("all of it", upto=4, **o),
    "compact_by_function": lambda s, **o: s.compact(lambda run: f"{len(run)} messages", upto=4, **o),
    "replace": lambda s, **o: s.replace(["instead"], since=4, upto=4, **o),
    "expand": lambda s, **o: s.expand(3, **o),
    "rewind": lambda s, **o: s.rewind(2, **o),
    "clear": lambda s, **o: s.clear(**o),
    "start_call": lambda s, **o: s.start_call("c1", **o),
    "repair": lambda s, **o: s.repair(**o),
}

# Everything that changes a session without writing an entry.
CHANGES: dict[str, Callable[[Session], None]] = {
    "rename": lambda s: s.rename("a name"),
    "rename_auto": lambda s: s.rename("a name", auto=True),
    "tag": lambda s: s.tag("red"),
    "untag": lambda s: s.untag("red"),
    "update": lambda s: s.update(agent="a", model="m", provider="p", cwd="/src", meta={"n": 1}),
}

READS: dict[str, Callable[[Session], object]] = {
    "head": lambda s: s.head,
    "info": lambda s: s.info,
    "view": lambda s: s.view(),
    "view_at": lambda s: s.view(at=2, last=1),
    "messages": lambda s: s.messages(),
    "entries": lambda s: list(s.entries()),
    "entry": lambda s: s.entry(1),
    "originals": lambda s: s.originals(3),
    "pending": lambda s: s.pending,
    "unanswered": lambda s: s.unanswered,
    "forks": lambda s: s.forks(),
}

STORE_CALLS: dict[str, Callable[[Store, Session], object]] = {
    "session": lambda store, s: store.session("a key"),
    "new": lambda store, s: store.new(),
    "get": lambda store, s: store.get(str(s.id)),
    "find": lambda store, s: store.find("a key"),
    "latest": lambda store, s: store.latest(),
    "sessions": lambda store, s: store.sessions(),
    "archive": lambda store, s: store.archive(s),
    "trash": lambda store, s: store.trash(s),
    "restore": lambda store, s: store.restore(s),
    "verify": lambda store, s: store.verify(),
    "stats": lambda store, s: store.stats(),
    "fork": lambda store, s: s.fork(),
}


class Contract:
    """The fixtures that all of it stands on. A subclass supplies `open_store`."""

    @pytest.fixture
    def open_store(self) -> OpenStore:
        raise NotImplementedError("a subclass says how to open a store")

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Iterator[Store]:
        with open_store() as store:
            yield store
            with suppress(Closed):
                assert store.verify().problems == []

    @pytest.fixture
    def session(self, store: Store) -> Session:
        return store.new()


class OpeningContract(Contract):
    """Opening, closing, namespaces."""

    def test_leaving_the_block_closes_the_store(self, open_store: OpenStore) -> None:
        with open_store() as store:
            pass

        with pytest.raises(Closed):
            store.new()

    def test_closing_twice_is_fine(self, open_store: OpenStore) -> None:
        store = open_store()
        store.close()

        store.close()

    @pytest.mark.parametrize("name", STORE_CALLS)
    def test_a_closed_store_refuses_every_call(self, store: Store, session: Session, name: str) -> None:
        store.close()

        with pytest.raises(Closed):
            STORE_CALLS[name](store, session)

    @pytest.mark.parametrize("name", READS)
    def test_a_session_of_a_closed_store_cannot_be_read(self, store: Store, session: Session, name: str) -> None:
        busy(session)
        store.close()

        with pytest.raises(Closed):
            READS[name](session)

    @pytest.mark.parametrize("name", WRITES)
    def test_a_session_of_a_closed_store_cannot_be_written(self, store: Store, session: Session, name: str) -> None:
        busy(session)
        store.close()

        with pytest.raises(Closed):
            WRITES[name](session)

    @pytest.mark.parametrize("name", CHANGES)
    def test_a_session_of_a_closed_store_cannot_be_changed(self, store: Store, session: Session, name: str) -> None:
        store.close()

        with pytest.raises(Closed):
            CHANGES[name](session)

    def test_the_clock_stamps_entries(self, open_store: OpenStore) -> None:
        with open_store(clock=lambda: NOON) as store:
            entry = store.new().append("hi")

        assert entry.at == NOON

    def test_the_clock_stamps_sessions(self, open_store: OpenStore) -> None:
        with open_store(clock=lambda: NOON) as store:
            info = store.new().info

        assert info.created_at == NOON

    def test_a_clock_without_a_time_zone_is_refused(self, open_store: OpenStore) -> None:
        with open_store(clock=lambda: NOON.replace(tzinfo=None)) as store, pytest.raises(InvalidArgument):
            store.new()

    def test_count_tokens_says_how_long_a_message_is(self, open_store: OpenStore) -> None:
        with open_store(count_tokens=lambda message: len(message.text)) as store:
            session = store.new()
            entry = session.append("12345")

            assert (entry.tokens, session.info.tokens) == (5, 5)

    def test_a_namespace_finds_no_key_of_another(self, store: Store) -> None:
        store.within("acme").session("k").append("secret")

        assert store.within("evil").find("k") is None
        assert store.find("k") is None

    def test_a_namespace_gets_no_id_of_another(self, store: Store) -> None:
        secret = store.within("acme").new(id="x")

        with pytest.raises(NotFound):
            store.within("evil").get(str(secret.id))

    def test_a_namespace_does_not_take_a_session_of_another_either(self, store: Store) -> None:
        secret = store.within("acme").new()

        with pytest.raises(NotFound):
            store.within("evil").get(secret)

    @pytest.mark.parametrize("name", ["archive", "trash", "restore"])
    def test_a_namespace_changes_no_status_in_another(self, store: Store, name: str) -> None:
        secret = store.within("acme").new()

        with pytest.raises(NotFound):
            STORE_CALLS[name](store.within("evil"), secret)

    def test_a_namespace_lists_no_session_of_another(self, store: Store) -> None:
        store.within("acme").new()
        mine = store.within("evil").new()

        assert made(store.within("evil").sessions()) == [mine.id]
        assert made(store.sessions()) == []

    def test_latest_stays_in_its_namespace(self, store: Store) -> None:
        mine = store.within("evil").new()
        store.within("acme").new()

        latest = store.within("evil").latest()

        assert latest is not None
        assert latest.id == mine.id

    def test_the_same_id_and_key_may_stand_in_two_namespaces(self, store: Store) -> None:
        for name in ("", "acme", "evil"):
            store.within(name).new(key="k", id="x", title=name)

        titles = [store.within(name).get("x").info.title for name in ("", "acme", "evil")]

        assert titles == ["", "acme", "evil"]

    def test_two_namespaces_never_meet_whatever_their_names(self, store: Store) -> None:
        for name in NAMES:
            store.within(name).session("k").append(ascii(name))

        for name in NAMES:
            assert told(store.within(name).session("k")) == [ascii(name)]

    def test_a_store_can_be_opened_within_a_namespace(self, open_store: OpenStore) -> None:
        with open_store(namespace="acme") as store:
            session = store.new()

            assert store.namespace == "acme"
            assert store.within("").find(str(session.id)) is None
            assert made(store.within("acme").sessions()) == [session.id]

    def test_closing_a_namespace_closes_the_connections_that_it_shares(self, store: Store) -> None:
        store.within("acme").close()

        with pytest.raises(Closed):
            store.new()


class SessionsContract(Contract):
    """Making and finding sessions, and what is said of them."""

    def test_a_session_by_key_is_not_made_before_its_first_append(self, store: Store) -> None:
        session = store.session("telegram:42")

        assert (session.id, session.key, session.head) == (None, "telegram:42", 0)
        assert store.find("telegram:42") is None

    def test_a_session_that_is_not_made_reads_as_empty(self, store: Store) -> None:
        session = store.session("telegram:42")

        assert session.view().entries == ()
        assert session.messages() == []
        assert list(session.entries()) == []
        assert list(session.pending) == []
        assert session.unanswered is None
        assert list(session.forks()) == []
        assert session.repair() == []

    def test_a_session_that_is_not_made_has_no_info(self, store: Store) -> None:
        with pytest.raises(NotFound):
            _ = store.session("telegram:42").info

    def test_the_first_append_makes_the_session(self, store: Store) -> None:
        session = store.session("telegram:42")
        session.append("hi")

        found = store.find("telegram:42")

        assert found is not None
        assert found.id == session.id

    def test_reading_a_session_that_is_not_made_makes_nothing(self, store: Store) -> None:
        session = store.session("telegram:42")
        session.view()
        session.repair()
        session.extend([])

        assert made(store.sessions()) == []

    def test_a_refused_first_append_makes_nothing(self, store: Store) -> None:
        session = store.session("telegram:42")
        with pytest.raises(Stale):
            session.append("hi", expect=3)

        assert (session.id, store.find("telegram:42")) == (None, None)

    def test_a_key_always_means_the_same_session(self, store: Store) -> None:
        early, late = store.session("k"), store.session("k")
        early.append("one")
        late.append("two")

        assert early.id == late.id
        assert told(early) == ["one", "two"]

    def test_a_handle_sees_that_another_made_its_session(self, store: Store) -> None:
        early, late = store.session("k"), store.session("k")
        late.append("one")

        assert told(early) == ["one"]

    def test_attributes_apply_when_the_session_is_made(self, store: Store) -> None:
        session = store.session("k", title="a title", agent="coder", cwd="/src", tags=["red"], meta={"n": 1})
        session.append("hi")

        info = session.info

        assert (info.title, info.agent, info.cwd, info.tags, info.meta) == (
            "a title",
            "coder",
            "/src",
            ("red",),
            {"n": 1},
        )

    def test_every_attribute_of_new_can_be_given_beside_a_key(self, store: Store) -> None:
        session = store.session("k", model="m", provider="p", system="Be brief.", id="my-id", at=NOON)
        session.append("hi")

        info = session.info

        assert (info.model, info.provider, info.system) == ("m", "p", "Be brief.")
        assert (info.id, info.created_at) == ("my-id", NOON)

    def test_attributes_of_a_session_that_exists_are_not_applied(self, store: Store) -> None:
        store.session("k", agent="first").append("hi")
        session = store.session("k", agent="second")
        session.append("ho")

        assert session.info.agent == "first"

    def test_an_unknown_attribute_is_refused(self, store: Store) -> None:
        with pytest.raises(InvalidArgument, match="colour"):
            store.session("k", colour="red")

    def test_new_makes_the_session_at_once(self, store: Store) -> None:
        session = store.new()

        assert made(store.sessions()) == [session.id]

    def test_new_keeps_all_that_is_said_of_it(self, store: Store) -> None:
        session = store.new(
            key="k",
            title="t",
            agent="a",
            model="m",
            provider="p",
            cwd="/src",
            system="Be brief.",
            tags=("red", "blue"),
            meta={"deep": [{"er": None}]},
            id="my-id",
            at=NOON,
        )

        info = session.info

        assert (info.id, info.key, info.title, info.agent, info.model) == ("my-id", "k", "t", "a", "m")
        assert (info.provider, info.cwd, info.system, info.tags) == ("p", "/src", "Be brief.", ("red", "blue"))
        assert (info.meta, info.created_at, info.status) == ({"deep": [{"er": None}]}, NOON, "active")

    def test_a_new_session_is_empty(self, session: Session) -> None:
        info = session.info

        assert (session.head, info.messages, info.tokens, info.pending) == (0, 0, 0, 0)
        assert (info.title, info.preview, info.origin) == (None, None, None)

    def test_a_taken_key_is_a_conflict(self, store: Store) -> None:
        store.session("k").append("hi")

        with pytest.raises(Conflict):
            store.new(key="k")

    def test_a_taken_id_is_a_conflict(self, store: Store) -> None:
        store.new(id="x", title="first")
        with pytest.raises(Conflict):
            store.new(id="x", title="second")

        assert store.get("x").info.title == "first"

    def test_get_gives_the_session_of_an_id(self, store: Store, session: Session) -> None:
        session.append("hi")

        assert told(store.get(str(session.id))) == ["hi"]

    def test_get_raises_not_found(self, store: Store) -> None:
        with pytest.raises(NotFound) as caught:
            store.get("nobody")

        assert caught.value.name == "nobody"

    @pytest.mark.parametrize("name", ["", "..", "../..", "/", "\0"])
    def test_an_id_is_never_a_path(self, store: Store, session: Session, name: str) -> None:
        with pytest.raises(NotFound):
            store.trash(name)

        assert made(store.sessions()) == [session.id]

    def test_a_session_is_taken_wherever_an_id_is(self, store: Store, session: Session) -> None:
        assert store.get(session).id == session.id

    def test_find_makes_nothing(self, store: Store) -> None:
        assert store.find("k") is None
        assert made(store.sessions()) == []

    def test_latest_is_the_one_that_changed_last(self, store: Store) -> None:
        first, second = store.new(), store.new()
        first.append("hi")

        latest = store.latest()

        assert latest is not None
        assert latest.id == first.id != second.id

    def test_latest_of_an_empty_store_is_none(self, store: Store) -> None:
        assert store.latest() is None

    @pytest.mark.parametrize("named", [{"cwd": "/src"}, {"agent": "coder"}, {"tag": "red"}])
    def test_latest_looks_where_it_is_told(self, store: Store, named: dict[str, str]) -> None:
        there = store.new(cwd="/src", agent="coder", tags=["red"])
        store.new(cwd="/src/sub", agent="Coder", tags=["re"])

        latest = store.latest(**named)

        assert latest is not None
        assert latest.id == there.id

    # -- keys are data ---------------------------------------------------------------------------------

    def test_two_different_keys_never_meet(self, store: Store) -> None:
        for name in NAMES:
            store.session(name).append(ascii(name))

        for name in NAMES:
            assert told(store.session(name)) == [ascii(name)]
            assert store.session(name).info.key == name

    def test_two_different_ids_never_meet(self, store: Store) -> None:
        for name in NAMES:
            store.new(id=name, title=ascii(name))

        for name in NAMES:
            assert (store.get(name).id, store.get(name).info.title) == (name, ascii(name))

    def test_two_different_tags_never_meet(self, store: Store) -> None:
        by_tag = {name: store.new(tags=[name]).id for name in NAMES}

        for name in NAMES:
            assert made(store.sessions(tag=name)) == [by_tag[name]]

    @pytest.mark.parametrize("key", ["", "k" * 513, 7, b"k"])
    def test_what_is_no_key_is_refused(self, store: Store, key: Any) -> None:
        with pytest.raises(InvalidArgument):
            store.session(key)

    # -- titles and previews ---------------------------------------------------------------------------

    def test_the_title_is_the_first_48_characters_of_the_first_user_text(self, session: Session) -> None:
        session.append("0123456789" * 10)
        session.append("later")

        assert session.info.title == ("0123456789" * 5)[:48]

    def test_the_title_is_one_line(self, session: Session) -> None:
        session.append("  one\n\n two\tthree ")

        assert session.info.title == "one two three"

    def test_only_a_user_gives_a_title(self, session: Session) -> None:
        session.extend([Message.system("Be brief."), Message.assistant("Welcome!"), answers("c1")])

        assert session.info.title is None

    def test_a_hidden_message_gives_no_title(self, session: Session) -> None:
        session.append(Message.user("/help", meta={"hidden": True}))

        assert session.info.title is None

    def test_rename_sets_the_title(self, session: Session) -> None:
        session.append("hi")
        session.rename("a person's title")

        assert session.info.title == "a person's title"

    def test_a_title_comes_back_exactly(self, session: Session) -> None:
        for name in NAMES:
            session.rename(name)

            assert session.info.title == name

    def test_a_machine_may_name_what_nobody_named(self, session: Session) -> None:
        session.append("hi")
        session.rename("a machine's title", auto=True)

        assert session.info.title == "a machine's title"

    def test_a_machine_may_change_its_own_title(self, session: Session) -> None:
        session.rename("first", auto=True)
        session.rename("second", auto=True)

        assert session.info.title == "second"

    def test_a_persons_title_is_never_replaced_by_a_machines(self, session: Session) -> None:
        session.rename("a person's title")
        session.rename("a machine's title", auto=True)

        assert session.info.title == "a person's title"

    def test_a_title_given_to_new_is_a_persons(self, store: Store) -> None:
        session = store.new(title="a person's title")
        session.rename("a machine's title", auto=True)
        session.append("hi")

        assert session.info.title == "a person's title"

    def test_the_preview_is_what_the_user_said_first(self, session: Session) -> None:
        session.extend([Message.assistant("Welcome!"), "Hello\nthere", "later"])

        assert session.info.preview == "Hello there"

    def test_the_preview_is_the_assistants_until_the_user_says_something(self, session: Session) -> None:
        session.append(Message.assistant("Welcome!"))

        assert session.info.preview == "Welcome!"

    def test_a_preview_is_short(self, session: Session) -> None:
        session.append("word " * 100_000)

        assert len(session.info.preview or "") <= 120

    # -- tags, attributes, meta ------------------------------------------------------------------------

    def test_tags_are_kept_once_and_in_order(self, session: Session) -> None:
        session.tag("red", "blue")
        session.tag("blue", "green")
        session.untag("red", "never there")

        assert session.info.tags == ("blue", "green")

    def test_update_changes_only_what_is_given(self, store: Store) -> None:
        session = store.new(agent="a", model="m", provider="p", cwd="/src")
        session.update(model="n", provider=None)

        info = session.info

        assert (info.agent, info.model, info.provider, info.cwd) == ("a", "n", None, "/src")

    def test_meta_is_merged(self, store: Store) -> None:
        session = store.new(meta={"kept": 1, "changed": 1, "removed": 1})
        session.update(meta={"changed": 2, "added": [3], "removed": None})

        assert session.info.meta == {"kept": 1, "changed": 2, "added": [3]}

    def test_what_meta_cannot_hold_is_refused(self, session: Session) -> None:
        with pytest.raises(InvalidMessage) as caught:
            session.update(model="m", meta={"when": [NOON]})

        assert caught.value.place == "meta.when[0]"
        assert session.info.model is None

    def test_a_new_system_prompt_is_an_entry(self, store: Store) -> None:
        session = store.new(system="Be brief.")
        session.update(system="Be kind.", model="m")

        entry = session.entry(1)

        assert (entry.kind, entry.data) == ("system", {"system": "Be kind."})
        assert (session.info.system, session.info.model, session.messages()) == ("Be kind.", "m", [])

    @pytest.mark.parametrize("name", CHANGES)
    def test_what_is_said_of_a_session_is_no_entry(self, session: Session, name: str) -> None:
        CHANGES[name](session)

        assert session.head == 0

    @pytest.mark.parametrize("name", CHANGES)
    def test_a_change_moves_updated_at(self, session: Session, name: str) -> None:
        before = session.info.updated_at
        CHANGES[name](session)

        assert session.info.updated_at > before

    def test_updated_at_strictly_increases_whatever_the_clock_says(self, open_store: OpenStore) -> None:
        with open_store(clock=lambda: NOON) as store:
            session = store.new()
            times = [session.info.updated_at]
            for i in range(3):
                session.append("hi", at=NOON - timedelta(days=i))
                times.append(session.info.updated_at)
                session.rename(f"title {i}")
                times.append(session.info.updated_at)

        assert all(earlier < later for earlier, later in pairwise(times))

    @pytest.mark.parametrize("name", READS)
    def test_reading_changes_nothing(self, session: Session, name: str) -> None:
        busy(session)
        before = session.info
        READS[name](session)

        assert session.info == before

    # -- status ----------------------------------------------------------------------------------------

    @pytest.mark.parametrize(("name", "status"), [("archive", "archived"), ("trash", "trashed")])
    def test_a_session_put_away_says_so(self, store: Store, session: Session, name: str, status: str) -> None:
        STORE_CALLS[name](store, session)

        assert session.info.status == status

    @pytest.mark.parametrize("status", ["archive", "trash"])
    @pytest.mark.parametrize("name", WRITES)
    def test_a_session_put_away_cannot_be_written(self, store: Store, session: Session, name: str, status: str) -> None:
        busy(session)
        STORE_CALLS[status](store, session)
        with pytest.raises(NotActive):
            WRITES[name](session)

        assert session.head == 5

    @pytest.mark.parametrize("name", CHANGES)
    def test_a_session_put_away_cannot_be_changed(self, store: Store, session: Session, name: str) -> None:
        store.archive(session)
        before = session.info
        with pytest.raises(NotActive):
            CHANGES[name](session)

        assert session.info == before

    @pytest.mark.parametrize("name", READS)
    def test_a_session_put_away_can_be_read(self, store: Store, session: Session, name: str) -> None:
        busy(session)
        store.archive(session)

        READS[name](session)

    def test_not_active_says_which_session_and_why(self, store: Store, session: Session) -> None:
        store.trash(session)

        with pytest.raises(NotActive) as caught:
            session.append("hi")

        assert (caught.value.session, caught.value.status) == (session.id, "trashed")
        assert "restore" in str(caught.value)

    def test_a_restored_session_can_be_written(self, store: Store, session: Session) -> None:
        store.trash(session)
        store.restore(session)
        session.append("hi")

        assert (session.info.status, told(session)) == ("active", ["hi"])

    def test_latest_passes_over_what_is_put_away(self, store: Store) -> None:
        active, archived, trashed = store.new(), store.new(), store.new()
        store.archive(archived)
        store.trash(trashed)

        latest = store.latest()

        assert latest is not None
        assert latest.id == active.id

    def test_a_key_keeps_its_session_when_that_is_put_away(self, store: Store) -> None:
        session = store.session("k")
        session.append("hi")
        store.trash(session)

        with pytest.raises(NotActive):
            store.session("k").append("ho")


class ListingContract(Contract):
    """Pages of sessions."""

    def test_a_listing_begins_with_the_latest_change(self, store: Store) -> None:
        first, second, third = (store.new(at=NOON + i * A_SECOND) for i in range(3))
        first.append("hi", at=NOON + 9 * A_SECOND)

        assert made(store.sessions()) == [first.id, third.id, second.id]

    def test_a_listing_by_creation_begins_with_the_youngest(self, store: Store) -> None:
        first, second = store.new(at=NOON), store.new(at=NOON + A_SECOND)
        first.append("hi")

        assert made(store.sessions(order="created")) == [second.id, first.id]

    def test_a_page_holds_up_to_its_limit(self, store: Store) -> None:
        for _ in range(3):
            store.new()

        page = store.sessions(limit=2)

        assert len(page.items) == 2
        assert page.next is not None

    def test_the_last_page_has_no_next(self, store: Store) -> None:
        for _ in range(4):
            store.new()
        first = store.sessions(limit=2)

        second = store.sessions(limit=2, cursor=first.next)

        assert (len(second.items), second.next) == (2, None)

    def test_an_empty_listing_is_a_page(self, store: Store) -> None:
        page = store.sessions()

        assert (page.items, page.next) == ([], None)

    @pytest.mark.parametrize("order", ["updated", "created"])
    @pytest.mark.parametrize("limit", [1, 4, 23, 50])
    def test_a_walk_reaches_every_session_once_also_with_equal_times(
        self, store: Store, order: str, limit: int
    ) -> None:
        ids = [store.new(at=NOON + (i % 3) * A_SECOND).id for i in range(23)]

        walked = made(store.sessions(order=order, limit=limit))

        assert sorted(walked) == sorted(str(id) for id in ids)

    @pytest.mark.parametrize("order", ["updated", "created"])
    def test_cursors_reach_every_session_once(self, store: Store, order: str) -> None:
        ids = [str(store.new(at=NOON).id) for _ in range(7)]

        walked, cursor = [], None
        while True:
            page = store.sessions(order=order, limit=3, cursor=cursor)
            walked += [info.id for info in page.items]
            cursor = page.next
            if cursor is None:
                break

        assert sorted(walked) == sorted(ids)

    def test_a_walk_reaches_what_is_not_written_meanwhile(self, store: Store) -> None:
        sessions = [store.new(at=NOON + i * A_SECOND) for i in range(9)]
        walked = []
        for info in store.sessions(limit=2):
            walked.append(info.id)
            sessions[4].append("again and again")

        assert {str(s.id) for s in sessions} - {str(sessions[4].id)} <= set(walked)

    def test_a_walk_by_creation_reaches_also_what_is_written_meanwhile(self, store: Store) -> None:
        sessions = [store.new(at=NOON + i * A_SECOND) for i in range(9)]
        walked = []
        for info in store.sessions(limit=2, order="created"):
            walked.append(info.id)
            sessions[4].append("again and again")

        assert walked == [s.id for s in reversed(sessions)]

    @pytest.mark.parametrize("order", ["updated", "created"])
    def test_a_filtered_walk_goes_on_through_all_pages(self, store: Store, order: str) -> None:
        red = [str(store.new(at=NOON, tags=["red"] if i % 2 else []).id) for i in range(10)][1::2]

        assert sorted(made(store.sessions(tag="red", order=order, limit=2))) == sorted(red)

    def test_a_foreign_cursor_is_refused(self, store: Store) -> None:
        with pytest.raises(InvalidArgument):
            store.sessions(cursor="not a cursor")

    def test_a_cursor_of_another_order_is_refused(self, store: Store) -> None:
        store.new(), store.new()
        cursor = store.sessions(limit=1).next

        with pytest.raises(InvalidArgument):
            store.sessions(order="created", cursor=cursor)

    @pytest.mark.parametrize(
        "options", [{"order": "title"}, {"status": "open"}, {"limit": 0}, {"updated_before": NOON.replace(tzinfo=None)}]
    )
    def test_an_option_that_cannot_be_right_is_refused(self, store: Store, options: dict[str, Any]) -> None:
        with pytest.raises(InvalidArgument):
            store.sessions(**options)

    def test_a_listing_shows_what_info_shows(self, store: Store) -> None:
        session = busy(store.new(key="k", agent="a", tags=["red"], meta={"n": 1}))

        assert store.sessions().items == [session.info]

    # -- filters ---------------------------------------------------------------------------------------

    def test_by_folder(self, store: Store) -> None:
        here = store.new(cwd="/src")
        store.new(cwd="/src/sub"), store.new(cwd="/SRC"), store.new()

        assert made(store.sessions(cwd="/src")) == [here.id]

    def test_a_folder_is_the_same_however_it_is_written(self, store: Store) -> None:
        here = store.new(cwd="/src/sub/../")

        assert made(store.sessions(cwd="/src")) == [here.id]

    def test_by_agent(self, store: Store) -> None:
        mine = store.new(agent="coder")
        store.new(agent="Coder"), store.new()

        assert made(store.sessions(agent="coder")) == [mine.id]

    def test_by_tag(self, store: Store) -> None:
        red, blue = store.new(tags=["red", "both"]), store.new(tags=["blue", "both"])

        assert made(store.sessions(tag="red")) == [red.id]
        assert made(store.sessions(tag="both")) == [blue.id, red.id]

    def test_a_removed_tag_is_found_no_more(self, store: Store) -> None:
        session = store.new(tags=["red"])
        session.untag("red")

        assert made(store.sessions(tag="red")) == []

    def test_an_updated_folder_and_agent_are_found(self, store: Store) -> None:
        session = store.new(cwd="/old", agent="old")
        session.update(cwd="/src", agent="new")

        assert made(store.sessions(cwd="/src", agent="new")) == [session.id]
        assert made(store.sessions(cwd="/old")) == []

    def test_by_the_beginning_of_the_key(self, store: Store) -> None:
        keys = ("slack:C1", "slack:C1:T2", "slack:C1_T2", "slack:", "Slack:C1", "slacker", "slack:\U0010ffff", "%")
        for key in keys:
            store.new(key=key)
        store.new()

        found = {info.key for info in store.sessions(key_prefix="slack:")}

        assert found == {"slack:C1", "slack:C1:T2", "slack:C1_T2", "slack:", "slack:\U0010ffff"}

    def test_the_beginning_of_a_key_is_no_pattern(self, store: Store) -> None:
        percent = store.new(key="%:1")
        store.new(key="a:1")

        assert made(store.sessions(key_prefix="%")) == [percent.id]

    def test_by_status(self, store: Store) -> None:
        active, archived, trashed = store.new(), store.new(), store.new()
        store.archive(archived)
        store.trash(trashed)

        assert made(store.sessions()) == [active.id]
        assert made(store.sessions(status="archived")) == [archived.id]
        assert made(store.sessions(status="trashed")) == [trashed.id]
        assert set(made(store.sessions(status=None))) == {active.id, archived.id, trashed.id}

    def test_waiting_ones_have_an_open_call_or_an_unanswered_turn(self, store: Store) -> None:
        asked, calling, done, empty = (store.new() for _ in range(4))
        asked.append("hi")
        calling.extend(["hi", asks("c1")])
        talk(done, 1)

        assert set(made(store.sessions(waiting=True))) == {asked.id, calling.id}
        assert set(made(store.sessions(waiting=False))) == {done.id, empty.id}

    def test_by_the_time_of_the_last_change(self, store: Store) -> None:
        old = store.new(at=NOON)
        store.new(at=NOON + A_SECOND)

        assert made(store.sessions(updated_before=NOON + A_SECOND)) == [old.id]

    def test_filters_are_joined(self, store: Store) -> None:
        both = store.new(key="a:1", cwd="/src", agent="coder", tags=["red"])
        store.new(key="a:2", cwd="/src", agent="coder"), store.new(key="a:3", cwd="/src", tags=["red"])

        assert made(store.sessions(cwd="/src", agent="coder", tag="red", key_prefix="a:")) == [both.id]


class LogContract(Contract):
    """Append, never edit."""

    def test_an_entry_says_what_was_stored(self, session: Session) -> None:
        message = Message.assistant("yes", ToolCall("c1", "search", {"for": "it"}))

        entry = session.append(message, key="k", usage={"input": 3}, at=NOON)

        assert (entry.session, entry.seq, entry.kind, entry.at) == (session.id, 1, "message", NOON)
        assert (entry.message, entry.data, entry.key, entry.usage) == (message, None, "k", {"input": 3})
        assert entry.tokens > 0

    def test_what_is_read_is_what_was_returned(self, session: Session) -> None:
        entry = session.append(asks("c1"), key="k", usage={"input": 3}, at=NOON)

        assert session.entry(1) == entry
        assert list(session.entries()) == [entry]
        assert session.view().entries == (entry,)

    @pytest.mark.parametrize("name", WRITES)
    def test_every_write_is_read_as_it_was_returned(self, session: Session, name: str) -> None:
        wrote = WRITES[name](busy(session))

        for entry in wrote if isinstance(wrote, list) else [wrote]:
            assert session.entry(entry.seq) == entry

    def test_text_is_what_the_user_said(self, session: Session) -> None:
        assert session.append("hi").message == Message("user", (Text("hi"),))

    def test_a_dict_is_a_message(self, session: Session) -> None:
        assert session.append({"role": "assistant", "content": "hi"}).message == Message.assistant("hi")

    @pytest.mark.parametrize("thing", [None, 7, b"hi", ["hi"], {}, {"content": "hi"}, {"role": ""}])
    def test_what_is_no_message_is_refused(self, session: Session, thing: Any) -> None:
        with pytest.raises(InvalidMessage):
            session.append(thing)

        assert session.head == 0

    def test_seqs_are_1_2_3_without_holes(self, session: Session) -> None:
        session.append("one")
        session.extend(["two", "three"])
        session.note({"four": 4})
        with pytest.raises(Stale):
            session.append("never", expect=0)
        session.rewind(1)
        session.append("six")

        assert [entry.seq for entry in session.entries()] == [1, 2, 3, 4, 5, 6]
        assert session.head == 6

    @pytest.mark.parametrize("name", WRITES)
    def test_every_write_moves_the_head_by_what_it_returned(self, session: Session, name: str) -> None:
        wrote = WRITES[name](busy(session))

        last = wrote[-1] if isinstance(wrote, list) else wrote
        assert session.head == last.seq > 5

    def test_extend_gives_consecutive_entries(self, session: Session) -> None:
        entries = session.extend(["one", Message.assistant("two"), {"role": "user", "content": "three"}])

        assert [entry.seq for entry in entries] == [1, 2, 3]
        assert told(session) == ["one", "two", "three"]

    def test_extend_writes_all_or_none(self, session: Session) -> None:
        with pytest.raises(InvalidMessage):
            session.extend(["good", Message.user("bad", meta={"nan": float("nan")})])

        assert session.head == 0

    def test_extend_says_which_message_it_refuses(self, session: Session) -> None:
        with pytest.raises(InvalidMessage, match=r"\[1\].*nan"):
            session.extend(["good", Message.user("bad", meta={"nan": float("nan")})])

    def test_extending_by_nothing_writes_nothing(self, session: Session) -> None:
        assert session.extend([]) == []
        assert session.head == 0

    def test_extend_takes_any_iterable(self, session: Session) -> None:
        session.extend(f"m{i}" for i in range(3))

        assert told(session) == ["m0", "m1", "m2"]

    def test_the_usage_of_a_call_stands_once_in_the_log(self, session: Session) -> None:
        entries = session.extend(["one", "two"], usage={"input": 3})

        assert [entry.usage for entry in entries] == [{"input": 3}, None]

    def test_times_are_utc(self, session: Session) -> None:
        local = datetime(2026, 1, 1, 14, tzinfo=timezone(timedelta(hours=2)))

        entry = session.append("hi", at=local)

        assert (entry.at, entry.at.utcoffset()) == (NOON, timedelta(0))

    def test_a_time_without_a_zone_is_refused(self, session: Session) -> None:
        with pytest.raises(InvalidArgument):
            session.append("hi", at=datetime(2026, 1, 1))

    # -- notes -----------------------------------------------------------------------------------------

    def test_a_note_is_never_in_the_view(self, session: Session) -> None:
        entry = session.note({"seen": [1, {"two": None}]}, at=NOON)

        assert (entry.kind, entry.message, entry.data, entry.at) == ("note", None, {"seen": [1, {"two": None}]}, NOON)
        assert session.view().entries == ()

    def test_a_caller_names_kinds_of_notes(self, session: Session) -> None:
        session.note({"ok": True}, "deploy")

        assert session.entry(1).kind == "deploy"

    @pytest.mark.parametrize("kind", ["message", "compaction", "rewind", "clear", "system", "", "a\0b", "\ud800"])
    def test_a_note_cannot_pass_for_something_else(self, session: Session, kind: str) -> None:
        with pytest.raises(InvalidArgument):
            session.note({}, kind)

        assert session.head == 0

    @pytest.mark.parametrize("data", ["text", None, [1], {"x": {1, 2}}, {1: "x"}, {"x": float("inf")}])
    def test_what_a_note_cannot_hold_is_refused(self, session: Session, data: Any) -> None:
        with pytest.raises(InvalidMessage):
            session.note(data)

        assert session.head == 0

    # -- batches ---------------------------------------------------------------------------------------

    def test_a_batch_is_written_when_its_block_ends(self, session: Session) -> None:
        with session.batch() as b:
            b.append("one")
            before = session.head

        assert (before, session.head) == (0, 1)

    def test_a_batch_writes_in_order(self, session: Session) -> None:
        talk(session, 2)

        with session.batch() as b:
            b.rewind(2)
            b.append("edited")
            b.note({"why": "a typo"})

        assert [entry.kind for entry in session.entries(after=4)] == ["rewind", "message", "note"]
        assert told(session) == ["q1", "a1", "edited"]

    def test_a_batch_knows_what_it_wrote(self, session: Session) -> None:
        with session.batch() as b:
            b.extend(["one", "two"])
            b.clear()

        assert [(entry.seq, entry.kind) for entry in b.entries] == [(1, "message"), (2, "message"), (3, "clear")]

    def test_an_exception_in_the_block_writes_nothing(self, session: Session) -> None:
        def interrupted() -> None:
            with session.batch() as b:
                b.append("one")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()

        assert session.head == 0

    def test_a_batch_with_one_refused_write_writes_nothing(self, session: Session) -> None:
        def refused() -> None:
            with session.batch() as b:
                b.append("one")
                b.rewind(7)

        with pytest.raises(NotFound):
            refused()

        assert session.head == 0

    def test_a_write_of_a_batch_builds_on_the_one_before(self, session: Session) -> None:
        with session.batch() as b:
            b.extend(["go", asks("c1")])
            b.start_call("c1")
            b.append(answers("c1"))
            b.compact("done", upto=4)

        assert told(session) == ["done"]

    def test_an_empty_batch_writes_nothing(self, store: Store) -> None:
        session = store.session("k")
        with session.batch():
            pass

        assert store.find("k") is None

    def test_a_batch_holds_every_write_of_a_session(self, session: Session) -> None:
        busy(session)

        with session.batch() as b:
            b.start_call("c1")
            b.repair("stopped")
            b.expand(3)
            b.replace(["instead"], since=1, upto=2)
            b.compact("short", upto=4)
            b.clear()

        kinds = [entry.kind for entry in session.entries(after=5)]
        assert kinds == ["call_started", "message", "expansion", "message", "replacement", "compaction", "clear"]

    def test_a_stale_batch_writes_nothing(self, session: Session) -> None:
        talk(session, 1)
        with pytest.raises(Stale), session.batch(expect=1) as b:
            b.extend(["one", "two"])

        assert session.head == 2

    def test_the_expectation_of_a_batch_is_about_its_beginning(self, session: Session) -> None:
        with session.batch(expect=0) as b:
            b.append("one")
            b.append("two")

        assert session.head == 2

    def test_each_write_of_a_batch_has_its_own_key(self, session: Session) -> None:
        session.append("one", key="1")

        with session.batch() as b:
            b.append("one", key="1")
            b.append("two", key="2")

        assert told(session) == ["one", "two"]

    # -- the raw log -----------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({}, [1, 2, 3, 4, 5, 6]),
            ({"after": 2}, [3, 4, 5, 6]),
            ({"before": 4}, [1, 2, 3]),
            ({"after": 2, "before": 4}, [3]),
            ({"after": 3, "before": 4}, []),
            ({"after": 9}, []),
            ({"before": 99}, [1, 2, 3, 4, 5, 6]),
            ({"after": -3, "before": 0}, []),
            ({"limit": 2}, [1, 2]),
            ({"limit": 0}, []),
            ({"reverse": True}, [6, 5, 4, 3, 2, 1]),
            ({"reverse": True, "limit": 2}, [6, 5]),
            ({"reverse": True, "after": 1, "before": 5, "limit": 2}, [4, 3]),
            ({"kinds": ["note"]}, [3, 5]),
            ({"kinds": ["note", "clear"]}, [3, 5, 6]),
            ({"kinds": ["note"], "limit": 1, "reverse": True}, [5]),
            ({"kinds": []}, []),
            ({"kinds": ["unheard-of"]}, []),
        ],
    )
    def test_entries_stand_between_two_seqs(
        self, session: Session, options: dict[str, Any], expected: list[int]
    ) -> None:
        session.extend(["one", "two"])
        session.note({"n": 3})
        session.append("four")
        session.note({"n": 5})
        session.clear()

        assert [entry.seq for entry in session.entries(**options)] == expected

    @pytest.mark.parametrize("reverse", [False, True])
    def test_entries_go_on_through_all_pages(self, session: Session, reverse: bool) -> None:
        session.extend(f"m{i}" for i in range(1, 801))

        found = [entry.seq for entry in session.entries(reverse=reverse)]

        assert found == sorted(range(1, 801), reverse=reverse)

    def test_the_log_can_be_written_while_it_is_read(self, session: Session) -> None:
        session.extend(f"m{i}" for i in range(600))

        found = []
        for entry in session.entries():
            found.append(entry.seq)
            if entry.seq % 100 == 0:
                session.append("meanwhile")

        assert found[:600] == list(range(1, 601))

    @pytest.mark.parametrize("seq", [0, -1, 3, 10**12])
    def test_an_entry_that_is_not_there_is_not_found(self, session: Session, seq: int) -> None:
        talk(session, 1)

        with pytest.raises(NotFound):
            session.entry(seq)

    def test_an_entry_is_found_by_its_key(self, session: Session) -> None:
        session.append("one", key="a")
        entries = session.extend(["two", "three"], key="b")

        assert session.entry(key="b") == entries[0]

    def test_an_unknown_key_is_not_found(self, session: Session) -> None:
        with pytest.raises(NotFound):
            session.entry(key="unknown")

    def test_an_entry_is_asked_for_by_seq_or_key(self, session: Session) -> None:
        with pytest.raises(InvalidArgument):
            session.entry()
        with pytest.raises(InvalidArgument):
            session.entry(1, key="k")

    def test_originals_of_everything_stay_in_the_log(self, session: Session) -> None:
        talk(session, 2)
        before = list(session.entries())
        session.compact("short")
        session.rewind(0)
        session.clear()

        assert list(session.entries(before=5)) == before


class KeysContract(Contract):
    """Idempotency keys and expected heads."""

    @pytest.mark.parametrize("name", WRITES)
    def test_the_same_call_again_returns_the_first_and_writes_nothing(self, session: Session, name: str) -> None:
        first = WRITES[name](busy(session), key="k")
        head = session.head

        again = WRITES[name](session, key="k")

        assert again == first
        assert session.head == head

    @pytest.mark.parametrize("name", WRITES)
    def test_a_known_key_does_not_mind_a_stale_expectation(self, session: Session, name: str) -> None:
        first = WRITES[name](busy(session), key="k", expect=5)

        assert WRITES[name](session, key="k", expect=5) == first

    @pytest.mark.parametrize("name", WRITES)
    def test_a_key_is_for_ever(self, session: Session, name: str) -> None:
        first = WRITES[name](busy(session), key="k")
        session.rewind(0)
        session.append("later")
        session.clear()
        head = session.head

        assert WRITES[name](session, key="k") == first
        assert session.head == head

    @pytest.mark.parametrize("name", WRITES)
    def test_a_key_with_another_call_is_refused(self, session: Session, name: str) -> None:
        WRITES[name](busy(session), key="k")
        head = session.head
        with pytest.raises(KeyReused):
            session.note({"something": "else"}, key="k")

        assert session.head == head

    @pytest.mark.parametrize("name", WRITES)
    def test_a_key_of_another_call_is_refused(self, session: Session, name: str) -> None:
        busy(session).note({"something": "else"}, key="k")
        with pytest.raises(KeyReused):
            WRITES[name](session, key="k")

        assert session.head == 6

    @pytest.mark.parametrize("name", WRITES)
    def test_a_stale_expect_writes_nothing(self, session: Session, name: str) -> None:
        busy(session)
        with pytest.raises(Stale):
            WRITES[name](session, expect=4)

        assert session.head == 5

    @pytest.mark.parametrize("name", WRITES)
    def test_the_right_expect_writes(self, session: Session, name: str) -> None:
        busy(session)
        WRITES[name](session, expect=session.view().head)

        assert session.head > 5

    def test_stale_says_what_was_expected_and_what_was_found(self, session: Session) -> None:
        talk(session, 1)

        with pytest.raises(Stale) as caught:
            session.append("hi", expect=7)

        assert (caught.value.expected, caught.value.found) == (7, 2)
        assert isinstance(caught.value, Conflict)

    def test_key_reused_says_which_key_and_where(self, session: Session) -> None:
        session.extend(["one", "two"], key="k")

        with pytest.raises(KeyReused) as caught:
            session.append("other", key="k")

        assert (caught.value.key, caught.value.seq) == ("k", 1)
        assert isinstance(caught.value, Conflict)

    def test_expecting_an_empty_log_makes_the_session(self, store: Store) -> None:
        session = store.session("k")

        assert session.append("hi", expect=0).seq == 1

    def test_a_key_makes_the_first_append_of_a_session_idempotent(self, store: Store) -> None:
        first = store.session("s").append("hi", key="k", expect=0)

        assert store.session("s").append("hi", key="k", expect=0) == first

    def test_a_key_names_the_whole_call(self, session: Session) -> None:
        entries = session.extend(["one", "two"], key="k")

        assert session.extend(["one", "two"], key="k") == entries
        assert session.head == 2

    @pytest.mark.parametrize("other", [["one"], ["two", "one"], ["one", "two", "three"], ["one", "TWO"]])
    def test_a_key_with_a_part_of_the_call_is_refused(self, session: Session, other: list[str]) -> None:
        session.extend(["one", "two"], key="k")

        with pytest.raises(KeyReused):
            session.extend(other, key="k")

    def test_a_single_message_of_a_keyed_call_is_another_call(self, session: Session) -> None:
        session.extend(["one", "two"], key="k")

        with pytest.raises(KeyReused):
            session.append("one", key="k")

    def test_content_is_the_same_whatever_the_order_of_its_keys(self, session: Session) -> None:
        one = Message("user", (Text("hi", {"x": 1, "y": {"a": 1, "b": 2}}),), {"m": 1, "n": 2})
        same = Message("user", (Text("hi", {"y": {"b": 2, "a": 1}, "x": 1}),), {"n": 2, "m": 1})
        first = session.append(one, key="k")

        assert session.append(same, key="k") == first

    def test_a_note_is_the_same_whatever_the_order_of_its_keys(self, session: Session) -> None:
        first = session.note({"a": 1, "b": {"c": 2, "d": 3}}, key="k")

        assert session.note({"b": {"d": 3, "c": 2}, "a": 1}, key="k") == first

    def test_content_is_the_same_in_whatever_shape_it_comes(self, session: Session) -> None:
        first = session.append("hi", key="k")

        assert session.append({"role": "user", "content": "hi"}, key="k") == first
        assert session.append(Message.user("hi"), key="k") == first

    def test_the_same_call_at_another_time_is_the_same(self, session: Session) -> None:
        first = session.append("hi", key="k", at=NOON)

        assert session.append("hi", key="k", at=NOON + A_SECOND) == first

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (Message.user("hi"), Message.assistant("hi")),
            (Message.user("hi"), Message.user("hi", meta={"hidden": True})),
            (Message.user("hi", Text("ho")), Message.user("hi\nho")),
            (Message.user("\ud800"), Message.user("\udc00")),
            (asks("c1"), asks("c2")),
        ],
    )
    def test_content_that_differs_in_anything_is_other_content(
        self, session: Session, one: Message, other: Message
    ) -> None:
        session.append(one, key="k")

        with pytest.raises(KeyReused):
            session.append(other, key="k")

    def test_two_different_keys_are_two_calls(self, session: Session) -> None:
        for name in NAMES:
            session.append("the same", key=name)

        assert session.head == len(NAMES)
        for seq, name in enumerate(NAMES, 1):
            assert (session.entry(key=name).seq, session.entry(seq).key) == (seq, name)

    @pytest.mark.parametrize("key", ["", "k" * 513, 7])
    def test_what_is_no_key_writes_nothing(self, session: Session, key: Any) -> None:
        with pytest.raises(InvalidArgument):
            session.append("hi", key=key)

        assert session.head == 0

    def test_a_key_belongs_to_its_session(self, store: Store) -> None:
        one, other = store.new(), store.new()
        one.append("hi", key="k")
        other.append("something else", key="k")

        assert told(other) == ["something else"]

    def test_a_refused_call_does_not_take_its_key(self, session: Session) -> None:
        with pytest.raises(Stale):
            session.append("first try", key="k", expect=3)
        session.append("second try", key="k")

        assert told(session) == ["second try"]

    def test_a_keyed_function_is_not_called_again(self, session: Session) -> None:
        talk(session, 2)
        calls: list[int] = []

        def summary(run: list[Message]) -> str:
            calls.append(len(run))
            return "short"

        session.compact(summary, keep_turns=1, key="k")
        session.compact(summary, keep_turns=1, key="k")

        assert calls == [2]


class ViewContract(Contract):
    """What the model sees."""

    def test_the_view_holds_what_was_said_in_order(self, session: Session) -> None:
        talk(session, 2)

        view = session.view()

        assert [entry.seq for entry in view.entries] == [1, 2, 3, 4]
        assert view.messages == session.messages()
        assert (view.head, view.damaged) == (4, ())

    def test_a_hidden_message_is_kept_and_not_in_the_view(self, session: Session) -> None:
        hidden = Message.user("/help", meta={"hidden": True})
        session.extend([hidden, "hi"])

        assert told(session) == ["hi"]
        assert session.entry(1).message == hidden

    @pytest.mark.parametrize("last", [0, 1, 2, 3, 4, 99])
    def test_the_last_entries_are_the_end_of_the_view(self, session: Session, last: int) -> None:
        talk(session, 1)
        session.note({"in": "between"})
        session.compact("short")
        talk(session, 1)
        whole = session.view().entries

        assert session.view(last=last).entries == (whole[-last:] if last else ())

    def test_the_last_entries_are_found_behind_many_notes(self, session: Session) -> None:
        talk(session, 2)
        with session.batch() as b:
            for i in range(700):
                b.note({"n": i})

        assert [entry.seq for entry in session.view(last=3).entries] == [2, 3, 4]

    def test_a_negative_number_of_entries_is_refused(self, session: Session) -> None:
        with pytest.raises(InvalidArgument):
            session.view(last=-1)

    def test_turns_begin_with_the_user(self, session: Session) -> None:
        session.extend([Message.system("Be brief."), "q1", asks("c1"), answers("c1"), Message.assistant("a1"), "q2"])

        turns = [[entry.seq for entry in turn] for turn in session.view().turns]

        assert turns == [[1], [2, 3, 4, 5], [6]]

    @pytest.mark.parametrize("at", [-1, 3])
    def test_a_moment_that_never_was_is_not_found(self, session: Session, at: int) -> None:
        talk(session, 1)

        with pytest.raises(NotFound):
            session.view(at=at)

    def test_the_view_before_the_first_entry_is_empty(self, session: Session) -> None:
        talk(session, 1)

        assert session.view(at=0).entries == ()

    def test_every_past_view_stays_exactly_as_it_was(self, session: Session) -> None:
        past: dict[int, list[Message]] = {}
        steps: list[Callable[[], object]] = [
            lambda: talk(session, 3),
            lambda: session.note({"n": 1}),
            lambda: session.compact("one", upto=2),
            lambda: session.extend(["go", asks("c1", "c2"), answers("c2")]),
            lambda: session.compact("two", keep_turns=1),
            lambda: session.replace(["instead"], since=3, upto=3) if 3 in seqs(session) else session.clear(),
            lambda: session.rewind(6),
            lambda: session.compact("three", since=3, upto=4),
            lambda: session.expand(session.head),
            lambda: session.rewind(12),
            lambda: session.repair(),
            lambda: session.clear(),
            lambda: session.append("again"),
        ]
        for step in steps:
            step()
            past[session.head] = session.messages()

        for at, messages in past.items():
            assert session.messages(at) == messages
            assert session.view(at).head == at

    def test_the_counts_of_a_session_are_those_of_its_view(self, open_store: OpenStore) -> None:
        with open_store(count_tokens=lambda message: len(message.text)) as store:
            session = talk(store.new(), 3)
            session.compact("summary", upto=4)
            session.append(Message.user("unseen", meta={"hidden": True}))
            info = session.info

            assert (info.messages, info.tokens, info.head) == (3, len("summaryq3a3"), 8)

    # -- rewind ----------------------------------------------------------------------------------------

    def test_a_rewind_makes_the_view_what_it_was(self, session: Session) -> None:
        talk(session, 3)
        entry = session.rewind(2)

        assert (entry.kind, entry.seq) == ("rewind", 7)
        assert told(session) == ["q1", "a1"]

    def test_what_follows_a_rewind_follows_what_it_kept(self, session: Session) -> None:
        talk(session, 3)
        session.rewind(2)
        session.append("edited")

        assert seqs(session) == [1, 2, 8]

    def test_a_rewind_to_nothing_empties_the_view(self, session: Session) -> None:
        talk(session, 1)
        session.rewind(0)

        assert session.messages() == []

    @pytest.mark.parametrize("to", [-1, 3, 10**9])
    def test_a_rewind_beyond_the_log_is_refused(self, session: Session, to: int) -> None:
        talk(session, 1)
        with pytest.raises(NotFound):
            session.rewind(to)

        assert session.head == 2

    def test_going_forward_again_is_a_rewind(self, session: Session) -> None:
        talk(session, 2)
        session.rewind(1)
        session.rewind(4)

        assert told(session) == ["q1", "a1", "q2", "a2"]

    def test_a_rewind_of_a_rewind_is_what_stood_after_it(self, session: Session) -> None:
        talk(session, 2)
        session.rewind(1)  # entry 5
        session.append("edited")
        session.rewind(5)

        assert told(session) == ["q1"]

    def test_a_rewind_always_writes_its_entry(self, session: Session) -> None:
        talk(session, 1)
        session.rewind(2)

        assert (session.head, told(session)) == (3, ["q1", "a1"])

    def test_a_rewind_to_before_a_compaction_shows_the_originals(self, session: Session) -> None:
        talk(session, 2)
        session.compact("short")
        session.rewind(3)

        assert told(session) == ["q1", "a1", "q2"]

    def test_a_rewind_to_after_a_compaction_shows_its_summary(self, session: Session) -> None:
        talk(session, 2)
        session.compact("short", upto=2)  # entry 5
        session.append("more")
        session.rewind(0)
        session.rewind(5)

        assert told(session) == ["short", "q2", "a2"]

    def test_a_rewind_to_nothing_loses_nothing(self, session: Session) -> None:
        talk(session, 2)
        session.compact("short")
        session.rewind(0)

        assert told(session, at=4) == ["q1", "a1", "q2", "a2"]

    # -- clear -----------------------------------------------------------------------------------------

    def test_clear_empties_the_view_and_nothing_else(self, session: Session) -> None:
        talk(session, 2)
        title = session.info.title

        entry = session.clear()

        assert (entry.kind, session.messages(), session.info.title) == ("clear", [], title)
        assert len(list(session.entries())) == 5

    def test_clear_always_writes_its_entry(self, session: Session) -> None:
        session.clear()
        session.clear()

        assert session.head == 2

    def test_a_clear_can_be_taken_back(self, session: Session) -> None:
        talk(session, 1)
        session.clear()
        session.rewind(2)

        assert told(session) == ["q1", "a1"]


class CompactionContract(Contract):
    """Compact, replace, originals, expand."""

    def test_a_summary_stands_where_its_originals_stood(self, session: Session) -> None:
        talk(session, 4)
        session.compact("short", since=3, upto=6)

        assert told(session) == ["q1", "a1", "short", "q4", "a4"]

    def test_a_summary_is_one_user_message_that_names_its_entry(self, session: Session) -> None:
        talk(session, 1)
        entry = session.compact("short", usage={"output": 9})

        assert (entry.kind, entry.seq, entry.usage) == ("compaction", 3, {"output": 9})
        assert session.messages() == [Message("user", (Text("short"),), {"compaction": 3})]

    @pytest.mark.parametrize(
        ("run", "expected"),
        [
            ({}, ["short"]),
            ({"upto": 4}, ["short", "q3", "a3"]),
            ({"since": 3}, ["q1", "a1", "short"]),
            ({"since": 4, "upto": 4}, ["q1", "a1", "q2", "short", "q3", "a3"]),
            ({"keep_turns": 0}, ["short"]),
            ({"keep_turns": 1}, ["short", "q3", "a3"]),
            ({"keep_turns": 2}, ["short", "q2", "a2", "q3", "a3"]),
            ({"since": 2, "keep_turns": 1}, ["q1", "short", "q3", "a3"]),
        ],
    )
    def test_a_run_is_asked_for_by_its_ends_or_by_the_turns_to_keep(
        self, session: Session, run: dict[str, int], expected: list[str]
    ) -> None:
        talk(session, 3)
        session.compact("short", **run)  # type: ignore[arg-type]

        assert told(session) == expected

    def test_the_bounds_are_in_reading_order(self, session: Session) -> None:
        talk(session, 3)
        session.compact("first", upto=2)  # entry 7, which stands before entry 3
        session.compact("second", since=7, upto=4)

        assert told(session) == ["second", "q3", "a3"]

    def test_a_function_summarises_exactly_the_run(self, session: Session) -> None:
        talk(session, 3)
        given: list[list[str]] = []

        def summary(run: list[Message]) -> str:
            given.append([message.text for message in run])
            return "short"

        session.compact(summary, keep_turns=1)

        assert given == [["q1", "a1", "q2", "a2"]]
        assert told(session) == ["short", "q3", "a3"]

    def test_what_is_appended_while_a_function_works_is_not_folded(self, session: Session) -> None:
        talk(session, 2)

        def summary(run: list[Message]) -> str:
            session.append("meanwhile")
            return f"{len(run)} messages"

        session.compact(summary)

        assert told(session) == ["4 messages", "meanwhile"]

    def test_a_run_that_is_gone_when_the_function_ends_is_not_folded(self, session: Session) -> None:
        talk(session, 2)

        def summary(run: list[Message]) -> str:
            session.rewind(2)
            return "short"

        with pytest.raises((Stale, NotVisible)):
            session.compact(summary)

        assert told(session) == ["q1", "a1"]

    def test_a_function_that_fails_writes_nothing(self, session: Session) -> None:
        talk(session, 1)

        def summary(run: list[Message]) -> str:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            session.compact(summary)

        assert session.head == 2

    def test_a_plan_says_which_run(self, session: Session) -> None:
        talk(session, 3)
        plan = Plan(since=3, upto=4, messages=tuple(session.messages()[2:4]), tokens=0)
        session.compact("short", plan)

        assert told(session) == ["q1", "a1", "short", "q3", "a3"]

    def test_a_function_summarises_the_run_of_a_plan(self, session: Session) -> None:
        talk(session, 3)
        plan = Plan(since=3, upto=4, messages=tuple(session.messages()[2:4]), tokens=0)
        session.compact(lambda run: "+".join(message.text for message in run), plan)

        assert told(session) == ["q1", "a1", "q2+a2", "q3", "a3"]

    def test_a_plan_that_no_longer_fits_writes_nothing(self, session: Session) -> None:
        talk(session, 3)
        plan = Plan(since=1, upto=4, messages=tuple(session.messages()[:4]), tokens=0)
        session.compact("first", upto=2)
        with pytest.raises((Stale, NotVisible)):
            session.compact("second", plan)

        assert session.head == 7

    def test_a_run_is_asked_for_in_one_way(self, session: Session) -> None:
        talk(session, 2)

        with pytest.raises(InvalidArgument):
            session.compact("short", upto=2, keep_turns=1)

    def test_originals_are_what_a_compaction_stands_for(self, session: Session) -> None:
        talk(session, 2)
        run = list(session.view().entries[:2])
        compaction = session.compact("short", upto=2)

        assert session.originals(compaction.seq) == run

    def test_notes_in_a_run_stay_in_the_log_only(self, session: Session) -> None:
        session.append("q1")
        session.note({"n": 1})
        session.append(Message.assistant("a1"))
        session.compact("short")

        assert [entry.seq for entry in session.originals(4)] == [1, 3]
        assert session.entry(2).data == {"n": 1}

    def test_a_compaction_folds_earlier_summaries(self, session: Session) -> None:
        talk(session, 3)
        first = session.compact("first", upto=2)
        second = session.compact("second", upto=4)

        assert told(session) == ["second", "q3", "a3"]
        assert session.originals(second.seq) == [first, session.entry(3), session.entry(4)]

    @pytest.mark.parametrize("what", [0, 1, 3, 99])
    def test_only_folds_have_originals(self, session: Session, what: int) -> None:
        talk(session, 1)
        session.note({"n": 1})

        with pytest.raises(NotFound):
            session.originals(what)

    # -- what is never folded --------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("run", "kept"),
        [
            ({"upto": 2}, [2, 3, 4, 5, 6]),
            ({"upto": 3}, [2, 3, 4, 5, 6]),
            ({"upto": 4}, [5, 6]),
            ({"since": 3, "upto": 5}, [1, 2, 3, 4, 6]),
            ({"since": 2, "upto": 4}, [1, 5, 6]),
        ],
    )
    def test_a_run_shrinks_until_it_splits_no_call_from_its_results(
        self, session: Session, run: dict[str, int], kept: list[int]
    ) -> None:
        session.extend(["q1", asks("c1", "c2"), answers("c1"), answers("c2"), Message.assistant("a1"), "q2"])
        session.compact("short", **run)  # type: ignore[arg-type]

        assert [seq for seq in seqs(session) if seq < 7] == kept

    def test_a_run_within_one_pair_is_nothing_to_compact(self, session: Session) -> None:
        session.extend(["q1", asks("c1"), answers("c1")])

        with pytest.raises(NothingToCompact):
            session.compact("short", since=2, upto=2)

    def test_a_pending_call_is_never_folded(self, session: Session) -> None:
        session.extend(["q1", Message.assistant("a1"), asks("c1"), "q2"])
        session.compact("short")

        assert told(session)[0] == "short"
        assert [call.call.id for call in session.pending] == ["c1"]
        assert 3 in seqs(session)

    def test_a_half_answered_message_is_never_folded(self, session: Session) -> None:
        session.extend(["q1", asks("c1", "c2"), answers("c1")])
        session.compact("short")

        assert seqs(session) == [4, 2, 3]

    def test_a_view_of_open_calls_is_nothing_to_compact(self, session: Session) -> None:
        session.append(asks("c1"))
        with pytest.raises(NothingToCompact):
            session.compact("short")

        assert session.head == 1

    def test_an_empty_view_is_nothing_to_compact(self, session: Session) -> None:
        with pytest.raises(NothingToCompact):
            session.compact("short")

    @pytest.mark.parametrize("run", [{"keep_turns": 2}, {"keep_turns": 9}, {"since": 3, "upto": 2}])
    def test_an_empty_run_is_nothing_to_compact(self, session: Session, run: dict[str, int]) -> None:
        talk(session, 2)
        with pytest.raises(NothingToCompact):
            session.compact("short", **run)  # type: ignore[arg-type]

        assert session.head == 4

    def test_a_function_is_not_called_for_nothing(self, session: Session) -> None:
        with pytest.raises(NothingToCompact):
            session.compact(lambda run: pytest.fail("called"))

    @pytest.mark.parametrize("run", [{"upto": 1}, {"since": 2}, {"upto": 5}, {"upto": 99}, {"since": 0}])
    def test_a_bound_that_is_not_in_the_view_is_refused(self, session: Session, run: dict[str, int]) -> None:
        talk(session, 2)
        session.note({"n": 5})
        session.compact("short", upto=2)
        with pytest.raises(NotVisible):
            session.compact("shorter", **run)  # type: ignore[arg-type]

        assert session.head == 6

    def test_not_visible_says_which(self, session: Session) -> None:
        talk(session, 2)
        session.rewind(2)

        with pytest.raises(NotVisible) as caught:
            session.compact("short", upto=3)

        assert caught.value.seq == 3

    # -- replace ---------------------------------------------------------------------------------------

    def test_messages_stand_where_a_run_stood(self, session: Session) -> None:
        talk(session, 3)
        entry = session.replace(["new q2", Message.assistant("new a2")], since=3, upto=4)

        assert entry.kind == "replacement"
        assert told(session) == ["q1", "a1", "new q2", "new a2", "q3", "a3"]

    def test_nothing_stands_where_a_run_stood(self, session: Session) -> None:
        talk(session, 3)
        session.replace([], since=3, upto=4)

        assert told(session) == ["q1", "a1", "q3", "a3"]

    def test_all_of_a_view_can_be_replaced_by_nothing(self, session: Session) -> None:
        talk(session, 1)
        session.replace([], since=1, upto=2)

        assert session.messages() == []

    def test_what_follows_a_replacement_follows_the_view(self, session: Session) -> None:
        talk(session, 2)
        session.replace(["new q1"], since=1, upto=1)
        session.append("q3")

        assert told(session) == ["new q1", "a1", "q2", "a2", "q3"]

    def test_a_replacement_may_split_a_call_from_its_result(self, session: Session) -> None:
        session.extend(["q1", asks("c1"), answers("c1")])
        session.replace([], since=3, upto=3)

        assert [call.call.id for call in session.pending] == ["c1"]

    def test_a_replaced_call_is_pending_no_more(self, session: Session) -> None:
        session.extend(["q1", asks("c1")])
        session.replace([Message.assistant("never mind")], since=2, upto=2)

        assert list(session.pending) == []
        assert session.unanswered is None

    def test_originals_are_what_a_replacement_stands_for(self, session: Session) -> None:
        talk(session, 2)
        run = list(session.view().entries[1:3])
        replacement = session.replace(["instead"], since=2, upto=3)

        assert session.originals(replacement.seq) == run

    @pytest.mark.parametrize("run", [{"since": 1, "upto": 3}, {"since": 3, "upto": 1}, {"since": 4, "upto": 99}])
    def test_a_replaced_run_must_be_visible(self, session: Session, run: dict[str, int]) -> None:
        talk(session, 2)
        session.compact("short", upto=2)
        with pytest.raises(NotVisible):
            session.replace(["instead"], since=run["since"], upto=run["upto"])

        assert session.head == 5

    def test_a_replaced_run_has_its_ends_in_reading_order(self, session: Session) -> None:
        talk(session, 2)
        with pytest.raises(InvalidArgument):
            session.replace(["instead"], since=3, upto=2)

        assert session.head == 4

    def test_a_replacement_is_written_whole_or_not_at_all(self, session: Session) -> None:
        talk(session, 1)
        with pytest.raises(InvalidMessage):
            session.replace(["good", Message.user("bad", meta={"nan": float("nan")})], since=1, upto=1)

        assert session.head == 2

    # -- expand ----------------------------------------------------------------------------------------

    def test_expanding_a_compaction_puts_its_originals_back(self, session: Session) -> None:
        talk(session, 3)
        compaction = session.compact("short", since=3, upto=4)
        entry = session.expand(compaction.seq)

        assert entry.kind == "expansion"
        assert told(session) == ["q1", "a1", "q2", "a2", "q3", "a3"]

    def test_expanding_keeps_what_came_later(self, session: Session) -> None:
        talk(session, 1)
        session.compact("short")
        session.append("later")
        session.expand(3)

        assert told(session) == ["q1", "a1", "later"]

    def test_nested_compactions_unfold_one_level_at_a_time(self, session: Session) -> None:
        talk(session, 3)
        first = session.compact("first", upto=2)
        second = session.compact("second", upto=4)
        session.expand(second.seq)
        one_level = told(session)
        session.expand(first.seq)

        assert one_level == ["first", "q2", "a2", "q3", "a3"]
        assert told(session) == ["q1", "a1", "q2", "a2", "q3", "a3"]

    @pytest.mark.parametrize("messages", [[], ["instead"], ["instead", "and more"]])
    def test_expanding_a_replacement_puts_its_originals_back(self, session: Session, messages: list[str]) -> None:
        talk(session, 3)
        replacement = session.replace(messages, since=3, upto=4)
        session.expand(replacement.seq)

        assert told(session) == ["q1", "a1", "q2", "a2", "q3", "a3"]

    def test_what_is_not_in_the_view_cannot_be_expanded(self, session: Session) -> None:
        talk(session, 1)
        session.compact("short")
        session.expand(3)
        with pytest.raises(NotVisible):
            session.expand(3)

        assert session.head == 4

    @pytest.mark.parametrize("seq", [0, 1, 99])
    def test_only_folds_can_be_expanded(self, session: Session, seq: int) -> None:
        talk(session, 1)

        with pytest.raises(NotFound):
            session.expand(seq)

    def test_an_expanded_run_can_be_folded_again(self, session: Session) -> None:
        talk(session, 2)
        session.compact("first", upto=2)
        session.expand(5)
        session.compact("second", upto=2)

        assert told(session) == ["second", "q2", "a2"]


class ForkContract(Contract):
    """Sessions that share a beginning."""

    def test_a_fork_shares_everything_up_to_the_head(self, session: Session) -> None:
        talk(session, 2)
        fork = session.fork()

        assert fork.messages() == session.messages()
        assert [entry.message for entry in fork.entries()] == [entry.message for entry in session.entries()]

    def test_a_fork_shares_everything_up_to_an_entry(self, session: Session) -> None:
        talk(session, 2)
        fork = session.fork(2)

        assert (fork.head, told(fork)) == (2, ["q1", "a1"])

    def test_the_numbering_of_a_fork_goes_on(self, session: Session) -> None:
        talk(session, 2)

        assert session.fork(3).append("other").seq == 4

    def test_neither_side_sees_what_the_other_writes_later(self, session: Session) -> None:
        talk(session, 1)
        fork = session.fork()
        session.append("origin")
        fork.append("fork")

        assert told(session) == ["q1", "a1", "origin"]
        assert told(fork) == ["q1", "a1", "fork"]

    def test_a_fork_of_nothing_is_empty(self, session: Session) -> None:
        talk(session, 1)
        fork = session.fork(0)

        assert (fork.head, fork.messages(), fork.append("first").seq) == (0, [], 1)

    @pytest.mark.parametrize("at", [-1, 3])
    def test_a_fork_beyond_the_log_is_refused(self, store: Store, session: Session, at: int) -> None:
        talk(session, 1)
        with pytest.raises(NotFound):
            session.fork(at)

        assert made(store.sessions()) == [session.id]

    def test_a_fork_leaves_its_origin_alone(self, session: Session) -> None:
        before = talk(session, 1).info
        session.fork().append("other")

        assert session.info == before

    def test_a_fork_knows_where_it_came_from(self, session: Session) -> None:
        talk(session, 2)

        assert session.fork(3).info.origin == (session.id, 3)

    def test_a_session_knows_its_forks(self, session: Session) -> None:
        talk(session, 1)
        first, second = session.fork(), session.fork(1)
        first.fork()

        assert [fork.id for fork in session.forks()] == [first.id, second.id]

    def test_attributes_are_taken_along(self, store: Store) -> None:
        origin = store.new(agent="a", model="m", provider="p", cwd="/src", system="Be brief.", tags=["red"])
        origin.append("hi")

        info = origin.fork().info

        assert (info.agent, info.model, info.provider) == ("a", "m", "p")
        assert (info.cwd, info.system, info.tags) == ("/src", "Be brief.", ("red",))

    def test_a_fork_is_found_by_what_it_took_along(self, store: Store) -> None:
        origin = store.new(agent="a", cwd="/src", tags=["red"])
        fork = origin.fork()

        assert fork.id in made(store.sessions(agent="a", cwd="/src", tag="red"))

    def test_a_fork_has_a_key_title_and_meta_of_its_own(self, store: Store) -> None:
        origin = store.new(key="k", title="t", meta={"n": 1})
        fork = origin.fork(key="fork", title="other", meta={"m": 2})

        assert (fork.info.key, fork.info.title, fork.info.meta) == ("fork", "other", {"m": 2})
        found = store.find("fork")
        assert found is not None
        assert found.id == fork.id

    def test_the_key_of_a_fork_must_be_free(self, store: Store) -> None:
        origin = store.new(key="k")

        with pytest.raises(Conflict):
            origin.fork(key="k")

    def test_a_fork_is_titled_by_the_words_that_it_shares(self, session: Session) -> None:
        session.append(Message.assistant("Welcome!"))
        session.append("hello")

        assert session.fork().info.title == "hello"
        assert session.fork(1).info.title is None

    def test_forks_of_forks_share_it_all(self, session: Session) -> None:
        talk(session, 1)
        child = session.fork()
        child.append("child")
        grandchild = child.fork()
        grandchild.append("grandchild")
        child.append("late child")

        assert told(grandchild) == ["q1", "a1", "child", "grandchild"]
        assert [entry.seq for entry in grandchild.entries()] == [1, 2, 3, 4]

    def test_a_fork_of_a_fork_may_begin_before_it(self, session: Session) -> None:
        talk(session, 2)
        child = session.fork(3)
        child.append("child")
        grandchild = child.fork(1)
        grandchild.append("grandchild")

        assert told(grandchild) == ["q1", "grandchild"]

    def test_a_fork_can_be_rewound_to_before_its_fork_point(self, session: Session) -> None:
        talk(session, 2)
        fork = session.fork()
        fork.append("other")
        fork.rewind(1)
        fork.append("edited")

        assert told(fork) == ["q1", "edited"]
        assert told(session) == ["q1", "a1", "q2", "a2"]

    def test_every_past_view_of_the_origin_is_one_of_the_fork(self, session: Session) -> None:
        talk(session, 2)
        session.compact("short", upto=2)
        session.rewind(3)
        fork = session.fork()

        for at in range(7):
            assert fork.messages(at) == session.messages(at)

    def test_a_fork_sees_the_compactions_that_it_shares(self, session: Session) -> None:
        talk(session, 2)
        session.compact("short", upto=2)
        fork = session.fork()

        assert told(fork) == ["short", "q2", "a2"]
        assert [entry.message for entry in fork.originals(5)] == [Message.user("q1"), Message.assistant("a1")]

    def test_expanding_in_a_fork_leaves_the_origin_folded(self, session: Session) -> None:
        talk(session, 1)
        session.compact("short")
        fork = session.fork()
        fork.expand(3)

        assert told(fork) == ["q1", "a1"]
        assert told(session) == ["short"]

    def test_a_fork_before_a_compaction_sees_the_originals(self, session: Session) -> None:
        talk(session, 1)
        session.compact("short")

        assert told(session.fork(2)) == ["q1", "a1"]

    def test_the_counts_of_a_fork_are_those_of_its_view(self, session: Session) -> None:
        talk(session, 2)
        tokens = session.info.tokens
        session.compact("short")
        fork = session.fork(4)

        assert (fork.info.messages, fork.info.tokens) == (4, tokens)

    def test_pending_calls_are_taken_along(self, session: Session) -> None:
        session.extend(["q1", asks("c1", "c2")])
        session.start_call("c1")
        fork = session.fork()
        session.repair()

        assert [(call.call.id, call.started) for call in fork.pending] == [("c1", True), ("c2", False)]
        assert list(session.pending) == []

    def test_a_fork_in_the_middle_of_a_call_waits_for_it(self, session: Session) -> None:
        session.extend(["q1", asks("c1"), answers("c1")])
        fork = session.fork(2)

        assert [call.call.id for call in fork.pending] == ["c1"]
        assert fork.info.pending == 1

    # -- keys ------------------------------------------------------------------------------------------

    def test_a_fork_knows_the_keys_of_what_it_shares(self, session: Session) -> None:
        first = session.append("hi", key="k")
        grandchild = session.fork().fork()
        again = grandchild.append("hi", key="k")

        assert (again.seq, again.message, grandchild.head) == (first.seq, first.message, 1)

    def test_a_shared_key_with_other_content_is_refused(self, session: Session) -> None:
        session.append("hi", key="k")
        fork = session.fork()

        with pytest.raises(KeyReused):
            fork.append("something else", key="k")

    def test_a_fork_does_not_know_the_keys_of_what_it_does_not_share(self, session: Session) -> None:
        talk(session, 1)
        session.append("origin", key="k")
        fork = session.fork(2)
        fork.append("fork", key="k")

        assert (told(session)[-1], told(fork)[-1]) == ("origin", "fork")

    def test_the_origin_does_not_know_the_keys_of_its_fork(self, session: Session) -> None:
        fork = session.fork()
        fork.append("fork", key="k")
        session.append("origin", key="k")

        assert told(session) == ["origin"]

    def test_two_forks_do_not_know_each_others_keys(self, session: Session) -> None:
        one, other = session.fork(), session.fork()
        one.append("one", key="k")
        other.append("other", key="k")

        assert (one.entry(key="k").message, other.entry(key="k").message) == (
            Message.user("one"),
            Message.user("other"),
        )

    def test_a_key_is_known_in_a_fork_after_a_rewind_past_it(self, session: Session) -> None:
        session.append("hi", key="k")
        fork = session.fork()
        fork.rewind(0)
        fork.append("hi", key="k")

        assert (fork.head, fork.messages()) == (2, [])


class CallsContract(Contract):
    """Open ends: pending calls, the unanswered turn, repair."""

    def test_a_call_without_a_result_is_pending(self, session: Session) -> None:
        session.extend(["q1", asks("c1", "c2")])

        pending = [(call.call, call.seq, call.started) for call in session.pending]

        assert pending == [
            (ToolCall("c1", "search", {"for": "c1"}), 2, False),
            (ToolCall("c2", "search", {"for": "c2"}), 2, False),
        ]

    def test_a_result_answers_its_call_only(self, session: Session) -> None:
        session.extend(["q1", asks("c1", "c2", "c3"), answers("c2")])

        assert [call.call.id for call in session.pending] == ["c1", "c3"]
        assert session.info.pending == 2

    def test_results_may_come_in_any_order(self, session: Session) -> None:
        session.extend([asks("c1"), asks("c2", "c3"), answers("c3"), answers("c1"), answers("c2")])

        assert (list(session.pending), session.info.pending) == ([], 0)

    def test_a_result_without_a_call_is_kept(self, session: Session) -> None:
        session.append(answers("nobody"))

        assert (list(session.pending), len(session.messages())) == ([], 1)

    def test_two_calls_of_one_id_are_two_pending_calls(self, session: Session) -> None:
        session.append(Message.assistant(None, ToolCall("c", "read"), ToolCall("c", "write")))

        assert [call.call.name for call in session.pending] == ["read", "write"]
        assert session.info.pending == 2

    def test_an_id_may_come_back(self, session: Session) -> None:
        session.extend([asks("c1"), answers("c1"), asks("c1")])

        assert [(call.call.id, call.seq) for call in session.pending] == [("c1", 3)]

    def test_pending_calls_are_those_of_the_view(self, session: Session) -> None:
        session.extend(["q1", asks("c1"), answers("c1")])
        session.rewind(2)
        rewound = [call.call.id for call in session.pending]
        session.rewind(3)
        forward = list(session.pending)
        session.rewind(2)
        session.clear()

        assert (rewound, forward, list(session.pending)) == (["c1"], [], [])

    def test_a_hidden_call_is_not_pending(self, session: Session) -> None:
        session.append(Message("assistant", asks("c1").parts, {"hidden": True}))

        assert list(session.pending) == []

    # -- started ---------------------------------------------------------------------------------------

    def test_a_started_call_is_known_as_such(self, session: Session) -> None:
        session.extend(["q1", asks("c1", "c2")])
        entry = session.start_call("c2")

        assert entry.kind == "call_started"
        assert [(call.call.id, call.started) for call in session.pending] == [("c1", False), ("c2", True)]

    def test_a_start_is_not_in_the_view(self, session: Session) -> None:
        session.append(asks("c1"))
        session.start_call("c1")

        assert seqs(session) == [1]

    def test_a_call_starts_once(self, session: Session) -> None:
        session.append(asks("c1"))

        assert session.start_call("c1") == session.start_call("c1")
        assert session.head == 2

    @pytest.mark.parametrize("call_id", ["c1", "unknown", ""])
    def test_a_call_that_is_not_pending_cannot_start(self, session: Session, call_id: str) -> None:
        session.extend([asks("c1"), answers("c1")])
        with pytest.raises(NotFound):
            session.start_call(call_id)

        assert session.head == 2

    def test_a_start_is_forgotten_when_it_is_rewound(self, session: Session) -> None:
        session.append(asks("c1"))
        session.start_call("c1")
        session.rewind(1)

        assert [call.started for call in session.pending] == [False]

    def test_a_start_is_remembered_across_a_compaction(self, session: Session) -> None:
        session.extend(["q1", asks("c1")])
        session.start_call("c1")
        session.compact("short", upto=1)

        assert [call.started for call in session.pending] == [True]

    def test_a_start_is_remembered_across_a_replacement(self, session: Session) -> None:
        session.extend(["q1", asks("c1")])
        session.start_call("c1")
        session.replace(["edited"], since=1, upto=1)

        assert [call.started for call in session.pending] == [True]

    # -- unanswered ------------------------------------------------------------------------------------

    def test_the_last_user_entry_is_unanswered_until_the_assistant_speaks(self, session: Session) -> None:
        entry = session.append("q1")
        before = session.unanswered
        session.append(Message.assistant("a1"))

        assert (before, session.unanswered) == (entry, None)

    def test_the_last_of_several_user_entries_is_unanswered(self, session: Session) -> None:
        *_, last = session.extend(["q1", "q2"])

        assert session.unanswered == last

    def test_a_note_answers_nothing(self, session: Session) -> None:
        entry = session.append("q1")
        session.note({"n": 1})

        assert session.unanswered == entry

    def test_a_tool_result_is_no_user_turn(self, session: Session) -> None:
        session.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "x"}]})

        assert session.unanswered is None

    def test_the_unanswered_turn_is_one_of_the_view(self, session: Session) -> None:
        talk(session, 1)
        session.append("q2")
        session.rewind(2)
        rewound = session.unanswered
        session.rewind(1)

        assert rewound is None
        assert session.unanswered == session.entry(1)

    # -- repair ----------------------------------------------------------------------------------------

    def test_a_repair_answers_every_pending_call_with_an_error(self, session: Session) -> None:
        session.extend(["q1", asks("c1", "c2"), answers("c1"), asks("c3")])

        entries = session.repair("the power went out")

        results = [result for entry in entries if entry.message for result in entry.message.results]
        assert [(result.call_id, result.error) for result in results] == [("c2", True), ("c3", True)]
        assert all("the power went out" in str(result.output) for result in results)
        assert list(session.pending) == []

    def test_a_repair_says_which_effects_are_uncertain(self, session: Session) -> None:
        session.append(asks("c1", "c2"))
        session.start_call("c2")

        texts = [entry.message.text for entry in session.repair() if entry.message]

        assert ["uncertain" in text for text in texts] == [False, True]

    def test_nothing_to_mend_nothing_written(self, session: Session) -> None:
        session.extend(["q1", asks("c1")])
        session.repair()

        assert session.repair() == []
        assert session.head == 3

    def test_only_repair_mends(self, session: Session) -> None:
        session.extend(["q1", asks("c1")])
        session.view()
        _ = session.pending

        assert session.head == 2


class ErrorsContract(Contract):
    """Every error is one of ours, with its facts."""

    @pytest.mark.parametrize(
        "refused",
        [
            lambda s: s.append("hi", expect=9),
            lambda s: s.append(object()),
            lambda s: s.append("hi", key=""),
            lambda s: s.append("hi", expect="1"),
            lambda s: s.extend("hi"),
            lambda s: s.extend({"role": "user", "content": "hi"}),
            lambda s: s.append("hi", at="yesterday"),
            lambda s: s.append("hi", usage=[1]),
            lambda s: s.append({"role": "user", "content": "hi"}, format="fax"),
            lambda s: s.rewind(9),
            lambda s: s.rewind("1"),
            lambda s: s.view(at="1"),
            lambda s: s.view(last="1"),
            lambda s: list(s.entries(after="1")),
            lambda s: s.fork("1"),
            lambda s: s.entry("1"),
            lambda s: s.expand(1),
            lambda s: s.compact(7),
            lambda s: s.compact("short", upto=9),
            lambda s: s.compact("short", keep_turns=-1),
            lambda s: s.replace([], since="1", upto=1),
            lambda s: s.start_call("nobody"),
            lambda s: s.rename(None),
            lambda s: s.tag(""),
            lambda s: s.update(model=7),
            lambda s: s.fork(9),
            lambda s: s.note([]),
        ],
    )
    def test_what_is_refused_is_refused_by_an_error_of_ours(
        self, session: Session, refused: Callable[[Any], object]
    ) -> None:
        session.append("hi")
        before = session.info
        with pytest.raises(ThreadlineError):
            refused(session)

        assert session.info == before

    def test_an_invalid_message_names_the_place(self, session: Session) -> None:
        with pytest.raises(InvalidMessage) as caught:
            session.append(Message.assistant(None, ToolCall("c1", "f", {"list": [1, {"when": NOON}]})))

        assert caught.value.place.endswith("parts[0].args.list[1].when")
        assert "datetime" in caught.value.why

    def test_not_found_names_what_was_asked_for(self, session: Session) -> None:
        with pytest.raises(NotFound) as caught:
            session.entry(7)

        assert (caught.value.what, caught.value.name) == ("entry", 7)

    @pytest.mark.parametrize("error", [Stale, KeyReused])
    def test_conflicts_are_one_family(self, error: type[Exception]) -> None:
        assert issubclass(error, Conflict)

    def test_an_invalid_argument_is_a_value_error(self) -> None:
        assert issubclass(InvalidArgument, ValueError)


class StoreContract(
    OpeningContract,
    SessionsContract,
    ListingContract,
    LogContract,
    KeysContract,
    ViewContract,
    CompactionContract,
    ForkContract,
    CallsContract,
    ErrorsContract,
):
    """All that holds while a store is open."""


class DurableContract(Contract):
    """What is still there when the store is opened again. A later `open_store()` opens the same place."""

    @pytest.mark.parametrize("name", WRITES)
    def test_what_was_returned_is_there_again(self, open_store: OpenStore, name: str) -> None:
        with open_store() as store:
            session = busy(store.new(id="x"))
            WRITES[name](session)
            entries, messages, info = list(session.entries()), session.messages(), session.info

        with open_store() as store:
            session = store.get("x")

            assert (list(session.entries()), session.messages(), session.info) == (entries, messages, info)

    def test_a_key_is_known_again(self, open_store: OpenStore) -> None:
        with open_store() as store:
            first = store.session("s").extend(["one", "two"], key="k")

        with open_store() as store:
            assert store.session("s").extend(["one", "two"], key="k") == first

    def test_a_fork_shares_again(self, open_store: OpenStore) -> None:
        with open_store() as store:
            fork = talk(store.new(), 2).fork(3, key="fork")
            fork.append("other")

        with open_store() as store:
            assert told(store.session("fork")) == ["q1", "a1", "q2", "other"]

    def test_opening_a_broken_session_mends_nothing(self, open_store: OpenStore) -> None:
        with open_store() as store:
            before = busy(store.new(id="x")).info

        with open_store() as store:
            session = store.get("x")
            session.view()

            assert session.info == before
            assert [call.call.id for call in session.pending] == ["c1"]

    def test_updated_at_increases_across_openings(self, open_store: OpenStore) -> None:
        with open_store(clock=lambda: NOON + timedelta(days=1)) as store:
            before = store.new(id="x").info.updated_at

        with open_store(clock=lambda: NOON) as store:
            store.get("x").append("hi")

            assert store.get("x").info.updated_at > before

    def test_two_stores_on_one_place_see_each_other(self, open_store: OpenStore) -> None:
        with open_store() as one, open_store() as other:
            one.session("k").append("from one")
            other.session("k").append("from the other")

            assert told(one.session("k")) == ["from one", "from the other"]

    def test_a_session_of_one_store_is_taken_by_another_on_the_place(self, open_store: OpenStore) -> None:
        with open_store() as one, open_store() as other:
            one.new()
            session = one.new()
            other.archive(session)

            assert session.info.status == "archived"

    def test_a_stale_expectation_is_noticed_across_stores(self, open_store: OpenStore) -> None:
        with open_store() as one, open_store() as other:
            head = one.session("k").append("from one").seq
            other.session("k").append("from the other")

            with pytest.raises(Stale):
                one.session("k").append("too late", expect=head)

    def test_what_relaxed_durability_wrote_is_there_again(self, open_store: OpenStore) -> None:
        with open_store(durability="relaxed") as store:
            store.session("k").append("hi")

        with open_store() as store:
            assert told(store.session("k")) == ["hi"]

    def test_an_unknown_durability_is_refused(self, open_store: OpenStore) -> None:
        with pytest.raises(InvalidArgument):
            open_store(durability="perhaps")

    # -- read-only -------------------------------------------------------------------------------------

    @pytest.mark.parametrize("name", READS)
    def test_a_read_only_store_can_be_read(self, open_store: OpenStore, name: str) -> None:
        with open_store() as store:
            busy(store.new(id="x"))

        with open_store(read_only=True) as store:
            READS[name](store.get("x"))

    @pytest.mark.parametrize("name", WRITES)
    def test_a_read_only_store_writes_nothing(self, open_store: OpenStore, name: str) -> None:
        with open_store() as store:
            busy(store.new(id="x"))

        with open_store(read_only=True) as store:
            with pytest.raises(ReadOnly):
                WRITES[name](store.get("x"))

            assert store.get("x").head == 5

    @pytest.mark.parametrize("name", CHANGES)
    def test_a_read_only_store_changes_nothing(self, open_store: OpenStore, name: str) -> None:
        with open_store() as store:
            store.new(id="x")

        with open_store(read_only=True) as store, pytest.raises(ReadOnly):
            CHANGES[name](store.get("x"))

    @pytest.mark.parametrize("name", ["new", "archive", "trash", "restore", "fork"])
    def test_a_read_only_store_makes_no_session_and_moves_none(self, open_store: OpenStore, name: str) -> None:
        with open_store() as store:
            store.new(id="x")

        with open_store(read_only=True) as store, pytest.raises(ReadOnly):
            STORE_CALLS[name](store, store.get("x"))

    def test_a_read_only_store_sees_what_others_write(self, open_store: OpenStore) -> None:
        with open_store() as writer, open_store(read_only=True) as reader:
            writer.session("k").append("hi")

            assert told(reader.session("k")) == ["hi"]


__all__ = [
    "CallsContract",
    "CompactionContract",
    "Contract",
    "DurableContract",
    "ErrorsContract",
    "ForkContract",
    "KeysContract",
    "ListingContract",
    "LogContract",
    "OpenStore",
    "OpeningContract",
    "SessionsContract",
    "StoreContract",
    "ViewContract",
]
