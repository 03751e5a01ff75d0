"""Draws the elements of topology pictures: SVG of attributes alone, by pure functions.

The drawings of workers share types: rows of the table, and the description of each kind of topology.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.utils.html import format_html
from django.utils.safestring import SafeString

from console.templatetags.said import inert
from fabric.core.spec.fabric import FabricSpec

WIDTH = 720
NODE_W, NODE_H, TOOL_H = 156, 40, 24
CHARS = 22
"""Number of characters drawn of a name; the node's title and the table have the whole name."""


@dataclass(frozen=True, slots=True)
class Box:
    """A node: name, second line, CSS classes, and position."""

    name: str
    note: str
    classes: str
    x: int
    y: int
    w: int = NODE_W


def box(node: Box) -> SafeString:
    """Return a node with its two lines."""
    return format_html(
        '<g><title>{}</title><rect class="node {}" x="{}" y="{}" width="{}" height="{}" rx="4"/><text x="{}" y="{}">{}</text>'
        '<text class="t2" x="{}" y="{}">{}</text></g>',
        *(inert(node.name), node.classes, node.x, node.y, node.w, NODE_H),
        *(node.x + 12, node.y + 17, cut(node.name, CHARS), node.x + 12, node.y + 31, cut(node.note, CHARS + 4)),
    )


def tool_box(name: str, effect: str, x: int, y: int) -> SafeString:
    """Return a tool, with the dot of its effect."""
    return format_html(
        '<g><title>{}, {}</title><rect class="node tool" x="{}" y="{}" width="{}" height="{}" rx="4"/><circle class="eff-{}" cx="{}" cy="{}" r="3.5"/>'
        '<text class="t2" x="{}" y="{}">{}</text></g>',
        *(inert(name), effect.replace("_", "-"), x, y, NODE_W - 20, TOOL_H, effect, x + 12, y + TOOL_H // 2),
        *(x + 22, y + 16, cut(name, 20)),
    )


def cut(text: str, chars: int) -> str:
    """Return untrusted text, made inert and cut to the available room."""
    text = inert(text)
    return text if len(text) <= chars else f"{text[: chars - 1]}…"


def label(x: int, y: int, text: str) -> SafeString:
    """Return a few words beside an element."""
    return format_html('<text class="tier" x="{}" y="{}">{}</text>', x, y, text)


def frame(x: int, y: int, w: int, h: int) -> SafeString:
    """Return a frame around a group."""
    return format_html('<rect class="group" x="{}" y="{}" width="{}" height="{}" rx="4"/>', x, y, w, h)


def arrow_down(x: int, y1: int, y2: int) -> SafeString:
    """Return an arrow straight down."""
    return format_html(
        '<path class="e" d="M{0} {1}V{2}"/><path class="arrow" d="M{3} {2}h8l-4 6z"/>', x, y1, y2 - 6, x - 4
    )


def elbow(x1: int, y1: int, x2: int, y2: int) -> SafeString:
    """Return an arrow down, across and down."""
    middle = y1 + 12
    return format_html(
        '<path class="e" d="M{} {}V{}H{}V{}"/><path class="arrow" d="M{} {}h8l-4 6z"/>',
        *(x1, y1, middle, x2, y2 - 6, x2 - 4, y2 - 6),
    )


def arrow_right(x1: int, x2: int, y: int) -> SafeString:
    """Return an arrow to the right."""
    return format_html(
        '<path class="e" d="M{0} {1}H{2}"/><path class="arrow" d="M{2} {3}v8l6-4z"/>', x1, y, x2 - 6, y - 4
    )


def arrow_left(x1: int, x2: int, y: int) -> SafeString:
    """Return an arrow to the left."""
    return format_html(
        '<path class="e" d="M{0} {1}H{2}"/><path class="arrow" d="M{2} {3}v8l-6-4z"/>', x1, y, x2 + 6, y - 4
    )


def hook(x: int, y1: int, y2: int, x2: int) -> SafeString:
    """Return a line down and to an element beneath, without a point."""
    return format_html('<path class="e thin" d="M{} {}V{}H{}"/>', x, y1, y2, x2)


Drawn = tuple[list[SafeString], int]
"""The drawn parts, and the vertical position of their end."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link between two workers: a row of the table beside the picture."""

    source: str
    target: str
    what: str
    stage: str


@dataclass(frozen=True, slots=True)
class Area:
    """Drawing of the workers of one kind of topology."""

    draw: Callable[[FabricSpec, int], Drawn]
    """Draws the workers below a height."""
    links: Callable[[FabricSpec, str], list[Link]]
    """Links to and among the workers; takes the planner's name."""
    ends: Callable[[FabricSpec, str], list[Link]]
    """Links from the workers; takes the aggregator's name."""
    label: Callable[[FabricSpec], str]
    """A few words above the picture."""
    plan: str
    """Text in the planner's place if there is none."""
    joins: tuple[str, str]
    """Text in the aggregator's place if there is none, and a note."""
    policy: bool
    """True if the fan-in policy applies."""
