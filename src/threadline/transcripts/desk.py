"""The desk: where sources become sessions, and where the report is written.

The session of a source has an id that follows from what the source calls it, so that it is found again; how far it was
told, its log knows. A fork of it, made because the source was rewritten, has the same id with a number."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from threadline import NotFound, Session, Store
from threadline.transcripts.sources import Problem, Refused, Source
from threadline.transcripts.timeline import Cursor, Diverged, Scene, Shared, Timeline, common, cursor

ID_CHARS = 64
VARIANTS_MAX = 1_000  # forks of one source


class ImportReport(Struct, frozen=True):
    """What an import did, or would do. `entries` are those that the sources hold: `added` now, or `unchanged`.

    `forked` sessions were made because a source no longer begins with what was imported before. Each byte that was
    read was imported, or is reported by one of the `problems`."""

    sessions: list[str] = []
    entries: int = 0
    problems: list[Problem] = []
    bytes_read: int = 0
    bytes_imported: int = 0
    bytes_reported: int = 0
    added: int = 0
    unchanged: int = 0
    forked: int = 0
    dry_run: bool = False


class Origin(Struct, frozen=True, kw_only=True):
    """What is known of a session before its first entry. `name` is what its source calls it.

    `id` is the id that it gets unless somebody else has it; `parent` the session that spawned it."""

    format: str
    name: str
    id: str | None = None
    key: str | None = None
    title: str | None = None
    auto_title: bool = True
    agent: str | None = None
    model: str | None = None
    provider: str | None = None
    cwd: str | None = None
    system: str | None = None
    tags: tuple[str, ...] = ()
    meta: dict[str, Any] = {}
    at: datetime | None = None
    updated_at: datetime | None = None
    parent: str | None = None
    call_id: str | None = None
    lifecycle: str | None = None


Tell = Callable[[Timeline], None]


class Desk:
    """One import: the store, the wishes of the caller, and what has been done so far."""

    def __init__(self, store: Store, *, project: str | None = None, dry_run: bool = False) -> None:
        self.store = store
        self.project = project
        self.dry_run = dry_run
        self._report = ImportReport(dry_run=dry_run)
        self._sessions: dict[str, None] = {}
        self._scratch = store.session("threadline:import:scratch")  # never made: steps are checked against it
        self._problems: list[Problem] = []
        self._new: set[str] = set()

    def report(self) -> ImportReport:
        return replace(self._report, sessions=list(self._sessions), problems=list(self._problems))

    def problem(self, problem: Problem) -> None:
        self._problems.append(problem)

    def remark(self, path: Path, what: str) -> None:
        """Something that a person should know, without any byte being lost."""
        self._problems.append(Problem(str(path), 0, 0, what))

    def unknown(self, source: Source) -> None:
        """A file that looks like a log, and that no format claims."""
        try:
            source.open(source.path).close()
        except Refused as refused:
            self.problem(Problem(str(source.path), 0, 0, str(refused)))
            return
        size = source.path.lstat().st_size
        source.count(source.path, size)
        source.report(source.path, 0, size, "in no format that we read: set aside")
        self.settle(source)

    def settle(self, source: Source) -> None:
        """Count what was read of a source, and what of it could not be."""
        reported = sum(problem.length for problem in source.problems.values())
        self._problems += source.problems.values()
        self._add(
            bytes_read=source.bytes_read,
            bytes_reported=reported,
            bytes_imported=source.bytes_read - reported,
        )

    def count(self, *, added: int = 0, unchanged: int = 0) -> None:
        """Entries that are not in a session's log, such as claims of a memory."""
        self._add(added=added, unchanged=unchanged, entries=added + unchanged)

    def taken_in(self, id: str, *, added: int, unchanged: int, forked: bool) -> None:
        """A session that came whole, with its own numbers and digests: from our own JSONL."""
        self._sessions[id] = None
        self._add(added=added, unchanged=unchanged, entries=added + unchanged, forked=int(forked))

    def known(self, origin: Origin) -> Session | None:
        """The session that was made from this source, if there is one."""
        return next(reversed(self._variants(origin)), None)

    def is_new(self, session: Session) -> bool:
        """Whether this import made it."""
        return session.id in self._new

    # -- from a source to a session --------------------------------------------------------------------

    def bring(self, origin: Origin, source: Path, tell: Tell) -> Session | None:
        """The session of a source: made, continued, or forked where the source was rewritten. None in a dry run
        of one that is not there yet.

        `tell` tells the whole course of the source to a Timeline, from the beginning, the same whenever it is asked:
        what is known already is compared, and only the rest written."""
        scene = Scene(_mark(origin) | {"source": str(source)}, self._scratch, self.dry_run)
        variants = self._variants(origin)
        for session in reversed(variants):
            if (timeline := self._continued(session, scene, tell)) is not None:
                return self._done(timeline, origin)
        if not variants:
            return self._done(self._told(Timeline(scene, make=self._maker(origin, 0)), tell), origin)
        return self._forked(variants, origin, source, scene, tell)

    def _continued(self, session: Session, scene: Scene, tell: Tell) -> Timeline | None:
        """The same session, gone on with; None where the source tells something else."""
        try:
            return self._told(Timeline(scene, session, cursor(session)), tell)
        except Diverged:
            return None

    def _forked(
        self, variants: list[Session], origin: Origin, source: Path, scene: Scene, tell: Tell
    ) -> Session | None:
        """Go on from the variant that has most in common with the source, in a fork of it."""
        found = [common(session, tell, scene) for session in variants]
        best = max(range(len(found)), key=lambda i: found[i].places)
        shared, session = found[best], variants[best]
        if shared.whole:
            return self._kept(session, shared, source)
        maker = self._maker(origin, len(variants), fork_of=session, at=shared.seq)
        timeline = Timeline(scene, session, Cursor(shared.places, head=shared.seq), maker)
        self._told(timeline, tell)
        self._add(forked=1)
        after = f"after entry {shared.seq}" if shared.seq else "from the first entry on"
        self.remark(source, f"differs from session {session.id} {after}: imported as its fork {timeline.id}")
        return self._done(timeline, origin)

    def _kept(self, session: Session, shared: Shared, source: Path) -> Session:
        """All that the source tells is there, and more: nothing is taken away."""
        more = (
            "shorter than what was imported before" if shared.places < cursor(session).places else "gone on with here"
        )
        self.remark(source, f"{more}: session {session.id} stays as it is")
        self._sessions[str(session.id)] = None
        self._add(unchanged=shared.places, entries=shared.places)
        return session

    def _told(self, timeline: Timeline, tell: Tell) -> Timeline:
        tell(timeline)
        timeline.finish()
        return timeline

    def _done(self, timeline: Timeline, origin: Origin) -> Session | None:
        self._sessions[timeline.id] = None
        self._add(added=timeline.added, unchanged=timeline.unchanged, entries=timeline.added + timeline.unchanged)
        if timeline.pending or timeline.session is None:
            return None
        if not self.dry_run:
            _describe(timeline.session, origin)
        return timeline.session

    # -- ids -------------------------------------------------------------------------------------------

    def _variants(self, origin: Origin) -> list[Session]:
        """The sessions that were made from this source, the oldest first."""
        found: list[Session] = []
        for number in range(VARIANTS_MAX):
            session = self._mine(self._id(origin, number), origin)
            if session is None:
                break
            found.append(session)
        return found

    def _mine(self, id: str, origin: Origin) -> Session | None:
        try:
            session = self.store.get(id)
        except NotFound:
            return None
        return session if _mark(origin) == session.info.meta.get("import") else None

    def _id(self, origin: Origin, number: int) -> str:
        id = origin.id or f"{origin.format}-{_digest(origin.name)}"
        if len(id) > ID_CHARS or not self._free_or_mine(id, origin):
            id = f"{origin.format}-{_digest(id)}"
        return id if not number else f"{id}~{number + 1}"

    def _free_or_mine(self, id: str, origin: Origin) -> bool:
        try:
            return self.store.get(id).info.meta.get("import") == _mark(origin)
        except NotFound:
            return True

    def _maker(self, origin: Origin, number: int, fork_of: Session | None = None, at: int = 0) -> Maker:
        return Maker(self, origin, self._id(origin, number), fork_of, at)

    def _add(self, **counts: int) -> None:
        now = self._report
        self._report = replace(now, **{name: getattr(now, name) + count for name, count in counts.items()})


