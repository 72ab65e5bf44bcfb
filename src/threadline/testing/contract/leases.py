"""The contract: leases. What lasts is leased for an hour, what must end for a few milliseconds that are waited for."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from threadline import (
    InvalidArgument,
    LeaseHeld,
    LeaseLost,
    NotActive,
    Session,
    Stale,
    Store,
    ThreadlineError,
)
from threadline.testing.contract.workshop import CHANGES, READS, WRITES, Contract, busy, talk

HOUR_S = 3600
MOMENT_S = 0.02


def expired(session: Session, holder: str = "late") -> Any:
    """A lease that is over."""
    lease = session.lease(holder, ttl=MOMENT_S)
    time.sleep(2 * MOMENT_S)
    return lease


class LeaseContract(Contract):
    """One writer at a time, for a while."""

    @pytest.mark.parametrize("name", WRITES)
    def test_while_a_lease_lives_only_its_holder_writes(self, session: Session, name: str) -> None:
        busy(session)
        with session.lease("worker-7", ttl=HOUR_S) as lease:
            with pytest.raises(LeaseHeld) as caught:
                WRITES[name](session)
            assert session.head == 5
            WRITES[name](session, lease=lease)

        assert (caught.value.holder, caught.value.until) == ("worker-7", lease.until)
        assert session.head > 5

    @pytest.mark.parametrize("name", WRITES)
    def test_an_expired_lease_is_lost_even_if_nobody_took_over(self, session: Session, name: str) -> None:
        lease = expired(busy(session))
        with pytest.raises(LeaseLost) as caught:
            WRITES[name](session, lease=lease)

        assert (caught.value.session, caught.value.holder) == (session.id, None)
        assert session.head == 5

    @pytest.mark.parametrize("name", WRITES)
    def test_a_known_key_does_not_mind_a_lost_lease(self, session: Session, name: str) -> None:
        first = WRITES[name](busy(session), key="k")
        lease = expired(session)
        with session.lease("other", ttl=HOUR_S):
            assert WRITES[name](session, key="k", lease=lease) == first
            assert WRITES[name](session, key="k") == first

    @pytest.mark.parametrize("name", CHANGES)
    def test_what_writes_no_entry_is_open_to_all(self, session: Session, name: str) -> None:
        with session.lease("worker", ttl=HOUR_S):
            CHANGES[name](session)

    @pytest.mark.parametrize("name", READS)
    def test_reading_is_open_to_all(self, session: Session, name: str) -> None:
        with busy(session).lease("worker", ttl=HOUR_S):
            READS[name](session)

    def test_a_new_system_prompt_needs_the_lease(self, session: Session) -> None:
        with session.lease("worker", ttl=HOUR_S) as lease:
            with pytest.raises(LeaseHeld):
                session.update(system="be brief")
            session.update(system="be brief", lease=lease)

        assert session.info.system == "be brief"

    def test_a_batch_is_written_with_a_lease(self, session: Session) -> None:
        with session.lease("worker", ttl=HOUR_S) as lease:
            with pytest.raises(LeaseHeld), session.batch() as b:
                b.append("no")
            with session.batch(lease=lease) as b:
                b.append("yes")

        assert [message.text for message in session.messages()] == ["yes"]

    def test_who_takes_over_fences_the_old_holder_off(self, session: Session) -> None:
        old = expired(session, "old")
        with session.lease("new", ttl=HOUR_S) as new:
            assert new.token > old.token
            with pytest.raises(LeaseLost) as caught:
                session.append("too late", lease=old)
            with pytest.raises(LeaseLost):
                old.renew()
            old.release()  # which must not end the other's
            session.append("in time", lease=new)

        assert caught.value.holder == "new"
        assert session.head == 1

    def test_the_end_of_the_block_gives_it_back(self, session: Session) -> None:
        with session.lease("a", ttl=HOUR_S) as lease:
            pass
        session.append("free")
        with pytest.raises(LeaseLost):
            session.append("over", lease=lease)

        assert session.head == 1

    def test_an_exception_gives_it_back_as_well(self, session: Session) -> None:
        with pytest.raises(ZeroDivisionError), session.lease("a", ttl=HOUR_S):
            raise ZeroDivisionError

        session.append("free")

    def test_renewing_lets_it_live_on(self, session: Session) -> None:
        lease = session.lease("a", ttl=HOUR_S)
        until = lease.until
        time.sleep(MOMENT_S)
        lease.renew()

        assert lease.until > until
        session.append("hi", lease=lease)

    def test_nobody_gets_it_twice(self, session: Session) -> None:
        """Not even under the same name: two processes may believe to be worker-7."""
        with session.lease("worker-7", ttl=HOUR_S), pytest.raises(LeaseHeld) as caught:
            session.lease("worker-7")

        assert caught.value.holder == "worker-7"

    def test_waiting_gets_what_expires(self, session: Session) -> None:
        session.lease("slow", ttl=MOMENT_S)
        lease = session.lease("patient", ttl=HOUR_S, wait=HOUR_S)

        session.append("hi", lease=lease)

    def test_waiting_gets_what_is_given_back(self, session: Session) -> None:
        held = session.lease("slow", ttl=HOUR_S)
        release = threading.Timer(MOMENT_S, held.release)
        release.start()
        lease = session.lease("patient", ttl=HOUR_S, wait=HOUR_S)
        release.join()

        assert lease.holder == "patient"

    def test_waiting_ends(self, session: Session) -> None:
        with session.lease("slow", ttl=HOUR_S), pytest.raises(LeaseHeld):
            session.lease("impatient", wait=3 * MOMENT_S)

    def test_one_at_a_time_among_many_who_wait(self, session: Session) -> None:
        """Each reads and writes in two steps, and nobody loses what another one wrote."""
        session.set_state({"n": 0})

        def work(name: str) -> None:
            for _ in range(3):
                with session.lease(name, ttl=HOUR_S, wait=HOUR_S) as lease:
                    session.set_state({"n": session.state["n"] + 1}, lease=lease)

        threads = [threading.Thread(target=work, args=(f"worker-{i}",)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert session.state == {"n": 12}

    def test_the_status_comes_before_the_lease_and_the_lease_before_the_head(
        self, store: Store, session: Session
    ) -> None:
        talk(session, 1)
        with session.lease("worker", ttl=HOUR_S):
            with pytest.raises(LeaseHeld):
                session.append("hi", expect=7)
            store.archive(session)
            with pytest.raises(NotActive):
                session.append("hi", expect=7)
            store.restore(session)
        with pytest.raises(Stale):
            session.append("hi", expect=7)

    def test_the_info_names_the_holder_while_it_lives(self, store: Store, session: Session) -> None:
        assert session.info.holder is None
        with session.lease("worker-7", ttl=HOUR_S):
            assert [info.holder for info in store.sessions()] == [session.info.holder] == ["worker-7"]
        assert session.info.holder is None
        expired(session)

        assert session.info.holder is None

    def test_a_lease_moves_neither_the_head_nor_the_time(self, session: Session) -> None:
        before = talk(session, 1).info
        with session.lease("worker", ttl=HOUR_S) as lease:
            lease.renew()

        assert session.info == before

    def test_a_lease_makes_a_session_that_is_not_made_yet(self, store: Store) -> None:
        session = store.session("k")
        with session.lease("worker", ttl=HOUR_S) as lease:
            with pytest.raises(LeaseHeld):
                store.session("k").append("no")
            session.append("yes", lease=lease)

        assert store.session("k").head == 1

    def test_a_fork_is_free(self, session: Session) -> None:
        with talk(session, 1).lease("worker", ttl=HOUR_S):
            session.fork().append("elsewhere")

        assert session.head == 2

    def test_a_lease_on_another_session_is_refused(self, store: Store, session: Session) -> None:
        with store.new().lease("worker", ttl=HOUR_S) as lease, pytest.raises(InvalidArgument):
            session.append("hi", lease=lease)

        assert session.head == 0

    def test_an_archived_session_is_not_leased(self, store: Store, session: Session) -> None:
        store.archive(session)

        with pytest.raises(NotActive):
            session.lease("worker")

    @pytest.mark.parametrize(
        "refused",
        [
            lambda s: s.lease("w", ttl=0),
            lambda s: s.lease("w", ttl=-1),
            lambda s: s.lease("w", ttl="30"),
            lambda s: s.lease("w", ttl=float("nan")),
            lambda s: s.lease("w", ttl=float("inf")),
            lambda s: s.lease("w", ttl=True),
            lambda s: s.lease("w", wait=-1),
            lambda s: s.lease("w", wait=None),
            lambda s: s.lease(""),
            lambda s: s.lease(None),
            lambda s: s.append("hi", lease="worker"),
            lambda s: s.append("hi", lease=7),
        ],
    )
    def test_what_cannot_be_a_lease_is_refused(self, session: Session, refused: Any) -> None:
        with pytest.raises(InvalidArgument) as caught:
            refused(session)

        assert isinstance(caught.value, ThreadlineError)
        session.append("nothing is held")
