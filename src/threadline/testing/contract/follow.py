"""The contract: following. What should not come is waited for in milliseconds, what should come as long as it takes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from threadline import Closed, InvalidArgument, Session, Store
from threadline.testing.contract.workshop import A_SECOND, NOON, Contract, OpenStore, talk

SOON_S = 0.05
PATIENCE_S = 30.0


@contextmanager
def meanwhile(work: Callable[[], Any]) -> Iterator[None]:
    """Another thread does something shortly after the block has begun to wait."""
    timer = threading.Timer(SOON_S, work)
    timer.start()
    try:
        yield
    finally:
        timer.join()


class FollowContract(Contract):
    """Entries as they are written, sessions as they change."""

    def test_what_is_there_comes_first_and_then_it_ends(self, session: Session) -> None:
        talk(session, 2).note({"a": 1})

        assert list(session.follow(timeout=0)) == list(session.entries())
        assert [entry.seq for entry in session.follow(after=3, timeout=0)] == [4, 5]
        assert [entry.seq for entry in session.follow(after=9, timeout=0)] == []

    def test_a_closed_store_cannot_be_followed(self, store: Store, session: Session) -> None:
        session.append("hi")
        store.close()

        with pytest.raises(Closed):
            list(session.follow(timeout=0))

    def test_what_is_written_while_somebody_waits_comes_at_once(self, session: Session) -> None:
        with meanwhile(lambda: session.append("hello")):
            entry = next(iter(session.follow(timeout=PATIENCE_S)))

        assert (entry.seq, entry.message and entry.message.text) == (1, "hello")

    def test_nothing_is_missed_and_nothing_comes_twice(self, session: Session) -> None:
        def write() -> None:
            for n in range(100):
                session.append(f"m{n}")
            session.extend([f"m{n}" for n in range(100, 400)])

        got: list[int] = []
        with meanwhile(write):
            for entry in session.follow(timeout=PATIENCE_S):
                got.append(entry.seq)
                if entry.seq == 400:
                    break

        assert got == list(range(1, 401))

    def test_it_goes_on_from_any_seq(self, session: Session) -> None:
        """As a client does who was cut off: the last seq that it saw is all that it needs."""
        threading.Timer(SOON_S, lambda: [session.append(f"m{n}") for n in range(30)]).start()
        got: list[int] = []
        while len(got) < 30:
            for entry in session.follow(after=got[-1] if got else 0, timeout=PATIENCE_S):
                got.append(entry.seq)
                if entry.seq % 7 == 0 or entry.seq == 30:
                    break

        assert got == list(range(1, 31))

    def test_many_followers_see_the_same(self, store: Store, session: Session) -> None:
        others = [store.new() for _ in range(3)]
        got: dict[int, list[int]] = {n: [] for n in range(12)}

        def follow(n: int) -> None:
            for entry in store.get(str(session.id)).follow(timeout=PATIENCE_S):
                got[n].append(entry.seq)
                if entry.seq == 10:
                    return

        threads = [threading.Thread(target=follow, args=(n,)) for n in got]
        for thread in threads:
            thread.start()
        for n in range(10):
            session.append(f"m{n}")
            others[n % 3].append("elsewhere")
        for thread in threads:
            thread.join()

        assert got == {n: list(range(1, 11)) for n in range(12)}

    def test_a_session_that_is_not_made_yet_may_be_followed(self, store: Store) -> None:
        with meanwhile(lambda: store.session("k").append("made")):
            entry = next(iter(store.session("k").follow(timeout=PATIENCE_S)))

        assert entry.seq == 1

    def test_a_fork_is_followed_through_what_it_shares(self, session: Session) -> None:
        fork = talk(session, 1).fork()
        session.append("not here")
        fork.append("here")

        assert [entry.seq for entry in fork.follow(timeout=0)] == [1, 2, 3]

    def test_closing_the_store_ends_it(self, store: Store, session: Session) -> None:
        came: list[object] = []
        following = [session.follow(), store.session("unmade").follow(), store.follow()]
        threads = [threading.Thread(target=lambda f=f: came.append(list(f)), daemon=True) for f in following]
        with meanwhile(store.close):
            for thread in threads:
                thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)

        assert came == [[], [], []]

    def test_following_may_be_left_and_begun_again(self, session: Session) -> None:
        for _ in range(5):
            session.append("more")
            for _ in session.follow():
                break

        assert [entry.seq for entry in session.follow(after=4, timeout=0)] == [5]

    def test_changes_of_any_session_come(self, store: Store) -> None:
        session, other = store.new(key="a"), store.new(key="b")
        changes = iter(store.follow(timeout=PATIENCE_S))
        session.append("hi")
        assert next(changes).messages == 1
        other.rename("Title")
        assert next(changes).title == "Title"
        session.enqueue("waiting")
        assert next(changes).queued == 1
        store.archive(other)
        assert next(changes).status == "archived"
        store.session("c").append("made")

        assert next(changes).key == "c"

    def test_a_change_that_says_it_is_old_comes_as_well(self, store: Store) -> None:
        session = talk(store.new(key="a", at=NOON), 1)
        changes = iter(store.follow(timeout=PATIENCE_S))
        session.append("imported", at=NOON + A_SECOND)
        assert next(changes).head == 3
        store.new(key="old", at=NOON)

        assert next(changes).key == "old"

    def test_changes_end_when_nothing_happens(self, store: Store) -> None:
        store.new()

        assert list(store.follow(timeout=SOON_S)) == []

    def test_a_change_while_somebody_waits_comes_at_once(self, store: Store, session: Session) -> None:
        with meanwhile(lambda: session.append("hi")):
            info = next(iter(store.follow(timeout=PATIENCE_S)))

        assert info.id == session.id

    def test_a_namespace_hears_only_of_its_own(self, store: Store) -> None:
        changes = iter(store.within("mine").follow(timeout=PATIENCE_S))
        store.session("k").append("not mine")
        store.within("mine").session("k").append("mine")

        assert next(changes).title == "mine"
        assert list(store.within("other").follow(timeout=SOON_S)) == []

    @pytest.mark.parametrize("timeout", [-1, "1", float("nan"), True])
    def test_a_timeout_is_seconds(self, store: Store, session: Session, timeout: Any) -> None:
        with pytest.raises(InvalidArgument):
            session.follow(timeout=timeout)
        with pytest.raises(InvalidArgument):
            store.follow(timeout=timeout)

    def test_after_is_a_seq(self, session: Session) -> None:
        with pytest.raises(InvalidArgument):
            session.follow(after="1")  # type: ignore[arg-type]


class DurableFollowContract(Contract):
    """What another store of the same place writes."""

    def test_another_store_is_heard(self, open_store: OpenStore) -> None:
        with open_store() as reading, open_store() as writing:
            with meanwhile(lambda: writing.session("k").extend(["one", "two"])):
                entries = iter(reading.session("k").follow(timeout=PATIENCE_S))
                assert [next(entries).seq, next(entries).seq] == [1, 2]
            with meanwhile(lambda: writing.session("k").rename("Title")):
                info = next(iter(reading.follow(timeout=PATIENCE_S)))

            assert info.title == "Title"
