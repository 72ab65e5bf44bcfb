"""Other tools' files on disk, and our own: read into a store, and written from a session.

Each format is one module with up to three functions: `claims(source)` says whether a file or folder is its own,
`bring(source, desk)` reads it, and `write(session, path, mask)` writes; or `pieces(sessions or store, mask)` makes
what one file holds. Which formats there are stands in FORMATS; a module is imported when it is needed. Everything here
uses the public API only."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from threadline import InvalidArgument, Memory, NotFound, Session, Store, ThreadlineError
from threadline.transcripts.desk import Desk, ImportReport
from threadline.transcripts.masking import mask_for
from threadline.transcripts.output import write_pieces
from threadline.transcripts.sources import Problem, Refused, Source, walk

__all__ = ["Format", "ImportReport", "Problem", "WriteReport", "formats", "read", "write"]


class Format(Struct, frozen=True):
    """A format by its name: whether it can be read, whether it can be written, and what it is."""

    name: str
    reads: bool
    writes: bool
    about: str
    module: str


class WriteReport(Struct, frozen=True):
    """What an export did: how many secrets were `masked`, by their kind."""

    masked: dict[str, int] = {}


# In the order in which they are asked whether a file is theirs: what is told by a name before what is guessed.
_ALL = (
    Format("jsonl", True, True, "our own: everything, exactly", "jsonl"),
    Format("power-loop", True, True, "power-loop: a SQLite file of sessions; written for 2.0 and later", "power_loop"),
    Format("power-loop-1", False, True, "the same as power-loop 0.2 and 1.x read it", "power_loop_1"),
    Format("mycode", True, True, "mycode: a folder per session", "mycode"),
    Format("nanobot", True, True, "nanobot: a JSONL file per session, and its workspace", "nanobot"),
    Format("mnemo", True, True, "mnemo: a tree of files with a project's working memory", "mnemo"),
    Format("openai", True, True, "one conversation as OpenAI's Chat Completions take it", "openai"),
    Format("anthropic", True, True, "one conversation as Anthropic's Messages take it", "anthropic"),
    Format("markdown", False, True, "one conversation to be read", "markdown"),
    Format("html", False, True, "one conversation as a page to be read, without scripts", "html"),
)
FORMATS = {format.name: format for format in _ALL}


def formats() -> list[Format]:
    """Every format, with whether it reads and writes."""
    return list(FORMATS.values())


def read(
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    store: Store,
    project: str | None = None,
    dry_run: bool = False,
    progress: Callable[[ImportReport], None] | None = None,
) -> ImportReport:
    """Bring a file, or all that a folder holds, into the store. The source is only read.

    The format is recognised unless it is given. Importing again adds only what is new: a source that grew is
    continued, one that was rewritten becomes a fork, and the report says so. What cannot be read is reported with its
    place and set aside. `dry_run` reports and writes nothing. `progress` is called now and then with the report as
    it is so far. Raises NotFound if there is nothing at `path`, and InvalidArgument for a file in no known format."""
    top = Path(os.path.expanduser(os.fspath(path)))
    if not isinstance(store, Store):
        raise InvalidArgument(f"store is a Store, which threadline.open(path) gives, not {type(store).__name__}")
    desk = Desk(store, project=project, dry_run=dry_run)
    wanted = [_format(format)] if format is not None else [found for found in FORMATS.values() if found.reads]
    if format is not None and not wanted[0].reads:
        raise InvalidArgument(f"{format} can only be written: {_names('reads')} can be read")
    if not os.path.lexists(top):
        raise NotFound("file or folder", str(path))
    for source, module in _claimed(top, wanted, desk):
        if progress is not None:
            source.on_read = _reading(desk, progress)
        _bring(source, module, desk)
        if progress is not None:
            progress(desk.report())
    return desk.report()


def write(
    session: Session | Iterable[Session] | Store | Memory,
    path: str | os.PathLike[str] | BinaryIO,
    format: str,
    *,
    raw: bool = False,
) -> WriteReport:
    """Write a session to `path` in that format. Secrets are masked unless `raw`; docs/transcripts.md lists which.

    Several sessions, or all of a store, go into one file, where the format has room for them; mnemo takes a memory. A
    file that was there is replaced, when the new one is whole. `path` may also be a stream of bytes."""
    wanted = _format(format)
    if not wanted.writes:
        raise InvalidArgument(f"{format} can only be read: {_names('writes')} can be written")
    module, target = _module(wanted), path if hasattr(path, "write") else Path(os.path.expanduser(os.fspath(path)))
    mask = mask_for(raw)
    if isinstance(session, str):
        raise InvalidArgument(f"session is a Session, which store.get({session!r}) gives, not a string")
    if hasattr(module, "write_memory"):
        if not isinstance(session, Memory) or not isinstance(target, Path):
            raise InvalidArgument(f"{format} takes a memory, store.memory(project), and a path")
        module.write_memory(session, target, mask, raw=raw)
    elif isinstance(session, Memory):
        raise InvalidArgument(f"{format} takes sessions: mnemo takes a memory, and jsonl a whole store")
    elif hasattr(module, "pieces"):
        if isinstance(target, Path):
            _check_place(target)
        what = [session] if isinstance(session, Session) else session
        write_pieces(target, module.pieces(what, mask))
    elif isinstance(session, Session) and isinstance(target, Path):
        module.write(session, target, mask)
    else:
        raise InvalidArgument(f"{format} takes one session, and a path: export one after the other")
    return WriteReport(dict(mask.found))


def _check_place(target: Path) -> None:
    if not target.parent.is_dir():
        raise NotFound("folder", str(target.parent), "make it first, or choose another path")
    if target.is_dir():
        raise InvalidArgument(f"{target} is a folder: name a file in it")


def _reading(desk: Desk, progress: Callable[[ImportReport], None]) -> Callable[[int], None]:
    """Tells, while a source is read, how many bytes of it were."""

    def told(bytes_read: int) -> None:
        now = desk.report()
        progress(replace(now, bytes_read=now.bytes_read + bytes_read))

    return told


# -- which format reads what ---------------------------------------------------------------------------


def _claimed(top: Path, wanted: list[Format], desk: Desk) -> Iterator[tuple[Source, ModuleType]]:
    """Each source under `top` with the module of its format; a folder that is claimed is not walked any further."""
    modules = [_module(format) for format in wanted]
    found = 0
    for source in walk(top, desk.problem):
        module = next((module for module in modules if _claims(module, source)), None)
        if module is not None:
            found += 1
            source.claimed = True
            yield source, module
        elif source.path == top and not source.is_folder:
            source.check()
            raise InvalidArgument(f"{top} is in no format that we read{_asked(wanted)}: {_names('reads')}")
        elif source.is_log:
            desk.unknown(source)
    if not found:
        desk.problem(Problem(str(top), 0, 0, f"nothing here that we can read{_asked(wanted)}"))


def _claims(module: ModuleType, source: Source) -> bool:
    """Whether it is the format's own; what cannot be opened is nobody's."""
    try:
        return bool(module.claims(source))
    except (OSError, Refused):
        return False


def _bring(source: Source, module: ModuleType, desk: Desk) -> None:
    """One source that fails never keeps the others out; what is imported of it by then is whole, and said."""
    try:
        module.bring(source, desk)
    except (ThreadlineError, OSError) as error:
        desk.problem(Problem(str(source.path), 0, 0, f"not imported whole: {error}"))
    except Refused as refused:
        desk.problem(Problem(str(refused.path), 0, 0, str(refused)))
    finally:
        desk.settle(source)


def _format(name: str) -> Format:
    if name not in FORMATS:
        raise InvalidArgument(f"no format {name!r}: there are {', '.join(FORMATS)}")
    return FORMATS[name]


def _module(format: Format) -> Any:
    return import_module(f"threadline.transcripts.{format.module}")


def _names(what: str) -> str:
    return ", ".join(_said(format for format in FORMATS.values() if getattr(format, what)))


def _said(found: Iterable[Format]) -> list[str]:
    return [format.name for format in found]


def _asked(wanted: list[Format]) -> str:
    return f" as {wanted[0].name}" if len(wanted) == 1 else ""
