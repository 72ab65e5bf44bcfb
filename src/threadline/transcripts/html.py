"""A session as one page of HTML that needs nothing else: no script, no font, no picture from outside.

Everything that was said is escaped. The page forbids itself, by its content security policy, all that it does not need:
scripts of any kind, frames, forms, and every request but that of a link that somebody clicks on."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from datetime import datetime
from hashlib import sha256
from pathlib import Path

from msgspec.structs import replace

from threadline import Media, Part, Reasoning, Session, SessionInfo, Store, Text, ToolCall, ToolResult
from threadline.transcripts.conversations import the_one
from threadline.transcripts.highlight import block, code, markdown, safe
from threadline.transcripts.masking import Mask
from threadline.transcripts.pages import Call, Fold, Page, Said, outputs, page_of

ROLES = {"user": "User", "assistant": "Assistant", "system": "System", "tool": "Tool"}
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
PREVIEW_CHARS = 90
SUFFIXES = "py sh yaml yml toml rb sql lua js ts tsx jsx go rs c h cpp java kt swift cs php json css"
LANGUAGES = {suffix: suffix for suffix in SUFFIXES.split()}
STYLE = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")


def pieces(what: Store | Iterable[Session], mask: Mask) -> Iterator[bytes]:
    page = page_of(the_one(what, "html"))
    writer = _Writer(mask)
    for text in writer.document(page):
        yield text.encode("utf-8", "replace")


class _Writer:
    def __init__(self, mask: Mask) -> None:
        self._mask = mask.text
        self._mask_value = mask.value

    def document(self, page: Page) -> Iterator[str]:
        title = safe(self._mask(_title(page.info)))
        style = b64encode(sha256(STYLE.encode()).digest()).decode()
        policy = f"default-src 'none'; style-src 'sha256-{style}'; img-src data:; base-uri 'none'; form-action 'none'"
        yield (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="referrer" content="no-referrer">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="generator" content="threadline">\n'
            f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        )
        yield f"<header>\n<h1>{title}</h1>\n{self._facts(page.info)}</header>\n"
        yield from self._page(page)
        yield "</main>\n</body>\n</html>\n"

    def _facts(self, info: SessionInfo) -> str:
        facts = {
            "Session": info.id,
            "Key": info.key,
            "Agent": info.agent,
            "Model": info.model,
            "Folder": info.cwd,
            "Tags": ", ".join(info.tags),
            "Begun": _time(info.created_at),
            "Changed": _time(info.updated_at),
            "Messages": f"{info.messages:,}",
            "Tokens": f"{info.tokens:,}",
            "Cost": None if not info.cost else f"{info.cost:,.4f}",
        }
        told = "".join(
            f"<div><dt>{name}</dt><dd>{safe(self._mask(value))}</dd></div>" for name, value in facts.items() if value
        )
        return f"<dl>{told}</dl>\n"

    # -- what was said -----------------------------------------------------------------------------------

    def _page(self, page: Page) -> Iterator[str]:
        if page.info.system:
            yield folded("system", "System prompt", block(self._mask(page.info.system), "text"))
        for item in page.items:
            yield from self._item(item)
        for child in page.children:
            yield self._child(child)
        remarks = [f"Entries {', '.join(map(str, page.damaged))} are damaged and left out."] if page.damaged else []
        if page.unseen:
            entries = "1 entry of the log is" if page.unseen == 1 else f"{page.unseen:,} entries of the log are"
            remarks.append(f"{entries} not part of this view: rewound, cleared or notes.")
        for remark in remarks:
            yield f'<p class="remark">{remark}</p>\n'

    def _item(self, item: Said | Fold) -> Iterator[str]:
        if isinstance(item, Fold):
            yield self._folded(item)
            return
        role = item.role if item.role in ROLES else "other"
        yield (
            f'<section class="said {role}" id="e{item.entry.seq}">\n<div class="who"><span class="role">'
            f'{ROLES.get(item.role) or safe(item.role)}</span><a href="#e{item.entry.seq}" class="seq">'
            f'{item.entry.seq}</a><time datetime="{item.entry.at.isoformat()}">{_time(item.entry.at)}</time></div>\n'
        )
        for part in item.parts:
            yield self._part(part)
        yield "</section>\n"

    def _folded(self, fold: Fold) -> str:
        originals = "".join(text for item in fold.originals for text in self._item(item))
        count = fold.covers
        held = folded("originals", f"{count} folded {'entry' if count == 1 else 'entries'}", originals) if count else ""
        return (
            f'<section class="said fold" id="e{fold.entry.seq}">\n<div class="who"><span class="role">Summary</span>'
            f'<a href="#e{fold.entry.seq}" class="seq">{fold.entry.seq}</a>'
            f'<time datetime="{fold.entry.at.isoformat()}">{_time(fold.entry.at)}</time></div>\n'
            f'<div class="text">{markdown(self._mask(fold.summary))}</div>\n{held}</section>\n'
        )

    def _part(self, part: Part | Call) -> str:
        match part:
            case Text(text):
                return f'<div class="text">{markdown(self._mask(text))}</div>\n'
            case Reasoning(text):
                said = f'<div class="text">{markdown(self._mask(text))}</div>' if text else "<p>Encrypted.</p>"
                return folded("reasoning", "Reasoning", said)
            case Call(call, result, child):
                return self._call(call, result) + ("" if child is None else self._child(child))
            case ToolCall():
                return self._call(part, None)
            case ToolResult():
                return folded("call", f"Result of <code>{safe(self._mask(part.call_id))}</code>", self._output(part))
            case Media():
                return self._media(part)
            case _:
                return block(self._mask(_json(part.raw)), "json")

    def _call(self, call: ToolCall, result: ToolResult | None) -> str:
        call = replace(call, args=self._mask_value(call.args))
        hint = self._mask(_hint(call))
        state = "open" if result is None else "failed" if result.error else "done"
        shown = self._arguments(call) if call.args else ""
        title = (
            f'<span class="tool">{safe(self._mask(call.name))}</span><span class="hint">{safe(hint)}</span>'
            f'<span class="state">{ {"open": "no result", "failed": "failed", "done": ""}[state] }</span>'
        )
        return folded(f"call {state}", title, shown + ("" if result is None else self._output(result, _language(call))))

    def _arguments(self, call: ToolCall) -> str:
        """As JSON; texts of several lines, such as an edit, each by itself: nobody reads them with escapes."""
        if isinstance(call.args, str):
            return block(self._mask(call.args), "text")
        long = {name: text for name, text in call.args.items() if isinstance(text, str) and "\n" in text.strip()}
        rest = {name: value for name, value in call.args.items() if name not in long}
        told = [block(self._mask(_json(rest)), "json")] if rest else []
        for name, text in long.items():
            told += (f'<p class="remark">{safe(self._mask(name))}</p>', block(self._mask(text), _language(call)))
        return "".join(told)

    def _output(self, result: ToolResult, language: str = "text") -> str:
        return "".join(
            self._media(piece) if isinstance(piece, Media) else self._printed(self._mask(piece), language)
            for piece in outputs(result)
        )

    def _printed(self, text: str, language: str) -> str:
        if not text.strip():
            return '<p class="remark">No output.</p>'
        if text.startswith(("diff --git", "--- ")) and "\n@@ " in text:
            language = "diff"
        return f'<div class="code output"><pre><code>{code(text, language)}</code></pre></div>'

    def _media(self, media: Media) -> str:
        name = safe(self._mask(media.name or media.uri or media.mime))
        if media.data is not None and media.mime in PICTURES:
            source = f"data:{media.mime};base64,{b64encode(media.data).decode()}"
            return f'<p class="media"><img alt="{name}" src="{source}"></p>\n'
        size = f", {len(media.data):,} bytes" if media.data is not None else ""
        return f'<p class="media">[{safe(media.mime)}: {name}{size}]</p>\n'

    def _child(self, page: Page) -> str:
        inside = self._facts(page.info) + "".join(self._page(page))
        agent = safe(self._mask(page.info.agent or _title(page.info)))
        count = f"{page.info.messages:,} messages"
        return folded("child", f'<span class="tool">Sub-agent {agent}</span><span class="hint">{count}</span>', inside)


def folded(kind: str, title: str, body: str) -> str:
    """Something to open. Both are HTML already."""
    return f'<details class="{kind}"><summary>{title}</summary>\n<div class="inside">{body}</div></details>\n'


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _language(call: ToolCall) -> str:
    """Of what a call returns, as far as the name of a file among its arguments tells."""
    values = [] if isinstance(call.args, str) else [value for value in call.args.values() if isinstance(value, str)]
    paths = [value for value in values if len(value.split()) == 1]  # a command may end like a file, and is none
    return next((LANGUAGES[suffix] for path in paths if (suffix := path.rpartition(".")[2]) in LANGUAGES), "text")


def _hint(call: ToolCall) -> str:
    """What tells one call of a tool from the next, on one line."""
    if isinstance(call.args, str):
        said = call.args
    else:
        said = next((value for value in call.args.values() if isinstance(value, str) and value.strip()), "")
    one_line = " ".join(said.split())
    return one_line if len(one_line) <= PREVIEW_CHARS else one_line[: PREVIEW_CHARS - 1] + "…"


def _title(info: SessionInfo) -> str:
    return info.title or info.key or info.id


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"
