"""A line between a store and its PostgreSQL server that counts round trips, is slow, or is cut at the worst moment."""

from __future__ import annotations

import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from time import monotonic

PORT = 5432
SIZE = 1 << 16


class Proxy:
    """Listens on a socket of its own and hands everything on. Leaving the block ends it."""

    def __init__(self, folder: Path, server: Path) -> None:
        self.folder = folder
        self.trips = 0  # how often a client spoke after the server did
        self.delay_s = 0.0  # how long everything takes from one end to the other
        self.cuts: Callable[[], bool] = lambda: False  # asked before each answer: whether the line is cut instead of it
        self._late: deque[tuple[float, socket.socket, socket.socket, bytes]] = deque()
        self._server = str(server / f".s.PGSQL.{PORT}")
        self._swallow = 0
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / f".s.PGSQL.{PORT}"))
        self._listener.listen()
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._wake, waking = socket.socketpair()
        self._selector.register(waking, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._wake.close()
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def lose_answers(self, count: int = 1) -> None:
        """Of the next so many answers, none reaches its client: the line is cut instead, after the server was done."""
        self._swallow = count

    def _work(self) -> None:
        speaking: dict[socket.socket, bool] = {}  # by client: whether it spoke last
        while True:
            for key, _ in self._selector.select(self._deliver()):
                if key.fd not in self._selector.get_map():  # cut off a moment ago
                    continue
                if key.fileobj is self._listener:
                    self._connect()
                elif key.data is None:
                    return
                else:
                    self._hand_on(key.fileobj, key.data, speaking)  # type: ignore[arg-type]

    def _connect(self) -> None:
        client, _ = self._listener.accept()
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._server)
        self._selector.register(client, selectors.EVENT_READ, (server, client, True))
        self._selector.register(server, selectors.EVENT_READ, (client, client, False))

    def _hand_on(
        self, source: socket.socket, way: tuple[socket.socket, socket.socket, bool], speaking: dict[socket.socket, bool]
    ) -> None:
        target, client, from_client = way
        try:
            data = source.recv(SIZE)
        except OSError:
            data = b""
        if not data:
            self._cut(source, target)
            return
        if from_client and not speaking.get(client):
            self.trips += 1
        speaking[client] = from_client
        if not from_client and (self._swallow or self.cuts()):
            self._swallow = max(0, self._swallow - 1)
            self._cut(source, target)
            return
        self._late.append((monotonic() + self.delay_s, source, target, data))

    def _deliver(self) -> float | None:
        """Hand on what has been under way for long enough; how long until the next is due."""
        while self._late and (wait_s := self._late[0][0] - monotonic()) <= 0:
            _, source, target, data = self._late.popleft()
            try:
                target.sendall(data)
            except OSError:
                self._cut(source, target)
        return wait_s if self._late else None

    def _cut(self, *ends: socket.socket) -> None:
        for end in ends:
            if end.fileno() >= 0:
                self._selector.unregister(end)
                end.close()
