"""Workflows of Fabro, written in DOT, as transition graphs (S1): what was taken over and what was not, each with its line and why.

A node is a participant, an edge a rule for turns of its source. Edges with a condition come first, as they stand; one without holds where the node did not fail.
Retry targets and restart edges are the graph's own (S1 "When failures become fatal", "Loop restart edges"). What a policy has a counterpart for is a part of one;
what has none is told as left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import ValidationError

from fabric.core.graph.by_edge import on_failure
from fabric.core.graph.conditions import AllOf, AnyOf, Condition, FromSpeaker, Not, OutcomeIs
from fabric.core.graph.problems import CROSSES
from fabric.core.graph.reach import Crew, Reach
from fabric.core.graph.retry_targets import named
from fabric.core.graph.spec import RetryTargets, Transition, TransitionGraph
from fabric.core.graph.state import NodeOutcome
from fabric.core.graph.targets import Target, Terminate, ToAgent
from fabric.core.policy import FailureSignature, Limits, StallWatchdog
from fabric.core.retry_policy import RetryLayers
from fabric.services.errors import Placed, Refused
from fabric.services.graph_import.dot_reader import Attribute, Dot, DotProblem, Edge, Node, dot_read
from fabric.services.graph_import.fabro_conditions import condition_of
from fabric.services.graph_import.names import Names

JSON = Any
NO_EDGE = "no_edge"
BLOCKED = "loop_restart_blocked"
START, EXIT = "Mdiamond", "Msquare"
"""Shapes of the nodes where a workflow begins and ends; nodes named ``start`` and ``exit`` are such too."""
TARGETS = ("retry_target", "fallback_retry_target")
TURNS_MAX = 100_000
"""Most turns that a graph may allow, and most visits of one of its workers."""


class Note(NamedTuple):
    """Something of the file, and what became of it."""

    line: int
    what: str
    """``node verify, goal_gate``."""
    sentence: str

    def __str__(self) -> str:
        return f"line {self.line}, {self.what}: {self.sentence}"


@dataclass(frozen=True, slots=True)
class FromFabro:
    """A workflow that was read."""

    graph: TransitionGraph
    policy: dict[str, JSON]
    """Parts of a fabric's ``policy``, as they are written there."""
    visits: dict[str, int]
    """How often single participants may have a turn: ``max_visits`` of a fabric's graph."""
    taken: tuple[Note, ...]
    left: tuple[Note, ...]


def fabro_read(text: str, *, origin: str = "") -> FromFabro:
    """The graph of a Fabro workflow. Refused with its line where it is no DOT, or not said where it begins."""
    try:
        dot = dot_read(text)
    except DotProblem as error:
        raise _refused(str(error), error.line, origin) from None
    return _Reading(dot, origin).read()


def _refused(sentence: str, line: int, origin: str) -> Refused:
    placed = Placed("", line, 1, sentence, origin)
    where = f"{origin}, line {line}" if origin else f"line {line}"
    return Refused(f"{where}: {sentence}", code="invalid", field="source", placed=(placed,))


# -- attributes that become a policy -----------------------------------------------------------------------------------


class _Part(NamedTuple):
    """Where in a policy an attribute of the graph goes."""

    group: str
    field: str
    model: type[Any]
    besides: Mapping[str, JSON] = {}
    also: str = ""
    """A second field that it says the same of."""


POLICY: Mapping[str, _Part] = {
    "max_node_visits": _Part("limits", "max_node_visits", Limits, {"visits_preset": "fabro"}),
    "stall_timeout": _Part("stall_watchdog", "after_s", StallWatchdog),
    "default_max_retry": _Part("retry_layers", "max_retries", RetryLayers, {"preset": "fabro"}),
    "loop_restart_signature_limit": _Part("failure_signature", "limit", FailureSignature, also="restart_limit"),
}
"""Attributes of the graph with a counterpart in ``policy`` (S1)."""
_SINGLE = "a stage has retries of its own and a single worker none; policy.retry_layers has them for stages"
LEFT_NODE: Mapping[str, str] = {
    "retry_policy": _SINGLE,
    "max_retries": _SINGLE,
    "allow_partial": _SINGLE,
}
LEFT_EDGE: Mapping[str, str] = {
    "label": "is for people; it decides nothing here",
    "weight": "edges are tried as they stand in the file; put the one that is to win first",
}
ELSE = "has no counterpart; agents, models and tools are written in the fabric"


