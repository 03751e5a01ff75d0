"""Workers that speak one after another, as a picture and as rows of its table: who may pass on to whom, and which rule leads from whom to whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from console.views.drawing import label
from console.views.graph_words import LEVELS
from console.views.ring_picture import NODES_MAX, Arrow, Ring, Spot, ring
from console.views.workers_parts import Area, Drawn, Link
from fabric.core.flow import Stage
from fabric.core.graph import targets as t
from fabric.core.graph.reach import Crew, Reach
from fabric.core.graph.retry_targets import after_failure, before_goal, has_targets
from fabric.core.graph.targets import after
from fabric.core.spec import FabricSpec
from fabric.core.spec_graph import GraphTopology
from fabric.core.spec_handoff import HandoffTopology

END = "end of the conversation"
ARROWS_MAX = 40
"""More than that say nothing as a picture; the table has all of them."""


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


def _ringed(spec: FabricSpec, first: str, arrows: list[Arrow], top: int, *, ends: bool) -> Drawn:
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
    """Who may pass on to whom."""
    topology = _peers(spec)
    for one in topology.workers:
        allowed = topology.workers if topology.passes is None else topology.passes.get(one, ())
        yield from ((one, other) for other in allowed if other != one)


def _handoff(spec: FabricSpec, top: int) -> Drawn:
    topology = _peers(spec)
    arrows = [Arrow(one, other, title=f"{one} may pass on to {other}") for one, other in _passes(spec)]
    return _ringed(spec, topology.first or topology.workers[0], arrows, top, ends=False)


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
    """From whom to whom which rule can lead, by its place; None: where no rule holds. An end is ``END``."""
    topology = cast(GraphTopology, spec.topology)
    graph, reach = topology.graph, _reach(spec)
    for speaker in graph.participants:
        for place, rule in enumerate(graph.transitions):
            if reach.decides(place, speaker):
                yield from ((speaker, target, place) for target in _leads(topology, rule.then, speaker))
        if reach.falls_through(speaker):
            yield from ((speaker, target, None) for target in _leads(topology, graph.default_target, speaker))


def _reach(spec: FabricSpec) -> Reach:
    graph = cast(GraphTopology, spec.topology).graph
    tools = {name: frozenset(spec.tools_of(spec.agent(name))) for name in graph.participants}
    return Reach(graph, Crew(tools, goals=spec.policy.goal_gates.nodes))


def _back(spec: FabricSpec) -> Iterator[tuple[str, str, str]]:
    """From whom to whom retry targets lead, and in words when: after a failure, or before an unmet goal."""
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
            return (after(topology.workers, speaker),)
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
    arrows = [_ruled(one, other, by, anew=anew) for (one, other, anew), by in led.items()]
    back: dict[tuple[str, str], list[str]] = {}
    for one, other, when in _back(spec):
        back.setdefault((one, other), []).append(when)
    arrows += [
        Arrow(one, other, "back", title=f"{one} to {other}: {'; '.join(said)}", css="back", lane=2)
        for (one, other), said in back.items()
    ]
    ends = any(other == END for _, other, _ in led)
    return _ringed(spec, topology.initial_speaker, arrows, top, ends=ends)


def _ruled(one: str, other: str, by: list[str], *, anew: bool) -> Arrow:
    """The arrow of rules that lead from one to another; one of restart edges says so, and has a stroke of its own."""
    number, told = ", ".join(by), f"{one} to {other}: {_by(by)}"
    if anew:
        return Arrow(
            one, other, f"{number} anew", title=f"{told}, and the conversation begins anew", css="anew", lane=1
        )
    return Arrow(one, other, number, title=told, css="ctx" if by == ["else"] else "")


def _by(by: list[str]) -> str:
    return ", ".join("where no rule holds" if one == "else" else f"rule {one}" for one in by)


def _transitions(spec: FabricSpec, planner: str) -> list[Link]:
    topology = cast(GraphTopology, spec.topology)
    found = [Link(planner, topology.initial_speaker, "the request, first", "fan-out")]
    for speaker, target, place in _rules(spec):
        what = "where no rule holds" if place is None else f"by rule {place + 1}"
        anew = place is not None and topology.transitions[place].restart
        found.append(Link(speaker, target, f"{what}, which begins the conversation anew" if anew else what, "fan-out"))
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
