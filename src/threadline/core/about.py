"""What is said of a session, beside its log: title, tags, folder and so on, and how that changes."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from threadline.core import codec
from threadline.messages import Message, Text

EPHEMERAL, LINKED, DETACHED = LIFECYCLES = ("ephemeral", "linked", "detached")

TITLE_CHARS = 48
PREVIEW_CHARS = 120


class About(Struct, frozen=True, omit_defaults=True):
    title: str | None = None
    titled_by: str | None = None  # "person" or "machine"; None while the opening words are the title
    preview: str | None = None  # the opening words: the user's, or the assistant's until there are some
    preview_seq: int = 0
    preview_role: str | None = None
    agent: str | None = None
    model: str | None = None
    provider: str | None = None
    cwd: str | None = None
    system: str | None = None
    tags: tuple[str, ...] = ()
    meta: dict[str, Any] = {}
    origin: tuple[str, int] | None = None
    parent: str | None = None
    depth: int = 0
    lifecycle: str | None = None  # one of LIFECYCLES where it has or had a parent
    call_id: str | None = None

    @property
    def shown_title(self) -> str | None:
        if self.titled_by is not None:
            return self.title
        return self.preview[:TITLE_CHARS].rstrip() if self.preview and self.preview_role == "user" else None


class Change(Struct, frozen=True):
    """A change to it. `fields` are set, `meta` is merged (a value of None removes its name)."""

    at: int
    title: str | None = None
    titled_by: str | None = None
    fields: dict[str, Any] = {}
    meta: dict[str, Any] = {}
    tag: tuple[str, ...] = ()
    untag: tuple[str, ...] = ()
    status: str | None = None


DAMAGED = About(title="(damaged: see store.verify())", titled_by="machine")


def decode(body: bytes) -> About:
    """What is said of a session; DAMAGED where it cannot be read, so that one bad row hides no other session."""
    try:
        return _decode(body)
    except codec.NOT_QUICKLY:  # a lone surrogate, in a path for example, or damage
        return _decode_slowly(body)


def _decode_slowly(body: bytes) -> About:
    try:
        return msgspec.convert(codec.decode(body), About)
    except (ValueError, TypeError):
        return DAMAGED


_decode = msgspec.json.Decoder(About).decode


def changed(about: About, change: Change) -> About:
    """A person's title is never replaced by a machine's."""
    if change.titled_by == "person" or (change.titled_by == "machine" and about.titled_by != "person"):
        about = replace(about, title=change.title, titled_by=change.titled_by)
    if change.meta:
        merged = {**about.meta, **change.meta}
        about = replace(about, meta={name: value for name, value in merged.items() if value is not None})
    if change.tag or change.untag:
        tags = dict.fromkeys((*about.tags, *change.tag))
        about = replace(about, tags=tuple(tag for tag in tags if tag not in change.untag))
    return replace(about, **change.fields)


def inherited(origin: About, given: About, origin_id: str, at: int) -> About:
    """What a fork at entry `at` takes along: all that is not told of it and still true of it."""
    taken = {name: getattr(origin, name) for name in ("agent", "model", "provider", "cwd", "system", "tags")}
    if origin.preview_seq <= at:
        taken |= {name: getattr(origin, name) for name in ("preview", "preview_seq", "preview_role")}
    told = {name: value for name, value in asdict(given).items() if value != getattr(About(), name)}
    return About(**(taken | told | {"origin": (origin_id, at)}))


def born(parent: About, given: About, parent_id: str, lifecycle: str, call_id: str | None) -> About:
    """What is said of a new child: it works where its parent does, with its model unless told otherwise."""
    provider = parent.provider if given.model in (None, parent.model) else None
    return replace(
        given,
        model=given.model or parent.model,
        provider=provider,
        cwd=parent.cwd,
        tags=parent.tags,
        parent=parent_id,
        depth=parent.depth + 1,
        lifecycle=lifecycle,
        call_id=call_id,
    )


def freed(about: About) -> About:
    """A child whose parent is gone: a root that stands for itself."""
    return replace(about, parent=None, depth=0, lifecycle=DETACHED, call_id=None)


def opened_by(about: About) -> int:
    """Whose words open the session: 2 the user's, 1 the assistant's, 0 nobody's yet."""
    return {"user": 2, "assistant": 1}.get(about.preview_role or "", 0)


def unopened(about: About) -> About:
    """The same without opening words."""
    return replace(about, preview=None, preview_seq=0, preview_role=None)


def opening_words(message: Message) -> str:
    """The first readable words of a message, on one line. Attachments and tool results do not count."""
    said = " ".join(
        part.text[: PREVIEW_CHARS * 8]
        for part in message.parts
        if type(part) is Text and not part.extra.get("attachment")
    )
    return " ".join(said.split())[:PREVIEW_CHARS]
