"""Message JSON of providers: one conversation as their APIs take it, read and written. `openai` and `anthropic` are so.

Written is what the model sees, as `threadline.formats` writes it: a call that is still open stays open. What is ready
to be sent, mended and within a budget, is `session.context(format=…)`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from threadline import InvalidArgument, InvalidMessage, Message, Session, Store, formats
from threadline.transcripts.desk import Desk, Origin
from threadline.transcripts.masking import Mask
from threadline.transcripts.sources import Source, decode
from threadline.transcripts.timeline import Timeline

SIZE_MAX = 2**28  # of a document: it is held in memory
FIRST_BYTES = 2**16  # of a document: one of its first messages begins there, or it is none


# -- writing -------------------------------------------------------------------------------------------


def pieces(what: Store | Iterable[Session], mask: Mask, format: str) -> Iterator[bytes]:
    """One JSON document for one session."""
    document = document_of(the_one(what, format), format)
    yield json.dumps(_plain(mask.value(document)), ensure_ascii=False, indent=2).encode("utf-8", "replace") + b"\n"


def the_one(what: Store | Iterable[Session], format: str) -> Session:
    sessions = [] if isinstance(what, Store) else [*what]
    if len(sessions) != 1:
        raise InvalidArgument(f"{format} takes one session in one file: jsonl takes several, and whole stores")
    return sessions[0]


def document_of(session: Session, format: str) -> dict[str, Any]:
    info, messages = session.info, session.messages()
    rest = info.meta.get(format)
    document: dict[str, Any] = dict(rest) if isinstance(rest, dict) else {}
    if info.model is not None:
        document["model"] = info.model
    if format == "anthropic":
        leading = [message.text for message in messages if message.role == "system"]
        messages = [message for message in messages if message.role != "system"]
        if (system := document.get("system", "\n\n".join(filter(None, [info.system, *leading])))) != "":
            document["system"] = system
    elif info.system is not None:
        messages = [Message.system(info.system), *messages]
    return document | {"messages": formats.write(messages, format)}


def _plain(value: Any) -> Any:
    """Without what UTF-8 cannot carry: providers refuse a lone surrogate."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return {_plain(name): _plain(each) for name, each in value.items()} if isinstance(value, dict) else value


# -- reading -------------------------------------------------------------------------------------------


def claims(source: Source, format: str) -> bool:
    """Whether a file is a document of messages of that provider, and not of the other."""
    if source.is_folder or source.path.suffix != ".json":
        return False
    document = _document(source)
    messages = None if document is None else document["messages"]
    if not messages or not all(isinstance(message, dict) and "role" in message for message in messages):
        return False
    told = {formats.guess(message, otherwise="") for message in messages} - {""}
    other = "anthropic" if document and "system" in document else "openai"
    return format == (next(iter(told)) if len(told) == 1 else other)


def bring(source: Source, desk: Desk, format: str) -> None:
    document = _document(source)
    source.check()
    source.count(source.path, source.path.lstat().st_size)
    if document is None:
        source.report(source.path, 0, source.bytes_read, f"no JSON of messages as {format} has them")
        return
    rest = {name: value for name, value in document.items() if name not in ("messages", "model")}
    system, model = document.get("system"), document.get("model")
    origin = Origin(
        format=format,
        name=str(source.path.resolve()),
        model=model if isinstance(model, str) else None,
        system=system if isinstance(system, str) else None,
        provider=format,
        meta={format: rest} if rest else {},
    )
    desk.bring(origin, source.path, lambda timeline: _tell(timeline, document["messages"], source, format))


def _tell(timeline: Timeline, messages: list[Any], source: Source, format: str) -> None:
    for number, raw in enumerate(messages):
        try:
            (message,) = formats.read([raw], format)
            timeline.append(message)
        except InvalidMessage as error:
            source.report(source.path, 0, len(json.dumps(raw).encode()), f"message {number} is set aside: {error}")


def _document(source: Source) -> dict[str, Any] | None:
    """The object around the messages; a bare list of messages is one without anything else."""
    if b'"role"' not in source.magic(FIRST_BYTES):  # a quick look: folders are full of JSON
        return None
    body = source.magic(SIZE_MAX + 1)
    if len(body) > SIZE_MAX:
        return None
    try:
        found = decode(body)
    except ValueError:
        return None
    document = {"messages": found} if isinstance(found, list) else found
    return document if isinstance(document, dict) and isinstance(document.get("messages"), list) else None
