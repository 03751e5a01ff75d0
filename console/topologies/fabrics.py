"""Draws a fabric's topology as a picture and as a table. Pure functions of the spec, so that both agree."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from console.templatetags.said import inert
from console.topologies.drawing import (
    NODE_H,
    NODE_W,
    TOOL_H,
    WIDTH,
    Box,
    Link,
    arrow_down,
    arrow_right,
    box,
    cut,
    elbow,
    hook,
    label,
)
from console.topologies.workers import AREAS
from console.words.fabrics import name_judge
from fabric.core.child_runs.teams import map_specs
from fabric.core.spec.fabric import FabricSpec
from fabric.core.state.judges import GROUNDING_CRITIC, PLAN_CRITIC, list_judges
from fabric.core.values.flow import Stage

JUDGES_SHOWN = 4


def topology_links(spec: FabricSpec) -> list[Link]:
    """Return the topology as a table."""
    named = spec.topology
    area = AREAS[named.kind]
    planner, joiner = named.planner or area.plan, named.aggregator or "engine"
    links = [Link("request", named.planner, "the request", "plan")] if named.planner else []
    links += _judge_links(spec, Stage.PLAN, planner)
    links += area.links(spec, planner)
    links += _tool_links(spec)
    links += area.ends(spec, joiner)
    links += _judge_links(spec, Stage.FAN_IN, joiner)
    if named.critic:
        links.append(Link(joiner, named.critic, "the aggregate, to be scored", "validate"))
    last = named.finalizer or "outcome"
    links.append(Link(named.critic or joiner, last, "the aggregate", "finalize"))
    if named.finalizer:
        links.append(Link(named.finalizer, "outcome", "the answer", "finalize"))
    return links + _judge_links(spec, Stage.FINALIZE, named.finalizer or "outcome")


def _tool_links(spec: FabricSpec) -> list[Link]:
    """Return the tools of the workers in the fan-out, each once, in the run itself and in its teams."""
    found = [
        Link(worker, tool, f"calls, {spec.tool(tool).effect.replace('_', '-')}", "fan-out")
        for within in (spec, *map_specs(spec).values())
        for worker in dict.fromkeys(within.topology.workers)
        for tool in within.tools_of(spec.agent(worker))
    ]
    return list(dict.fromkeys(found))


MADE = {Stage.PLAN: "the plan", Stage.FAN_IN: "the aggregate", Stage.FINALIZE: "the outcome"}
"""Product of a stage that its judges are given, for stages that may have judges."""


def _judge_links(spec: FabricSpec, stage: Stage, author: str) -> list[Link]:
    word = stage.value.replace("_", "-")
    return [Link(author, name, f"{MADE[stage]}, to be judged: {what}", word) for name, what in judges(spec, stage)]


def judges(spec: FabricSpec, stage: Stage) -> list[tuple[str, str]]:
    """Return the judges of a stage's product, in the gate's order: name of an agent or check, and its part."""
    judging = list_judges(spec, stage)
    found = [(one.agent, _AS[one.name]) for one in judging if one.check is None]
    checks = (spec.gates.oracle or ()) if stage is Stage.FINALIZE else ()
    found += [
        (check.critic, f"oracle {check.name}") if check.critic else (check.name, f"oracle, {name_judge(check)}")
        for check in sorted(checks, key=lambda one: one.asks_world)  # Expressions are asked first.
    ]
    return found


_AS = {PLAN_CRITIC: "plan critic", GROUNDING_CRITIC: "grounding critic"}


def topology_svg(spec: FabricSpec) -> SafeString:
    """Return the topology as SVG, drawn with attributes alone. Roles that the engine fills are dashed."""
    named, area = spec.topology, AREAS[spec.topology.kind]
    plan = Box(named.planner or area.plan, _note(spec, named.planner, "planner", "no model"), "lead", 282, 20)
    workers, bottom = area.draw(spec, 104)
    group = (2, 84, WIDTH - 4, bottom - 84)
    y = bottom + 40
    ends = [
        Box(named.aggregator or area.joins[0], _note(spec, named.aggregator, "aggregator", area.joins[1]), "", 98, y),
        Box(
            named.critic or "gates alone",
            _note(spec, named.critic, "critic", "no score", f"needs {spec.policy.of_stage(Stage.VALIDATE).tau:g}"),
            "crit",
            282,
            y,
        ),
        Box(named.finalizer or "the aggregate", _note(spec, named.finalizer, "finalizer", "is the answer"), "", 466, y),
    ]
    for role, node in zip((named.aggregator, named.critic, named.finalizer), range(3), strict=True):
        if role is None:
            ends[node] = Box(ends[node].name, ends[node].note, "none", ends[node].x, ends[node].y)
    if named.planner is None:
        plan = Box(plan.name, plan.note, "none", plan.x, plan.y)
    judging, below = _draw_judges(spec, ends)
    height = y + NODE_H + 14 + below
    parts = [
        format_html('<rect class="group" x="{}" y="{}" width="{}" height="{}" rx="6"/>', *group),
        arrow_down(360, 60, 84),
        elbow(360, bottom, 98 + NODE_W // 2, y),
        arrow_right(98 + NODE_W, 282, y + NODE_H // 2),
        arrow_right(282 + NODE_W, 466, y + NODE_H // 2),
        label(10, 38, "plan"),
        label(10, 98, area.label(spec)),
        label(10, y - 8, f"fan-in {spec.policy.fan_in.mode.replace('_', ' ')}" if area.policy else "fan-in"),
        label(282, y - 8, "validate"),
        label(466, y - 8, "finalize"),
        *(box(node) for node in (plan, *ends)),
        *workers,
        *judging,
    ]
    plans = "plans for" if named.planner else "for"
    title = f"{plan.name} {plans} {len(named.workers)} worker{'s' if len(named.workers) > 1 else ''}; {ends[0].name}, {ends[1].name}, {ends[2].name}"
    body = format_html_join("", "{}", ((part,) for part in parts))
    return format_html(
        '<svg class="topo" viewBox="0 0 {} {}" role="img" aria-labelledby="topo-title"><title id="topo-title">{}</title>{}</svg>',
        *(WIDTH, height, inert(title), body),
    )


def _draw_judges(spec: FabricSpec, ends: Sequence[Box]) -> tuple[list[SafeString], int]:
    """Return the judges and the height of their rows: the plan's beside the planner, others beneath their stage."""
    parts: list[SafeString] = []
    for name, what in judges(spec, Stage.PLAN):
        parts += [arrow_right(282 + NODE_W, 466, 40), _judge(name, what, 466, 40 - TOOL_H // 2)]
    rows = 0
    for stage, node in ((Stage.FAN_IN, ends[0]), (Stage.FINALIZE, ends[2])):
        found = judges(spec, stage)
        y = node.y + NODE_H
        for name, what in found[:JUDGES_SHOWN]:
            parts += [hook(node.x + 14, y, y + 8 + TOOL_H // 2, node.x + 20), _judge(name, what, node.x + 20, y + 8)]
            y += TOOL_H + 8
        more = max(0, len(found) - JUDGES_SHOWN)
        if more:
            parts.append(label(node.x + 32, y + 18, f"{more} more checks" if more > 1 else "1 more check"))
        rows = max(rows, min(len(found), JUDGES_SHOWN) + bool(more))
    return parts, rows * (TOOL_H + 8)


def _judge(name: str, what: str, x: int, y: int) -> SafeString:
    middle = y + TOOL_H // 2
    return format_html(
        '<g><title>{}, {}</title><rect class="node tool judge" x="{}" y="{}" width="{}" height="{}" rx="4"/><path class="asks" d="M{} {}l4 4-4 4-4-4z"/>'
        '<text class="t2" x="{}" y="{}">{}</text></g>',
        *(inert(name), inert(what), x, y, NODE_W - 20, TOOL_H, x + 12, middle - 4, x + 22, y + 16, cut(name, 20)),
    )


def _note(spec: FabricSpec, agent: str | None, role: str, without: str, more: str = "") -> str:
    if agent is None:
        return without
    model = spec.model(spec.agent(agent).model)
    return " · ".join(part for part in (role, more or model.model or model.name) if part)
