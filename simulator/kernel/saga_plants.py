"""Planted bugs about calls that change the world, as in ``plants.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from fabric.core import handing_up, mutation_keys, mutations, unwinding
from fabric.core.child_inputs import HandedDown
from fabric.core.events.children import Purpose
from fabric.core.run import Run, Step
from fabric.core.saga import STANDING, Mutation, Status, undo_order
from fabric.core.work import Work
from simulator.kernel import planting


def _never_in_doubt(mutation: Mutation | None) -> bool:
    return False


def _oldest_first(given: Iterable[Mutation], *, replan: bool) -> tuple[str, ...]:
    return undo_order(given, replan=replan)[::-1]


def _unexecuted_too(given: Iterable[Mutation], *, replan: bool) -> tuple[str, ...]:
    wanted = STANDING | {Status.NOT_EXECUTED}
    kept = [one for one in given if one.status in wanted and not (replan and one.carry_over)]
    return tuple(one.key for one in reversed(kept))


def _given_up(work: Work, current: Any, message: str) -> None:
    unwinding.abandon(work, current.key, message)


def _all_but_the_oldest(work: Work, step: Step, purpose: Purpose, briefs: tuple[int, ...]) -> tuple[HandedDown, ...]:
    return _down(work, step, purpose, briefs)[1:]


def _without_place(run: Run, step: Step, purpose: Purpose, child_id: str) -> str:
    return run.id


def _with_round(step_id: str, *, carry_over: bool) -> str:
    return step_id


_down = handing_up.down

SAGA_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "mutation_resent": lambda: planting.attribute(mutations, "in_doubt", _never_in_doubt),
    "compensate_fifo": lambda: planting.attribute(unwinding, "undo_order", _oldest_first),
    "compensate_unexecuted": lambda: planting.attribute(unwinding, "undo_order", _unexecuted_too),
    "stuck_skipped_silently": lambda: planting.attribute(unwinding, "_stuck", _given_up),
    "undone_keys_go_on": lambda: planting.attribute(mutation_keys, "spent", lambda work: False),
    "children_share_keys": lambda: planting.attribute(mutation_keys, "of_child", _without_place),
    "handed_down_short": lambda: planting.attribute(handing_up, "down", _all_but_the_oldest),
    "handed_down_and_lost": lambda: planting.attribute(handing_up, "inherit", lambda work, given: None),
    "key_with_round": lambda: planting.attribute(mutation_keys, "scope_of", _with_round),
}
"""Every one by name."""
