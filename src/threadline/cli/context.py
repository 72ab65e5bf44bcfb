"""`threadline context ID`: exactly what would be sent to a model."""

from __future__ import annotations

from typing import Any

import click

from threadline import Context
from threadline.cli import shapes, words
from threadline.cli.desk import Desk, command, id_argument

FORMATS = ("threadline", "anthropic", "openai", "responses", "gemini")


@command(
    examples=[
        "threadline context latest --format anthropic --max-tokens 100000",
        "threadline context 4fk2 | jq .system",
    ]
)
@id_argument
@click.option(
    "--format", "format", type=click.Choice(FORMATS), default="threadline", help="Whose messages [threadline]."
)
@click.option("--max-tokens", type=click.IntRange(1), metavar="N", help="Never more than so many tokens.")
@click.option("--max-messages", type=click.IntRange(1), metavar="N", help="Never more than so many entries.")
@click.option("--keep-outputs", type=click.IntRange(0), metavar="N", help="Older large tool results only as previews.")
@click.option("--timestamps", is_flag=True, help="User turns tell their time.")
@click.option("--at", type=click.IntRange(0), metavar="SEQ", help="What would have been sent right after that entry.")
def context(desk: Desk, id: str, **wishes: Any) -> None:
    """Print what would be sent for session ID: `system` and `messages`, as JSON in the provider's own format.

    With --json on one line, together with the tokens, the entries that the messages came from, and what was mended.
    """
    with desk.store() as store:
        found = desk.session(store, id).context(**wishes)
    sent = {"system": found.system, "messages": found.messages}
    if desk.as_json:
        desk.give(sent | facts(found))
        return
    with desk.paged():
        desk.say(shapes.page_of(sent) if desk.screen.terminal else shapes.line_of(sent))
    told = [words.count(len(found.messages), "message"), words.count(found.tokens, "token")]
    desk.hint(", ".join([*told, f"{found.dropped} left out"] if found.dropped else told))
    for repair in found.repairs:
        desk.hint(f"mended: {repair}")


def facts(found: Context) -> dict[str, Any]:
    names = ("tokens", "seqs", "start", "dropped", "head", "repairs")
    return {name: getattr(found, name) for name in names} | {"fingerprint": found.fingerprint()}
