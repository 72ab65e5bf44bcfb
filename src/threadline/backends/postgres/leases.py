"""Leases: who may write to a session, in a column of its head row. The clock is that of the place of the row."""

from __future__ import annotations

from threadline.backends.backend import STATUSES, Ref
from threadline.backends.postgres.statements import Connection
from threadline.backends.postgres.transactions import Transaction, now_us
from threadline.core import holds
from threadline.core.holds import Hold
from threadline.errors import NotActive


def take(connection: Connection, durable: bool, ref: Ref, holder: str, ttl_us: int) -> Hold:
    with Transaction(connection, durable=durable) as transaction:
        status = transaction.lock(ref)[STATUS]
        if status:
            raise NotActive(ref.id, STATUSES[status])
        hold = holds.taken(holds.decode(transaction.lease), holder, now_us(connection, ref), ttl_us)
        _set(transaction, ref, hold)
    return hold


def renew(connection: Connection, durable: bool, ref: Ref, token: int, ttl_us: int) -> Hold:
    with Transaction(connection, durable=durable) as transaction:
        transaction.lock(ref)
        hold, now = holds.decode(transaction.lease), now_us(connection, ref)
        holds.check(hold, token, now, ref.id)
        assert hold is not None
        renewed = hold._replace(until=now + ttl_us)
        _set(transaction, ref, renewed)
    return renewed


def release(connection: Connection, durable: bool, ref: Ref, token: int) -> None:
    with Transaction(connection, durable=durable) as transaction:
        transaction.lock(ref)
        hold = holds.decode(transaction.lease)
        if hold is not None and hold.token == token:
            _set(transaction, ref, hold._replace(until=0))


STATUS = 2  # where it stands in a head row


def _set(transaction: Transaction, ref: Ref, hold: Hold) -> None:
    transaction.commit([("set_lease", (holds.encode(hold), ref.tree, ref.number))], ref.id, 0)
