"""Conditions on Fabro's edges as conditions of transitions: ``outcome=fail``, ``failure_class=transient_infra && context.tries!=3`` (S1 "Edge routing")."""

from __future__ import annotations

import re

from fabric.core.graph.conditions import AllOf, AnyOf, Condition, ContextEquals, ErrorClassIs, Not, OutcomeIs
from fabric.core.graph.state import FAILURE_KEY, OUTCOME_KEY, NodeOutcome
from fabric.core.taxonomy import ErrorClass

_CLAUSE = re.compile(r"\s*(?P<key>[A-Za-z_][\w.-]*)\s*(?P<sign>!=|==?)\s*(?P<value>[^&|=!]*?)\s*")
_CONTEXT = "context."
_CHOSEN = frozenset({"preferred_label", "suggested_next_ids"})
"""What a Fabro handler says of where it wants to go."""


def condition_of(text: str) -> Condition:
    """The condition that a text is: clauses joined by && and ||, of which && binds closer. ValueError with one sentence where it is not read."""
    either = [_all(part) for part in text.split("||")]
    return either[0] if len(either) == 1 else AnyOf(conditions=tuple(either))


def _all(text: str) -> Condition:
    clauses = [_clause(part) for part in text.split("&&")]
    return clauses[0] if len(clauses) == 1 else AllOf(conditions=tuple(clauses))


def _clause(text: str) -> Condition:
    found = _CLAUSE.fullmatch(text)
    if found is None:
        raise ValueError(
            f"{text.strip()!r} is no condition that is read; write key=value or key!=value, joined by && or ||"
        )
    equal = _equal(found["key"], found["value"].strip("'\""))
    return Not(condition=equal) if found["sign"] == "!=" else equal


def _equal(key: str, value: str) -> Condition:
    if key in _CHOSEN:
        raise ValueError(
            f"{key!r} is what a handler of Fabro asks for; agents here hand over by a tool, so route by that"
        )
    if key == OUTCOME_KEY:
        if value not in [*NodeOutcome]:
            raise ValueError(f"no turn ends in {value!r} here; there are: {', '.join(NodeOutcome)}")
        return OutcomeIs(outcome=NodeOutcome(value))
    if key == FAILURE_KEY:
        if value not in [*ErrorClass]:
            raise ValueError(f"there is no class of failure {value!r}; there are: {', '.join(ErrorClass)}")
        return ErrorClassIs(failure_class=ErrorClass(value))
    return ContextEquals(key=key.removeprefix(_CONTEXT), value=value)
