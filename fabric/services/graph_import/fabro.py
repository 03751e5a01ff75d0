"""Workflows of Fabro, written in DOT, as transition graphs (S1): what was taken over and what was not, each with its line and why.

A node is a participant, an edge a rule for turns of its source (``fabro_edges.py``). A hexagon is a person's gate, whose labels are the answers; a command is a tool
that its author declares; a diamond only branches. What a policy has a counterpart for is a part of one. A file with a part whose loss makes another graph is
refused, unless a part of it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fabric.core.graph.retry_targets import named
from fabric.core.graph.spec import RetryTargets, TransitionGraph
from fabric.core.graph.targets import Terminate
from fabric.services.errors import Placed, Refused
from fabric.services.graph_import.dot_reader import Attribute, Dot, DotProblem, Node, dot_read
from fabric.services.graph_import.fabro_attributes import (
    DEFAULT_CHOICE,
    GRAPH_LOST,
    NO_DEFAULT,
    NODE_LEFT,
    NODE_LOST,
    NOT_HERE,
    POLICY,
    TURNS_MAX,
    Kind,
    count_of,
    kind_of,
    policy_of,
    retries_of,
)
from fabric.services.graph_import.fabro_edges import NO_EDGE, Edges, arrow
from fabric.services.graph_import.fabro_notes import Note, Notes
from fabric.services.graph_import.fabro_workers import Workers
from fabric.services.graph_import.names import Names

JSON = Any
TARGETS = ("retry_target", "fallback_retry_target")
RETRIES = ("retry_policy", "max_retries", "allow_partial")
HAVING_TURNS = frozenset({Kind.AGENT, Kind.PERSON, Kind.COMMAND, *NOT_HERE})
"""Kinds of node that take part; those that are refused do so where only a part is read."""
PARTIAL = "the graph would be another one without it; mend the file, or read the rest with --partial"


@dataclass(frozen=True, slots=True)
class FromFabro:
    """A workflow that was read."""

    graph: TransitionGraph
    policy: dict[str, JSON]
    """Parts of a fabric's ``policy``, as they are written there."""
    visits: dict[str, int]
    """How often single participants may have a turn: ``max_visits`` of a fabric's graph."""
    parts: dict[str, JSON]
    """Models, tools and agents for nodes that no model speaks for, as a fabric has them."""
    taken: tuple[Note, ...]
    lost: tuple[Note, ...]
    """Parts that are missing though the graph is another one without them: of a file of which only a part was asked for."""
    left: tuple[str, ...]
    """A sentence for each thing that is not in the result; one for all that decides nothing."""


def fabro_read(text: str, *, origin: str = "", partial: bool = False) -> FromFabro:
    """The graph of a Fabro workflow. Refused with the line: no DOT, no start, or a part whose loss makes another graph; all such parts are named.

    ``partial``: read without those.
    """
    try:
        dot = dot_read(text)
    except DotProblem as error:
        raise _refused(str(error), error.line, origin) from None
    read = _Reading(dot, origin).read()
    if read.lost and not partial:
        raise _lost(read.lost, origin)
    return read


def _refused(sentence: str, line: int, origin: str) -> Refused:
    placed = Placed("", line, 1, sentence, origin)
    where = f"{origin}, line {line}" if origin else f"line {line}"
    return Refused(f"{where}: {sentence}", code="invalid", field="source", placed=(placed,))


def _lost(lost: tuple[Note, ...], origin: str) -> Refused:
    """One refusal that names all of them."""
    begins = f"{origin}, " if origin else ""
    problems = tuple(f"{begins}{one}" for one in lost)
    placed = tuple(Placed("", one.line, 1, f"{one.what}: {one.sentence}", origin) for one in lost)
    return Refused(problems[0], code="invalid", field="source", problems=(*problems, PARTIAL), placed=placed)


