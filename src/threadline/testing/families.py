"""Families, said as simply as possible: who spawned whom, and who is charged for what. Like the model of a session, it
shares no code with a store: there are no sums and no depths, only rows that are read anew for every question."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from threadline.errors import DepthExceeded


@dataclass(frozen=True)
class Member:
    """A session: its parent, how it came about, and the root of the tree that it was born into."""

    tree: str
    parent: str | None = None
    lifecycle: str | None = None
    call_id: str | None = None


@dataclass(frozen=True)
class Request:
    """What a request took, and the session that is charged for it."""

    session: str
    tree: str
    id: str | None
    input: int


@dataclass
class Families:
    """All sessions of a store, oldest first. The methods that write raise what a Session must raise."""

    max_depth: int
    members: dict[str, Member] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)

    # -- reading ---------------------------------------------------------------------------------------

    def children(self, id: str) -> list[str]:
        return [other for other, member in self.members.items() if member.parent == id]

    def below(self, id: str) -> list[str]:
        """Itself and all below it."""
        return [id, *(other for child in self.children(id) for other in self.below(child))]

    def depth(self, id: str) -> int:
        parent = self.members[id].parent
        return 0 if parent is None else self.depth(parent) + 1

    def roots(self) -> list[str]:
        return [id for id, member in self.members.items() if member.parent is None]

    def spent(self, *ids: str) -> tuple[int, int]:
        """Tokens and requests."""
        inputs = [request.input for request in self.requests if request.session in ids]
        return sum(inputs), len(inputs)

    # -- writing ---------------------------------------------------------------------------------------

    def add(self, id: str, origin: str | None = None) -> None:
        """A root, or a fork, which is a root in the tree of its origin."""
        self.members[id] = Member(id if origin is None else self.members[origin].tree)

    def known(self, parent: str, call_id: str | None) -> str | None:
        """The child that a call has spawned already."""
        calls = {self.members[child].call_id: child for child in self.children(parent)}
        return None if call_id is None else calls.get(call_id)

    def check(self, parent: str) -> None:
        if self.depth(parent) + 1 > self.max_depth:
            raise DepthExceeded(self.depth(parent) + 1, self.max_depth)

    def spawn(self, parent: str, id: str, lifecycle: str, call_id: str | None) -> None:
        self.members[id] = Member(self.members[parent].tree, parent, lifecycle, call_id)

    def record(self, id: str, request_id: str | None, input: int) -> None:
        tree = self.members[id].tree
        for i, request in enumerate(self.requests):
            if request_id is not None and (request.tree, request.id) == (tree, request_id):
                self.requests[i] = replace(request, input=max(request.input, input))
                return
        self.requests.append(Request(id, tree, request_id, input))

    def doomed(self, id: str, cascade: bool) -> list[str]:
        """Who goes when a session is deleted: itself, and below it whoever is not detached."""
        linked = [child for child in self.children(id) if self.members[child].lifecycle != "detached"]
        return [id, *(other for child in linked for other in self.doomed(child, True))] if cascade else [id]

    def delete(self, id: str, cascade: bool) -> list[str]:
        doomed, heir = self.doomed(id, cascade), self.members[id].parent
        freed = [child for goner in doomed for child in self.children(goner) if child not in doomed]
        for child in freed:
            self.members[child] = Member(self.members[child].tree, None, "detached")
        charged = [replace(r, session=heir or "") if r.session in doomed else r for r in self.requests]
        self.requests = [request for request in charged if request.session]
        for goner in doomed:
            del self.members[goner]
        return doomed
