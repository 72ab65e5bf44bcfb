"""Who may write: the lease of a session as its head row keeps it.

The token counts the leases that a session ever had. It is what fences a late writer off: a lease that was taken over
has an older token, and is refused inside the write, whatever its holder believes."""

from __future__ import annotations

from typing import NamedTuple

from threadline.core.digest import seal
from threadline.core.entries import moment, stored, text
from threadline.errors import Damaged, LeaseHeld, LeaseLost

SEAL = 8


class Hold(NamedTuple):
    """The last lease of a session: it lives while `until` is to come. Times are those of the place of the data."""

    token: int
    until: int
    holder: str

    def lives(self, now: int) -> bool:
        return now < self.until


def encode(hold: Hold) -> bytes:
    held = b"%d|%d|%b" % (hold.token, hold.until, stored(hold.holder))
    return seal(held) + held


def decode(held: bytes | None) -> Hold | None:
    """Raises Damaged where it is not what was written."""
    if held is None:
        return None
    if seal(held[SEAL:]) != held[:SEAL]:
        raise Damaged(None, None, "the row of a lease does not match its seal")
    token, until, holder = held[SEAL:].split(b"|", 2)
    return Hold(int(token), int(until), text(holder))


def check(hold: Hold | None, token: int | None, now: int, session: str) -> None:
    """Raise LeaseHeld if the session is leased and no token is given, LeaseLost if the token is not its lease's."""
    live = hold if hold is not None and hold.lives(now) else None
    if token is None:
        if live is not None:
            raise LeaseHeld(live.holder, moment(live.until))
    elif live is None or live.token != token:
        raise LeaseLost(session, None if live is None else live.holder)


def taken(hold: Hold | None, holder: str, now: int, ttl_us: int) -> Hold:
    """A new lease. Raises LeaseHeld while another one lives, whoever holds it."""
    check(hold, None, now, "")
    return Hold(1 if hold is None else hold.token + 1, now + ttl_us, holder)
