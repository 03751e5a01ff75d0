"""Draws workers that speak one after another, as a picture and as rows of its table. Pure functions.

It shows which worker may hand over to which, and which rule leads from one to another. Nodes stand on a ring, with
arrows between them, as SVG of attributes alone: that suits handovers in no fixed order. Two arrows between two nodes
bend to different sides. A node that hands over to itself has a loop above it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import cos, hypot, pi, sin
from typing import cast

from django.utils.html import format_html
from django.utils.safestring import SafeString

from console.templatetags.said import inert
from console.topologies.drawing import Area, Drawn, Link, label
from console.words.graphs import LEVELS
from fabric.core.graph import conditions as t
from fabric.core.graph.conditions import find_next_participant
from fabric.core.graph.reach import Crew, RuleReach
from fabric.core.graph.retry_targets import after_failure, before_goal, has_targets
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.topologies.graph import GraphTopology
from fabric.core.spec.topologies.handoff import HandoffTopology
from fabric.core.values.flow import Stage

WIDTH = 720
NODE_W, NODE_H = 136, 40
CHARS, NOTE_CHARS = 18, 22
NODES_MAX = 12
"""Number of nodes that fit; callers name how many they leave out."""
BEND = 22
"""Distance of an arrow's middle from the straight line."""
LANE, LOOP_LANE = 34, 44
"""Further distance of the next lane of arrows, and of loops."""
HEAD = 7


@dataclass(frozen=True, slots=True)
class Spot:
    """A node: its name, a second line, and its CSS classes."""

    key: str
    name: str
    note: str = ""
    css: str = ""
    title: str = ""
    """Further text of its tooltip."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow from one node to another, by their keys."""

    source: str
    target: str
    label: str = ""
    title: str = ""
    css: str = ""
    """``ctx``: dashed; ``anew``: a restart edge; ``back``: to a retry target."""
    lane: int = 0
    """Lane of the arrow, so that arrows between two nodes do not overlap."""


@dataclass(frozen=True, slots=True)
class Ring:
    """The drawn parts, and their height."""

    parts: tuple[SafeString, ...]
    height: int


Point = tuple[float, float]


def ring(spots: Sequence[Spot], arrows: Iterable[Arrow], *, top: int = 0) -> Ring:
    """Draw at most ``NODES_MAX`` nodes on a ring below ``top``, and the arrows among them."""
    shown = spots[:NODES_MAX]
    at = {spot.key: place for spot, place in zip(shown, _places(len(shown), top), strict=True)}
    drawn = [_arrow(at, arrow) for arrow in arrows if arrow.source in at and arrow.target in at]
    return Ring((*drawn, *(_spot(spot, *at[spot.key]) for spot in shown)), _height(len(shown)))


def _height(count: int) -> int:
    rows = 1 if count <= 2 else 2 if count <= 4 else 3 if count <= 7 else 4
    return 40 + rows * (NODE_H + 44)


def _places(count: int, top: int) -> list[Point]:
    """Return the middles of the nodes: clockwise from the top; two stand side by side."""
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
    path = f"M{_point_text(begins)}Q{_point_text(bend)} {_point_text(ends)}"
    return _line(arrow, path, _head(bend, ends), middle)


def _loop(arrow: Arrow, x: float, y: float) -> SafeString:
    up, right = y - NODE_H / 2, x + NODE_W / 2 - 34 - LOOP_LANE * arrow.lane
    ends = (right + 20, up)
    path = f"M{_point_text((right, up))}C{_point_text((right - 4, up - 24))} {_point_text((right + 24, up - 24))} {_point_text(ends)}"
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
    """Return the point at which a line from a node's middle leaves the node."""
    dx, dy = towards[0] - center[0], towards[1] - center[1]
    scale = min((NODE_W / 2) / abs(dx) if dx else float("inf"), (NODE_H / 2) / abs(dy) if dy else float("inf"))
    return (center[0] + dx * scale, center[1] + dy * scale) if scale < 1 else towards


