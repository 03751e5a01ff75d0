"""Turns Fabro's workflows, written in DOT, into transition graphs (S1), with a note and its line for each part.

A node is a participant, an edge a rule for turns of its source (``edges.py``). A hexagon is a person's gate, whose
labels are the answers; a command is a tool that its author declares; a diamond only branches. A node without a model
becomes an agent of a placeholder model, whose provider ``fixed`` makes one call and no model request. Attributes with a
counterpart in a policy become a part of one. A file with a part whose loss makes another graph is refused, unless a
partial result is wanted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fabric.core.graph.conditions import Terminate
from fabric.core.graph.retry_targets import named_targets
from fabric.core.graph.spec import RetryTargets, TransitionGraph
from fabric.core.values.units import JSON
from fabric.services.errors import Placed, Refused
from fabric.services.importers.fabro.attributes import (
    DEFAULT_CHOICE,
    GRAPH_LOST,
    NO_DEFAULT,
    NODE_LEFT,
    NODE_LOST,
    NOT_HERE,
    POLICY,
    TURNS_MAX,
    ImportNote,
    ImportNotes,
    NodeKind,
    build_policy,
    find_kind,
    read_count,
    read_retries,
)
from fabric.services.importers.fabro.dot import DotAttribute, DotGraph, DotNode, DotProblem, dot_read
from fabric.services.importers.fabro.edges import NO_EDGE, WorkflowRules, arrow
from fabric.services.importers.tool_declarations import ImportedNames

TARGETS = ("retry_target", "fallback_retry_target")
RETRIES = ("retry_policy", "max_retries", "allow_partial")
HAVING_TURNS = frozenset({NodeKind.AGENT, NodeKind.PERSON, NodeKind.COMMAND, *NOT_HERE})
"""Kinds of nodes with turns; unsupported ones have turns only where the file is read partially."""
PARTIAL = "the graph would be another one without it; mend the file, or read the rest with --partial"


@dataclass(frozen=True, slots=True)
class FromFabro:
    """A workflow that was read."""

    graph: TransitionGraph
    policy: dict[str, JSON]
    """Parts of a fabric's ``policy``, as they are written there."""
    visits: dict[str, int]
    """Largest number of turns of single participants: ``max_visits`` of a fabric's graph."""
    parts: dict[str, JSON]
    """Models, tools and agents for nodes without a model, as a fabric has them."""
    taken: tuple[ImportNote, ...]
    lost: tuple[ImportNote, ...]
    """Missing parts of a partially read file, without which the graph is another one."""
    left: tuple[str, ...]
    """A sentence for each part that is not in the result; one for all without effect."""


def fabro_read(text: str, *, origin: str = "", partial: bool = False) -> FromFabro:
    """Return the graph of a Fabro workflow. ``partial``: leave out parts whose loss makes another graph.

    Raises Refused with the line: no DOT, no start, or such a part; it names all of them.
    """
    try:
        dot = dot_read(text)
    except DotProblem as error:
        raise _refuse_line(str(error), error.line, origin) from None
    read = _Reading(dot, origin).read()
    if read.lost and not partial:
        raise _loss_refusal(read.lost, origin)
    return read


def _refuse_line(sentence: str, line: int, origin: str) -> Refused:
    placed = Placed("", line, 1, sentence, origin)
    where = f"{origin}, line {line}" if origin else f"line {line}"
    return Refused(f"{where}: {sentence}", code="invalid", field="source", placed=(placed,))


def _loss_refusal(lost: tuple[ImportNote, ...], origin: str) -> Refused:
    """Return one refusal that names all of them."""
    begins = f"{origin}, " if origin else ""
    problems = tuple(f"{begins}{one}" for one in lost)
    placed = tuple(Placed("", one.line, 1, f"{one.what}: {one.sentence}", origin) for one in lost)
    return Refused(problems[0], code="invalid", field="source", problems=(*problems, PARTIAL), placed=placed)


