"""Draws the topology of a run: its workers and the messages between them, as a picture and as a table.

Pure functions of the story. SVG of attributes alone. The picture shows a limited number of workers; the table has
all.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from console.templatetags.said import inert
from console.topologies.workers import AREAS
from fabric.core.schema.topology import TopologySpec
from fabric.core.values.flow import Stage
from fabric.core.values.words import words
from fabric.selectors.runs.story.fold import RunStory
from fabric.selectors.runs.story.parts import Lane

WORKERS_MAX = 8
"""Workers drawn; the rest is one node with a count."""
NODE_W, NODE_H, GAP = 142, 44, 16
NAME_CHARS = 18
ENGINE = "engine"
"""Name of a role that no agent has: the engine fills it."""

SPEAKER = "turns:"
"""Prefix of an agent's node key where workers take turns."""
ROLE_STAGES = (
    (Stage.PLAN, "planner", "planner"),
    (Stage.FAN_IN, "aggregator", ""),
    (Stage.VALIDATE, "critic", "gates alone"),
    (Stage.FINALIZE, "finalizer", "as it is"),
)
"""Stage, the topology's field that names its agent, and the text where it names none."""
NODE_STATES = {
    "ahead": ("not reached", "neutral", "minus"),
    "active": ("running", "info", "run"),
    "waiting": ("waits for a person", "human", "human"),
    "done": ("done", "ok", "check"),
    "failed": ("failed", "danger", "x"),
    "stopped": ("stopped", "neutral", "minus"),
    "kept": ("kept", "neutral", "copy"),
    "void": ("superseded", "neutral", "never"),
}
"""Word, tone and icon of a node's state."""


@dataclass(frozen=True, slots=True)
class Node:
    """An agent in a place of the topology, or the engine where no agent is named."""

    key: str
    name: str
    role: str
    state: str
    calls: int = 0
    failed: int = 0
    why: str = ""
    """Why it was stopped although it did not fail."""

    @property
    def word(self) -> str:
        """Return its state in words."""
        return f"stopped: {self.why}" if self.why else NODE_STATES[self.state][0]

    @property
    def tone(self) -> str:
        """Return the tone of its state."""
        return NODE_STATES[self.state][1]

    @property
    def icon(self) -> str:
        """Return the icon of its state."""
        return NODE_STATES[self.state][2]


@dataclass(frozen=True, slots=True)
class Edge:
    """A message from one node to another, and its count."""

    source: str
    target: str
    what: str
    times: int


@dataclass(frozen=True, slots=True)
class Topology:
    """Nodes in order, edges between them, and the picture."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    svg: SafeString
    more: int
    """Workers that the picture shows as one node."""

    def name_of(self, key: str) -> str:
        """Return a node's name by key."""
        node = next((node for node in self.nodes if node.key == key), None)
        if node is None:
            return words(key) if key in tuple(Stage) else key
        return f"engine, {words(key)}" if node.name == ENGINE else node.name

    @property
    def table(self) -> list[tuple[str, str, str, int]]:
        """Return the edges with names: from, to, what, how often."""
        return [(self.name_of(edge.source), self.name_of(edge.target), edge.what, edge.times) for edge in self.edges]


def topology(story: RunStory, named: TopologySpec) -> Topology:
    """Return the picture of a run."""
    workers = _workers(story, named)
    roles = [
        _role(story, stage, getattr(named, field), AREAS[named.kind].joins[0] if stage is Stage.FAN_IN else alone)
        for stage, field, alone in ROLE_STAGES
    ]
    nodes = (roles[0], *workers, *roles[1:])
    edges = (*_edges(story, workers), *_onward(story))
    return Topology(nodes, edges, _picture(roles, workers, edges), max(0, len(workers) - WORKERS_MAX))


def _state(lanes: list[Lane]) -> str:
    """Return the common state of steps: active wins, then waiting, then the latest."""
    for state in ("active", "waiting"):
        if any(lane.state == state for lane in lanes):
            return state
    return lanes[-1].state if lanes else "ahead"


def _role(story: RunStory, stage: Stage, agent: str | None, alone: str) -> Node:
    newest = len(story.epochs)
    lanes = [lane for lane in story.lanes.values() if lane.stage == stage and lane.epoch == newest]
    state = _state(lanes)
    if agent is None:
        spans = [one for one in story.stages if one.stage == stage and one.epoch == newest]
        state = "ahead" if not spans else "active" if spans[-1].end is None else "done"
        if spans and spans[-1].end is not None and spans[-1].outcome != "passed":
            state = "failed"
    if any(wait.end is None for wait in story.stage_waits.get(stage, ())):
        state = "waiting"
    if state == "ahead" and stage in story.kept_stages:
        state = "kept"
    name = agent or ENGINE
    role = words(stage) if agent else f"{words(stage)}: {alone}"
    return Node(stage, name, role, state, *_calls(lanes))


