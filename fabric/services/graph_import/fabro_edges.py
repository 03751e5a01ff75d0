"""Fabro's edges as rules: which of a node's edges are tried in which order, and what each comes to (S1 "Edge routing").

Edges with a condition come first, the heavier before the lighter, then by their target's name. Of those without one the first leads on, after a failure too; after
a person's gate each is an answer, and silence none. A node that only branches has no turn: its edges are those of whoever leads to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from fabric.core.graph.by_edge import on_failure
from fabric.core.graph.conditions import AllOf, AnyOf, Condition, ContextText, FromSpeaker, Not, OutcomeIs
from fabric.core.graph.problems import CROSSES
from fabric.core.graph.reach import Crew, Reach
from fabric.core.graph.spec import Transition, TransitionGraph
from fabric.core.graph.state import NodeOutcome
from fabric.core.graph.targets import Target, Terminate, ToAgent
from fabric.services.graph_import.dot_reader import Dot, Edge
from fabric.services.graph_import.fabro_attributes import Kind
from fabric.services.graph_import.fabro_conditions import (
    FREEFORM,
    LABEL,
    NEVER,
    SELECTED,
    answer_of,
    condition_of,
)
from fabric.services.graph_import.fabro_notes import Notes

NO_EDGE = "no_edge"
BLOCKED = "loop_restart_blocked"
FAILED = OutcomeIs(outcome=NodeOutcome.FAIL)
EITHER_WAY = AnyOf(conditions=(Not(condition=FAILED), FAILED))
"""However a turn ended: a rule that says so decides after a failure too."""
BRANCHES_MAX = 6
"""Nodes that only branch, one behind the other."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers that a person may give at a gate."""

    answers: Mapping[str, str]
    """By key."""
    free: bool
    """True: the person may write another answer."""


