"""What it costs to write a message for a provider, over handing out our own values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import threadline
from bench.measure import Found, in_turns
from bench.said import filled
from threadline import Session

LAST = 120
PROVIDERS = ("anthropic", "openai", "responses", "gemini")


def formatting(folder: Path, large: int) -> Iterator[Found]:
    with threadline.open(folder / "formatting.db", durability="relaxed") as store:
        session = filled(store.new(), 300)
        took = in_turns({name: asking(session, name) for name in ("threadline", *PROVIDERS)}, 30)
    for name in PROVIDERS:
        each = (took[name].median_us - took["threadline"].median_us) / LAST
        yield Found(f"formatting for {name}", each, 15, "µs per message", str(took[name]))


def asking(session: Session, format: str) -> Callable[[], object]:
    return lambda: session.context(max_messages=LAST, format=format)


WORKLOADS = (formatting,)