class Maker:
    """Makes the session of a source, when its first entry is to be written."""

    def __init__(self, desk: Desk, origin: Origin, id: str, fork_of: Session | None, at: int) -> None:
        self.id = id
        self._desk = desk
        self._origin = origin
        self._fork_of = fork_of
        self._at = at

    def __call__(self) -> Session:
        self._desk._new.add(self.id)
        return self._session()

    def _session(self) -> Session:
        origin = self._origin
        meta = origin.meta | {"import": _mark(origin)}
        if self._fork_of is not None:
            return self._fork_of.fork(self._at, id=self.id, meta=meta)
        if origin.parent is not None and (parent := self._parent(origin.parent)) is not None:
            return self._spawned(parent, meta, origin.call_id)
        return self._desk.store.new(
            key=self._key(origin.key),
            agent=origin.agent,
            model=origin.model,
            provider=origin.provider,
            cwd=origin.cwd,
            system=origin.system,
            tags=origin.tags,
            meta=meta,
            id=self.id,
            at=origin.at,
        )

    def _spawned(self, parent: Session, meta: dict[str, Any], call_id: str | None) -> Session:
        """A child of its parent. Where another one answers the same call already, it answers none."""
        origin = self._origin
        if call_id is not None and any(child.info.call_id == call_id for child in parent.children()):
            call_id = None
        return parent.spawn(
            origin.agent,
            call_id=call_id,
            lifecycle=origin.lifecycle or "linked",
            model=origin.model,
            system=origin.system,
            meta=meta,
            id=self.id,
            at=origin.at,
        )

    def _parent(self, id: str) -> Session | None:
        try:
            return self._desk.store.get(id)
        except NotFound:
            return None

    def _key(self, key: str | None) -> str | None:
        """The key, unless another session has it."""
        if key is None or (taken := self._desk.store.find(key)) is None:
            return key
        self._desk.remark(Path(key), f"the key belongs to session {taken.id}: {self.id} is imported without one")
        return None


def _describe(session: Session, origin: Origin) -> None:
    """What the source says of it now: its title, unless a person gave it another here, and the rest of its meta."""
    info, at = session.info, origin.updated_at
    said = origin.meta | ({"import_title": origin.title} if origin.title else {})
    changed = {name: value for name, value in said.items() if info.meta.get(name) != value}
    if "import_title" in changed:
        session.rename(str(origin.title), origin.auto_title, at=at or info.updated_at)
    if changed:
        session.update(meta=changed, at=at or info.updated_at)


def _mark(origin: Origin) -> dict[str, Any]:
    """What a session remembers of where it came from; a session without it is never written to."""
    return {"format": origin.format, "name": origin.name}


def _digest(name: str) -> str:
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