@dataclass
class _Reading:
    dot: DotGraph
    origin: str
    names: ImportedNames = field(default_factory=ImportedNames)
    policy: dict[str, JSON] = field(default_factory=dict)
    visits: dict[str, int] = field(default_factory=dict)
    notes: ImportNotes = field(default_factory=ImportNotes)

    def read(self) -> FromFabro:
        nodes = self.dot.nodes
        kinds = {name: find_kind(one) for name, one in nodes.items()}
        people = {name: self._name(one) for name, one in nodes.items() if kinds[name] in HAVING_TURNS}
        if not people:
            raise _refuse_line("has no node that does anything; give the workflow one", 1, self.origin)
        first = self._first(kinds, people)
        edges = WorkflowRules(self.dot, kinds, people, self.notes, lambda name: self.names.choose_name("node", name))
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
        workers = WorkflowParts(self.notes)
        parts = workers.parts(nodes, kinds, people, edges)
        graph = TransitionGraph(
            participants=tuple(people.values()),
            initial_speaker=people[first],
            transitions=rules,
            default_target=Terminate(reason=NO_EDGE),
            retry_targets={name: one for name, one in own.items() if one != RetryTargets()},
            **common,
        )
        if tuple(named_targets(graph)):
            graph = self._bound_graph(graph)
        taken, lost = tuple(sorted(self.notes.taken)), tuple(sorted(set(self.notes.lost)))
        return FromFabro(graph, self.policy, self.visits, parts, taken, lost, tuple(self.notes.list_notes()))

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def _name(self, node: DotNode) -> str:
        try:
            name = self.names.choose_name("node", node.id)
        except ValueError as error:
            raise _refuse_line(str(error), node.line, self.origin) from None
        self.notes.take(node.line, f"node {node.id}", f"takes part as {name}")
        return name

    def _first(self, kinds: Mapping[str, NodeKind], people: Mapping[str, str]) -> str:
        """Return the node after the start; without a start, the one node without an incoming edge."""
        begun = [one for one in self.dot.edges if kinds[one.source] is NodeKind.START]
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
            sentence = (
                f"{arrow(begun[0])}: no node takes a turn there; lead from the start to the first node that takes one"
            )
            raise _refuse_line(sentence, begun[0].line, self.origin)
        if len(free) != 1:
            sentence = "does not say where it begins; give a node of shape Mdiamond that leads to the first one"
            raise _refuse_line(sentence, 1, self.origin)
        return free[0]

    def _node_attributes(self, node: DotNode, kind: NodeKind) -> None:
        if kind in NOT_HERE:
            self.notes.lose(node.line, f"node {node.id}", NOT_HERE[kind])
        for name, (value, line) in node.attributes.items():
            what = f"node {node.id}, {name}"
            decides = name in (*TARGETS, "max_visits", *RETRIES) or (name == "goal_gate" and value == "true")
            if decides and kind not in HAVING_TURNS:
                self._report_without_turn(kind, line, what)
            elif decides:
                self._decides(node, name, DotAttribute(value, line), what)
            elif name == DEFAULT_CHOICE:
                self.notes.lose(line, what, NO_DEFAULT)
            elif name in NODE_LOST and value in NODE_LOST[name][0]:
                self.notes.lose(line, what, NODE_LOST[name][1])
            elif name in NODE_LEFT:
                self.notes.leave(line, what, NODE_LEFT[name])
            elif name not in ("shape", "type", "goal_gate") and not WorkflowParts.reads(kind, name):
                self.notes.idles(name, line)

    def _report_without_turn(self, kind: NodeKind, line: int, what: str) -> None:
        if kind is NodeKind.BRANCH:
            self.notes.lose(line, what, "a node that only branches has no turn; say it of the node before it")
        else:
            self.notes.leave(line, what, "no node takes a turn there")

    def _decides(self, node: DotNode, name: str, given: DotAttribute, what: str) -> None:
        worker = self.names.choose_name("node", node.id)
        if name == "goal_gate":
            self.policy.setdefault("goal_gates", {"nodes": []})["nodes"].append(worker)
            sentence = "policy.goal_gates.nodes; an end before it is met leads back to a retry target, and ends the run where there is none"
            self.notes.take(given.line, what, sentence)
        elif name == "max_visits":
            self._node_visits(worker, given, what)
        elif name in RETRIES:
            self._node_retries(worker, name, given, what)

    def _node_visits(self, worker: str, given: DotAttribute, what: str) -> None:
        """Take over a node's own ``max_visits``, which goes before ``max_node_visits``; 0 means no bound of its own
        (S1).
        """
        try:
            visits = read_count(given.value)
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

    def _node_retries(self, worker: str, name: str, given: DotAttribute, what: str) -> None:
        try:
            value = read_retries(name, given.value)
        except ValueError as error:
            self.notes.lose(given.line, what, str(error))
            return
        layers = self.policy.setdefault("retry_layers", {"preset": "fabro", "max_retries": 0})
        layers.setdefault("workers", {}).setdefault(worker, {})[name] = value
        self.notes.take(given.line, what, f"policy.retry_layers.workers.{worker}.{name}")

    # -- edges ---------------------------------------------------------------------------------------------------------

    def _edge_attributes(self, kinds: Mapping[str, NodeKind]) -> None:
        for edge in self.dot.edges:
            gate = kinds[edge.source] is NodeKind.PERSON
            for name, (_, line) in edge.attributes.items():
                if name in ("condition", "loop_restart", "weight") or (gate and name in ("label", "freeform")):
                    continue
                self.notes.idles(name, line)

    # -- retry targets -------------------------------------------------------------------------------------------------

    def _targets(self, whose: str, given: Mapping[str, DotAttribute], people: Mapping[str, str]) -> dict[str, str]:
        """Return the nodes to which failures and unmet goals lead back, as a node or the graph names them."""
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

    def _bound_graph(self, graph: TransitionGraph) -> TransitionGraph:
        """Return the graph with the bound that leading back needs here.

        Fabro's bound on visits becomes one on turns; without it the author has to give one.
        """
        line = next(given.line for name, given in self._all_targets() if name in TARGETS)
        visits = self.policy.get("limits", {}).get("max_node_visits")
        if visits is None:
            sentence = "edges that lead back need a bound, and the file has no max_node_visits; give max_turns"
            self.notes.leave(line, "retry targets", sentence)
            return graph
        most = max(1, min(visits * len(graph.participants), TURNS_MAX))
        sentence = f"max_turns: {most:,}, as many turns as max_node_visits lets all nodes have"
        self.notes.take(line, "retry targets", sentence)
        return graph.model_copy(update={"max_turns": most})

    def _all_targets(self) -> Iterator[tuple[str, DotAttribute]]:
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

    def _policy(self, what: str, name: str, given: DotAttribute) -> None:
        part = POLICY[name]
        try:
            fields = build_policy(part, given.value)
        except ValueError as error:
            self.notes.lose(given.line, what, str(error))
            return
        if not fields:
            self.notes.leave(given.line, what, "0 is no bound, and leaving it out is none here")
            return
        self.policy.setdefault(part.group, {}).update(fields)
        said = " and ".join(f"policy.{part.group}.{one}" for one in fields if one not in part.besides)
        self.notes.take(given.line, what, said)


