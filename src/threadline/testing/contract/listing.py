"""The contract: pages of sessions."""

from __future__ import annotations

from typing import Any

import pytest

from threadline import (
    InvalidArgument,
    Store,
)
from threadline.testing.contract.workshop import (
    A_SECOND,
    NOON,
    Contract,
    asks,
    busy,
    made,
    talk,
)


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

    def test_by_the_beginning_of_the_id(self, store: Store) -> None:
        for id in ("ab1", "ab2", "ab", "a", "b", "AB3", "ab\U0010ffff"):
            store.new(id=id)
        store.within("acme").new(id="ab9")
        store.trash("ab2")
        child = store.get("ab1").spawn("search")

        assert {info.id for info in store.sessions(id_prefix="ab")} == {"ab1", "ab", "ab\U0010ffff"}
        assert {info.id for info in store.sessions(id_prefix="ab2", status=None)} == {"ab2"}
        assert made(store.sessions(id_prefix=str(child.id), root=False)) == [child.id]
        assert made(store.sessions(id_prefix="ab%")) == []

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
