"""A real PgBouncer in front of a server of ours, where one is installed.

    with PgBouncer(Path(folder), server.folder, mode="transaction") as pooler:
        store = threadline.open(pooler.url("postgres"))

PgBouncer refuses to run as root: there it runs as `nobody`, in a folder made for it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psycopg

PORT = 6432
START_S = 30.0

_SETTINGS = """
[databases]
* = host={server} port=5432 user=postgres

[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
listen_port = {port}
auth_type = any
pool_mode = {mode}
default_pool_size = {connections}
max_client_conn = 200
logfile = {folder}/log
pidfile = {folder}/pid
"""


def installed() -> bool:
    return _program() is not None


def version() -> tuple[int, ...]:
    """Of the PgBouncer that is installed, as in (1, 21, 0)."""
    said = subprocess.run([_program() or "pgbouncer", "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(map(int, said.split()[1].split(".")))


def _program() -> str | None:
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


class PgBouncer:
    """One pooler, on a Unix socket in its folder. Leaving the block ends it. `settings` are lines of its own."""

    def __init__(
        self, folder: Path, server: Path, *, mode: str = "transaction", connections: int = 3, settings: str = ""
    ) -> None:
        self.folder = folder
        known = {"server": server, "folder": folder, "port": PORT, "mode": mode, "connections": connections}
        (folder / "ini").write_text(_SETTINGS.format(**known) + settings)

    def __enter__(self) -> PgBouncer:
        user = "nobody" if os.geteuid() == 0 else None
        if user:
            self.folder.chmod(0o777)
        self._process = subprocess.Popen(
            [_program() or "pgbouncer", "-q", str(self.folder / "ini")], user=user, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + START_S
        while not (self.folder / f".s.PGSQL.{PORT}").exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PgBouncer did not start; its log:\n{(self.folder / 'log').read_text()}")
            time.sleep(0.02)
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(START_S)

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}&port={PORT}"

    def show(self, what: str) -> list[tuple[object, ...]]:
        """What its console says, as in show("SERVERS")."""
        with psycopg.connect(self.url("pgbouncer"), autocommit=True) as console:
            return console.cursor(row_factory=psycopg.rows.tuple_row).execute(f"SHOW {what}".encode()).fetchall()
