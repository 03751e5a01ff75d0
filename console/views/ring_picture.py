"""Nodes on a ring and arrows between them, as SVG of attributes alone: for whoever passes something on to whom, in no fixed order. Pure functions.

Two arrows between the same nodes bend to different sides, so that each can be followed. A node that passes on to itself has a loop above it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import cos, hypot, pi, sin

from django.utils.html import format_html
from django.utils.safestring import SafeString

from console.templatetags.said import inert

WIDTH = 720
NODE_W, NODE_H = 136, 40
CHARS, NOTE_CHARS = 18, 22
NODES_MAX = 12
"""As many as have room beside each other; whoever draws more says how many are left out."""
BEND = 22
"""How far an arrow leaves the straight line, at its middle."""
LANE, LOOP_LANE = 34, 44
"""How much farther the next lane runs; of loops, how far beside."""
HEAD = 7


@dataclass(frozen=True, slots=True)
class Spot:
    """A node: what it is called, a second line, and how it looks (CSS classes)."""

    key: str
    name: str
    note: str = ""
    css: str = ""
    title: str = ""
    """What else a pointer is told."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one node to another, by their keys."""

    source: str
    target: str
    label: str = ""
    title: str = ""
    css: str = ""
    """``ctx``: dashed; ``anew``: a restart edge; ``back``: to a retry target."""
    lane: int = 0
    """How far out it runs, so that it stands beside another one between the same nodes."""


@dataclass(frozen=True, slots=True)
class Ring:
    """What was drawn, and how high it is from its top."""

    parts: tuple[SafeString, ...]
    height: int


Point = tuple[float, float]


def ring(spots: Sequence[Spot], arrows: Iterable[Arrow], *, top: int = 0) -> Ring:
    """At most ``NODES_MAX`` nodes on a ring below ``top``, and the arrows among those that are drawn."""
    shown = spots[:NODES_MAX]
    at = {spot.key: place for spot, place in zip(shown, _places(len(shown), top), strict=True)}
    drawn = [_arrow(at, arrow) for arrow in arrows if arrow.source in at and arrow.target in at]
    return Ring((*drawn, *(_spot(spot, *at[spot.key]) for spot in shown)), _height(len(shown)))


def _height(count: int) -> int:
    rows = 1 if count <= 2 else 2 if count <= 4 else 3 if count <= 7 else 4
    return 40 + rows * (NODE_H + 44)


def _places(count: int, top: int) -> list[Point]:
    """The middles of the nodes: clockwise from the top; two stand side by side."""
    height = _height(count)
    if count == 1:
        return [(WIDTH / 2, top + height / 2)]
    across, down = WIDTH / 2 - NODE_W / 2 - 16, height / 2 - NODE_H / 2 - 22
    if count == 2:
        across *= 0.6
    begins = pi if count == 2 else -pi / 2
    angles = [begins + 2 * pi * n / count for n in range(count)]
    return [(WIDTH / 2 + across * cos(angle), top + height / 2 + down * sin(angle)) for angle in angles]


def _spot(spot: Spot, x: float, y: float) -> SafeString:
    left, up = round(x - NODE_W / 2), round(y - NODE_H / 2)
    name, note = _cut(spot.name, CHARS), _cut(spot.note, NOTE_CHARS)
    return format_html(
        '<g><title>{}</title><rect class="node {}" x="{}" y="{}" width="{}" height="{}" rx="4"/>'
        '<text x="{}" y="{}">{}</text><text class="t2" x="{}" y="{}">{}</text></g>',
        *(inert(spot.title or spot.name), spot.css, left, up, NODE_W, NODE_H),
        *(left + 13, up + 17, name, left + 13, up + 32, note),
    )


def _cut(text: str, chars: int) -> str:
    text = inert(text)
    return text if len(text) <= chars else f"{text[: chars - 1]}…"


def _arrow(at: Mapping[str, Point], arrow: Arrow) -> SafeString:
    if arrow.source == arrow.target:
        return _loop(arrow, *at[arrow.source])
    begins, ends = at[arrow.source], at[arrow.target]
    dx, dy = ends[0] - begins[0], ends[1] - begins[1]
    far = hypot(dx, dy) or 1.0
    out = BEND * 2 + LANE * arrow.lane
    bend = (begins[0] + dx / 2 + dy / far * out, begins[1] + dy / 2 - dx / far * out)
    begins, ends = _border(begins, bend), _border(ends, bend)
    middle = ((begins[0] + 2 * bend[0] + ends[0]) / 4, (begins[1] + 2 * bend[1] + ends[1]) / 4)
    path = f"M{_at(begins)}Q{_at(bend)} {_at(ends)}"
    return _line(arrow, path, _head(bend, ends), middle)


def _loop(arrow: Arrow, x: float, y: float) -> SafeString:
    up, right = y - NODE_H / 2, x + NODE_W / 2 - 34 - LOOP_LANE * arrow.lane
    ends = (right + 20, up)
    path = f"M{_at((right, up))}C{_at((right - 4, up - 24))} {_at((right + 24, up - 24))} {_at(ends)}"
    return _line(arrow, path, _head((right + 24, up - 20), ends), (right + 10, up - 18))


def _line(arrow: Arrow, path: str, head: str, label: Point) -> SafeString:
    tip = format_html("<title>{}</title>", inert(arrow.title)) if arrow.title else ""
    said = (
        format_html(
            '<text class="t2 n" x="{}" y="{}" text-anchor="middle">{}</text>',
            round(label[0]),
            round(label[1]) + 3,
            arrow.label,
        )
        if arrow.label
        else ""
    )
    return format_html(
        '<g>{}<path class="e {}" d="{}"/><path class="arrow {}" d="{}"/>{}</g>',
        *(tip, arrow.css, path, arrow.css, head, said),
    )


def _border(center: Point, towards: Point) -> Point:
    """Where the line from a node's middle to a point leaves the node."""
    dx, dy = towards[0] - center[0], towards[1] - center[1]
    scale = min((NODE_W / 2) / abs(dx) if dx else float("inf"), (NODE_H / 2) / abs(dy) if dy else float("inf"))
    return (center[0] + dx * scale, center[1] + dy * scale) if scale < 1 else towards


def _head(comes_from: Point, tip: Point) -> str:
    dx, dy = tip[0] - comes_from[0], tip[1] - comes_from[1]
    far = hypot(dx, dy) or 1.0
    ux, uy = dx / far * HEAD, dy / far * HEAD
    base = (tip[0] - ux, tip[1] - uy)
    left, right = (base[0] - uy * 0.55, base[1] + ux * 0.55), (base[0] + uy * 0.55, base[1] - ux * 0.55)
    return f"M{_at(tip)}L{_at(left)}L{_at(right)}z"


def _at(point: Point) -> str:
    return f"{point[0]:.1f} {point[1]:.1f}"