@dataclass
class Edges:
    """The rules of a workflow."""

    dot: Dot
    kinds: Mapping[str, Kind]
    people: Mapping[str, str]
    """Names here of the nodes that have turns."""
    notes: Notes
    end: Callable[[str], str]
    """The reason with which an exit ends it."""

    def rules_of(self, node: str) -> list[Transition]:
        """The rules for turns of a node, in the order in which they are tried."""
        speaker = FromSpeaker(agent=self.people[node])
        return [rule for edge in self._out(node) for rule in self._ruled(edge, (speaker,), self.people[node], ())]

    def answers_of(self, gate: str) -> Answers:
        """The answers that a person may give there."""
        plain = [edge for edge in self._out(gate) if "condition" not in edge.attributes]
        fixed = [edge for edge in plain if not _is(edge, "freeform")]
        return Answers({key: label for label, key in map(_label, fixed)}, len(fixed) < len(plain))

    # -- in their order ------------------------------------------------------------------------------------------------

    def _out(self, node: str) -> list[Edge]:
        out = sorted((one for one in self.dot.edges if one.source == node), key=self._weighed)
        asked = [one for one in out if "condition" in one.attributes]
        plain = [one for one in out if "condition" not in one.attributes]
        if self.kinds[node] is not Kind.PERSON:
            for extra in {one.target: one for one in plain if one.target != plain[0].target}.values():
                sentence = "only one edge without a condition leads on; give this one a condition, on a variable that an agent writes"
                self._lose(extra, "", sentence)
            plain = plain[:1]
        return [*asked, *plain]

    def _weighed(self, edge: Edge) -> tuple[float, str]:
        given = edge.attributes.get("weight")
        try:
            return -float(given.value if given else 0), edge.target
        except ValueError:
            self._lose(edge, ", weight", f"{given.value if given else ''!r} is no number")
            return 0.0, edge.target

    # -- one edge ------------------------------------------------------------------------------------------------------

    def _ruled(
        self, edge: Edge, so_far: tuple[Condition, ...], speaker: str, through: tuple[str, ...]
    ) -> Iterator[Transition]:
        """The rules that an edge comes to; several where it leads to a node that only branches."""
        condition = self._condition(edge)
        if condition is None:
            return
        when = (*so_far, *condition)
        if self.kinds[edge.target] is Kind.BRANCH:
            yield from self._branched(edge, when, speaker, through)
            return
        target = self._target(edge, speaker)
        if target is not None:
            yield from self._crossing(edge, _all(when), target, speaker)

    def _condition(self, edge: Edge) -> tuple[Condition, ...] | None:
        """The condition of an edge, beside its speaker; None: it is no rule."""
        of_person = self.kinds[edge.source] is Kind.PERSON
        given = edge.attributes.get("condition")
        if given is None and of_person:
            return (Not(condition=FAILED), _answered(edge))
        if given is None or not given.value.strip():
            return ()
        try:
            found = condition_of(given.value.replace("\\\\", "\\"), of_person=of_person)
        except ValueError as error:
            self._lose(edge, ", condition", str(error), given.line)
            return None
        if found == NEVER:
            self.notes.leave(
                given.line, f"{arrow(edge)}, condition", "no turn is skipped here, so that the edge is never taken"
            )
            return None
        self.notes.take(given.line, f"{arrow(edge)}, condition", "is the rule's")
        return (found,)

    def _branched(
        self, edge: Edge, when: tuple[Condition, ...], speaker: str, through: tuple[str, ...]
    ) -> Iterator[Transition]:
        branch = edge.target
        if branch in through or len(through) >= BRANCHES_MAX:
            self._lose(edge, "", f"leads through more than {BRANCHES_MAX} nodes that only branch, or round among them")
            return
        out = self._out(branch)
        for one in out:
            yield from self._ruled(one, when, speaker, (*through, branch))
        if all("condition" in one.attributes for one in out):
            yield Transition(when=_all((*when, EITHER_WAY)), then=Terminate(reason=NO_EDGE))

    def _target(self, edge: Edge, speaker: str) -> Target | None:
        to = edge.target
        if to in self.people:
            self.notes.take(edge.line, arrow(edge), f"leads from {speaker} to {self.people[to]}")
            return ToAgent(agent=self.people[to])
        if self.kinds[to] is Kind.EXIT:
            self.notes.take(edge.line, arrow(edge), "ends the conversation")
            return Terminate(reason=self.end(to))
        self._lose(edge, "", "nothing leads back to the start; lead to the node after it")
        return None

    def _crossing(self, edge: Edge, when: Condition, target: Target, speaker: str) -> Iterator[Transition]:
        """A rule, which decides after a failure too; a restart edge where anything may cross it."""
        if not on_failure(Transition(when=when, then=target)):
            when = AllOf(conditions=(when, EITHER_WAY))
        if not _is(edge, "loop_restart"):
            yield Transition(when=when, then=target)
            return
        line, what = edge.attributes["loop_restart"].line, f"{arrow(edge)}, loop_restart"
        if not isinstance(target, ToAgent):
            self.notes.leave(line, what, "nothing begins anew where the workflow ends")
            yield Transition(when=when, then=target)
            return
        rule = Transition(when=when, then=target, restart=True)
        alone = TransitionGraph(participants=(speaker,), initial_speaker=speaker, transitions=(rule,))
        if Reach(alone, Crew()).decides(0, speaker, CROSSES):
            self.notes.take(line, what, "begins the conversation anew; of failures only transient_infra crosses it")
            yield rule
            return
        self.notes.take(line, what, f"no failure that it is for may cross it, so that it ends with {BLOCKED}")
        yield Transition(when=when, then=Terminate(reason=BLOCKED))

    def _lose(self, edge: Edge, what: str, sentence: str, line: int = 0) -> None:
        self.notes.lose(line or edge.line, f"{arrow(edge)}{what}", sentence)


def _all(conditions: tuple[Condition, ...]) -> Condition:
    return conditions[0] if len(conditions) == 1 else AllOf(conditions=conditions)


def _answered(edge: Edge) -> Condition:
    """That a person gave the answer which an edge is."""
    if _is(edge, "freeform"):
        return ContextText(key=SELECTED, compares="equals", value=FREEFORM)
    return ContextText(key=LABEL, compares="equals", value=_label(edge)[0])


def _label(edge: Edge) -> tuple[str, str]:
    given = edge.attributes.get("label")
    return answer_of(given.value if given is not None and given.value.strip() else edge.target)


def _is(edge: Edge, name: str) -> bool:
    given = edge.attributes.get(name)
    return given is not None and given.value == "true"


def arrow(edge: Edge) -> str:
    """An edge as it is told."""
    return f"{edge.source} -> {edge.target}"
