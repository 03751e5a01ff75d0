"""Conditions of planned calls, in CEL over what earlier calls gave. A model writes them, so nothing in them may take long: none goes through a list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabric.adapters.invariants import ExpressionProblem, loops, program_of, sentence_of

JSON = Any
KNOWN = ("calls",)


def holds(condition: str, about: Mapping[str, JSON]) -> tuple[bool, str]:
    """Whether a condition over ``calls`` holds; or, after a False, why nobody can say: it does not compile, reads what there is not, or is no yes or no."""
    if loops(condition):
        return False, "it goes through a list, which a condition may not"
    try:
        found = program_of(condition, KNOWN).execute(dict(about))
    except ExpressionProblem as problem:
        return False, str(problem)
    except Exception as error:  # noqa: BLE001 - whatever the library raises, the condition did not say yes
        return False, f"it could not be evaluated: {sentence_of(error)}"
    if isinstance(found, bool):
        return found, ""
    return False, f"it gave {type(found).__name__}, not true or false"
