"""Conditions of planned calls, in CEL over what earlier calls gave. A model writes them, so nothing in them may take long: none goes through a list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabric.adapters.expression_costs import loops
from fabric.adapters.expressions import evaluated
from fabric.adapters.invariants import ExpressionProblem, program_of

JSON = Any
KNOWN = ("calls",)


def holds(condition: str, about: Mapping[str, JSON]) -> tuple[bool, str]:
    """Whether a condition over ``calls`` holds; or, after a False, why nobody can say: it does not compile, reads what there is not, or is no yes or no."""
    if loops(condition):
        return False, "it goes through a list, which a condition may not"
    try:
        program = program_of(condition, KNOWN)
    except ExpressionProblem as problem:
        return False, str(problem)
    found = evaluated(program, condition, about)
    if found.error:
        return False, f"it could not be evaluated: {found.failed}"
    return (False, found.failed) if found.failed else (found.holds, "")