def _head(comes_from: Point, tip: Point) -> str:
    dx, dy = tip[0] - comes_from[0], tip[1] - comes_from[1]
    far = hypot(dx, dy) or 1.0
    ux, uy = dx / far * HEAD, dy / far * HEAD
    base = (tip[0] - ux, tip[1] - uy)
    left, right = (base[0] - uy * 0.55, base[1] + ux * 0.55), (base[0] + uy * 0.55, base[1] - ux * 0.55)
    return f"M{_point_text(tip)}L{_point_text(left)}L{_point_text(right)}z"


def _point_text(point: Point) -> str:
    return f"{point[0]:.1f} {point[1]:.1f}"


END = "end of the conversation"
ARROWS_MAX = 40
"""Number of arrows above which a picture is useless; the table has all of them."""


def _spots(spec: FabricSpec, first: str) -> list[Spot]:
    found = []
    for name in spec.topology.workers:
        agent = spec.agent(name)
        model = spec.model(agent.model)
        what = "speaks first" if name == first else model.model or model.name
        found.append(
            Spot(name, name, what, css="lead" if name == first else "", title=f"{name}: {agent.instructions[:200]}")
        )
    return found


def _draw_ring(spec: FabricSpec, first: str, arrows: list[Arrow], top: int, *, ends: bool) -> Drawn:
    spots = _spots(spec, first)
    if ends:
        spots.append(Spot(END, "ends", "", css="none"))
    more = len(spots) - NODES_MAX
    drawn: Ring = ring(spots, arrows[:ARROWS_MAX], top=top)
    parts = list(drawn.parts)
    if more > 0:
        parts.append(label(560, top + drawn.height - 2, f"{more} more in the table below"))
    return parts, top + drawn.height


# -- peers -------------------------------------------------------------------------------------------------------------


def _peers(spec: FabricSpec) -> HandoffTopology:
    return cast(HandoffTopology, spec.topology)


def _passes(spec: FabricSpec) -> Iterator[tuple[str, str]]:
    """Yield pairs of workers of which the first may hand over to the second."""
    topology = _peers(spec)
    for one in topology.workers:
        allowed = topology.workers if topology.passes is None else topology.passes.get(one, ())
        yield from ((one, other) for other in allowed if other != one)


def _handoff(spec: FabricSpec, top: int) -> Drawn:
    topology = _peers(spec)
    arrows = [Arrow(one, other, title=f"{one} may pass on to {other}") for one, other in _passes(spec)]
    return _draw_ring(spec, topology.first or topology.workers[0], arrows, top, ends=False)


def _handoffs(spec: FabricSpec, planner: str) -> list[Link]:
    topology = _peers(spec)
    first = Link(planner, topology.first or topology.workers[0], "the request, first", "fan-out")
    return [first, *(Link(one, other, "may pass it on, with a brief", "fan-out") for one, other in _passes(spec))]


def _answer(spec: FabricSpec, joiner: str) -> list[Link]:
    return [
        Link(worker, joiner, "its answer, where it passes nothing on", "fan-in") for worker in spec.topology.workers
    ]


def _hops(spec: FabricSpec) -> str:
    return f"peer handoff, at most {spec.policy.of_stage(Stage.FAN_OUT).limits.hops} hops"


# -- rules -------------------------------------------------------------------------------------------------------------


def _rules(spec: FabricSpec) -> Iterator[tuple[str, str, int | None]]:
    """Yield speaker, target and place of the rule that can lead there; None without a rule. An end is ``END``."""
    topology = cast(GraphTopology, spec.topology)
    graph, reach = topology.graph, _reach(spec)
    for speaker in graph.participants:
        for place, rule in enumerate(graph.transitions):
            if reach.decides(place, speaker):
                yield from ((speaker, target, place) for target in _leads(topology, rule.then, speaker))
        if reach.falls_through(speaker):
            yield from ((speaker, target, None) for target in _leads(topology, graph.default_target, speaker))


def _reach(spec: FabricSpec) -> RuleReach:
    graph = cast(GraphTopology, spec.topology).graph
    tools = {name: frozenset(spec.tools_of(spec.agent(name))) for name in graph.participants}
    return RuleReach(graph, Crew(tools, goals=spec.policy.goal_gates.nodes))


