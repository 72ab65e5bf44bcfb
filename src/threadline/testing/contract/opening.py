"""The contract: opening, closing, namespaces."""

from __future__ import annotations

import pytest

from threadline import (
    Closed,
    InvalidArgument,
    NotFound,
    Session,
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
    busy,
    made,
    told,
)


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
