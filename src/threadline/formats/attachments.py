"""Attachments: images, documents and sounds as providers carry them, in base64, data URLs or by address."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Sequence
from typing import Any

from threadline.messages import Media, Part, Text, ToolResult


def decoded(data: Any) -> bytes | None:
    """The bytes of base64 text; None where it is none."""
    if not isinstance(data, str):
        return None
    try:
        return b64decode(data, validate=True)
    except (NotBase64, ValueError):
        return None


def encoded(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def from_url(url: str, mime: str, name: str | None = None) -> Media | None:
    """What a URL shows: bytes for a data URL, else its address under the given type. None for a broken data URL."""
    if not url.startswith("data:"):
        return Media(mime, None, url, name)
    head, _, body = url[5:].partition(",")
    kind, _, encoding = head.partition(";")
    data = decoded(body) if encoding == "base64" else None
    return None if data is None else Media(kind, data, None, name)


def url_of(media: Media) -> str | None:
    """A URL that shows it: its address on the web, or a data URL."""
    if media.data is not None:
        return f"data:{media.mime};base64,{encoded(media.data)}"
    return media.uri if on_the_web(media) else None


def on_the_web(media: Media) -> bool:
    return media.uri is not None and media.uri.startswith(("https://", "http://"))


def is_image(media: Media) -> bool:
    return media.mime.startswith("image/")


def readable(output: str | Sequence[Part]) -> str:
    """What a tool returned as text: what it showed leaves a breadcrumb, what is not for reading nothing."""
    return output if isinstance(output, str) else "\n".join(filter(None, map(_told, output)))


def _told(part: Part) -> str:
    match part:
        case Text(text):
            return text
        case Media():
            return breadcrumb(part)
        case ToolResult(_, output):
            return readable(output)
    return ""


def breadcrumb(media: Media) -> str:
    """Text in the place of what cannot be sent: `[image: name]`."""
    kind = media.mime.partition("/")[0]
    where = media.uri if media.uri and not media.uri.startswith("data:") else None
    return (
        f"[{kind if kind in ('image', 'audio', 'video') else 'file'}: {media.name or where or media.mime or 'unnamed'}]"
    )