def _back(spec: FabricSpec) -> Iterator[tuple[str, str, str]]:
    """Yield the ways to retry targets: from, to, and when (after a failure, or before an unmet goal)."""
    graph = cast(GraphTopology, spec.topology).graph
    reach = _reach(spec) if has_targets(graph) else None  # The proof is looked for only where it says something.
    for speaker in graph.participants:
        if reach is not None and reach.goes_back(speaker):
            for way in after_failure(graph, speaker):
                yield speaker, way.to, f"after a failure that no rule is for: {LEVELS[way.level]}"
    for goal in spec.policy.goal_gates.nodes:
        if goal in graph.participants:
            for way in before_goal(graph, goal):
                yield END, way.to, f"before {goal} has met its goal: {LEVELS[way.level]}"


def _leads(topology: GraphTopology, target: t.Target | None, speaker: str) -> tuple[str, ...]:
    match target:
        case t.ToAgent():
            return (target.agent,)
        case t.RoundRobin():
            return (find_next_participant(topology.workers, speaker),)
        case t.Stay():
            return (speaker,)
        case t.RevertToInitiator():
            return (topology.initiator or topology.initial_speaker,)
        case t.RegisteredTarget():
            return ()
    return (END,)


def _graph(spec: FabricSpec, top: int) -> Drawn:
    topology = cast(GraphTopology, spec.topology)
    led: dict[tuple[str, str, bool], list[str]] = {}
    for speaker, target, place in _rules(spec):
        anew = place is not None and topology.transitions[place].restart
        led.setdefault((speaker, target, anew), []).append("else" if place is None else str(place + 1))
    arrows = [_rule_arrow(one, other, by, anew=anew) for (one, other, anew), by in led.items()]
    back: dict[tuple[str, str], list[str]] = {}
    for one, other, when in _back(spec):
        back.setdefault((one, other), []).append(when)
    arrows += [
        Arrow(one, other, "back", title=f"{one} to {other}: {'; '.join(said)}", css="back", lane=2)
        for (one, other), said in back.items()
    ]
    ends = any(other == END for _, other, _ in led)
    return _draw_ring(spec, topology.initial_speaker, arrows, top, ends=ends)


def _rule_arrow(one: str, other: str, by: list[str], *, anew: bool) -> Arrow:
    """Return the arrow of the rules from one worker to another. Restart edges have a stroke of their own."""
    number, told = ", ".join(by), f"{one} to {other}: {_rule_words(by)}"
    if anew:
        return Arrow(
            one, other, f"{number} anew", title=f"{told}, and the conversation starts over", css="anew", lane=1
        )
    return Arrow(one, other, number, title=told, css="ctx" if by == ["else"] else "")


def _rule_words(by: list[str]) -> str:
    return ", ".join("without a matching rule" if one == "else" else f"rule {one}" for one in by)


def _transitions(spec: FabricSpec, planner: str) -> list[Link]:
    topology = cast(GraphTopology, spec.topology)
    found = [Link(planner, topology.initial_speaker, "the request, first", "fan-out")]
    for speaker, target, place in _rules(spec):
        what = "without a matching rule" if place is None else f"by rule {place + 1}"
        anew = place is not None and topology.transitions[place].restart
        found.append(Link(speaker, target, f"{what}, which starts the conversation over" if anew else what, "fan-out"))
    found += [Link(one, other, f"back {when}", "fan-out") for one, other, when in _back(spec)]
    return found


def _last_turn(spec: FabricSpec, joiner: str) -> list[Link]:
    return [Link(END, joiner, "the output of the last turn", "fan-in")]


def _turns(spec: FabricSpec) -> str:
    most = cast(GraphTopology, spec.topology).max_turns
    bound = "" if most is None else f", at most {most:,} turn{'' if most == 1 else 's'}"
    return f"graph, arrows by their rules{bound}"


HANDOFF = Area(_handoff, _handoffs, _answer, _hops, "one brief each", ("the last answer", "is passed on"), policy=False)
GRAPH = Area(
    _graph, _transitions, _last_turn, _turns, "one brief each", ("the last turn", "is passed on"), policy=False
)
