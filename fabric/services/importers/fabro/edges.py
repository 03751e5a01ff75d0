"""Turns Fabro's edges into rules: their order of trial, the target of each, and their conditions (S1 "Edge routing").

1. Edges with a condition come first, the heavier before the lighter, then by their target's name.
2. The first edge without a condition leads on, after a failure too.
3. After a person's gate each edge is an answer, and silence is none.
4. A node that only branches has no turn: its edges belong to the nodes that lead to it.
5. A condition reads ``outcome=failed``, or ``failure_class=transient_infra && !context.tries > 3``. ``&&`` binds closer
   than ``||``, ``!`` negates the term after it. Both vocabularies of outcomes are read: Fabro's program says
   ``succeeded``, S1 says ``success``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from fabric.core.graph.conditions import (
    AllOf,
    Always,
    AnyOf,
    Condition,
    ContextText,
    ErrorClassIs,
    FromSpeaker,
    Not,
    OutcomeIs,
    Target,
    Terminate,
    ToAgent,
)
from fabric.core.graph.problems import CROSSES
from fabric.core.graph.reach import Crew, RuleReach
from fabric.core.graph.retry_targets import on_failure
from fabric.core.graph.spec import Transition, TransitionGraph
from fabric.core.graph.state import FAILURE_KEY, OUTCOME_KEY, NodeOutcome
from fabric.core.values.taxonomy import ErrorClass
from fabric.services.importers.fabro.attributes import ImportNotes, NodeKind
from fabric.services.importers.fabro.dot import DotEdge, DotGraph

NO_EDGE = "no_edge"
BLOCKED = "loop_restart_blocked"
FAILED = OutcomeIs(outcome=NodeOutcome.FAIL)
EITHER_WAY = AnyOf(conditions=(Not(condition=FAILED), FAILED))
"""Condition that is true after a success and after a failure: such a rule decides after a failure too."""
BRANCHES_MAX = 6
"""Largest number of successive nodes that only branch."""


@dataclass(frozen=True, slots=True)
class GateAnswers:
    """Possible answers of a person at a gate."""

    answers: Mapping[str, str]
    """Answers by key."""
    free: bool
    """True: the person may write another answer."""


@dataclass
class WorkflowRules:
    """Turns the edges of one workflow into transitions, and into answers at its human gates."""

    dot: DotGraph
    kinds: Mapping[str, NodeKind]
    people: Mapping[str, str]
    """Names here of the nodes with turns."""
    notes: ImportNotes
    end: Callable[[str], str]
    """Returns the reason with which an exit ends the graph."""

    def rules_of(self, node: str) -> list[Transition]:
        """Return the rules for turns of a node, in the order of their trial."""
        speaker = FromSpeaker(agent=self.people[node])
        return [rule for edge in self._out(node) for rule in self._list_rules(edge, (speaker,), self.people[node], ())]

    def answers_of(self, gate: str) -> GateAnswers:
        """Return a person's possible answers at a node."""
        plain = [edge for edge in self._out(gate) if "condition" not in edge.attributes]
        fixed = [edge for edge in plain if not _is(edge, "freeform")]
        return GateAnswers({key: label for label, key in map(_label, fixed)}, len(fixed) < len(plain))

    # -- in their order ------------------------------------------------------------------------------------------------

    def _out(self, node: str) -> list[DotEdge]:
        out = sorted((one for one in self.dot.edges if one.source == node), key=self._weigh_edge)
        asked = [one for one in out if "condition" in one.attributes]
        plain = [one for one in out if "condition" not in one.attributes]
        if self.kinds[node] is not NodeKind.PERSON:
            for extra in {one.target: one for one in plain if one.target != plain[0].target}.values():
                sentence = "only one edge without a condition leads on; give this one a condition, on a variable that an agent writes"
                self._lose(extra, "", sentence)
            plain = plain[:1]
        return [*asked, *plain]

    def _weigh_edge(self, edge: DotEdge) -> tuple[float, str]:
        given = edge.attributes.get("weight")
        try:
            return -float(given.value if given else 0), edge.target
        except ValueError:
            self._lose(edge, ", weight", f"{given.value if given else ''!r} is no number")
            return 0.0, edge.target

    # -- one edge ------------------------------------------------------------------------------------------------------

    def _list_rules(
        self, edge: DotEdge, so_far: tuple[Condition, ...], speaker: str, through: tuple[str, ...]
    ) -> Iterator[Transition]:
        """Yield the rules of an edge; several where it leads to a node that only branches."""
        condition = self._condition(edge)
        if condition is None:
            return
        when = (*so_far, *condition)
        if self.kinds[edge.target] is NodeKind.BRANCH:
            yield from self._list_branches(edge, when, speaker, through)
            return
        target = self._target(edge, speaker)
        if target is not None:
            yield from self._list_crossings(edge, _all(when), target, speaker)

    def _condition(self, edge: DotEdge) -> tuple[Condition, ...] | None:
        """Return the condition of an edge besides its speaker; None: it becomes no rule."""
        of_person = self.kinds[edge.source] is NodeKind.PERSON
        given = edge.attributes.get("condition")
        if given is None and of_person:
            return (Not(condition=FAILED), _answer_condition(edge))
        if given is None or not given.value.strip():
            return ()
        try:
            found = read_condition(given.value.replace("\\\\", "\\"), of_person=of_person)
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

    def _list_branches(
        self, edge: DotEdge, when: tuple[Condition, ...], speaker: str, through: tuple[str, ...]
    ) -> Iterator[Transition]:
        branch = edge.target
        if branch in through or len(through) >= BRANCHES_MAX:
            self._lose(edge, "", f"leads through more than {BRANCHES_MAX} nodes that only branch, or round among them")
            return
        out = self._out(branch)
        for one in out:
            yield from self._list_rules(one, when, speaker, (*through, branch))
        if all("condition" in one.attributes for one in out):
            yield Transition(when=_all((*when, EITHER_WAY)), then=Terminate(reason=NO_EDGE))

    def _target(self, edge: DotEdge, speaker: str) -> Target | None:
        to = edge.target
        if to in self.people:
            self.notes.take(edge.line, arrow(edge), f"leads from {speaker} to {self.people[to]}")
            return ToAgent(agent=self.people[to])
        if self.kinds[to] is NodeKind.EXIT:
            self.notes.take(edge.line, arrow(edge), "ends the conversation")
            return Terminate(reason=self.end(to))
        self._lose(edge, "", "nothing leads back to the start; lead to the node after it")
        return None

    def _list_crossings(self, edge: DotEdge, when: Condition, target: Target, speaker: str) -> Iterator[Transition]:
        """Yield a rule that decides after a failure too; a restart edge where any outcome may cross it."""
        if not on_failure(Transition(when=when, then=target)):
            when = AllOf(conditions=(when, EITHER_WAY))
        if not _is(edge, "loop_restart"):
            yield Transition(when=when, then=target)
            return
        line, what = edge.attributes["loop_restart"].line, f"{arrow(edge)}, loop_restart"
        if not isinstance(target, ToAgent):
            self.notes.leave(line, what, "nothing starts over where the workflow ends")
            yield Transition(when=when, then=target)
            return
        rule = Transition(when=when, then=target, restart=True)
        alone = TransitionGraph(participants=(speaker,), initial_speaker=speaker, transitions=(rule,))
        if RuleReach(alone, Crew()).decides(0, speaker, CROSSES):
            self.notes.take(line, what, "starts the conversation over; of failures only transient_infra crosses it")
            yield rule
            return
        self.notes.take(line, what, f"no failure that it is for may cross it, so that it ends with {BLOCKED}")
        yield Transition(when=when, then=Terminate(reason=BLOCKED))

    def _lose(self, edge: DotEdge, what: str, sentence: str, line: int = 0) -> None:
        self.notes.lose(line or edge.line, f"{arrow(edge)}{what}", sentence)


