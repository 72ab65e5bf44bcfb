"""The contract: making and finding sessions, and what is said of them."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from threadline import (
    Conflict,
    InvalidArgument,
    InvalidMessage,
    Message,
    NotActive,
    NotFound,
    Session,
    Stale,
    Store,
)
from threadline.testing.contract.workshop import (
    CHANGES,
    NAMES,
    NOON,
    READS,
    STORE_CALLS,
    WRITES,
    Contract,
    OpenStore,
    answers,
    busy,
    made,
    told,
)


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

    def test_a_change_of_the_past_says_when_it_was(self, store: Store) -> None:
        session = store.new(at=NOON)
        session.rename("then", at=NOON + timedelta(hours=1))
        renamed = session.info.updated_at
        session.update(system="be kind", meta={"x": 1}, at=NOON + timedelta(hours=2))

        assert renamed == NOON + timedelta(hours=1)
        assert session.entry(1).at == NOON + timedelta(hours=2)
        assert session.info.updated_at - session.entry(1).at < timedelta(seconds=1)

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
