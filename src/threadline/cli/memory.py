"""`threadline memory …`: what agents know of a project, and what a session is working on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from threadline.cli import words
from threadline.cli.desk import Desk, command
from threadline.cli.failing import Failed
from threadline.cli.screen import Column, Ink, Piece

if TYPE_CHECKING:
    from collections.abc import Iterator

    from threadline import Chain, Memory, Node

F = TypeVar("F", bound=Callable[..., Any])

SHORT = 12  # digits of an address that a person sees

NODES = (
    Column("ADDRESS"),
    Column("DOMAIN", drop=2),
    Column("SURE", right=True, drop=3),
    Column("AGE", drop=1),
    Column("CONTENT", flexible=True, least=20),
)
CHAINS = (
    Column("ID"),
    Column("STATUS"),
    Column("NODES", right=True),
    Column("SESSION", drop=2),
    Column("EXTENDED", drop=1),
    Column("NAME", flexible=True, least=12),
)


@click.group()
def memory() -> None:
    """Claim, recall and look after what agents know: lasting for a project, preliminary for a session.

    The project is $THREADLINE_PROJECT, else the name of the current folder. ADDR is an address, or its first digits;
    CHAIN the name or id of a chain.
    """


def project_option(function: F) -> F:
    option = click.option(
        "-p",
        "--project",
        metavar="NAME",
        envvar="THREADLINE_PROJECT",
        help="Whose memory [$THREADLINE_PROJECT, else the name of the current folder].",
    )
    globally = click.option("-g", "--global", "globally", is_flag=True, help="The global memory, of no project.")
    return option(globally(function))


def session_options(function: F) -> F:
    session = click.option("-s", "--session", metavar="ID", help="With the working memory of that session.")
    agent = click.option("-a", "--agent", metavar="NAME", help="And of that agent in it.")
    return session(agent(function))


@contextmanager
def opened(desk: Desk, project: str | None, globally: bool, *, write: bool = False) -> Iterator[Memory]:
    with desk.store(write=write) as store:
        yield store.memory(None if globally else project or default_project(), root=os.getcwd())


def default_project() -> str:
    name = os.path.basename(os.getcwd())
    if not name:
        raise Failed("the current folder has no name: --project names the memory")
    return name


def tell(desk: Desk, nodes: Iterable[Node]) -> None:
    """Nodes, one a line."""
    listed = list(nodes)
    if desk.as_json:
        for node in listed:
            desk.give(node)
        return
    if listed:
        desk.table(NODES, [row(node) for node in listed])


def row(node: Node) -> list[Piece]:
    mark = " (preliminary)" if node.preliminary else "" if node.active else " (not active)"
    return [
        Ink(node.addr[:SHORT], "cyan"),
        node.domain,
        f"{node.confidence:g}",
        words.ago(node.touched_at or node.created_at),
        " ".join(node.content.split()) + mark,
    ]


# -- claims --------------------------------------------------------------------------------------------


@command(examples=["threadline memory claim 'the API listens on port 8080' --domain net --confidence 0.9"])
@click.argument("content")
@project_option
@click.option("-d", "--domain", default="", metavar="NAME", help="What it is about.")
@click.option("-c", "--confidence", type=click.FloatRange(0, 1), default=0.8, show_default=True, help="How sure it is.")
@click.option("--priority", type=int, default=0, metavar="N", help="How much it counts in recall.")
@click.option("-s", "--session", metavar="ID", help="Who claims it.")
@click.option("-a", "--agent", metavar="NAME", help="And which agent of that session.")
@click.option("--preliminary", is_flag=True, help="Into the working memory of the session.")
@click.option("--chain", metavar="CHAIN", help="At the end of that chain, which is made if it is not there.")
@click.option(
    "--file", "files", multiple=True, metavar="PATH[:FIRST-LAST]", help="Anchored to a file, or to its lines."
)
@click.option("--ttl", metavar="SPAN", help="For how long it stands: 7d, 12h.")
def claim(desk: Desk, content: str, project: str | None, globally: bool, files: tuple[str, ...], ttl: str | None,
          **options: Any) -> None:  # fmt: skip
    """Claim CONTENT. Claiming the same again makes it stronger and erases nothing."""
    anchors, span = [anchor(file) for file in files], None if ttl is None else spanned(ttl)
    with opened(desk, project, globally, write=True) as mem:
        node = mem.claim(content, anchors=anchors, ttl=span, **options)
    again = f", claimed {words.count(node.reinforced + 1, 'time')}" if node.reinforced else ""
    desk.give(node, Ink(node.addr[:SHORT], "cyan"), again)


def anchor(file: str) -> dict[str, Any]:
    path, _, lines = file.rpartition(":")
    first, _, last = lines.partition("-")
    if path and first.isdigit() and (last or first).isdigit():
        return {"file": path, "lines": (int(first), int(last or first))}
    return {"file": file}


def spanned(text: str) -> Any:
    try:
        return words.span(text)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


@command(examples=["threadline memory supersede 3f9a2c 'the API listens on port 9090'"])
@click.argument("addr", metavar="ADDR")
@click.argument("content")
@project_option
@session_options
def supersede(desk: Desk, addr: str, content: str, project: str | None, globally: bool, **who: Any) -> None:
    """Put another claim in the place of ADDR, which stays readable."""
    with opened(desk, project, globally, write=True) as mem:
        node = mem.supersede(addr, content, **who)
    desk.give(node, Ink(node.addr[:SHORT], "cyan"), f" in the place of {node.inputs[0][:SHORT]}")


@command(examples=["threadline memory compress 3f9a2c 77b01d --content 'both in one sentence'"])
@click.argument("addrs", nargs=-1, required=True, metavar="ADDR...")
@click.option("--content", required=True, help="What they say together.")
@project_option
@session_options
def compress(desk: Desk, addrs: tuple[str, ...], content: str, project: str | None, globally: bool, **who: Any) -> None:
    """Put one node in the place of several, which stay readable."""
    with opened(desk, project, globally, write=True) as mem:
        node = mem.compress(addrs, content, **who)
    desk.give(node, Ink(node.addr[:SHORT], "cyan"), f", coverage {node.meta['coverage']:.0%}")
    if "warning" in node.meta and not desk.as_json:
        desk.warn(node.meta["warning"])


@command(examples=["threadline memory retire 3f9a2c --reason 'never was true'"])
@click.argument("addr", metavar="ADDR")
@click.option("--reason", help="Why, for the events.")
@project_option
def retire(desk: Desk, addr: str, reason: str | None, project: str | None, globally: bool) -> None:
    """Take ADDR out of what stands. Claiming it again brings it back."""
    with opened(desk, project, globally, write=True) as mem:
        node = mem.retire(addr, reason)
    desk.give(node, Ink(node.addr[:SHORT], "cyan"), " no longer stands")


# -- reading -------------------------------------------------------------------------------------------


@command(examples=["threadline memory recall 'which port'", "threadline memory recall timeouts -n 10 --json"])
@click.argument("query", nargs=-1, required=True)
@project_option
@session_options
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=5, show_default=True, help="So many at most.")
@click.option("-d", "--domain", metavar="NAME", help="Only of that domain.")
def recall(desk: Desk, query: tuple[str, ...], project: str | None, globally: bool, limit: int, domain: str | None,
           **who: Any) -> None:  # fmt: skip
    """Find what is known about QUERY, the best first."""
    with opened(desk, project, globally) as mem:
        found = mem.recall(" ".join(query), limit=limit, domain=domain, **who)
    tell(desk, found)
    if not found:
        desk.hint("nothing is known about that; `threadline search` looks through sessions.")


@command(name="list", examples=["threadline memory list --domain net", "threadline memory list -s latest-session-id"])
@project_option
@session_options
@click.option("-d", "--domain", metavar="NAME", help="Only of that domain.")
def list_(desk: Desk, project: str | None, globally: bool, domain: str | None, **who: Any) -> None:
    """List what stands, oldest first."""
    with opened(desk, project, globally) as mem, desk.paged():
        tell(desk, mem.active(domain, **who))


@command(examples=["threadline memory show 3f9a2c"])
@click.argument("addr", metavar="ADDR")
@project_option
def show(desk: Desk, addr: str, project: str | None, globally: bool) -> None:
    """Show node ADDR: what it says, what is said of it, what it was made of and what was made of it."""
    from threadline.cli.shapes import page_of

    with opened(desk, project, globally) as mem:
        node, *made_of = mem.provenance(addr)
        made = mem.descendants(node)
    desk.give({"node": node, "provenance": made_of, "descendants": made})
    desk.say(Ink(node.addr, "cyan"), f"  {node.type}{', preliminary' if node.preliminary else ''}")
    desk.say(node.content)
    desk.say(Ink(page_of({"domain": node.domain, "confidence": node.confidence, "meta": node.meta}), "dim"))
    for name, nodes in (("made of", made_of), ("made into", made)):
        if nodes:
            desk.say(Ink(name, "bold"))
            desk.table(NODES, [row(one) for one in nodes])


@command(examples=["threadline memory render --budget 2000 --query 'timeouts' > prompt.txt"])
@project_option
@session_options
@click.option("--budget", type=click.IntRange(1), default=2_000, show_default=True, metavar="TOKENS", help="At most.")
@click.option("--query", default="", help="Only what fits it.")
def render(desk: Desk, project: str | None, globally: bool, budget: int, query: str, **who: Any) -> None:
    """Print what is known as text for a prompt, within a budget."""
    with opened(desk, project, globally) as mem:
        text = mem.render(budget, query=query, **who)
    desk.give({"text": text}, *([text] if text else []))


@command(examples=["threadline memory handoff", "threadline memory handoff --session 4f2k9"])
@project_option
@session_options
@click.option("--budget", type=click.IntRange(1), default=1_500, show_default=True, metavar="TOKENS", help="At most.")
def handoff(
    desk: Desk, project: str | None, globally: bool, budget: int, session: str | None, agent: str | None
) -> None:
    """Print what a session begins with: what the last one left, tasks, corrections, the user's profile."""
    with opened(desk, project, globally) as mem:
        found = mem.handoff(session, agent=agent, budget_tokens=budget)
    desk.give(found, *([found.text] if found.text else []))
    if not found.text:
        desk.hint("nothing was handed over yet.")