@dataclass
class _Reading:
    dot: Dot
    origin: str
    names: Names = field(default_factory=Names)
    policy: dict[str, JSON] = field(default_factory=dict)
    visits: dict[str, int] = field(default_factory=dict)
    notes: Notes = field(default_factory=Notes)

    def read(self) -> FromFabro:
        nodes = self.dot.nodes
        kinds = {name: kind_of(one) for name, one in nodes.items()}
        people = {name: self._name(one) for name, one in nodes.items() if kinds[name] in HAVING_TURNS}
        if not people:
            raise _refused("has no node that does anything; give the workflow one", 1, self.origin)
        first = self._first(kinds, people)
        edges = Edges(self.dot, kinds, people, self.notes, lambda name: self.names.of("node", name))
        self._graph_attributes()
        rules = tuple(rule for name in people for rule in edges.rules_of(name))
        own = {
            people[name]: RetryTargets(**self._targets(f"node {name}", nodes[name].attributes, people))
            for name in people
        }
        common = self._targets("graph", self.dot.attributes, people)
        for name, one in nodes.items():
            self._node_attributes(one, kinds[name])
        self._edge_attributes(kinds)
        for name, attribute in self.dot.inner:
            self.notes.idles(f"subgraph {name}", attribute.line)
        workers = Workers(self.notes)
        parts = workers.parts(nodes, kinds, people, edges)
        graph = TransitionGraph(
            participants=tuple(people.values()),
            initial_speaker=people[first],
            transitions=rules,
            default_target=Terminate(reason=NO_EDGE),
            retry_targets={name: one for name, one in own.items() if one != RetryTargets()},
            **common,
        )
        if tuple(named(graph)):
            graph = self._bounded(graph)
        taken, lost = tuple(sorted(self.notes.taken)), tuple(sorted(set(self.notes.lost)))
        return FromFabro(graph, self.policy, self.visits, parts, taken, lost, tuple(self.notes.said()))

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def _name(self, node: Node) -> str:
        try:
            name = self.names.of("node", node.id)
        except ValueError as error:
            raise _refused(str(error), node.line, self.origin) from None
        self.notes.take(node.line, f"node {node.id}", f"takes part as {name}")
        return name

    def _first(self, kinds: Mapping[str, Kind], people: Mapping[str, str]) -> str:
        """Whom the start leads to; where there is no start, the one node that nothing leads to."""
        begun = [one for one in self.dot.edges if kinds[one.source] is Kind.START]
        for extra in begun[1:]:
            self.notes.lose(
                extra.line, arrow(extra), "a conversation has one first speaker; lead to one node from the start"
            )
        if begun and "condition" in begun[0].attributes:
            self.notes.lose(
                begun[0].line, f"{arrow(begun[0])}, condition", "nothing has happened yet that it could ask for"
            )
        if begun and begun[0].target in people:
            self.notes.take(begun[0].line, arrow(begun[0]), "says who speaks first")
            return begun[0].target
        led = {one.target for one in self.dot.edges}
        free = [one for one in people if one not in led]
        if begun:
            sentence = f"{arrow(begun[0])}: nobody has a turn there; lead from the start to the first node that has one"
            raise _refused(sentence, begun[0].line, self.origin)
        if len(free) != 1:
            sentence = "does not say where it begins; give a node of shape Mdiamond that leads to the first one"
            raise _refused(sentence, 1, self.origin)
        return free[0]

    def _node_attributes(self, node: Node, kind: Kind) -> None:
        if kind in NOT_HERE:
            self.notes.lose(node.line, f"node {node.id}", NOT_HERE[kind])
        for name, (value, line) in node.attributes.items():
            what = f"node {node.id}, {name}"
            decides = name in (*TARGETS, "max_visits", *RETRIES) or (name == "goal_gate" and value == "true")
            if decides and kind not in HAVING_TURNS:
                self._nobodys(kind, line, what)
            elif decides:
                self._decides(node, name, Attribute(value, line), what)
            elif name == DEFAULT_CHOICE:
                self.notes.lose(line, what, NO_DEFAULT)
            elif name in NODE_LOST and value in NODE_LOST[name][0]:
                self.notes.lose(line, what, NODE_LOST[name][1])
            elif name in NODE_LEFT:
                self.notes.leave(line, what, NODE_LEFT[name])
            elif name not in ("shape", "type", "goal_gate") and not Workers.reads(kind, name):
                self.notes.idles(name, line)

    def _nobodys(self, kind: Kind, line: int, what: str) -> None:
        if kind is Kind.BRANCH:
            self.notes.lose(line, what, "a node that only branches has no turn; say it of the node before it")
        else:
            self.notes.leave(line, what, "nobody has a turn there")

    def _decides(self, node: Node, name: str, given: Attribute, what: str) -> None:
        worker = self.names.of("node", node.id)
        if name == "goal_gate":
            self.policy.setdefault("goal_gates", {"nodes": []})["nodes"].append(worker)
            sentence = "policy.goal_gates.nodes; an end before it is met leads back to a retry target, and ends the run where there is none"
            self.notes.take(given.line, what, sentence)
        elif name == "max_visits":
            self._node_visits(worker, given, what)
        elif name in RETRIES:
            self._node_retries(worker, name, given, what)

    def _node_visits(self, worker: str, given: Attribute, what: str) -> None:
        """S1: a node's own ``max_visits`` goes before ``max_node_visits``; 0 says that it has none of its own."""
        try:
            visits = count_of(given.value)
        except ValueError as error:
            self.notes.lose(given.line, what, str(error))
            return
        if visits > TURNS_MAX:
            self.notes.lose(given.line, what, f"a worker has 1 to {TURNS_MAX:,} visits")
        elif visits == 0:
            self.notes.leave(given.line, what, "0 is no bound, and policy.limits.max_node_visits holds for that worker")
        else:
            self.visits[worker] = visits
            self.notes.take(given.line, what, "topology.max_visits of that worker")

    def _node_retries(self, worker: str, name: str, given: Attribute, what: str) -> None:
        try:
            value = retries_of(name, given.value)
        except ValueError as error:
            self.notes.lose(given.line, what, str(error))
            return
        layers = self.policy.setdefault("retry_layers", {"preset": "fabro", "max_retries": 0})
        layers.setdefault("workers", {}).setdefault(worker, {})[name] = value
        self.notes.take(given.line, what, f"policy.retry_layers.workers.{worker}.{name}")

    # -- edges ---------------------------------------------------------------------------------------------------------

    def _edge_attributes(self, kinds: Mapping[str, Kind]) -> None:
        for edge in self.dot.edges:
            gate = kinds[edge.source] is Kind.PERSON
            for name, (_, line) in edge.attributes.items():
                if name in ("condition", "loop_restart", "weight") or (gate and name in ("label", "freeform")):
                    continue
                self.notes.idles(name, line)

    # -- retry targets -------------------------------------------------------------------------------------------------

    def _targets(self, whose: str, given: Mapping[str, Attribute], people: Mapping[str, str]) -> dict[str, str]:
        """What a node or the graph says of where failures and unmet goals lead back to."""
        found: dict[str, str] = {}
        for name in TARGETS:
            if name not in given:
                continue
            value, line = given[name]
            if value in people:
                found[name] = people[value]
                sentence = "leads back there after a failure that no edge matched, or before an unmet goal"
                self.notes.take(line, f"{whose}, {name}", sentence)
            else:
                self.notes.lose(line, f"{whose}, {name}", f"there is no node {value!r} that has a turn")
        return found

    def _bounded(self, graph: TransitionGraph) -> TransitionGraph:
        """What leads back needs a bound here. Fabro's on visits comes to one on turns; without it the author has to give one."""
        line = next(given.line for name, given in self._all_targets() if name in TARGETS)
        visits = self.policy.get("limits", {}).get("max_node_visits")
        if visits is None:
            sentence = "what leads back needs a bound, and the file has no max_node_visits; give max_turns"
            self.notes.leave(line, "retry targets", sentence)
            return graph
        most = max(1, min(visits * len(graph.participants), TURNS_MAX))
        sentence = f"max_turns: {most:,}, as many turns as max_node_visits lets all nodes have"
        self.notes.take(line, "retry targets", sentence)
        return graph.model_copy(update={"max_turns": most})

    def _all_targets(self) -> Iterator[tuple[str, Attribute]]:
        for attributes in (self.dot.attributes, *(one.attributes for one in self.dot.nodes.values())):
            yield from attributes.items()

    # -- the graph -----------------------------------------------------------------------------------------------------

    def _graph_attributes(self) -> None:
        for name, given in self.dot.attributes.items():
            what = f"graph, {name}"
            if name in GRAPH_LOST:
                self.notes.lose(given.line, what, GRAPH_LOST[name])
            elif name not in POLICY:
                if name not in TARGETS:
                    self.notes.idles(name, given.line)
            else:
                self._policy(what, name, given)

    def _policy(self, what: str, name: str, given: Attribute) -> None:
        part = POLICY[name]
        try:
            fields = policy_of(part, given.value)
        except ValueError as error:
            self.notes.lose(given.line, what, str(error))
            return
        if not fields:
            self.notes.leave(given.line, what, "0 is no bound, and leaving it out is none here")
            return
        self.policy.setdefault(part.group, {}).update(fields)
        said = " and ".join(f"policy.{part.group}.{one}" for one in fields if one not in part.besides)
        self.notes.take(given.line, what, said)