def _all(conditions: tuple[Condition, ...]) -> Condition:
    return conditions[0] if len(conditions) == 1 else AllOf(conditions=conditions)


def _answer_condition(edge: DotEdge) -> Condition:
    """Return the condition that a person gave the answer of this edge."""
    if _is(edge, "freeform"):
        return ContextText(key=SELECTED, compares="equals", value=FREEFORM)
    return ContextText(key=LABEL, compares="equals", value=_label(edge)[0])


def _label(edge: DotEdge) -> tuple[str, str]:
    given = edge.attributes.get("label")
    return read_answer(given.value if given is not None and given.value.strip() else edge.target)


def _is(edge: DotEdge, name: str) -> bool:
    given = edge.attributes.get(name)
    return given is not None and given.value == "true"


def arrow(edge: DotEdge) -> str:
    """Return an edge as messages show it."""
    return f"{edge.source} -> {edge.target}"


LABEL, SELECTED = "human.gate.label", "human.gate.selected"
"""Context variables of a person's answer: its label, and its key or ``freeform``."""
FREEFORM = "freeform"
OUTCOMES = {
    "succeeded": NodeOutcome.SUCCESS,
    "success": NodeOutcome.SUCCESS,
    "failed": NodeOutcome.FAIL,
    "fail": NodeOutcome.FAIL,
    "partially_succeeded": NodeOutcome.PARTIAL_SUCCESS,
    "partial_success": NodeOutcome.PARTIAL_SUCCESS,
    "skipped": None,
}
"""Outcomes of turns, by both vocabularies; no turn is skipped here."""
NEVER = Not(condition=Always())
SIGNS = {">": "greater", "<": "less", ">=": "at_least", "<=": "at_most", "contains": "contains", "matches": "matches"}
_CLAUSE = re.compile(
    r"(?P<key>[A-Za-z_][\w.-]*)(?:\s*(?P<sign>!=|>=|<=|==?|>|<)\s*|\s+(?P<word>contains|matches)\s+)(?P<value>.*)",
    re.DOTALL,
)
_KEY = re.compile(r"[A-Za-z_][\w.-]*")
_PARTS = re.compile(r'"(?:[^"\\]|\\.)*"|&&|\|\||(?:(?!&&|\|\||").)+', re.DOTALL)
_ACCELERATOR = re.compile(r"\s*(?:\[(?P<a>\w+)\]\s*|(?P<b>\w)\)\s*|(?P<c>\w)\s+-\s+)(?P<rest>\S.*)", re.DOTALL)
_CONTEXT = "context."
_CHOSEN = "preferred_label"
_FABROS = ("internal.", "command.", "response.", "parallel.", "stack.", "manager.", "graph.", "thread.", "current.")
_FABROS_KEYS = frozenset({"current_node", "last_stage", "last_response", "failure_signature", "suggested_next_ids"})
"""Context variables that Fabro itself writes."""


