"""The contract: what is still there when the store is opened again. A later `open_store()` opens the same place."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from threadline import (
    InvalidArgument,
    Progress,
    ReadOnly,
    Stale,
)
from threadline.testing.contract.workshop import (
    CHANGES,
    NOON,
    READS,
    STORE_CALLS,
    WRITES,
    Contract,
    OpenStore,
    busy,
    talk,
    told,
)


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

    def test_verifying_tells_how_far_it_is(self, open_store: OpenStore) -> None:
        told: list[Progress] = []
        with open_store() as store:
            store.new().extend(["x"] * 1_200)
            store.new().extend(["y"] * 300)

            assert store.verify(progress=told.append).counts["entries"] == 1_500
        assert [(step.done, step.total, step.unit) for step in told] == [
            (n, 1_500, "entry") for n in (500, 1_000, 1_500)
        ]

    def test_a_backup_tells_how_far_it_is(self, open_store: OpenStore, tmp_path: Path) -> None:
        told: list[Progress] = []
        with open_store() as store:
            for _ in range(10):
                store.new().extend(["z" * 1_000] * 300)
            store.backup(tmp_path / "copy.db", progress=told.append)

        reached = [step.done for step in told]
        assert len(reached) >= 3
        assert reached == sorted(reached)
        assert all(0 <= step.done <= 1.2 * step.total for step in told)

    def test_what_is_told_may_end_it(self, open_store: OpenStore, tmp_path: Path) -> None:
        class Enough(Exception):
            pass

        def stop(_: Progress) -> None:
            raise Enough

        with open_store() as store:
            store.new().extend(["z" * 1_000] * 1_500)
            for work in (lambda: store.verify(progress=stop), lambda: store.backup(tmp_path / "c.db", progress=stop)):
                with pytest.raises(Enough):
                    work()

            assert store.verify().ok
        assert not (tmp_path / "c.db").exists()
