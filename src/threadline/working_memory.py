"""A memory: what agents claimed, lasting for a project, preliminary for a session.

Each call is one deed (`memory/`), run by the backend in one transaction. What touches files or asks the time is done
here, before it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from threadline.anchoring import Project
from threadline.core import codec
from threadline.errors import Conflict, InvalidArgument, NotFound
from threadline.memory import adoption, chains, claims, copies, promotion, reading, recalling, rendering
from threadline.memory.adoption import Adoption, Working
from threadline.memory.anchors import AnchorCheck
from threadline.memory.chains import ACTIVE, ID_PREFIX, PRELIMINARY, STATUSES, Chain, new_chain
from threadline.memory.claims import Claim
from threadline.memory.nodes import CONFIDENCE, Node, address
from threadline.memory.promotion import Archive, Collection, Ending, Promotion, Summary
from threadline.memory.reading import MemoryEvent
from threadline.memory.recalling import Recalled
from threadline.memory.rendering import Handoff, View
from threadline.memory.rows import LASTING, Deed, Place, working_scope
from threadline.pen import check_name, is_number

if TYPE_CHECKING:
    from threadline.session import Session
    from threadline.store import Store

T = TypeVar("T")


class HasId(Protocol):
    """A Session, or an AsyncSession."""

    @property
    def id(self) -> str | None: ...


SessionLike: TypeAlias = str | HasId

CONTENT_CHARS = 1_000_000  # of one node: more is a document, and belongs into a log
NAME_CHARS = 512
PRIORITY_MAX = 100
LIMIT_MAX = 10_000
MAX_IDLE = timedelta(hours=2)
GC_AFTER = timedelta(days=30)
HANDOFF_TOKENS = 1_500
EVERY = 15  # turns between two summaries of a session's working memory


class Memory:
    """The memory of a project, or the global one. Get it from `store.memory(project)`.

    Addresses may be shortened as long as they are unique, and wherever one is taken, a Node does as well; likewise a
    Chain for its name or id, and a Session for its id. `session=` and `agent=` of a reading method add that session's
    working memory, and that agent's own in it, to the lasting memory."""

    def __init__(self, store: Store, project: str | None, root: str | os.PathLike[str] | None) -> None:
        self._store = store
        self._place = Place(store.namespace, None if project is None else check_name(project, "project"))
        self._root = None if root is None else os.path.abspath(os.path.expanduser(os.fspath(root)))

    def __repr__(self) -> str:
        name = "global memory" if self.project is None else f"memory of {self.project!r}"
        return f"<Memory: {name} in {self._store!r}>"

    @property
    def project(self) -> str | None:
        return self._place.project

    @property
    def root(self) -> str:
        """The folder of the project: anchors lead to files in it."""
        return os.getcwd() if self._root is None else self._root

    # -- claims ----------------------------------------------------------------------------------------

    def claim(
        self,
        content: str,
        *,
        domain: str = "",
        confidence: float = CONFIDENCE,
        priority: int = 0,
        session: SessionLike | None = None,
        agent: str | None = None,
        preliminary: bool = False,
        chain: str | Chain | None = None,
        anchors: Iterable[Mapping[str, Any]] = (),
        ttl: timedelta | None = None,
        meta: dict[str, Any] | None = None,
        shared: bool = False,
    ) -> Node:
        """Claim something, and return its node. Claiming the same again adds to what is said of it, and erases nothing.

        A `preliminary` one belongs to the working memory of its session: to that of its agent, if one is named, unless
        it is `shared`. `chain` puts it at the end of the chain of that name, which is made if it is not there."""
        one = self._claim(
            content=content,
            domain=domain,
            confidence=confidence,
            priority=priority,
            session=session,
            agent=agent,
            preliminary=preliminary,
            chain=chain,
            anchors=anchors,
            ttl=ttl,
            meta=meta,
            shared=shared,
        )
        return self._write(claims.claim, [one])[0]

    def claims(self, claims_: Iterable[str | Mapping[str, Any]]) -> list[Node]:
        """Several claims at once, all or none: each a text, or a mapping of the arguments of `claim`."""
        if isinstance(claims_, str | Mapping):
            raise InvalidArgument("claims takes a list of texts or mappings; claim() takes one")
        asked = [self._claim(**_arguments(given)) for given in claims_]
        return self._write(claims.claim, asked) if asked else []

    def compress(
        self,
        addrs: Iterable[str | Node],
        content: str,
        *,
        domain: str = "",
        session: SessionLike | None = None,
        agent: str | None = None,
        meta: dict[str, Any] | None = None,
    ) -> Node:
        """One node in the place of several, which leave the active set and stay readable.

        Numbers and names of the originals are kept in `meta["values"]`, and `meta["coverage"]`, from 0 to 1, says how
        much of them the content says; below 0.6 there is a `meta["warning"]`."""
        if isinstance(addrs, str | Node):
            raise InvalidArgument("compress takes a list of addresses")
        listed = list(addrs)
        if not listed:
            raise InvalidArgument("compress takes one address or more")
        one = self._claim(content, domain=domain, session=session, agent=agent, meta=meta)
        return self._write(claims.compress, listed, one.content, one)

    def supersede(
        self,
        addr: str | Node,
        content: str,
        *,
        domain: str = "",
        confidence: float | None = None,
        session: SessionLike | None = None,
        agent: str | None = None,
        meta: dict[str, Any] | None = None,
    ) -> Node:
        """Another claim in the place of an old one, which stays readable.

        Domain, confidence, priority, anchors and reinforcement are inherited, and it stands in the same chains. Raises
        Conflict if the new content is what the old one says, or what that has superseded itself."""
        one = self._claim(content, domain=domain, confidence=confidence, session=session, agent=agent, meta=meta)
        return self._write(claims.supersede, addr, one.content, one)

    def retire(self, addr: str | Node, reason: str | None = None) -> Node:
        """Take a node out of the active set, without another in its place. Claiming it again brings it back."""
        return self._write(claims.retire, addr, reason)

    def reroot(self, content: str = "") -> Node:
        """A node of type root over all that is active now: the state of the memory under one address."""
        return self._write(claims.reroot, _text(content, "content", empty=True))

    # -- reading ---------------------------------------------------------------------------------------

    def get(self, addr_or_prefix: str | Node) -> Node:
        """The node of that address, or of the only one that begins so; lasting, or else preliminary.

        Raises NotFound, InvalidArgument where several begin so, Damaged."""
        return self._read(reading.node, addr_or_prefix)

    def active(
        self, domain: str | None = None, *, session: SessionLike | None = None, agent: str | None = None
    ) -> list[Node]:
        """All nodes that stand, oldest first: not superseded, compressed, stashed, retired or past their time."""
        return self._read(reading.active, self._scopes(session, agent), domain, self._now())

    def recall(
        self,
        query: str,
        *,
        limit: int = 5,
        domain: str | None = None,
        budget_tokens: int | None = None,
        session: SessionLike | None = None,
        agent: str | None = None,
    ) -> list[Recalled]:
        """The active nodes that fit a query best, as data with its provenance, the best first.

        Words count by how rare they are; confidence, recency, reinforcement and priority weigh in. With a budget, as
        many of the best as fit."""
        _text(query, "query", empty=True)
        _check_count(limit, "limit")
        if budget_tokens is not None:
            _check_count(budget_tokens, "budget_tokens", most=10**9)
        deed = partial(recalling.recall, query, self._scopes(session, agent), domain, limit, budget_tokens, self._now())
        return self._store._backend.consult(self._place, deed, by_words=True)

    def provenance(self, addr: str | Node) -> list[Node]:
        """The node, and all that it was made of, nearest first."""
        return self._read(reading.provenance, addr)

    def descendants(self, addr: str | Node) -> list[Node]:
        """All that was made of a node, nearest first."""
        return self._read(reading.descendants, addr)

    def roots(self) -> list[Node]:
        """The lasting nodes where provenance ends, which come from no other, and roots that were made; oldest first."""
        return self._read(reading.roots)

    def render(
        self,
        budget_tokens: int,
        *,
        query: str = "",
        session: SessionLike | None = None,
        agent: str | None = None,
        limit: int = rendering.CHAINS_MAX,
    ) -> str:
        """The best chains, and what stands alone, as text for a prompt, never above the budget.

        Each line has its address, confidence and age; what was not claimed again for three weeks is marked stale."""
        _check_count(budget_tokens, "budget_tokens", most=10**9)
        _check_count(limit, "limit")
        view, asked = self._view(session, agent), _text(query, "query", empty=True)
        return self._consult(rendering.render, budget_tokens, asked, view, limit, self._now())

    def events(self, limit: int = 50) -> list[MemoryEvent]:
        """What was done here, the newest first."""
        _check_count(limit, "limit")
        return self._read(reading.events, limit)

    # -- chains ----------------------------------------------------------------------------------------

    def chains(
        self, *, status: str | None = None, session: SessionLike | None = None, agent: str | None = None
    ) -> list[Chain]:
        """All chains, those of working memories too, oldest first; of a status, of a session, of an agent."""
        if status is not None and status not in STATUSES:
            raise InvalidArgument(f"the status of a chain is one of {', '.join(STATUSES)}, not {status!r}")
        return self._read(reading.chains, status, _session_id(session), _agent(agent))

    def chain(self, name_or_id: str | Chain, *, session: SessionLike | None = None, agent: str | None = None) -> Chain:
        """The chain of that id or name. Raises NotFound, or InvalidArgument where several sessions have such a one."""
        return self._read(reading.chain, _chain_name(name_or_id), self._chain_scopes(session, agent))

    def create_chain(
        self,
        name: str,
        addrs: Iterable[str | Node] = (),
        *,
        domain: str = "",
        session: SessionLike | None = None,
        agent: str | None = None,
        preliminary: bool = False,
        plan_root: bool = False,
        meta: dict[str, Any] | None = None,
        shared: bool = False,
    ) -> Chain:
        """Begin a chain, with nodes or without. A `plan_root` one always ranks high. Raises Conflict if it is there."""
        one = self._claim(
            "-", domain=domain, session=session, agent=agent, preliminary=preliminary, meta=meta, shared=shared
        )
        status = PRELIMINARY if one.scope else ACTIVE
        said = one.meta | ({"plan_root": True} if plan_root else {})
        named = check_name(name, "chain", NAME_CHARS)
        row = new_chain(_chain_id(), named, one.scope, status, self._now(), one.session, one.agent, domain, said)
        return self._write(chains.create, row, list(addrs))

    def extend(
        self,
        chain: str | Chain,
        addr: str | Node,
        *,
        session: SessionLike | None = None,
        agent: str | None = None,
    ) -> Chain:
        """Put a node at the end of a chain; one that is in it already stays where it is."""
        return self._write(chains.extend, _chain_name(chain), addr, self._chain_scopes(session, agent))

    def stash(
        self,
        chain: str | Chain,
        reason: str,
        *,
        session: SessionLike | None = None,
        agent: str | None = None,
    ) -> Chain:
        """Put a chain aside: its nodes leave the active set, unless another open chain holds them."""
        scopes = self._chain_scopes(session, agent)
        return self._write(chains.stash, _chain_name(chain), _text(reason, "reason", empty=True), scopes)

    def pop(self, chain: str | Chain, *, session: SessionLike | None = None, agent: str | None = None) -> Chain:
        """Take a stashed chain up again, with the nodes that went with it and were not superseded meanwhile."""
        return self._write(chains.pop, _chain_name(chain), self._chain_scopes(session, agent))

    def archive_chain(
        self, chain: str | Chain, *, session: SessionLike | None = None, agent: str | None = None
    ) -> Chain:
        """Close a chain: it takes no more nodes. They stay as they are."""
        return self._write(chains.archive, _chain_name(chain), self._chain_scopes(session, agent))

    def supersede_chain(
        self,
        old: str | Chain,
        new: str | Chain,
        *,
        session: SessionLike | None = None,
        agent: str | None = None,
    ) -> Chain:
        """One chain in the place of another, whose nodes leave the active set; returns the new one.

        Raises Conflict if that would go in a circle."""
        return self._write(chains.supersede, _chain_name(old), _chain_name(new), self._chain_scopes(session, agent))

    # -- sessions --------------------------------------------------------------------------------------

    def promote(
        self,
        chain_or_node: str | Chain | Node,
        *,
        session: SessionLike | None = None,
        agent: str | None = None,
    ) -> Promotion:
        """Make a preliminary chain with its nodes, or a node, lasting. What is there already is joined.

        Doing it again changes nothing."""
        scopes = None if session is None else self._scopes(session, agent)
        return self._write(promotion.promote, chain_or_node, scopes)

    def promote_all(self, session: SessionLike, *, agent: str | None = None) -> Promotion:
        """Make all lasting that is preliminary in a session, nodes of no chain included."""
        return self._write(promotion.promote_all, _must_be_session(session), _agent(agent))

    def summary(self, session: SessionLike, *, agent: str | None = None) -> Summary:
        """Where the working memory of a session stands."""
        return self._consult(promotion.summary, _must_be_session(session), _agent(agent), self._now())

    def end(self, session: SessionLike, promote: bool = True, *, agent: str | None = None) -> Ending:
        """End a session, or only an agent's part in it: all that is preliminary is promoted, or else archived.

        It takes no claims any more. `recover` brings back what was archived, and nothing is ever collected unasked."""
        return self._write(promotion.end, _must_be_session(session), _agent(agent), bool(promote))

    def session(self, agent: str | None = None, max_idle: timedelta = MAX_IDLE) -> Session:
        """The session that the agent last worked in here, if that is not longer ago than `max_idle`; else a new one.

        Two who ask at once get the same one. One that has ended, or is archived or trashed, is not taken up again."""
        _check_time(max_idle, "max_idle")
        unusable: frozenset[str] = frozenset()
        while True:
            after = self._now() - max_idle // timedelta(microseconds=1)
            id = self._write(promotion.working_session, _agent(agent), after, _session_name(), unusable)
            try:
                session = self._store.get(id)
            except NotFound:  # begun here, and not made yet, by us or by somebody who was interrupted
                try:
                    return self._store.new(id=id, agent=agent, meta={"memory": self.project})
                except Conflict:
                    continue
            if session.info.status == "active":
                return session
            unusable |= {id}

    def handoff(
        self,
        session: SessionLike | None = None,
        *,
        agent: str | None = None,
        budget_tokens: int = HANDOFF_TOKENS,
    ) -> Handoff:
        """What a session begins with: what `session`, or the last one in a week, left; open tasks (domain "task"),
        recent corrections, the user's profile (domain "profile", of the global memory too) and the best chains."""
        _check_count(budget_tokens, "budget_tokens", most=10**9)
        whole = Place(self._place.namespace, None)
        know = partial(reading.answer, reading.profile, (self._now(),))
        profile = [] if whole == self._place else self._store._backend.consult(whole, know)
        named, who = _session_id(session), _agent(agent)
        return self._consult(rendering.handoff, named, who, profile, budget_tokens, self._now())

    def cycle(
        self,
        session: SessionLike,
        summary: Callable[[list[Node]], str],
        *,
        every: int = EVERY,
        agent: str | None = None,
    ) -> Node | None:
        """Count a turn; after `every` turns sum up what is preliminary and active with `summary`, and return that node.

        The function is called outside any transaction. What is summed up stays readable, and preliminary."""
        due = self._turn(session, agent, every)
        return None if due is None else self._fold(session, agent, due, summary(due))

    def _turn(self, session: SessionLike, agent: str | None, every: int) -> list[Node] | None:
        """What is to be summed up now."""
        _check_count(every, "every")
        turns, nodes = self._write(promotion.count_turn, _must_be_session(session), _agent(agent))
        return nodes if turns >= every and len(nodes) > 1 else None

    def _fold(self, session: SessionLike, agent: str | None, nodes: list[Node], content: str) -> Node:
        made = self.compress(nodes, content, session=session, agent=agent)
        self._write(promotion.mark_folded, _must_be_session(session), _agent(agent))
        return made

    # -- archives --------------------------------------------------------------------------------------

    def archives(self) -> list[Archive]:
        """The working memories that have ended and are kept, by when they ended."""
        return self._consult(promotion.archives)

    def recover(self, session: SessionLike, *, agent: str | None = None) -> list[Node]:
        """Bring the working memory of an ended session back, whole, and let it take claims again."""
        return self._write(promotion.recover, _must_be_session(session), _agent(agent))

    def gc(self, older_than: timedelta = GC_AFTER, dry_run: bool = False) -> Collection:
        """Remove archives of sessions that ended so long ago. `dry_run` only says which. Lasting nodes stay."""
        _check_time(older_than, "older_than")
        now = self._now()
        before = now - older_than // timedelta(microseconds=1)
        if dry_run:
            return self._consult(promotion.collect, before, True, now)
        return self._write(promotion.collect, before, False)

    # -- from and to other places ----------------------------------------------------------------------

    @staticmethod
    def address(type: str, content: str, inputs: Iterable[str] = ()) -> str:
        """The address of a node of that type, content and inputs, whether it is anywhere or not."""
        return address(type, content, [bytes.fromhex(addr) for addr in inputs]).hex()

    def nodes(self, *, session: SessionLike | None = None, agent: str | None = None) -> list[Node]:
        """All nodes of the lasting memory, or of one working memory and nothing else, active or not, oldest first."""
        named, who = _session_id(session), _agent(agent)
        return self._read(reading.nodes, LASTING if named is None else working_scope(named, who))

    def workings(self) -> list[Working]:
        """Every working memory, the oldest first: of sessions, and of agents in them."""
        return self._read(reading.workings)

    def adopt(
        self,
        nodes: Iterable[Mapping[str, Any]] = (),
        chains: Iterable[Mapping[str, Any]] = (),
        events: Iterable[Mapping[str, Any]] = (),
        *,
        working: Working | None = None,
    ) -> Adoption:
        """Take over what another memory holds, with its own times and states, all or nothing; again is fine.

        A node is a mapping with content, and as far as they are known type, inputs (addresses), created_at, active,
        domain, confidence, priority, reinforced, anchors, session, agent, meta; a chain one with id, name, status,
        members, domain, session, agent, created_at, extended_at, meta; an event one with at, what, session, agent,
        addrs, detail. They go to the lasting memory, or to that of `working`, which is made as it says. What is there
        already is joined."""
        scope = LASTING if working is None else working_scope(working.session, working.agent)
        now = self._now()
        rows = [adoption.node_row(scope, given, now) for given in nodes]
        rest = copies.Rest(
            [adoption.chain_row(scope, given, now) for given in chains],
            [] if working is None else [adoption.working_row(scope, working)],
            adoption.in_line([adoption.event_row(given, now) for given in events]),
        )
        for number, row in enumerate(rows):
            codec.check_object(codec.decode(row.about), f"nodes[{number}]")
        added = self._store._backend.remember(self._place, partial(copies.adopt, rows, rest))
        return Adoption(added, len(rows) - added)

    # -- anchors ---------------------------------------------------------------------------------------

    def check_anchors(self, *, session: SessionLike | None = None, agent: str | None = None) -> list[AnchorCheck]:
        """What became of the files and dependencies that active nodes are anchored to, one answer an anchor."""
        project = Project(self.root)
        nodes = self.active(session=session, agent=agent)
        return [check for node in nodes if node.anchors for check in project.checks(node)]

    # -- how it gets there -----------------------------------------------------------------------------

    def _write(self, deed: Callable[..., tuple[Any, T]], *arguments: Any) -> T:
        """Run a deed in a transaction of its own; its last arguments are the time and the shelf."""
        return self._store._backend.remember(self._place, partial(deed, *arguments, self._now()))

    def _consult(self, deed: Callable[..., tuple[Any, T]], *arguments: Any) -> T:
        """Run a deed that changes nothing; its last argument is the shelf."""
        return self._store._backend.consult(self._place, partial(deed, *arguments))

    def _read(self, read: Callable[..., T], *arguments: Any) -> T:
        deed: Deed[T] = partial(reading.answer, read, arguments)
        return self._store._backend.consult(self._place, deed)

    def _now(self) -> int:
        return self._store._pen.now()

    def _scopes(self, session: SessionLike | None, agent: str | None) -> tuple[bytes, ...]:
        """The working memories that a reader sees: an agent's own, then that of the whole session."""
        named, who = _session_id(session), _agent(agent)
        if named is None:
            return ()
        whole = working_scope(named, None)
        return (whole,) if who is None else (working_scope(named, who), whole)

    def _chain_scopes(self, session: SessionLike | None, agent: str | None) -> tuple[bytes, ...] | None:
        return None if session is None else (*self._scopes(session, agent), LASTING)

    def _view(self, session: SessionLike | None, agent: str | None) -> View:
        return View(self._scopes(session, agent), _session_id(session), _agent(agent))

    def _claim(
        self,
        content: str,
        *,
        domain: str = "",
        confidence: float | None = None,
        priority: int = 0,
        session: SessionLike | None = None,
        agent: str | None = None,
        preliminary: bool = False,
        chain: str | Chain | None = None,
        anchors: Iterable[Mapping[str, Any]] = (),
        ttl: timedelta | None = None,
        meta: dict[str, Any] | None = None,
        shared: bool = False,
    ) -> Claim:
        """What a caller asks for, checked."""
        named = _session_id(session)
        if preliminary and named is None:
            raise InvalidArgument("a preliminary claim belongs to a session: give session=, for example mem.session()")
        if confidence is not None and not (is_number(confidence) and 0 <= confidence <= 1):
            raise InvalidArgument(f"confidence is a number from 0 to 1, not {confidence!r}")
        if type(priority) is not int or abs(priority) > PRIORITY_MAX:
            raise InvalidArgument(f"priority is a whole number up to {PRIORITY_MAX}, not {priority!r}")
        if isinstance(anchors, Mapping | str):
            raise InvalidArgument("anchors is a list of dicts, not one")
        if meta is not None:
            codec.check_object(meta, "meta")
        tied = list(anchors)
        project = Project(self.root) if tied else None
        return Claim(
            content=_text(content, "content"),
            domain=_text(domain, "domain", empty=True, chars=NAME_CHARS),
            confidence=confidence,
            priority=priority,
            session=named,
            agent=_agent(agent),
            preliminary=bool(preliminary),
            chain=None if chain is None else check_name(_chain_name(chain), "chain", NAME_CHARS),
            anchors=tuple(project.completed(anchor) for anchor in tied) if project else (),
            ttl_us=None if ttl is None else _check_time(ttl, "ttl") // timedelta(microseconds=1),
            meta=dict(meta or {}),
            shared=bool(shared),
            chain_id=_chain_id() if chain is not None else "",
        )