def _calls(lanes: list[Lane]) -> tuple[int, int]:
    bars = [bar for lane in lanes for bar in lane.bars if bar.call != "child"]
    return len(bars), sum(1 for bar in bars if bar.became == "failed")


def _workers(story: RunStory, named: TopologySpec) -> list[Node]:
    """Return the nodes of the workers.

    A node for each branch of the newest epoch, or for each agent that takes turns; before the fan-out, for each
    worker that may be used.
    """
    fan_out = [lane for lane in story.lanes.values() if lane.stage == Stage.FAN_OUT]
    if not fan_out:
        state = "kept" if Stage.FAN_OUT in story.kept_stages else "ahead"
        return [Node(f"worker:{name}", name, "worker", state) for name in named.workers]
    newest = max(lane.epoch for lane in fan_out)
    branches: dict[int, list[Lane]] = {}
    for lane in fan_out:
        if lane.epoch == newest:
            branches.setdefault(lane.branch, []).append(lane)
    if any(lane.hears is not None for lane in fan_out):
        return _speakers(branches, named)
    return [
        Node(
            f"fan_out.{branch}",
            f"{lanes[-1].agent} {branch + 1}",
            _rounds(lanes),
            _state(lanes),
            *_calls(lanes),
            lanes[-1].stopped,
        )
        for branch, lanes in sorted(branches.items())
    ]


def _speakers(branches: dict[int, list[Lane]], named: TopologySpec) -> list[Node]:
    agents = dict.fromkeys((*named.workers, *(lanes[-1].agent for lanes in branches.values())))
    found = []
    for agent in agents:
        own = [lane for lanes in branches.values() for lane in lanes if lane.agent == agent]
        taken = len({lane.branch for lane in own})
        role = f"{taken} turn{'' if taken == 1 else 's'}" if taken else "no turn"
        found.append(Node(f"{SPEAKER}{agent}", agent, role, _state(own), *_calls(own)))
    return found


def _key(lane: Lane) -> str:
    """Return the key of a step's node."""
    if lane.hears is not None:
        return f"{SPEAKER}{lane.agent}"
    return f"fan_out.{lane.branch}" if lane.stage == Stage.FAN_OUT else lane.stage


def _rounds(lanes: list[Lane]) -> str:
    epoch = f", plan {lanes[-1].epoch + 1}" if lanes[-1].epoch else ""
    again = f", round {lanes[-1].round + 1}" if lanes[-1].round else ""
    return f"worker{epoch}{again}"


def _edges(story: RunStory, workers: list[Node]) -> list[Edge]:
    """Return briefs to workers, their summaries, and calls of tools, in the newest epoch."""
    newest = len(story.epochs)
    asked: Counter[str] = Counter()
    finished: Counter[str] = Counter()
    tools: Counter[tuple[str, str]] = Counter()
    for lane in story.lanes.values():
        if lane.epoch != newest:
            continue
        if lane.stage == Stage.FAN_OUT:
            asked[_key(lane)] += 1
            finished[_key(lane)] += lane.state == "done"
        key = _key(lane)
        for bar in lane.bars:
            if bar.call == "tool":
                tools[key, bar.target] += 1
    made = []
    for worker in workers:
        taken = worker.key.startswith(SPEAKER)
        made.append(Edge(Stage.PLAN, worker.key, "turn" if taken else "brief", asked[worker.key]))
        made.append(Edge(worker.key, Stage.FAN_IN, "output" if taken else "summary", finished[worker.key]))
    known = {worker.key for worker in workers} | set(Stage)
    made += [Edge(key, inert(tool), "tool call", times) for (key, tool), times in sorted(tools.items()) if key in known]
    return made


def _onward(story: RunStory) -> list[Edge]:
    passed = Counter(one.stage for one in story.stages if one.outcome == "passed" and one.epoch == len(story.epochs))
    back = Counter(stage for _, _, stage, _ in story.epochs)
    ahead = [
        Edge(Stage.FAN_IN, Stage.VALIDATE, "aggregate", passed[Stage.FAN_IN]),
        Edge(Stage.VALIDATE, Stage.FINALIZE, "validated aggregate", passed[Stage.VALIDATE]),
    ]
    return ahead + [Edge(stage, Stage.PLAN, "replan", times) for stage, times in sorted(back.items())]


# -- the picture -------------------------------------------------------------------------------------------------------


