"""Markdown and code as HTML, safely: every character of the text is escaped, and only tags of ours are around it.

Small on purpose. It renders what models write most (paragraphs, headings, lists, tables, quotes, code, links) and
colours comments, strings, numbers and words of common languages; whatever it does not know stays readable as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

# What would be invisible, or turn the text around it: shown, instead of working.
_SHOWN: dict[int, str] = (
    {code: chr(0x2400 + code) for code in range(32) if code not in (9, 10)}
    | {0x7F: "␡"}
    | {code: f"[U+{code:04X}]" for code in (*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF)}
    | dict.fromkeys((*range(55296, 57344), 65534, 65535), "�")
)


def safe(text: str) -> str:
    """The text for HTML, in an element or in a quoted attribute."""
    return escape(text.replace("\r\n", "\n").translate(_SHOWN), quote=True)


# -- code ----------------------------------------------------------------------------------------------

_WORDS = """
    abstract and as assert async await bool break case catch char class const continue crate def
    defer del do double elif else enum esac except export extends extern false False fi
    final finally float fn for from func function global go goto if impl implements import in include
    int interface is lambda let long loop match mod module mut namespace new nil None nonlocal not null
    or package pass private protected pub public raise readonly ref return self Self short sizeof static
    str struct super switch then this throw throws trait true True try type typedef undefined
    union unless unsafe unsigned until use using var void volatile where while with yield SELECT FROM
    WHERE INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE INDEX JOIN ON AND OR NOT NULL ORDER BY GROUP
    LIMIT
