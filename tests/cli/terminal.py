"""A person at a terminal: the program on a pseudo-terminal of a given width, with keys pressed when words appear."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from typing import NamedTuple


class Seen(NamedTuple):
    """What was on the screen, and how the program ended."""

    screen: str
    code: int


def at_terminal(command: list[str], *, width: int = 80, keys: dict[str, str] | None = None, **environment: str) -> Seen:
    """Run it; as soon as each word of `keys` was printed, press what belongs to it."""
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored where a shell runs the tests in the background
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        os.execve(command[0], command, os.environ | {"TERM": "xterm", "THREADLINE_PAGER": ""} | environment)
    screen, waiting, until = b"", dict(keys or {}), time.monotonic() + 30
    while time.monotonic() < until:
        if not select.select([terminal], [], [], 0.05)[0]:
            continue
        try:
            read = os.read(terminal, 65536)
        except OSError:  # how a pseudo-terminal says that nobody is left
            break
        if not read:
            break
        screen += read
        for word in [word for word in waiting if word.encode() in screen]:
            os.write(terminal, waiting.pop(word).encode())
    else:
        os.kill(pid, 9)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    return Seen(screen.decode().replace("\r\n", "\n"), os.waitstatus_to_exitcode(status))
