"""A session as Markdown: to be read as it is, or on a page that renders it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from threadline import Media, Part, Reasoning, Session, Store, Text, ToolCall, ToolResult
from threadline.transcripts.conversations import the_one
from threadline.transcripts.masking import Mask
from threadline.transcripts.pages import Call, Fold, Page, Said, outputs, page_of

FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
CODE = re.compile(r"(`+[^`\n]{1,1000}`+)")
ROLES = {"user": "User", "assistant": "Assistant", "system": "System", "tool": "Tool"}


def pieces(what: Store | Iterable[Session], mask: Mask) -> Iterator[bytes]:
    page = page_of(the_one(what, "markdown"))
    for text in _page(page, 1):
        yield mask.text(text).encode("utf-8", "replace") + b"\n"


def _page(page: Page, level: int) -> Iterator[str]:
    info = page.info
    yield f"{'#' * min(level, 6)} {line(info.title or info.key or info.id)}\n"
    facts = {
        "session": info.id,
        "key": info.key,
        "agent": info.agent,
        "model": info.model,
        "folder": info.cwd,
        "tags": ", ".join(info.tags),
        "begun": f"{info.created_at:%Y-%m-%d %H:%M} UTC",
    }
    yield "".join(f"- {name}: {code(value)}\n" for name, value in facts.items() if value)
    if info.system:
        yield details("System prompt", fenced(info.system))
    for item in page.items:
        yield from _item(item, level + 1)
    for child in page.children:
        yield from _page(child, level + 1)
    if page.damaged:
        yield f"*Damaged, and left out: entries {', '.join(map(str, page.damaged))}.*\n"


def _item(item: Said | Fold, level: int) -> Iterator[str]:
    if isinstance(item, Fold):
        yield f"{'#' * min(level, 6)} Summary\n\n{prose(item.summary)}\n"
        originals = "\n".join(text for each in item.originals for text in _item(each, level + 1))
        if originals:
            yield details(f"What entry {item.entry.seq} stands for", originals)
        return
    role = ROLES.get(item.role, line(item.role))
    yield f"{'#' * min(level, 6)} {role} · {item.entry.at:%Y-%m-%d %H:%M:%S}\n"
    for part in item.parts:
        yield from _part(part, level)


def _part(part: Part | Call, level: int) -> Iterator[str]:
    match part:
        case Text(text):
            yield f"{prose(text)}\n"
        case Reasoning(text):
            yield details("Reasoning", fenced(text) if text else "*(encrypted)*\n")
        case Call(call, result, child):
            yield _called(call, result)
            if child is not None:
                yield from _page(child, level + 1)
        case ToolResult():
            yield details(f"Result of {code(part.call_id)}", _output(part))
        case ToolCall():
            yield _called(part, None)
        case Media():
            yield f"{_media(part)}\n"
        case _:
            yield fenced(json.dumps(part.raw, ensure_ascii=False, indent=2), "json")


def _called(call: ToolCall, result: ToolResult | None) -> str:
    args = call.args if isinstance(call.args, str) else json.dumps(call.args, ensure_ascii=False, indent=2)
    said = fenced(args, "json") if call.args else ""
    if result is None:
        return details(f"Tool {code(call.name)}: no result yet", said or "*(no arguments)*\n")
    return details(f"Tool {code(call.name)}{': failed' if result.error else ''}", said + _output(result))


def _output(result: ToolResult) -> str:
    return "".join(_media(piece) + "\n" if isinstance(piece, Media) else fenced(piece) for piece in outputs(result))


def _media(media: Media) -> str:
    size = f", {len(media.data):,} bytes" if media.data is not None else ""
    return f"*[{line(media.mime)}: {line(media.name or media.uri or 'without a name')}{size}]*"


def prose(text: str) -> str:
    """Markdown that somebody wrote, unable to do anything to the rest of the page: HTML in it is text, and a block of
    code that it does not end is ended."""
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        found = FENCE.match(line)
        if fence:
            fence = "" if found and found[1].startswith(fence) and not line.strip().strip(fence[0]) else fence
            lines.append(line)
        else:
            fence = found[1] if found else ""
            lines.append(line if found else "".join(map(_inert, CODE.split(line))))
    return "\n".join([*lines, fence] if fence else lines)


def _inert(piece: str) -> str:
    return piece if piece.startswith("`") else piece.replace("<", "&lt;")


def details(title: str, body: str) -> str:
    """Folded where HTML in Markdown is rendered. The title is ours, or code."""
    return f"<details><summary>{title}</summary>\n\n{body}\n</details>\n"


def fenced(text: str, language: str = "") -> str:
    """A block that nothing in the text ends: its fence is longer than any in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}\n"


def code(text: str) -> str:
    """A name in the line, which neither HTML nor Markdown can get out of."""
    return "<code>" + "".join(f"&#{ord(c)};" if c in "&<>`*_[]|\\~" else c for c in " ".join(text.split())) + "</code>"


def line(text: str) -> str:
    """On one line, and without HTML."""
    return " ".join(text.split()).replace("<", "&lt;")
