"""A pooler in transaction mode, as PgBouncer is one: a client has a connection to the server only for the time of a
transaction, and the next time another one. Prepared statements follow it, as from PgBouncer 1.21 on.

    with Pooler(Path(folder), server.folder, "postgres", connections=2) as pooler:
        store = threadline.open(pooler.url)

It speaks just enough of PostgreSQL's protocol (version 3) for that, and trusts everybody."""

from __future__ import annotations

import queue
import select
import socket
import struct
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from threadline.testing.proxy import PORT, SIZE

PROTOCOL = 196_608
REFUSED = (80_877_103, 80_877_104)  # asks for TLS, or for GSS encryption
READY, PARSED, BOUND, CLOSED, FAILED = b"Z", b"1", b"2", b"3", b"E"


class Gone(Exception):
    """The other side hung up."""


class Wire:
    """One side of a connection: whole messages, as they come."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self._rest = b""

    def message(self) -> tuple[bytes, bytes]:
        """The next message; waits for it."""
        while len(self._rest) < 5 or len(self._rest) < 1 + self._size():
            self._more()
        size = 1 + self._size()
        kind, body, self._rest = self._rest[:1], self._rest[5:size], self._rest[size:]
        return kind, body

    def messages(self) -> Iterator[tuple[bytes, bytes]]:
        """Read once, and give those that are whole."""
        self._more()
        yield from self.left()

    def left(self) -> Iterator[tuple[bytes, bytes]]:
        """Those that were read together with the one before."""
        while len(self._rest) >= 5 and len(self._rest) >= 1 + self._size():
            yield self.message()

    def startup(self) -> bytes:
        """The first message of a client, which has no kind."""
        while len(self._rest) < 4 or len(self._rest) < struct.unpack(">I", self._rest[:4])[0]:
            self._more()
        size = struct.unpack(">I", self._rest[:4])[0]
        body, self._rest = self._rest[4:size], self._rest[size:]
        return body

    def send(self, kind: bytes, body: bytes = b"") -> None:
        try:
            self.end.sendall(kind + struct.pack(">I", len(body) + 4) + body)
        except OSError as error:
            raise Gone from error

    def _size(self) -> int:
        return int(struct.unpack(">I", self._rest[1:5])[0])

    def _more(self) -> None:
        try:
            data = self.end.recv(SIZE)
        except OSError as error:
            raise Gone from error
        if not data:
            raise Gone
        self._rest += data


class Upstream(Wire):
    """A connection to the server, and the statements that are prepared on it."""

    def __init__(self, path: str, database: str) -> None:
        end = socket.socket(socket.AF_UNIX)
        end.connect(path)
        super().__init__(end)
        self.prepared: set[bytes] = set()
        self.settings: list[bytes] = []
        named = b"user\0postgres\0database\0%b\0\0" % database.encode()
        end.sendall(struct.pack(">II", len(named) + 8, PROTOCOL) + named)
        while (found := self.message())[0] != READY:
            if found[0] == b"S":
                self.settings.append(found[1])


class Pooler:
    """Listens on a socket of its own. Leaving the block ends it."""

    def __init__(self, folder: Path, server: Path, database: str, *, connections: int) -> None:
        self.url = f"postgresql://postgres@/{database}?host={folder}"
        self.switches = 0  # how often a client got another connection than the last time
        path = str(server / f".s.PGSQL.{PORT}")
        self._free: queue.Queue[Upstream] = queue.Queue()  # in turns: nobody keeps its own
        self._all = [Upstream(path, database) for _ in range(connections)]
        for upstream in self._all:
            self._free.put(upstream)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / f".s.PGSQL.{PORT}"))
        self._listener.listen()
        self._clients: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> Pooler:
        self._threads[0].start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in (*self._clients, *(upstream.end for upstream in self._all)):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                end, _ = self._listener.accept()
                self._clients.append(end)
                thread = threading.Thread(target=self._serve, args=(_Client(Wire(end)),), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, client: _Client) -> None:
        with suppress(Gone, ValueError):
            if not client.greet(self._all[0].settings):
                return
            last: Upstream | None = None
            while True:
                first = client.wire.message()
                if first[0] == b"X":
                    break
                upstream = self._free.get()
                self.switches += last is not None and upstream is not last
                last = upstream
                client.transact(upstream, first)
                self._free.put(upstream)
        client.wire.end.close()


class _Client:
    """A client, and what it believes to have prepared."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self._statements: dict[bytes, bytes] = {}  # by its name for them: what follows the name in its Parse
        self._due: deque[tuple[bytes, bool]] = deque()  # answers to come, and whether the client hears of them
        self._open = 0  # Sync and Query messages that are not answered yet

    def greet(self, settings: list[bytes]) -> bool:
        body = self.wire.startup()
        while struct.unpack(">I", body[:4])[0] in REFUSED:
            self.wire.end.sendall(b"N")
            body = self.wire.startup()
        if struct.unpack(">I", body[:4])[0] != PROTOCOL:
            return False  # it wants to cancel something
        self.wire.send(b"R", struct.pack(">I", 0))
        for setting in settings:
            self.wire.send(b"S", setting)
        self.wire.send(b"K", struct.pack(">II", 1, 1))
        self.wire.send(READY, b"I")
        return True

    def transact(self, upstream: Upstream, first: tuple[bytes, bytes]) -> None:
        """Until the server says that no transaction is open, and everything is answered."""
        self._due.clear()
        self._open = 0
        self._forward(upstream, *first)
        for kind, body in self.wire.left():
            self._forward(upstream, kind, body)
        while True:
            ready, _, _ = select.select([self.wire.end, upstream.end], [], [])
            if self.wire.end in ready:
                for kind, body in self.wire.messages():
                    self._forward(upstream, kind, body)
            if upstream.end in ready:
                idle = False
                for kind, body in upstream.messages():
                    idle = self._answer(kind, body)
                if idle and not self._open:
                    return

    def _forward(self, upstream: Upstream, kind: bytes, body: bytes) -> None:
        if kind in (b"S", b"Q"):
            self._open += 1
            self._due.append((READY, True))
            if kind == b"Q" and b"DEALLOCATE" in body:
                upstream.prepared.clear()
                self._statements.clear()
        elif kind == b"P":
            name, rest = body.split(b"\0", 1)
            if name:
                self._statements[name] = rest
                self._prepare(upstream, rest, heard=True)
                return
            self._due.append((PARSED, True))
        elif kind == b"B":
            portal, name, rest = body.split(b"\0", 2)
            self._due_after_preparing(upstream, name)
            self._due.append((BOUND, True))
            body = b"\0".join((portal, self._place(name), rest))
        elif kind == b"D" and body[:1] == b"S":
            name = body[1:-1]
            self._due_after_preparing(upstream, name)
            body = b"S" + self._place(name) + b"\0"
        elif kind == b"C":
            self._due.append((CLOSED, True))
            if body[:1] == b"S":
                self._statements.pop(body[1:-1], None)
                body = b"Snobody has this\0"
        upstream.send(kind, body)

    def _due_after_preparing(self, upstream: Upstream, name: bytes) -> None:
        rest = self._statements.get(name)
        if rest is not None and _name_of(rest) not in upstream.prepared:
            self._prepare(upstream, rest, heard=False)

    def _prepare(self, upstream: Upstream, rest: bytes, *, heard: bool) -> None:
        name = _name_of(rest)
        if name in upstream.prepared:  # anew, so that the answer comes where the client waits for it
            upstream.send(b"C", b"S" + name + b"\0")
            self._due.append((CLOSED, False))
        upstream.prepared.add(name)
        upstream.send(b"P", name + b"\0" + rest)
        self._due.append((PARSED, heard))

    def _place(self, name: bytes) -> bytes:
        rest = self._statements.get(name)
        return name if rest is None else _name_of(rest)

    def _answer(self, kind: bytes, body: bytes) -> bool:
        """Hand an answer on, if the client shall hear of it; whether no transaction is open after it."""
        heard = True
        if kind in (PARSED, BOUND, CLOSED):
            _, heard = self._due.popleft()
        elif kind == READY:  # after a failure the server skips what stood before it
            while self._due.popleft()[0] != READY:
                continue
            self._open -= 1
        if heard:
            self.wire.send(kind, body)
        return kind == READY and body == b"I"


def _name_of(rest: bytes) -> bytes:
    return b"pooled_" + sha256(rest).hexdigest()[:24].encode()