MODEL, ASK, GATE = "no-model", "ask_person", "human.gate"
SCRIPTS = ("script", "tool_command")
READ: Mapping[NodeKind, tuple[str, ...]] = {NodeKind.PERSON: ("label",), NodeKind.COMMAND: SCRIPTS}
"""Attributes of nodes that those parts use."""


@dataclass
class WorkflowParts:
    """Parts of a workflow's nodes without a model."""

    notes: ImportNotes

    @staticmethod
    def reads(kind: NodeKind, name: str) -> bool:
        """Returns True where an attribute of this kind of node is read here."""
        return name in READ.get(kind, ())

    def parts(
        self,
        nodes: Mapping[str, DotNode],
        kinds: Mapping[str, NodeKind],
        people: Mapping[str, str],
        edges: WorkflowRules,
    ) -> dict[str, JSON]:
        """Return models, tools and agents; empty where every node has a model."""
        calls: dict[str, JSON] = {}
        tools: list[JSON] = []
        for name, node in nodes.items():
            if kinds[name] is NodeKind.PERSON:
                calls[people[name]] = {"tool": ASK, "args": self._question(node, edges)}
                tools += [] if {"name": ASK} in tools else [{"name": ASK}]
            elif kinds[name] is NodeKind.COMMAND:
                tool = f"run-{people[name]}"[:63]
                calls[people[name]] = {"tool": tool, "args": {}}
                tools.append(self._command(node, tool))
        if not calls:
            return {}
        free = {"input_usd_per_mtok": 0, "output_usd_per_mtok": 0}
        model = {"name": MODEL, "provider": "fixed", "price": free, "options": {"agents": calls}}
        agents = [
            {
                "name": name,
                "model": MODEL,
                "tools": [call["tool"]],
                "instructions": "No agent is needed here: the call is made.",
            }
            for name, call in calls.items()
        ]
        return {"models": [model], "tools": tools, "agents": agents}

    def _question(self, node: DotNode, edges: WorkflowRules) -> JSON:
        given = node.attributes.get("label")
        found = edges.answers_of(node.id)
        args: dict[str, JSON] = {
            "question": given.value.replace("\\n", "\n") if given is not None and given.value.strip() else node.id,
            "keeps_as": GATE,
        }
        if found.answers:
            args["answers"] = dict(found.answers)
        if found.free:
            args["other"] = True
        said = ", ".join(found.answers.values()) or "in their own words"
        self.notes.take(node.line, f"node {node.id}", f"a person answers {said}; no answer is a failure")
        return args

    def _command(self, node: DotNode, tool: str) -> JSON:
        script = next((node.attributes[one].value for one in SCRIPTS if one in node.attributes), "")
        self.notes.leave(
            node.line,
            f"node {node.id}",
            f"runs a command, and no shell runs here: declare what {tool} is, by its kind, target and effect",
        )
        return {
            "name": tool,
            "kind": "http",
            "effect": "mutating",
            "description": f"Does: {script}" if script else "Does the command.",
        }
