"""Planted bugs of who may answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from fabric.core import agreeing, screening
from fabric.core.eligibility import Asked
from fabric.core.frozen import replace
from simulator.kernel import planting

IN_STORE = ("roles_unchecked",)
"""What the memory store leaves out by itself."""


def _believed(*given: Any) -> str:
    """Whoever sent it was asked about when they did: they are not asked about again."""
    return ""


def _unread(*given: Any) -> None:
    """Nobody looks at results for what they tell their agent to do."""


def _nobody(*given: Any) -> tuple[str, ...]:
    return ()


def _alone(asked_of: Callable[..., Asked]) -> Callable[..., Asked]:
    return lambda question, work=None: replace(asked_of(question, work), proposed_by="")


def _one_is_enough(enough: Callable[..., str]) -> Callable[..., str]:
    def decides(work: Any, question: Any, given: Any) -> str:
        found = enough(work, question, given)
        return "decides" if found == "agrees" else found

    return decides


PEOPLE_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "roles_unchecked": nullcontext,
    "roles_believed": lambda: planting.attribute(agreeing, "not_theirs", _believed),
    "own_approval_counts": lambda: planting.attribute(agreeing, "barred", _nobody),
    "own_edit_counts": lambda: planting.attribute(agreeing, "asked_of", _alone(agreeing.asked_of)),
    "orders_are_followed": lambda: planting.attribute(screening, "found", _unread),
    "one_of_two_is_enough": lambda: planting.attribute(agreeing, "enough", _one_is_enough(agreeing.enough)),
}
"""By name."""
