"""Plots as SVG: for each workload a bar per target, and a line for each thing that grows. No library needed."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10

from bench.measure import Curve, Found

WIDTH, NAMES, BAR, CHART = 900, 380, 24, 260
COLOURS = ("#2563eb", "#dc2626", "#059669", "#9333ea", "#d97706", "#475569")
MET, NOT_MET, TOLD = "#059669", "#dc2626", "#94a3b8"
STYLE = "font-family: system-ui, sans-serif; font-size: 12px"


def plot(name: str, yielded: Sequence[Found | Curve]) -> str:
    """One picture: what was reached, as a share of what must be, and below it how things grow."""
    parts, top = [], 40
    targets = [each for each in yielded if isinstance(each, Found) and each.must]
    if targets:
        parts.append(bars(targets, top))
        top += BAR * len(targets) + 50
    for curve in (each for each in yielded if isinstance(each, Curve)):
        parts.append(lines(curve, top))
        top += CHART + 70
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top}" style="{STYLE}">'
    title = text(10, 22, name, weight="bold")
    return "\n".join([head, f'<rect width="{WIDTH}" height="{top}" fill="white"/>', title, *parts, "</svg>"]) + "\n"


def bars(targets: Sequence[Found], top: int) -> str:
    """Each as a share of its target; the line is the target itself."""
    shares = [each.reached / each.must for each in targets if each.must]
    room = WIDTH - NAMES - 90
    scale = room / max(1.2, *shares)
    out = []
    for at, (each, share) in enumerate(zip(targets, shares, strict=True)):
        y = top + at * BAR
        colour = MET if each.met else NOT_MET
        out.append(text(NAMES - 8, y + 15, each.work, anchor="end"))
        out.append(f'<rect x="{NAMES}" y="{y + 3}" width="{share * scale:.1f}" height="{BAR - 8}" fill="{colour}"/>')
        out.append(text(NAMES + share * scale + 5, y + 15, f"{each.reached:.2f} of {each.must:g}"))
    x = NAMES + scale
    bottom = top + BAR * len(targets)
    out.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}" stroke="black" stroke-dasharray="4 3"/>')
    out.append(text(x, bottom + 15, "must reach", anchor="middle"))
    return "\n".join(out)


def lines(curve: Curve, top: int) -> str:
    """Sizes to the right, by powers of ten; values upwards, from 0, or by powers of ten where they differ a lot."""
    points = [point for line in curve.lines.values() for point in line]
    left, right, bottom = 70, WIDTH - 200, top + CHART
    low, high = floor(log10(min(x for x, _ in points))), ceil(log10(max(x for x, _ in points)))
    peak, least = max(y for _, y in points), min(y for _, y in points)
    steep = least > 0 and peak / least > 30

    def across(x: float) -> float:
        return left + (log10(x) - low) / max(1, high - low) * (right - left)

    def up(y: float) -> float:
        if steep:
            return bottom - (log10(y) - floor(log10(least))) / (ceil(log10(peak)) - floor(log10(least))) * (CHART - 30)
        return bottom - y / (peak * 1.1 or 1) * (CHART - 30)

    out = [text(10, top + 12, f"{curve.title}, {curve.unit}", weight="bold")]
    out += [text(across(10**n), bottom + 16, f"{10**n:,}", anchor="middle") for n in range(low, high + 1)]
    for mark in (least, peak):
        out.append(text(left - 6, up(mark) + 4, f"{mark:.3g}", anchor="end"))
    out.append(f'<path d="M{left} {top + 20} V{bottom} H{right}" fill="none" stroke="#94a3b8"/>')
    for at, (name, line) in enumerate(curve.lines.items()):
        colour = COLOURS[at % len(COLOURS)]
        path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in line)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="3" fill="{colour}"/>' for x, y in line]
        out.append(text(right + 12, top + 34 + 18 * at, name, fill=colour))
    return "\n".join(out)


def text(x: float, y: float, words: str, anchor: str = "start", weight: str = "normal", fill: str = "black") -> str:
    at = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" fill="{fill}"'
    return f"<text {at}>{escape(words)}</text>"