@command(examples=["threadline memory events -n 20"])
@project_option
@click.option("-n", "--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="So many at most.")
def events(desk: Desk, project: str | None, globally: bool, limit: int) -> None:
    """List what was done, the newest first."""
    with opened(desk, project, globally) as mem:
        found = mem.events(limit)
    columns = (Column("WHEN"), Column("WHAT"), Column("SESSION", drop=1), Column("ADDRESSES", flexible=True, least=12))
    for event in found:
        if desk.as_json:
            desk.give(event)
    desk.table(
        columns,
        [[words.ago(e.at), e.what, e.session or "-", " ".join(addr[:SHORT] for addr in e.addrs)] for e in found],
    )


@command(examples=["threadline memory anchors"])
@project_option
def anchors(desk: Desk, project: str | None, globally: bool) -> int:
    """Check the files that claims are anchored to, in the current folder. The exit code is 1 if one is not found."""
    with opened(desk, project, globally) as mem:
        found = mem.check_anchors()
    columns = (Column("ADDRESS"), Column("STATUS"), Column("WHERE"), Column("WHAT IT SAYS", flexible=True, least=12))
    for check in found:
        if desk.as_json:
            desk.give(check)
    desk.table(columns, [[Ink(c.addr[:SHORT], "cyan"), c.status, c.where or "-", c.says] for c in found])
    return int(any(check.status in ("drifted", "missing") for check in found))


# -- chains --------------------------------------------------------------------------------------------


def told(desk: Desk, chains: Iterable[Chain]) -> None:
    listed = list(chains)
    if desk.as_json:
        for chain in listed:
            desk.give(chain)
        return
    desk.table(CHAINS, [chain_row(chain) for chain in listed])


def chain_row(chain: Chain) -> list[Piece]:
    extended = words.ago(chain.extended_at)
    return [Ink(chain.id, "cyan"), chain.status, str(len(chain.members)), chain.session or "-", extended, chain.name]


@command(name="chains", examples=["threadline memory chains --status stashed"])
@project_option
@session_options
@click.option("--status", metavar="STATUS", help="preliminary, active, stashed, archived or superseded.")
def chains_(desk: Desk, project: str | None, globally: bool, status: str | None, **who: Any) -> None:
    """List chains, oldest first."""
    with opened(desk, project, globally) as mem:
        told(desk, mem.chains(status=status, **who))


@command(name="chain", examples=["threadline memory chain timeouts"])
@click.argument("chain", metavar="CHAIN")
@project_option
@session_options
def chain_(desk: Desk, chain: str, project: str | None, globally: bool, **who: Any) -> None:
    """Show a chain and its nodes, in order."""
    with opened(desk, project, globally) as mem:
        found = mem.chain(chain, **who)
        nodes = [mem.get(addr) for addr in found.members]
    desk.give({"chain": found, "nodes": nodes}, Ink(found.id, "cyan"), f"  {found.status}  ", Ink(found.name, "bold"))
    desk.table(NODES, [row(node) for node in nodes])


@command(examples=["threadline memory extend timeouts 3f9a2c"])
@click.argument("chain", metavar="CHAIN")
@click.argument("addr", metavar="ADDR")
@project_option
@session_options
def extend(desk: Desk, chain: str, addr: str, project: str | None, globally: bool, **who: Any) -> None:
    """Put node ADDR at the end of a chain."""
    with opened(desk, project, globally, write=True) as mem:
        found = mem.extend(chain, addr, **who)
    desk.give(found, Ink(found.id, "cyan"), f": {words.count(len(found.members), 'node')}")


@command(examples=["threadline memory stash timeouts 'waits for the review'"])
@click.argument("chain", metavar="CHAIN")
@click.argument("reason")
@project_option
@session_options
def stash(desk: Desk, chain: str, reason: str, project: str | None, globally: bool, **who: Any) -> None:
    """Put a chain aside, with its nodes."""
    with opened(desk, project, globally, write=True) as mem:
        found = mem.stash(chain, reason, **who)
    desk.give(found, Ink(found.id, "cyan"), f" is {found.status}")


@command(examples=["threadline memory pop timeouts"])
@click.argument("chain", metavar="CHAIN")
@project_option
@session_options
def pop(desk: Desk, chain: str, project: str | None, globally: bool, **who: Any) -> None:
    """Take a stashed chain up again."""
    with opened(desk, project, globally, write=True) as mem:
        found = mem.pop(chain, **who)
    desk.give(found, Ink(found.id, "cyan"), f" is {found.status}")


# -- sessions ------------------------------------------------------------------------------------------


@command(examples=["threadline memory promote timeouts", "threadline memory promote 3f9a2c"])
@click.argument("what", metavar="CHAIN|ADDR")
@project_option
@session_options
def promote(desk: Desk, what: str, project: str | None, globally: bool, **who: Any) -> None:
    """Make a preliminary chain with its nodes, or a node, lasting."""
    with opened(desk, project, globally, write=True) as mem:
        done = mem.promote(what, **who)
    desk.give(done, f"{words.count(len(done.nodes), 'node')}, {words.count(len(done.chains), 'chain')} promoted")


@command(examples=["threadline memory summary 4f2k9"])
@click.argument("session", metavar="SESSION")
@project_option
def summary(desk: Desk, session: str, project: str | None, globally: bool) -> None:
    """Show where the working memory of a session stands."""
    with opened(desk, project, globally) as mem:
        found = mem.summary(session)
    state = "ended" if found.ended else "at work"
    promoted = words.count(len(found.promoted), "node")
    desk.give(found, f"{state}: {len(found.preliminary)} preliminary, {promoted} promoted")
    desk.table(NODES, [row(node) for node in found.preliminary])
    desk.table(CHAINS, [chain_row(chain) for chain in found.chains])


@command(examples=["threadline memory end 4f2k9", "threadline memory end 4f2k9 --no-promote"])
@click.argument("session", metavar="SESSION")
@project_option
@click.option("--promote/--no-promote", "promoting", default=True, help="Make what stands lasting, or archive it all.")
@click.option("-a", "--agent", metavar="NAME", help="Only that agent's part.")
def end(desk: Desk, session: str, project: str | None, globally: bool, promoting: bool, agent: str | None) -> None:
    """End a session here: what is preliminary is promoted, the rest archived. Nothing is lost."""
    with opened(desk, project, globally, write=True) as mem:
        done = mem.end(session, promote=promoting, agent=agent)
    desk.give(done, f"{words.count(len(done.promoted), 'node')} promoted, {len(done.archived)} archived")


@command(name="archives", examples=["threadline memory archives"])
@project_option
def archives(desk: Desk, project: str | None, globally: bool) -> None:
    """List the working memories that have ended, by when they ended."""
    with opened(desk, project, globally) as mem:
        found = mem.archives()
    columns = (Column("SESSION"), Column("AGENT", drop=1), Column("ARCHIVED"), Column("NODES", right=True))
    for archive in found:
        if desk.as_json:
            desk.give(archive)
    desk.table(columns, [[a.session, a.agent or "-", words.ago(a.archived_at), str(a.nodes)] for a in found])


@command(examples=["threadline memory recover 4f2k9"])
@click.argument("session", metavar="SESSION")
@project_option
def recover(desk: Desk, session: str, project: str | None, globally: bool) -> None:
    """Bring the working memory of an ended session back."""
    with opened(desk, project, globally, write=True) as mem:
        back = mem.recover(session)
    desk.give({"nodes": back}, f"{words.count(len(back), 'node')} brought back")


@command(asks=True, examples=["threadline memory gc --dry-run", "threadline memory gc --older-than 90d"])
@project_option
@click.option("--older-than", default="30d", show_default=True, metavar="SPAN", help="Ended so long ago.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
def gc(desk: Desk, project: str | None, globally: bool, older_than: str, dry_run: bool) -> None:
    """Remove the archives of sessions that ended long ago. Nothing else ever does."""
    with opened(desk, project, globally, write=not dry_run) as mem:
        plan = mem.gc(spanned(older_than), dry_run=True)
        if plan.archives and not dry_run:
            desk.confirm([f"{words.count(len(plan.archives), 'archive')} with {plan.lost} nodes that are nowhere else"])
            plan = mem.gc(spanned(older_than))
    would = "would go" if dry_run else "removed"
    desk.give(plan, f"{words.count(len(plan.archives), 'archive')} {would}")


@command(examples=["threadline memory export ~/elsewhere/.mnemo"])
@click.argument("path", type=click.Path(path_type=Path))
@project_option
@click.option("--raw", is_flag=True, help="Secrets as they are, instead of masked.")
def export(desk: Desk, path: Path, project: str | None, globally: bool, raw: bool) -> None:
    """Write the whole memory to the new folder PATH, as mnemo keeps it; `threadline import` reads it again."""
    from threadline import transcripts

    with opened(desk, project, globally) as mem:
        report = transcripts.write(mem, path, "mnemo", raw=raw)
        count = len(mem.nodes())
    desk.give(report, f"{path}: {words.count(count, 'lasting node')}")


for _command in (
    claim, recall, list_, show, supersede, compress, retire, render, handoff, events, anchors, chains_, chain_, extend,
    stash, pop, promote, summary, end, archives, recover, gc, export,
):  # fmt: skip
    memory.add_command(_command)
