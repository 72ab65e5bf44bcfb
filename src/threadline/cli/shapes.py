"""What `--json` prints: one JSON document per line, in ASCII.

A command that lists prints one object per line; a command that reports prints one line. Names are those of the Python
API (`SessionInfo`, `Entry`, `Usage` and so on), times are ISO 8601 in UTC, bytes are base64. Names are only ever
added. ASCII, because then no stored text can do anything to a terminal; JSON readers give the characters back."""

from __future__ import annotations

from typing import Any


def line_of(thing: object) -> str:
    """Any value of the API, or a dict or list of them, as one line of JSON."""
    import json

    return json.dumps(built(thing), ensure_ascii=True, separators=(", ", ": ")).replace("\x7f", "\\u007f")


def built(thing: object) -> Any:
    """Plain dicts, lists, strings and numbers. What an object leaves out because it is the default stays out."""
    from msgspec import to_builtins

    return to_builtins(thing, str_keys=True)


def page_of(thing: object) -> str:
    """The same over several lines, for a person: letters as they are, what a terminal would obey escaped."""
    import json

    from threadline.cli.safe import escaped

    return escaped(json.dumps(built(thing), ensure_ascii=False, indent=2))