def _picture(roles: list[Node], workers: list[Node], edges: tuple[Edge, ...]) -> SafeString:
    """Return columns from left to right: planner, workers, aggregator, critic, finalizer."""
    drawn = workers[:WORKERS_MAX]
    more = len(workers) - len(drawn)
    rest = Node("more", f"{more:,} more", "in the table below", _common(workers[WORKERS_MAX:]))
    shown = [*drawn, rest] if more else drawn
    height = max(160, 40 + len(shown) * (NODE_H + GAP))
    middle = 24 + (height - 24) // 2
    column = [8 + n * 186 for n in range(5)]
    tops = [middle - (len(shown) * (NODE_H + GAP) - GAP) // 2 + n * (NODE_H + GAP) for n in range(len(shown))]
    counts = {(edge.source, edge.target): edge.times for edge in edges}
    parts: list[SafeString] = []
    for node, top in zip(shown, tops, strict=True):
        y = top + NODE_H // 2
        parts.append(_line(column[0] + NODE_W, middle, column[1], y, counts.get((Stage.PLAN, node.key))))
        parts.append(
            _line(column[1] + NODE_W, y, column[2], middle, counts.get((node.key, Stage.FAN_IN)), at_end=False)
        )
    for n, (left, right) in enumerate(((Stage.FAN_IN, Stage.VALIDATE), (Stage.VALIDATE, Stage.FINALIZE)), start=2):
        parts.append(_line(column[n] + NODE_W, middle, column[n + 1], middle, counts.get((left, right))))
    replans = sum(edge.times for edge in edges if edge.what == "replan")
    if replans:
        parts.append(_back(column[2] + NODE_W // 2, column[0] + NODE_W // 2, height, replans))
    places = [(roles[0], column[0]), *((role, column[n]) for n, role in enumerate(roles[1:], start=2))]
    parts += [_node(role, x, middle - NODE_H // 2) for role, x in places]
    parts += [_node(node, column[1], top) for node, top in zip(shown, tops, strict=True)]
    parts += [_stage_name(x, stage) for x, stage in zip(column, Stage, strict=True)]
    return format_html(
        '<svg class="topo run-topo" viewBox="0 0 908 {}" aria-hidden="true">{}</svg>',
        *(height + (34 if replans else 8), format_html_join("", "{}", ((part,) for part in parts))),
    )


def _common(nodes: list[Node]) -> str:
    states = [node.state for node in nodes]
    return next(
        (state for state in ("active", "waiting", "failed") if state in states), states[-1] if states else "ahead"
    )


def _stage_name(x: int, stage: str) -> SafeString:
    return format_html('<text class="tier" x="{}" y="14">{}</text>', x, words(stage))


def _node(node: Node, x: int, y: int) -> SafeString:
    name = inert(node.name)
    name = name if len(name) <= NAME_CHARS else f"{name[: NAME_CHARS - 1]}…"
    calls = f" · {node.calls:,} call{'' if node.calls == 1 else 's'}" if node.calls else ""
    failed = f", {node.failed:,} failed" if node.failed else ""
    return format_html(
        '<g data-tone="{}"><title>{}: {}, {}{}{}</title><rect class="node" x="{}" y="{}" width="{}" height="{}" rx="4"/>'
        '<rect class="edge" x="{}" y="{}" width="4" height="{}" rx="2"/>'
        '<text x="{}" y="{}">{}</text><text class="t2" x="{}" y="{}">{}{}</text></g>',
        *(node.tone, inert(node.name), node.role, node.word, calls, failed, x, y, NODE_W, NODE_H),
        *(x, y, NODE_H, x + 14, y + 19, name, x + 14, y + 34, node.word, "" if node.why else calls),
    )


def _line(x1: int, y1: int, x2: int, y2: int, times: int | None, *, at_end: bool = True) -> SafeString:
    """Return an edge with its count; dashed if it was not used. The count stands at the end that no other edge
    shares.
    """
    bend = (x1 + x2) // 2
    css = "e" if times else "e ctx"
    count = ""
    if times and times > 1:
        x, y = (bend + 3, y2 - 5) if at_end else (x1 + 4, y1 - 5)
        count = format_html('<text class="t2 n" x="{}" y="{}">×{}</text>', x, y, f"{times:,}")
    return format_html(
        '<path class="{}" d="M{} {}H{}V{}H{}"/><path class="arrow" d="M{} {}v8l7-4z"/>{}',
        *(css, x1, y1, bend, y2, x2 - 7, x2 - 7, y2 - 4, count),
    )


def _back(x1: int, x2: int, y: int, times: int) -> SafeString:
    """Return the way back to the planner, under everything else."""
    return format_html(
        '<g data-tone="warn"><path class="e again" d="M{0} {1}v12H{2}v-12"/><path class="arrow again" d="M{3} {1}h8l-4-7z"/>'
        '<text class="t2" x="{4}" y="{5}" text-anchor="middle">{6}</text></g>',
        *(x1, y, x2, x2 - 4, (x1 + x2) // 2, y + 26, f"replanned {times} ×"),
    )
