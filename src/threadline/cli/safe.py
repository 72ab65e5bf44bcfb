"""Text that was stored by somebody, made safe to print.

Whatever a model, a tool or a web page said ends up in a store, and from there on a terminal. There a control character
is a command: it can clear the screen, change the title, answer for the user, or, by turning the direction of writing,
show one thing and mean another. So each of them is shown as what it is, and does nothing."""

from __future__ import annotations

import re

# Control pictures for what has one (ESC is ␛), code points for the rest.
_DANGEROUS = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f"  # control characters but tab and newline
    "\x80-\x9f"  # those of eight bits: CSI, OSC and their kin in one character
    "\xad\u061c\u180e\u200b\u200e\u200f"  # invisible, and marks of direction
    "\u2028-\u202e\u2060-\u206f"  # separators of lines, embeddings, overrides and isolates of direction
    "\ufeff\ufff9-\ufffb"  # byte order mark, interlinear annotation
    "\ud800-\udfff"  # halves of a pair, which no terminal can be sent
    "\U000e0000-\U000e007f"  # tags: invisible letters
    "]"
)
_BREAKS = re.compile(r"\s*\n\s*")


def plain(text: str) -> str:
    """The text with nothing in it that a terminal would obey. Newlines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return _DANGEROUS.sub(_shown, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """The same on one line: a title, a key, a cell of a table."""
    return _BREAKS.sub(" ", plain(text)).replace("\t", " ").strip()


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"<U+{code:04X}>"


def escaped(json_text: str) -> str:
    r"""JSON with nothing in it that a terminal would obey, and still the same JSON: `\u202e` as an escape."""
    return _DANGEROUS.sub(_as_json, json_text)


def _as_json(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[n]:02x}{units[n + 1]:02x}" for n in range(0, len(units), 2))
