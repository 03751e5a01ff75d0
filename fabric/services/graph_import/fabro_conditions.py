"""Conditions on Fabro's edges as conditions of transitions: ``outcome=failed``, ``failure_class=transient_infra && !context.tries > 3`` (S1 "Edge routing").

``&&`` binds closer than ``||``, ``!`` negates what follows. Both vocabularies of outcomes are read: Fabro's program says ``succeeded``, S1 says ``success``.
"""

from __future__ import annotations

import re

from pydantic import ValidationError

from fabric.core.graph.conditions import (
    AllOf,
    Always,
    AnyOf,
    Condition,
    ContextText,
    ErrorClassIs,
    Not,
    OutcomeIs,
)
from fabric.core.graph.state import FAILURE_KEY, OUTCOME_KEY, NodeOutcome
from fabric.core.taxonomy import ErrorClass

LABEL, SELECTED = "human.gate.label", "human.gate.selected"
"""Context variables in which a person's answer stands: its label, and its key or ``freeform``."""
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
"""How turns end, by both vocabularies; no turn is skipped here."""
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


def answer_of(label: str) -> tuple[str, str]:
    """An answer and its key, as an edge's label says them: ``[A] Approve``, ``A) Approve`` or ``A - Approve``; without a key the answer is the key."""
    found = _ACCELERATOR.fullmatch(label)
    if found is None:
        return label.strip(), label.strip()
    return found["rest"].strip(), found["a"] or found["b"] or found["c"]


def condition_of(text: str, *, of_person: bool = False) -> Condition:
    """The condition that a text is. ``of_person``: of an edge out of a person's gate. ValueError with one sentence where it is not read."""
    either: list[list[str]] = [[""]]
    for part in _PARTS.findall(text):
        if part == "||":
            either.append([""])
        elif part == "&&":
            either[-1].append("")
        else:
            either[-1][-1] += part
    found = [_joined(AllOf, [_unary(one, of_person) for one in every]) for every in either]
    return _joined(AnyOf, found)


def _joined(kind: type[AllOf | AnyOf], conditions: list[Condition]) -> Condition:
    return conditions[0] if len(conditions) == 1 else kind(conditions=tuple(conditions))


def _unary(text: str, of_person: bool) -> Condition:
    text = text.strip()
    if text.startswith("!"):
        return Not(condition=_unary(text[1:], of_person))
    if _KEY.fullmatch(text):
        return _truthy(_named(text, of_person))
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
        return _text(_named(key, of_person), SIGNS[sign], value)
    if key == OUTCOME_KEY:
        return _outcome(value)
    if key.removeprefix(_CONTEXT) == FAILURE_KEY:
        if value and value not in [*ErrorClass]:
            raise ValueError(f"there is no class of failure {value!r}; there are: {', '.join(ErrorClass)}")
        return ErrorClassIs(failure_class=ErrorClass(value)) if value else Not(condition=_truthy(FAILURE_KEY))
    if key == _CHOSEN:
        value = answer_of(value)[0]
    return _text(_named(key, of_person), "equals", value)


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


def _named(key: str, of_person: bool) -> str:
    """The context variable that a key is."""
    name = key.removeprefix(_CONTEXT)
    if name == _CHOSEN:
        if not of_person:
            raise ValueError(
                f"{name!r} is what Fabro's model asks for; agents here hand over by a tool, so route by that"
            )
        return LABEL
    if name.startswith(_FABROS) or name in _FABROS_KEYS:
        raise ValueError(
            f"{name!r} is written by Fabro itself and by nobody here; let an agent or a tool write a variable"
        )
    return name