""".split()  # noqa: SIM905 - a list of words is read more easily as text
_HASH = {
    "",
    "python",
    "py",
    "bash",
    "sh",
    "shell",
    "zsh",
    "yaml",
    "yml",
    "toml",
    "ruby",
    "rb",
    "perl",
    "r",
    "make",
    "console",
}
_DASHES = {"sql", "lua", "haskell", "hs"}
_PLAIN = {"text", "txt", "plain", "output", "log", "markdown", "md"}


def _tokens(comment: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?P<c>{comment})"
        r"|(?P<s>'''[\s\S]{0,20000}?'''|\"\"\"[\s\S]{0,20000}?\"\"\"|\"(?:[^\"\\\n]|\\.){0,5000}\"|'(?:[^'\\\n]|\\.){0,5000}'|`[^`\n]{0,5000}`)"
        r"|(?P<n>\b(?:0[xX][0-9a-fA-F]+|[0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\b)"
        rf"|(?P<k>\b(?:{'|'.join(sorted(_WORDS, key=len, reverse=True))})\b)"
        r"|(?P<f>\b[A-Za-z_]\w{0,80}(?=\())"
    )


_SLASHES = _tokens(r"//[^\n]*|/\*[\s\S]{0,20000}?\*/")
_LINES = {"hash": _tokens(r"(?:(?<=\s)|^)\#[^\n]*"), "dash": _tokens(r"--[^\n]*"), "slash": _SLASHES}
_DIFF = re.compile(r"^(?P<d>-[^\n]*)|^(?P<a>\+[^\n]*)|^(?P<c>@@[^\n]*)", re.MULTILINE)


def code(text: str, language: str = "") -> str:
    """Code as HTML, coloured."""
    name = language.lower()
    if name in _PLAIN or len(text) > 200_000:
        return safe(text)
    if name in ("diff", "patch"):
        return _coloured(_DIFF, text)
    return _coloured(_LINES["hash" if name in _HASH else "dash" if name in _DASHES else "slash"], text)


def _coloured(tokens: re.Pattern[str], text: str) -> str:
    out: list[str] = []
    done = 0
    for found in tokens.finditer(text):
        kind = found.lastgroup or "c"
        out += (safe(text[done : found.start()]), f'<span class="{kind}">', safe(found[0]), "</span>")
        done = found.end()
    return "".join((*out, safe(text[done:])))


def block(text: str, language: str = "") -> str:
    label = f'<span class="lang">{safe(language[:30])}</span>' if language else ""
    return f'<div class="code">{label}<pre><code>{code(text, language)}</code></pre></div>'


# -- Markdown ------------------------------------------------------------------------------------------

_FENCE = re.compile(r"^( {0,3})(`{3,}|~{3,})\s*([\w+#.-]*)[^\n`]*$")
_HEADING = re.compile(r"^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
_BULLET = re.compile(r"^(\s*)([-*+]|[0-9]{1,9}[.)])\s+(.*)$")
_RULE = re.compile(r"^ {0,3}(?:-\s*){3,}$|^ {0,3}(?:\*\s*){3,}$|^ {0,3}(?:_\s*){3,}$")
_DIVIDER = re.compile(r"^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$")
_INLINE = re.compile(
    r"(?P<ticks>`+)(?P<code>[^\n]{1,2000}?)(?P=ticks)(?!`)"
    r"|\*\*(?P<bold>\S(?:[^*\n]{0,500}\S)?)\*\*"
    r"|(?<![\w*])\*(?P<italic>[^\s*](?:[^*\n]{0,500}[^\s*])?)\*(?![\w*])"
    r"|~~(?P<gone>[^~\n]{1,500})~~"
    r"|\[(?P<label>[^\]\n]{1,500})\]\((?P<to>https?://[^\s)]{1,2000})\)"
    r"|(?P<url>https?://[^\s<>\"'`)\]]{1,2000}(?<![.,;:!?*_]))"  # what ends a sentence is no part of it
)


def markdown(text: str) -> str:
    """Markdown as HTML."""
    return "".join(_blocks(text.replace("\r\n", "\n").split("\n")))


def _blocks(lines: list[str]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        line = lines[at]
        if found := _FENCE.match(line):
            end = _fence_end(lines, at, found[2])
            yield block("\n".join(lines[at + 1 : end]), found[3])
            at = end + 1
        elif not line.strip():
            at += 1
        elif found := _HEADING.match(line):
            level = min(6, len(found[1]) + 2)
            yield f"<h{level}>{inline(found[2])}</h{level}>"
            at += 1
        elif _RULE.match(line):
            yield "<hr>"
            at += 1
        elif line.lstrip().startswith(">"):
            end = _while(lines, at, lambda each: each.lstrip().startswith(">"))
            quoted = [re.sub(r"^\s*> ?", "", each) for each in lines[at:end]]
            yield f"<blockquote><p>{'<br>'.join(map(inline, quoted))}</p></blockquote>"
            at = end
        elif "|" in line and at + 1 < len(lines) and "|" in lines[at + 1] and _DIVIDER.match(lines[at + 1]):
            end = _while(lines, at + 2, lambda each: "|" in each)
            yield _table([line, *lines[at + 2 : end]])
            at = end
        elif _BULLET.match(line):
            end = _while(lines, at, lambda each: bool(_BULLET.match(each) or (each.startswith("  ") and each.strip())))
            yield _list(lines[at:end])
            at = end
        else:
            end = max(at + 1, _while(lines, at, _is_text))
            yield f"<p>{'<br>'.join(map(inline, lines[at:end]))}</p>"
            at = end


def _fence_end(lines: list[str], at: int, fence: str) -> int:
    for end in range(at + 1, len(lines)):
        bare = lines[end].strip()
        if bare.startswith(fence) and not bare.strip(fence[0]):
            return end
    return len(lines)


def _while(lines: list[str], at: int, holds: object) -> int:
    assert callable(holds)
    while at < len(lines) and holds(lines[at]):
        at += 1
    return at


def _is_text(line: str) -> bool:
    return bool(line.strip()) and not (_FENCE.match(line) or _HEADING.match(line) or _BULLET.match(line))


def _table(rows: list[str]) -> str:
    cells = [[cell.strip() for cell in row.strip().strip("|").split("|")] for row in rows]
    head = "".join(f"<th>{inline(cell)}</th>" for cell in cells[0])
    body = "".join("<tr>" + "".join(f"<td>{inline(cell)}</td>" for cell in row) + "</tr>" for row in cells[1:])
    return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _list(lines: list[str]) -> str:
    """A list, flat or nested, each item indented by how far it stands from the left."""
    items: list[tuple[int, str, str]] = []
    for line in lines:
        if found := _BULLET.match(line):
            items.append((min(len(found[1].expandtabs(4)) // 2, 6), found[2], inline(found[3])))
        elif items:
            depth, mark, said = items[-1]
            items[-1] = (depth, mark, f"{said}<br>{inline(line.strip())}")
    marks = (safe(mark) if mark[0].isdigit() else "•" for _, mark, _ in items)
    told = (
        f'<li class="in{depth}"><span class="mark">{mark}</span><span>{said}</span></li>'
        for mark, (depth, _, said) in zip(marks, items, strict=True)
    )
    return f"<ul>{''.join(told)}</ul>"


def inline(text: str) -> str:
    """Emphasis, code and links in a line; everything else escaped."""
    out: list[str] = []
    done = 0
    for found in _INLINE.finditer(text):
        out += (safe(text[done : found.start()]), _inline(found))
        done = found.end()
    return "".join((*out, safe(text[done:])))


def _inline(found: re.Match[str]) -> str:
    if found["code"] is not None:
        return f"<code>{safe(found['code'].strip())}</code>"
    for name, tag in (("bold", "strong"), ("italic", "em"), ("gone", "del")):
        if found[name] is not None:
            return f"<{tag}>{safe(found[name])}</{tag}>"
    url = found["to"] or found["url"]
    return f'<a href="{safe(url)}" rel="noopener noreferrer nofollow">{safe(found["label"] or url)}</a>'