@dataclass
class _Reading:
    dot: Dot
    origin: str
    names: Names = field(default_factory=Names)
    policy: dict[str, JSON] = field(default_factory=dict)
    visits: dict[str, int] = field(default_factory=dict)
    taken: list[Note] = field(default_factory=list)
    left: list[Note] = field(default_factory=list)

    def read(self) -> FromFabro:
        nodes = self.dot.nodes.values()
        people = {one.id: self._name(one) for one in nodes if not self._starts(one) and not self._exits(one)}
        if not people:
            raise _refused("has no node that does anything; give the workflow one", 1, self.origin)
        first = self._first(people)
        self._graph_attributes()
        rules = [rule for one in nodes if one.id in people for rule in self._rules(one, people)]
        own = {people[one.id]: self._own_targets(one, people) for one in nodes if one.id in people}
        common = self._targets("graph", self.dot.attributes, people)
        for one in nodes:
            self._node_attributes(one)
        self.left.extend(Note(one.line, f"a subgraph, {name}", ELSE) for name, one in self.dot.inner)
        graph = TransitionGraph(
            participants=tuple(people.values()),
            initial_speaker=people[first],
            transitions=tuple(rules),
            default_target=Terminate(reason=NO_EDGE),
            retry_targets={name: one for name, one in own.items() if one != RetryTargets()},
            **common,
        )
        if tuple(named(graph)):
            graph = self._bounded(graph)
        return FromFabro(graph, self.policy, self.visits, tuple(sorted(self.taken)), tuple(sorted(self.left)))

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def _name(self, node: Node) -> str:
        try:
            name = self.names.of("node", node.id)
        except ValueError as error:
            raise _refused(str(error), node.line, self.origin) from None
        self.taken.append(Note(node.line, f"node {node.id}", f"takes part as {name}"))
        return name

    def _starts(self, node: Node) -> bool:
        return _shape(node) == START or node.id.lower() == "start"

    def _exits(self, node: Node) -> bool:
        return _shape(node) == EXIT or node.id.lower() == "exit"

    def _first(self, people: Mapping[str, str]) -> str:
        """Whom the start leads to; where there is no start, the one node that nothing leads to."""
        begun = [one for one in self.dot.edges if self._starts(self.dot.nodes[one.source]) and one.target in people]
        for extra in begun[1:]:
            self._leave(
                extra.line, _arrow(extra), "a conversation has one first speaker; the first edge of the start says who"
            )
        if begun:
            self.taken.append(Note(begun[0].line, _arrow(begun[0]), "says who speaks first"))
            return begun[0].target
        led = {one.target for one in self.dot.edges}
        free = [one for one in people if one not in led]
        if len(free) != 1:
            sentence = f"does not say where it begins; give a node of shape {START} that leads to the first one"
            raise _refused(sentence, 1, self.origin)
        return free[0]

    def _node_attributes(self, node: Node) -> None:
        for name, (value, line) in node.attributes.items():
            what = f"node {node.id}, {name}"
            if name == "goal_gate" and value == "true" and not (self._starts(node) or self._exits(node)):
                gates = self.policy.setdefault("goal_gates", {"nodes": []})
                gates["nodes"].append(self.names.of("node", node.id))
                self._take(
                    line,
                    what,
                    "policy.goal_gates.nodes; an end before it is met leads back to a retry target, and ends the run where there is none",
                )
            elif name == "shape" and value in (START, EXIT):
                self._take(line, what, "where the workflow begins" if value == START else "where the workflow ends")
            elif name in (*TARGETS, "max_visits") and (self._starts(node) or self._exits(node)):
                self._leave(line, what, "nobody has a turn there")
            elif name == "max_visits":
                self._node_visits(node, value, line, what)
            elif name not in TARGETS and not (name == "goal_gate" and value == "false"):
                self._leave(line, what, LEFT_NODE.get(name, ELSE))

    def _node_visits(self, node: Node, value: str, line: int, what: str) -> None:
        """S1: a node's own ``max_visits`` goes before ``max_node_visits``; a value of 0 there says that there is no bound, which every worker has here."""
        visits = int(value) if value.isascii() and value.isdecimal() and len(value) < 19 else -1
        if visits < 0:
            self._leave(line, what, f"{value!r} is no number of visits; give a whole one from 1 on")
        elif not 1 <= visits <= TURNS_MAX:
            self._leave(
                line, what, f"a worker has 1 to {TURNS_MAX:,} visits; policy.limits.max_node_visits holds for it"
            )
        else:
            self.visits[self.names.of("node", node.id)] = visits
            self._take(line, what, "topology.max_visits of that worker")

    # -- edges ---------------------------------------------------------------------------------------------------------

    def _rules(self, node: Node, people: Mapping[str, str]) -> list[Transition]:
        """The rules for turns of a node: edges with a condition, edges without."""
        out = [one for one in self.dot.edges if one.source == node.id]
        rules = [rule for one in out if "condition" in one.attributes for rule in self._conditional(one, people)]
        rules += [rule for one in out if "condition" not in one.attributes for rule in self._plain(one, people)]
        return rules

    def _conditional(self, edge: Edge, people: Mapping[str, str]) -> list[Transition]:
        given = edge.attributes["condition"]
        try:
            condition = condition_of(given.value)
        except ValueError as error:
            self._leave(given.line, f"{_arrow(edge)}, condition", f"{error}; the edge is left out")
            return []
        when = self._from(edge, people, condition)
        self._take(given.line, f"{_arrow(edge)}, condition", "is the rule's")
        target = self._target(edge, people)
        if target is None:
            return []
        return self._ruled(edge, people, when, target, given.line)

    def _plain(self, edge: Edge, people: Mapping[str, str]) -> list[Transition]:
        target = self._target(edge, people)
        if target is None:
            return []
        return self._ruled(edge, people, self._from(edge, people, Not(condition=_FAILED)), target, edge.line)

    def _ruled(
        self, edge: Edge, people: Mapping[str, str], when: Condition, target: Target, line: int
    ) -> list[Transition]:
        """An edge as its rule: a restart edge too, where anything may cross it."""
        given = edge.attributes.get("loop_restart")
        if given is None or given.value != "true":
            return [Transition(when=when, then=target)]
        what = f"{_arrow(edge)}, loop_restart"
        if not isinstance(target, ToAgent):
            self._leave(given.line, what, "nothing begins anew where the workflow ends")
            return [Transition(when=when, then=target)]
        rule = Transition(when=when, then=target, restart=True)
        if not on_failure(rule):  # It is asked about however a turn ended, which a restart edge has to say.
            rule = Transition(
                when=AllOf(conditions=(when, AnyOf(conditions=(Not(condition=_FAILED), _FAILED)))),
                then=target,
                restart=True,
            )
        speaker = people[edge.source]
        alone = TransitionGraph(participants=(speaker,), initial_speaker=speaker, transitions=(rule,))
        if not Reach(alone, Crew()).decides(0, speaker, CROSSES):
            self._take(given.line, what, f"no failure that it is for may cross it, so that it ends with {BLOCKED}")
            return [Transition(when=when, then=Terminate(reason=BLOCKED))]
        self._take(given.line, what, "begins the conversation anew; of failures only transient_infra crosses it")
        return [rule]

    def _from(self, edge: Edge, people: Mapping[str, str], *conditions: Condition) -> Condition:
        return AllOf(conditions=(FromSpeaker(agent=people[edge.source]), *conditions))

    def _target(self, edge: Edge, people: Mapping[str, str]) -> Target | None:
        for name, (_, line) in edge.attributes.items():
            if name not in ("condition", "loop_restart"):
                self._leave(line, f"{_arrow(edge)}, {name}", LEFT_EDGE.get(name, ELSE))
        if edge.target in people:
            self._take(edge.line, _arrow(edge), f"leads from {people[edge.source]} to {people[edge.target]}")
            return ToAgent(agent=people[edge.target])
        if self._exits(self.dot.nodes[edge.target]):
            self._take(edge.line, _arrow(edge), "ends the conversation")
            return Terminate(reason=self.names.of("node", edge.target))
        self._leave(edge.line, _arrow(edge), "nothing leads back to the start; lead to the node after it")
        return None

    # -- retry targets -------------------------------------------------------------------------------------------------

    def _own_targets(self, node: Node, people: Mapping[str, str]) -> RetryTargets:
        return RetryTargets(**self._targets(f"node {node.id}", node.attributes, people))

    def _targets(self, whose: str, given: Mapping[str, Attribute], people: Mapping[str, str]) -> dict[str, str]:
        """What a node or the graph says of where failures and unmet goals lead back to."""
        found: dict[str, str] = {}
        for name in TARGETS:
            if name not in given:
                continue
            value, line = given[name]
            if value in people:
                found[name] = people[value]
                self._take(
                    line,
                    f"{whose}, {name}",
                    "leads back there after a failure that no edge matched, or before an unmet goal",
                )
            else:
                self._leave(line, f"{whose}, {name}", f"there is no node {value!r} that does anything")
        return found

    def _bounded(self, graph: TransitionGraph) -> TransitionGraph:
        """What leads back needs a bound here. Fabro's on visits comes to one on turns; without it the author has to give one."""
        line = next(given.line for name, given in self._all_targets() if name in TARGETS)
        visits = self.policy.get("limits", {}).get("max_node_visits")
        if visits is None:
            self._leave(
                line,
                "retry targets",
                "what leads back needs a bound, and the file has no max_node_visits; give max_turns",
            )
            return graph
        most = max(1, min(visits * len(graph.participants), TURNS_MAX))
        self._take(line, "retry targets", f"max_turns: {most:,}, as many turns as max_node_visits lets all nodes have")
        return graph.model_copy(update={"max_turns": most})

    def _all_targets(self) -> Iterator[tuple[str, Attribute]]:
        for attributes in (self.dot.attributes, *(one.attributes for one in self.dot.nodes.values())):
            yield from attributes.items()

    # -- the graph -----------------------------------------------------------------------------------------------------

    def _graph_attributes(self) -> None:
        for name, given in self.dot.attributes.items():
            what = f"graph, {name}"
            if name in POLICY:
                self._policy(what, POLICY[name], given)
            elif name not in TARGETS:
                self._leave(given.line, what, ELSE)

    def _policy(self, what: str, part: _Part, given: Attribute) -> None:
        fields = {name: given.value for name in (part.field, part.also) if name} | dict(part.besides)
        try:
            read = part.model.model_validate(fields)
        except ValidationError as error:
            self._leave(given.line, what, f"{given.value!r}: {error.errors()[0]['msg'].lower()}")
            return
        found = {name: getattr(read, name) for name in (part.field, part.also) if name}
        self.policy.setdefault(part.group, {}).update({**found, **part.besides})
        self._take(given.line, what, " and ".join(f"policy.{part.group}.{name}" for name in found))

    def _take(self, line: int, what: str, sentence: str) -> None:
        self.taken.append(Note(line, what, sentence))

    def _leave(self, line: int, what: str, sentence: str) -> None:
        self.left.append(Note(line, what, sentence))


_FAILED = OutcomeIs(outcome=NodeOutcome.FAIL)


def _shape(node: Node) -> str:
    given = node.attributes.get("shape")
    return "" if given is None else given.value


def _arrow(edge: Edge) -> str:
    return f"{edge.source} -> {edge.target}"