# -- arguments -----------------------------------------------------------------------------------------


def _arguments(given: Any) -> dict[str, Any]:
    if isinstance(given, str):
        return {"content": given, "confidence": CONFIDENCE}
    if not isinstance(given, Mapping) or "content" not in given:
        raise InvalidArgument(
            f"a claim is a text, or a mapping with content and what else claim() takes, not {given!r}"
        )
    known = (Memory.claim.__kwdefaults__ or {}) | {"content": None}
    if unknown := given.keys() - known.keys():
        raise InvalidArgument(f"a claim has no {min(map(str, unknown))!r}: it takes {', '.join(sorted(known))}")
    return dict(given)


def _text(value: Any, what: str, *, empty: bool = False, chars: int = CONTENT_CHARS) -> str:
    if not isinstance(value, str) or not (empty or value.strip()):
        raise InvalidArgument(f"{what} is text{'' if empty else ' that is not empty'}, not {value!r}")
    if len(value) > chars:
        raise InvalidArgument(f"{what} has up to {chars:,} characters, this one {len(value):,}")
    return value


def _session_id(session: Any) -> str | None:
    """The id of what names a session."""
    if session is None or isinstance(session, str):
        return None if session is None else check_name(session, "session")
    id = getattr(session, "id", None)
    if not isinstance(id, str):
        raise InvalidArgument(f"a session is given by its id, or as a Session that is made, not {session!r}")
    return id


def _must_be_session(session: Any) -> str:
    id = _session_id(session)
    if id is None:
        raise InvalidArgument("which session? Give its id, or the Session")
    return id


def _agent(agent: Any) -> str | None:
    return None if agent is None else check_name(agent, "agent")


def _chain_name(chain: Any) -> str:
    name = chain.id if isinstance(chain, Chain) else chain
    if not isinstance(name, str):
        raise InvalidArgument(f"a chain is given by its name or its id, not {chain!r}")
    return name


def _chain_id() -> str:
    return ID_PREFIX + token_hex(8)


def _session_name() -> str:
    return token_hex(10)


def _check_count(value: Any, what: str, most: int = LIMIT_MAX) -> None:
    if type(value) is not int or not 1 <= value <= most:
        raise InvalidArgument(f"{what} is a whole number from 1 to {most:,}, not {value!r}")


def _check_time(value: Any, what: str) -> timedelta:
    if not isinstance(value, timedelta) or value < timedelta(0):
        raise InvalidArgument(f"{what} is a timedelta from 0 on, not {value!r}")
    return value