def read_answer(label: str) -> tuple[str, str]:
    """Return an answer and its key from an edge's label: ``[A] Approve``, ``A) Approve`` or ``A - Approve``. Without a
    key the answer is the key.
    """
    found = _ACCELERATOR.fullmatch(label)
    if found is None:
        return label.strip(), label.strip()
    return found["rest"].strip(), found["a"] or found["b"] or found["c"]


def read_condition(text: str, *, of_person: bool = False) -> Condition:
    """Return the condition in a text. ``of_person``: of an edge out of a person's gate. Raises ValueError with one
    sentence for an unreadable one.
    """
    either: list[list[str]] = [[""]]
    for part in _PARTS.findall(text):
        if part == "||":
            either.append([""])
        elif part == "&&":
            either[-1].append("")
        else:
            either[-1][-1] += part
    found = [_join_conditions(AllOf, [_unary(one, of_person) for one in every]) for every in either]
    return _join_conditions(AnyOf, found)


def _join_conditions(kind: type[AllOf | AnyOf], conditions: list[Condition]) -> Condition:
    return conditions[0] if len(conditions) == 1 else kind(conditions=tuple(conditions))


def _unary(text: str, of_person: bool) -> Condition:
    text = text.strip()
    if text.startswith("!"):
        return Not(condition=_unary(text[1:], of_person))
    if _KEY.fullmatch(text):
        return _truthy(_variable_name(text, of_person))
    found = _CLAUSE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no condition; write KEY, or KEY with =, !=, >, <, >=, <=, contains or matches")
    return _clause(found["key"], found["sign"] or found["word"], _value(found["value"]), of_person)


def _value(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text


def _clause(key: str, sign: str, value: str, of_person: bool) -> Condition:
    if sign == "!=":
        return Not(condition=_clause(key, "=", value, of_person))
    if sign in SIGNS:
        if key == OUTCOME_KEY:
            raise ValueError(f"'{key} {sign} {value}': how a turn ended is one of a few words; write = or !=")
        return _text(_variable_name(key, of_person), SIGNS[sign], value)
    if key == OUTCOME_KEY:
        return _outcome(value)
    if key.removeprefix(_CONTEXT) == FAILURE_KEY:
        if value and value not in [*ErrorClass]:
            raise ValueError(f"there is no class of failure {value!r}; there are: {', '.join(ErrorClass)}")
        return ErrorClassIs(failure_class=ErrorClass(value)) if value else Not(condition=_truthy(FAILURE_KEY))
    if key == _CHOSEN:
        value = read_answer(value)[0]
    return _text(_variable_name(key, of_person), "equals", value)


def _text(key: str, compares: str, value: str) -> Condition:
    try:
        return ContextText.model_validate({"key": key, "compares": compares, "value": value})
    except ValidationError as error:
        raise ValueError(error.errors()[0]["msg"].removeprefix("Value error, ")) from None


def _outcome(value: str) -> Condition:
    if value not in OUTCOMES:
        raise ValueError(f"no turn ends in {value!r}; there are: {', '.join(OUTCOMES)}")
    outcome = OUTCOMES[value]
    return NEVER if outcome is None else OutcomeIs(outcome=outcome)


def _truthy(key: str) -> Condition:
    return Always() if key == OUTCOME_KEY else _text(key, "is_set", "")


def _variable_name(key: str, of_person: bool) -> str:
    """Return the context variable of a key."""
    name = key.removeprefix(_CONTEXT)
    if name == _CHOSEN:
        if not of_person:
            raise ValueError(
                f"{name!r} is what Fabro's model asks for; agents here hand over by a tool, so route by that"
            )
        return LABEL
    if name.startswith(_FABROS) or name in _FABROS_KEYS:
        raise ValueError(f"{name!r} is written by Fabro itself and by no agent or tool here; let one write a variable")
    return name
