"""Large content on PostgreSQL: the strings that are cut out of bodies, on their way to the server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from threadline.backends.blobs import compress, pack
from threadline.backends.postgres.rows import columns_of
from threadline.backends.postgres.statements import Statement
from threadline.backends.postgres.wire import BYTEA, Value, array, numbers
from threadline.core.entries import Row


def entry_rows(tree: bytes, own: int, rows: Iterable[Row]) -> Iterator[Statement]:
    """What stores rows, and what they have out of line."""
    for row in rows:
        body, blobs = pack(row.body)
        for name in sorted(blobs):  # in one order, so that two who add the same wait for each other and not in a circle
            yield "insert_blob", (tree, name, len(blobs[name]), compress(blobs[name]))
            yield "insert_blob_use", (tree, own, row.seq, name)
        yield "insert_entry", (tree, own, *columns_of(row._replace(body=body)))


class Cut:
    """Bodies without their large strings, and those strings: what `threadline.write` takes of them."""

    def __init__(self, bodies: Sequence[bytes]) -> None:
        self.bodies: list[bytes] = []
        self._blobs: dict[bytes, bytes] = {}
        self._uses: list[tuple[int, bytes]] = []
        for place, whole in enumerate(bodies, 1):
            body, blobs = pack(whole)
            self.bodies.append(body)
            self._blobs |= blobs
            self._uses += [(place, name) for name in sorted(blobs)]

    def __bool__(self) -> bool:
        return bool(self._uses)

    def values(self) -> tuple[Value, ...]:
        return (
            array(BYTEA, [*self._blobs]),
            numbers(map(len, self._blobs.values())),
            array(BYTEA, [*map(compress, self._blobs.values())]),
            numbers(place for place, _ in self._uses),
            array(BYTEA, [name for _, name in self._uses]),
        )
