"""Draws the workers of a topology, as a picture and as rows of its table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import cast

from django.utils.safestring import SafeString

from console.topologies.conversations import GRAPH, HANDOFF
from console.topologies.drawing import (
    NODE_H,
    NODE_W,
    TOOL_H,
    WIDTH,
    Area,
    Box,
    Drawn,
    Link,
    arrow_down,
    arrow_left,
    arrow_right,
    box,
    elbow,
    frame,
    hook,
    label,
    tool_box,
)
from fabric.core.child_runs.teams import map_specs
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.topologies.debate import DebateTopology
from fabric.core.spec.topologies.hierarchical import HierarchicalTopology, Team
from fabric.core.spec.topologies.sop import SopTopology

COLUMNS = 4
COLUMN_W = 178
LEFT = 10
TOOLS_SHOWN = 3
TEAMS_SHOWN = 6
"""Teams that are drawn beneath the workers; the table has all."""
AT_ONCE = ("supervisor", "hierarchical")
"""Kinds whose workers work side by side."""

# -- side by side: a supervisor's --------------------------------------------------------------------------------------


def _side_by_side(spec: FabricSpec, top: int) -> Drawn:
    """Return the workers in rows of four with their tools beneath."""
    names = spec.topology.workers
    parts: list[SafeString] = []
    y = top
    for first in range(0, len(names), COLUMNS):
        row = names[first : first + COLUMNS]
        alone = len(names) <= COLUMNS
        left = (WIDTH - COLUMN_W * len(row) + COLUMN_W - NODE_W) // 2 if alone else LEFT
        below = [_worker(spec, name, left + COLUMN_W * n, y, parts) for n, name in enumerate(row)]
        y = max(below) + 16
    return parts, y - 4


def _worker(spec: FabricSpec, name: str, x: int, y: int, parts: list[SafeString]) -> int:
    agent, team = spec.agent(name), _teams(spec).get(name)
    model = spec.model(agent.model)
    note = f"worker · {model.model or model.name}" if team is None else f"leads {', '.join(team.topology.workers)}"
    parts.append(box(Box(name, note, "", x, y)))
    y += NODE_H
    if team is not None:  # Its agent's tools are the team's to use.
        return y
    tools = spec.tools_of(agent)
    shown = [(tool, spec.tool(tool).effect) for tool in tools[:TOOLS_SHOWN]]
    more = len(tools) - len(shown)
    for tool, effect in shown:
        parts += [hook(x + 14, y, y + 8 + TOOL_H // 2, x + 20), tool_box(tool, effect, x + 20, y + 8)]
        y += TOOL_H + 8
    if more:
        parts.append(label(x + 32, y + 18, f"{more} more tools" if more > 1 else "1 more tool"))
        y += TOOL_H
    return y


def _teams(spec: FabricSpec) -> Mapping[str, Team]:
    """Return the teams by their leads; none in a topology of one level."""
    return spec.topology.teams if isinstance(spec.topology, HierarchicalTopology) else {}


def _briefs(spec: FabricSpec, planner: str) -> list[Link]:
    return [Link(planner, worker, "a brief", "fan-out") for worker in spec.topology.workers]


def _summaries(spec: FabricSpec, joiner: str) -> list[Link]:
    return [Link(worker, joiner, "a summary", "fan-in") for worker in spec.topology.workers]


def _at_once(spec: FabricSpec) -> str:
    return f"fan-out, at most {spec.policy.limits.sub_agents_alive} at once"


# -- with teams: a hierarchy's -----------------------------------------------------------------------------------------


def _with_teams(spec: FabricSpec, top: int) -> Drawn:
    """Draw the workers side by side, and beneath them each team whose members take turns. Other leads list their
    members.
    """
    parts, y = _side_by_side(spec, top)
    taking = {lead: within for lead, within in map_specs(spec).items() if within.topology.kind not in AT_ONCE}
    for lead, within in list(taking.items())[:TEAMS_SHOWN]:
        area = AREAS[within.topology.kind]
        drawn, below = area.draw(within, y + 40)
        parts.append(frame(LEFT - 4, y + 12, WIDTH - 2 * LEFT + 8, below - y - 10))
        parts += [label(LEFT, y + 28, f"team of {lead}: {area.label(within)}"), *drawn]
        y = below + 4
    more = len(taking) - TEAMS_SHOWN
    if more > 0:
        parts.append(label(LEFT, y + 14, f"{more} more teams in the table below" if more > 1 else "1 more team below"))
        y += 14
    return parts, y + 8 if taking else y


def _list_led_links(spec: FabricSpec, planner: str) -> list[Link]:
    found = _briefs(spec, planner)
    for lead, within in map_specs(spec).items():
        area, joiner = AREAS[within.topology.kind], within.topology.aggregator or lead
        inner = [*area.links(within, within.topology.planner or lead), *area.ends(within, joiner)]
        found += [replace(one, what=f"team of {lead}: {one.what}", stage="fan-out") for one in inner]
    return found


def _in_teams(spec: FabricSpec) -> str:
    many = len(_teams(spec))
    return f"{_at_once(spec)}; {many} teams" if many > 1 else f"{_at_once(spec)}; 1 team"


# -- one after the other: a procedure's --------------------------------------------------------------------------------


def _procedure(spec: FabricSpec, top: int) -> Drawn:
    """Return the items in rows of four, in their order."""
    items = cast(SopTopology, spec.topology).procedure
    parts: list[SafeString] = []
    step = NODE_H + 34
    for n, item in enumerate(items):
        row, column = divmod(n, COLUMNS)
        x, y = LEFT + COLUMN_W * column, top + 6 + step * row
        typed = " · typed" if item.agent in spec.output_schemas else ""
        parts.append(box(Box(f"{n + 1}. {item.title}", f"{item.agent}{typed}", "", x, y)))
        if n + 1 == len(items):
            continue
        if column + 1 < COLUMNS:
            parts.append(arrow_right(x + NODE_W, x + COLUMN_W, y + NODE_H // 2))
        else:
            parts.append(elbow(x + NODE_W // 2, y + NODE_H, LEFT + NODE_W // 2, y + step))
    return parts, top + 6 + step * ((len(items) - 1) // COLUMNS) + NODE_H + 14


def _artifacts(spec: FabricSpec, planner: str) -> list[Link]:
    items = cast(SopTopology, spec.topology).procedure
    found = []
    for n, item in enumerate(items):
        found.append(Link(planner, item.agent, f"item {n + 1}: {item.title}", "fan-out"))
        reads = range(1, n + 1) if item.reads is None else item.reads
        found += [
            Link(items[m - 1].agent, item.agent, f"the artifact of item {m}, for item {n + 1}", "fan-out")
            for m in reads
        ]
    return found


def _artifacts_on(spec: FabricSpec, joiner: str) -> list[Link]:
    items = cast(SopTopology, spec.topology).procedure
    if spec.topology.aggregator is None:
        return [Link(items[-1].agent, joiner, f"the artifact of item {len(items)}, the last", "fan-in")]
    return [Link(item.agent, joiner, f"the artifact of item {n}", "fan-in") for n, item in enumerate(items, start=1)]


def _in_order(spec: FabricSpec) -> str:
    return "procedure, one item after the other"


# -- in rounds: a debate's ---------------------------------------------------------------------------------------------


def _debate(spec: FabricSpec, top: int) -> Drawn:
    """Draw the sides of a debate in rows of four, face to face; beneath them their critics, then the judge."""
    named = cast(DebateTopology, spec.topology)
    sides, y = _centre_nodes(named.workers, "side", "", top + 6)
    parts: list[SafeString] = [
        part for one, other in pairwise(sides) if one.y == other.y for part in _draw_facing(one, other)
    ]
    rows = [sides]
    for names, note, looks in ((named.critics, "critic of the sides", "crit"), (_judges(named), "judge", "lead")):
        if names:
            below, y = _centre_nodes(names, note, looks, y + 24)
            parts.append(arrow_down(WIDTH // 2, rows[-1][-1].y + NODE_H, below[0].y))
            rows.append(below)
    return [*parts, *(box(one) for row in rows for one in row)], y + 14


def _judges(named: DebateTopology) -> tuple[str, ...]:
    return (named.judge,) if named.judge else ()


def _centre_nodes(names: Sequence[str], note: str, looks: str, top: int) -> tuple[list[Box], int]:
    """Return nodes in rows of four, each row centred, and their end."""
    found = []
    for n, name in enumerate(names):
        row, column = divmod(n, COLUMNS)
        many = min(COLUMNS, len(names) - row * COLUMNS)
        left = (WIDTH - COLUMN_W * many + COLUMN_W - NODE_W) // 2
        found.append(Box(name, note, looks, left + COLUMN_W * column, top + (NODE_H + 16) * row))
    return found, found[-1].y + NODE_H


def _draw_facing(one: Box, other: Box) -> Iterator[SafeString]:
    """Draw the two arrows between two sides."""
    yield arrow_right(one.x + NODE_W, other.x, one.y + NODE_H // 2 - 5)
    yield arrow_left(other.x, one.x + NODE_W, one.y + NODE_H // 2 + 5)


def _list_heard_links(spec: FabricSpec, planner: str) -> list[Link]:
    named = cast(DebateTopology, spec.topology)
    found = [Link(planner, side, f"its side, for {_spell_rounds(named)}", "fan-out") for side in named.workers]
    again = "the proposal of the round before"
    found += [Link(one, to, again, "fan-out") for one in named.workers for to in named.workers if named.rounds > 1]
    for critic in named.critics:
        found += [Link(side, critic, "the proposal of each round", "fan-out") for side in named.workers]
        found += [Link(critic, side, "criticism, for the next round", "fan-out") for side in named.workers]
    if named.judge:
        spoke = (*named.workers, *named.critics)
        found += [Link(one, named.judge, "all that was said", "fan-out") for one in spoke]
    return found


def _list_decided_links(spec: FabricSpec, joiner: str) -> list[Link]:
    named = cast(DebateTopology, spec.topology)
    if named.judge:
        return [Link(named.judge, joiner, "the verdict", "fan-in")]
    return [Link(side, joiner, "a vote", "fan-in") for side in named.workers]


def _spell_rounds(named: DebateTopology) -> str:
    return f"{named.rounds} rounds" if named.rounds > 1 else "1 round"


def _in_rounds(spec: FabricSpec) -> str:
    named = cast(DebateTopology, spec.topology)
    return f"debate of {_spell_rounds(named)}, then {'a verdict' if named.judge else 'a vote'}"


AREAS: Mapping[str, Area] = {
    "supervisor": Area(
        _side_by_side, _briefs, _summaries, _at_once, "fixed plan", ("engine joins", "in order"), policy=True
    ),
    "hierarchical": Area(
        _with_teams, _list_led_links, _summaries, _in_teams, "fixed plan", ("engine joins", "in order"), policy=True
    ),
    "handoff": HANDOFF,
    "graph": GRAPH,
    "debate": Area(
        _debate,
        _list_heard_links,
        _list_decided_links,
        _in_rounds,
        "the sides",
        ("the verdict", "or most votes"),
        policy=True,
    ),
    "sop": Area(
        _procedure,
        _artifacts,
        _artifacts_on,
        _in_order,
        "the procedure",
        ("the last artifact", "is passed on"),
        policy=False,
    ),
}
"""Drawing of each kind. Total over ``kinds.BY_KIND``, by test."""
