"""Numbers and times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_STEPS = ((60, "s", 1), (3_600, "min", 60), (86_400, "h", 3_600), (30 * 86_400, "d", 86_400))
_UNITS = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def count(number: int, noun: str) -> str:
    """`1 session`, `2,000 sessions`, `3 entries`."""
    if number == 1:
        return f"1 {noun}"
    many = noun[:-1] + "ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else noun + "s"
    return f"{number:,} {many}"


def size(size_bytes: float) -> str:
    """`512 B`, `3.4 MB`: thousands, as disks are sold and quotas are told."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size_bytes) < 999.5:
            return f"{size_bytes:.0f} B" if unit == "B" else f"{size_bytes:.3g} {unit}"
        size_bytes /= 1_000
    return f"{size_bytes:,.3g} TB"


def short(number: float) -> str:
    """`950`, `12.3k`, `4.56M`: for charts and narrow columns."""
    if abs(number) < 1_000:
        return f"{number:.0f}"
    for unit in ("k", "M", "G"):
        number /= 1_000
        if abs(number) < 999.5:
            return f"{number:.3g}{unit}"
    return f"{number / 1_000:.3g}T"


def money(cost: float | None) -> str:
    """Dollars, with cents where they matter; nothing where the price is unknown."""
    if cost is None:
        return "?"
    return f"${cost:,.2f}" if cost >= 1 or cost == 0 else f"${cost:.2g}" if cost < 0.01 else f"${cost:.3f}"


def duration(seconds: float) -> str:
    """`0:07`, `12:30`, `3:05:00`."""
    whole = max(0, round(seconds))
    minutes, hours = whole // 60, whole // 3_600
    return f"{hours}:{minutes % 60:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def ago(moment: datetime, now: datetime | None = None) -> str:
    """`now`, `5 min ago`, `3 d ago`, and a date for what is older than a month."""
    past = ((now or datetime.now(UTC)) - moment).total_seconds()
    if past < 1:
        return "now"
    for below, unit, seconds in _STEPS:
        if past < below:
            return f"{past // seconds:.0f} {unit} ago"
    return moment.astimezone().strftime("%Y-%m-%d")


def local(moment: datetime) -> str:
    """A time where the reader is."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def exact(moment: datetime) -> str:
    """A time for a machine: UTC, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def span(text: str) -> timedelta:
    """`90d`, `12 h`, `30min`, `2w` as a timedelta. Raises ValueError."""
    number = text.strip().rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text.strip()[len(number) :]
    name = _UNITS.get(unit) or (
        unit if unit in _UNITS.values() else _UNITS.get(unit[:1]) if unit in _SINGULAR else None
    )
    if name is None:
        raise ValueError(f"not a span of time: {text!r}; say 30d, 12h, 45min or 2w")
    return timedelta(**{name: float(number)})


_SINGULAR = {"second", "minute", "hour", "day", "week"}
