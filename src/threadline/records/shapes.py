"""What a line of our own JSONL says. The names and their order are the format: docs/format.md describes each."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol, TypeAlias

from msgspec import Raw, Struct

from threadline.core.about import About

VERSION = 1

NOTHING = Raw(b"")  # no usage: an entry without one has no such field


class Masking(Protocol):
    """What takes secrets out of text: see threadline.transcripts.masking."""

    def json(self, body: bytes) -> bytes:
        """JSON with every secret in its strings masked; the same bytes where there is none."""

    def text(self, text: str) -> str: ...


class _Line(Struct, frozen=True, tag_field="type", omit_defaults=True, forbid_unknown_fields=True):
    pass


class FileRecord(_Line, frozen=True, tag="threadline"):
    """The first line: whose format this is. `masked`: secrets were looked for, and what was found is not in it."""

    version: int
    masked: bool


class SessionRecord(_Line, frozen=True, tag="session"):
    """A session. Each of the lines up to the next one names it, too.

    `shares` says which of its entries stand under earlier sessions of the file: (id, first, last), from 1 on."""

    id: str
    created_at: datetime
    updated_at: datetime
    head: int
    salt: str
    tree: str
    about: About
    namespace: str = ""
    key: str | None = None
    status: str = "active"
    shares: tuple[tuple[str, int, int], ...] = ()

    @property
    def base(self) -> int:
        """The last entry that it shares."""
        return self.shares[-1][2] if self.shares else 0


class EntryRecord(_Line, frozen=True, tag="entry"):
    """One entry. `call` stands on the first one of a keyed call: how many entries it wrote, and their identity.

    Of a redacted one `body` is null; `redacted` is what stands in its place, and `hidden` what is left of its key."""

    session: str
    seq: int
    kind: str
    at: datetime
    digest: str
    chain: str
    body: Raw
    tokens: int = 0
    key: str | None = None
    call: tuple[int, str] | None = None
    usage: Raw = NOTHING
    redacted: Raw = NOTHING
    hidden: str | None = None


class DamagedRecord(_Line, frozen=True, tag="damaged"):
    """An entry that the store itself could not read when it was exported."""

    session: str
    seq: int
    what: str


class InboxRecord(_Line, frozen=True, tag="inbox"):
    """A message that waits."""

    session: str
    at: datetime
    body: Raw
    tokens: int = 0
    key: str | None = None


class DraftRecord(_Line, frozen=True, tag="draft"):
    """A message that was still streaming, as far as it was stored."""

    session: str
    number: int
    at: datetime
    role: str
    text: str
    key: str | None = None


class RequestRecord(_Line, frozen=True, tag="request"):
    """One request to a model. `cost` is in billionths; `given` if the caller said it."""

    session: str
    at: datetime
    id: str | None = None
    model: str | None = None
    agent: str | None = None
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cost: int | None = None
    given: bool = False


class NodeRecord(_Line, frozen=True, tag="node"):
    """A node of a memory, in one scope. Its address is that of its kind, content and inputs."""

    addr: str
    kind: str
    content: str
    created_at: datetime
    touched_at: datetime
    about: Raw
    project: str | None = None
    namespace: str = ""
    scope: str = ""
    active: bool = True
    expires_at: datetime | None = None
    promoted_at: datetime | None = None
    session: str | None = None
    agent: str | None = None
    domain: str = ""
    inputs: tuple[str, ...] = ()


class ChainRecord(_Line, frozen=True, tag="chain"):
    """A chain of a memory."""

    chain: str
    name: str
    status: str
    created_at: datetime
    extended_at: datetime
    about: Raw
    project: str | None = None
    namespace: str = ""
    scope: str = ""
    session: str | None = None
    agent: str | None = None
    domain: str = ""
    members: tuple[str, ...] = ()


class WorkingRecord(_Line, frozen=True, tag="working"):
    """The life of the working memory of a session, or of an agent in it."""

    scope: str
    session: str
    started_at: datetime
    touched_at: datetime
    project: str | None = None
    namespace: str = ""
    agent: str | None = None
    ended_at: datetime | None = None
    turns: int = 0
    folded: int = 0


class EventRecord(_Line, frozen=True, tag="event"):
    """Something that was done in a memory."""

    number: int
    what: str
    detail: Raw
    project: str | None = None
    namespace: str = ""
    session: str | None = None
    agent: str | None = None
    addrs: tuple[str, ...] = ()


class EndRecord(_Line, frozen=True, tag="end"):
    """The last line: how much the file holds. Without it, the file was cut off."""

    sessions: int
    entries: int
    inbox: int = 0
    drafts: int = 0
    requests: int = 0
    memory: int = 0


MemoryRecord: TypeAlias = NodeRecord | ChainRecord | WorkingRecord | EventRecord

Record: TypeAlias = (
    FileRecord
    | SessionRecord
    | EntryRecord
    | DamagedRecord
    | InboxRecord
    | DraftRecord
    | RequestRecord
    | NodeRecord
    | ChainRecord
    | WorkingRecord
    | EventRecord
    | EndRecord
)
