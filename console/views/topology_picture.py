"""A fabric's topology as a picture and as a table: pure functions of the spec, so that the two say the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from console.templatetags.said import inert
from console.views.fabric_words import asked
from fabric.core.flow import Stage
from fabric.core.judges import GROUNDING_CRITIC, PLAN_CRITIC, judges_of
from fabric.core.spec import FabricSpec

WIDTH = 720
NODE_W, NODE_H, TOOL_H = 156, 40, 24
COLUMNS = 4
COLUMN_W = 178
LEFT = 10
TOOLS_SHOWN = 3
JUDGES_SHOWN = 4
CHARS = 22
"""Of a name so many characters are drawn; the whole of it is in the node's title and in the table."""


@dataclass(frozen=True, slots=True)
class Link:
    """Who passes what on to whom: a row of the table beside the picture."""

    source: str
    target: str
    what: str
    stage: str


@dataclass(frozen=True, slots=True)
class _Node:
    name: str
    note: str
    classes: str
    x: int
    y: int
    w: int = NODE_W


def topology_links(spec: FabricSpec) -> list[Link]:
    """The topology as a table."""
    named = spec.topology
    planner, joiner = named.planner or "fixed plan", named.aggregator or "engine"
    links = [Link("request", named.planner, "the request", "plan")] if named.planner else []
    links += _judged(spec, Stage.PLAN, planner)
    links += [Link(planner, worker, "a brief", "fan-out") for worker in named.workers]
    for worker in named.workers:
        links += [
            Link(worker, tool, f"calls, {spec.tool(tool).effect.replace('_', '-')}", "fan-out")
            for tool in spec.agent(worker).tools
        ]
    links += [Link(worker, joiner, "a summary", "fan-in") for worker in named.workers]
    links += _judged(spec, Stage.FAN_IN, joiner)
    if named.critic:
        links.append(Link(joiner, named.critic, "the aggregate, to be scored", "validate"))
    last = named.finalizer or "outcome"
    links.append(Link(named.critic or joiner, last, "the aggregate", "finalize"))
    if named.finalizer:
        links.append(Link(named.finalizer, "outcome", "the answer", "finalize"))
    return links + _judged(spec, Stage.FINALIZE, named.finalizer or "outcome")


MADE = {Stage.PLAN: "the plan", Stage.FAN_IN: "the aggregate", Stage.FINALIZE: "the outcome"}
"""What the judges of a stage are given, by the stages that may have some."""


def _judged(spec: FabricSpec, stage: Stage, author: str) -> list[Link]:
    word = stage.value.replace("_", "-")
    return [Link(author, name, f"{MADE[stage]}, to be judged: {what}", word) for name, what in judges(spec, stage)]


def judges(spec: FabricSpec, stage: Stage) -> list[tuple[str, str]]:
    """Who judges what a stage made before its gate passes it, in the gate's order: an agent or a check's name, and as what."""
    judging = judges_of(spec, stage)
    found = [(one.agent, _AS[one.name]) for one in judging if one.check is None]
    checks = (spec.gates.oracle or ()) if stage is Stage.FINALIZE else ()
    found += [
        (check.critic, f"oracle {check.name}") if check.critic else (check.name, f"oracle, {asked(check)}")
        for check in sorted(checks, key=lambda one: one.asks_world)  # Expressions are asked first.
    ]
    return found


_AS = {PLAN_CRITIC: "plan critic", GROUNDING_CRITIC: "grounding critic"}


