"""Planted bugs about the questions that tools' servers ask people, as in ``plants.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from fabric.core import evolve, requested_input
from fabric.core.envelope import Event
from fabric.core.forms import Requested
from fabric.core.frozen import replace
from fabric.core.run import Run, Step
from fabric.core.work import Work
from simulator.kernel import planting

JSON = Any


def _nothing_open(step: Step, command_id: str) -> Requested | None:
    """A call that asked counts as answered."""
    return None


def _answers_the_one_before() -> AbstractContextManager[None]:
    """An answer is kept under the digest of another question."""
    emits = Work.emit

    def emit(work: Work, fact: Any, content: JSON = None) -> Event:
        if fact.kind == "input_given":
            content = {**content, "asked": requested_input.question_digest("Another?", {})}
        return emits(work, fact, content)

    return planting.attribute(Work, "emit", emit)


def _asked_attempt_comes_again() -> AbstractContextManager[None]:
    """The attempt that asked does not count, so that the next one has its number."""
    requested = evolve.EVOLVE["input_requested"]

    def uncounted(run: Run, event: Event, fact: Any) -> Run:
        return requested(run, event, replace(fact, attempt=fact.attempt - 1))

    return planting.entry(evolve.EVOLVE, "input_requested", uncounted)


QUESTION_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "questions_without_end": lambda: planting.attribute(requested_input, "QUESTIONS_MAX", 100),
    "unanswered_goes_out": lambda: planting.attribute(requested_input, "open_request", _nothing_open),
    "answers_another_question": _answers_the_one_before,
    "asked_attempt_comes_again": _asked_attempt_comes_again,
}
"""Every one by name."""