def topology_svg(spec: FabricSpec) -> SafeString:
    """The topology as SVG, drawn with attributes alone. What a role leaves to the engine is dashed."""
    named = spec.topology
    plan = _Node(named.planner or "fixed plan", _note(spec, named.planner, "planner", "no model"), "lead", 282, 20)
    workers, bottom = _workers(spec, named.workers, 104)
    group = (2, 84, WIDTH - 4, bottom - 84)
    y = bottom + 40
    ends = [
        _Node(named.aggregator or "engine joins", _note(spec, named.aggregator, "aggregator", "in order"), "", 98, y),
        _Node(
            named.critic or "gates alone",
            _note(spec, named.critic, "critic", "no score", f"tau {spec.policy.tau:g}"),
            "crit",
            282,
            y,
        ),
        _Node(
            named.finalizer or "the aggregate", _note(spec, named.finalizer, "finalizer", "is the answer"), "", 466, y
        ),
    ]
    for role, node in zip((named.aggregator, named.critic, named.finalizer), range(3), strict=True):
        if role is None:
            ends[node] = _Node(ends[node].name, ends[node].note, "none", ends[node].x, ends[node].y)
    if named.planner is None:
        plan = _Node(plan.name, plan.note, "none", plan.x, plan.y)
    judging, below = _judging(spec, ends)
    height = y + NODE_H + 14 + below
    parts = [
        format_html('<rect class="group" x="{}" y="{}" width="{}" height="{}" rx="6"/>', *group),
        _arrow(360, 60, 84),
        _elbow(360, bottom, 98 + NODE_W // 2, y),
        _right(98 + NODE_W, 282, y + NODE_H // 2),
        _right(282 + NODE_W, 466, y + NODE_H // 2),
        _label(10, 38, "plan"),
        _label(10, 98, f"fan-out, at most {spec.policy.limits.sub_agents_alive} at once"),
        _label(10, y - 8, f"fan-in {spec.policy.fan_in.mode.replace('_', ' ')}"),
        _label(282, y - 8, "validate"),
        _label(466, y - 8, "finalize"),
        *(_draw(node) for node in (plan, *ends)),
        *workers,
        *judging,
    ]
    title = f"{plan.name} plans for {len(named.workers)} worker{'s' if len(named.workers) > 1 else ''}; {ends[0].name}, {ends[1].name}, {ends[2].name}"
    body = format_html_join("", "{}", ((part,) for part in parts))
    return format_html(
        '<svg class="topo" viewBox="0 0 {} {}" role="img" aria-labelledby="topo-title"><title id="topo-title">{}</title>{}</svg>',
        *(WIDTH, height, inert(title), body),
    )


def _judging(spec: FabricSpec, ends: Sequence[_Node]) -> tuple[list[SafeString], int]:
    """The judges: the plan's beside the planner, the others beneath what they judge; and how much room those take."""
    parts: list[SafeString] = []
    for name, what in judges(spec, Stage.PLAN):
        parts += [_right(282 + NODE_W, 466, 40), _judge(name, what, 466, 40 - TOOL_H // 2)]
    rows = 0
    for stage, node in ((Stage.FAN_IN, ends[0]), (Stage.FINALIZE, ends[2])):
        found = judges(spec, stage)
        y = node.y + NODE_H
        for name, what in found[:JUDGES_SHOWN]:
            parts += [_down(node.x + 14, y, y + 8 + TOOL_H // 2, node.x + 20), _judge(name, what, node.x + 20, y + 8)]
            y += TOOL_H + 8
        more = max(0, len(found) - JUDGES_SHOWN)
        if more:
            parts.append(_label(node.x + 32, y + 18, f"{more} more checks" if more > 1 else "1 more check"))
        rows = max(rows, min(len(found), JUDGES_SHOWN) + bool(more))
    return parts, rows * (TOOL_H + 8)


def _judge(name: str, what: str, x: int, y: int) -> SafeString:
    middle = y + TOOL_H // 2
    return format_html(
        '<g><title>{}, {}</title><rect class="node tool judge" x="{}" y="{}" width="{}" height="{}" rx="4"/><path class="asks" d="M{} {}l4 4-4 4-4-4z"/>'
        '<text class="t2" x="{}" y="{}">{}</text></g>',
        *(inert(name), inert(what), x, y, NODE_W - 20, TOOL_H, x + 12, middle - 4, x + 22, y + 16, _cut(name, 20)),
    )


def _note(spec: FabricSpec, agent: str | None, role: str, without: str, more: str = "") -> str:
    if agent is None:
        return without
    model = spec.model(spec.agent(agent).model)
    return " · ".join(part for part in (role, more or model.model or model.name) if part)


def _workers(spec: FabricSpec, names: Sequence[str], top: int) -> tuple[list[SafeString], int]:
    """The workers in rows of four with their tools beneath, and where the group ends."""
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
    agent = spec.agent(name)
    model = spec.model(agent.model)
    parts.append(_draw(_Node(name, f"worker · {model.model or model.name}", "", x, y)))
    y += NODE_H
    shown = [(tool, spec.tool(tool).effect) for tool in agent.tools[:TOOLS_SHOWN]]
    more = len(agent.tools) - len(shown)
    for tool, effect in shown:
        parts += [_down(x + 14, y, y + 8 + TOOL_H // 2, x + 20), _tool(tool, effect, x + 20, y + 8)]
        y += TOOL_H + 8
    if more:
        parts.append(_label(x + 32, y + 18, f"{more} more tools" if more > 1 else "1 more tool"))
        y += TOOL_H
    return y


def _draw(node: _Node) -> SafeString:
    return format_html(
        '<g><title>{}</title><rect class="node {}" x="{}" y="{}" width="{}" height="{}" rx="4"/><text x="{}" y="{}">{}</text>'
        '<text class="t2" x="{}" y="{}">{}</text></g>',
        *(inert(node.name), node.classes, node.x, node.y, node.w, NODE_H),
        *(node.x + 12, node.y + 17, _cut(node.name, CHARS), node.x + 12, node.y + 31, _cut(node.note, CHARS + 4)),
    )


def _tool(name: str, effect: str, x: int, y: int) -> SafeString:
    return format_html(
        '<g><title>{}, {}</title><rect class="node tool" x="{}" y="{}" width="{}" height="{}" rx="4"/><circle class="eff-{}" cx="{}" cy="{}" r="3.5"/>'
        '<text class="t2" x="{}" y="{}">{}</text></g>',
        *(inert(name), effect.replace("_", "-"), x, y, NODE_W - 20, TOOL_H, effect, x + 12, y + TOOL_H // 2),
        *(x + 22, y + 16, _cut(name, 20)),
    )


def _cut(text: str, chars: int) -> str:
    text = inert(text)
    return text if len(text) <= chars else f"{text[: chars - 1]}…"


def _label(x: int, y: int, text: str) -> SafeString:
    return format_html('<text class="tier" x="{}" y="{}">{}</text>', x, y, text)


def _arrow(x: int, y1: int, y2: int) -> SafeString:
    return format_html(
        '<path class="e" d="M{0} {1}V{2}"/><path class="arrow" d="M{3} {2}h8l-4 6z"/>', x, y1, y2 - 6, x - 4
    )


def _elbow(x1: int, y1: int, x2: int, y2: int) -> SafeString:
    middle = y1 + 12
    return format_html(
        '<path class="e" d="M{} {}V{}H{}V{}"/><path class="arrow" d="M{} {}h8l-4 6z"/>',
        *(x1, y1, middle, x2, y2 - 6, x2 - 4, y2 - 6),
    )


def _right(x1: int, x2: int, y: int) -> SafeString:
    return format_html(
        '<path class="e" d="M{0} {1}H{2}"/><path class="arrow" d="M{2} {3}v8l6-4z"/>', x1, y, x2 - 6, y - 4
    )


def _down(x: int, y1: int, y2: int, x2: int) -> SafeString:
    return format_html('<path class="e thin" d="M{} {}V{}H{}"/>', x, y1, y2, x2)
