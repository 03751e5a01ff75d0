"""Who says what in a recorded trace: a person's word, and an agent's answer (docs/detectors.md "How a trace is read")."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fabric.services.traces import TraceStep

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_PERSON = frozenset({"user", "human", "person", "customer"})
_ROLE = frozenset({"proxy", "agent", "simulator", "input", "admin"})
"""What may stand beside it in a name. In another company the word tells what an agent is about: a customer service agent is none of its customers."""


def is_person(step: TraceStep) -> bool:
    """Whether it is a message of somebody who is called user, human, person or customer."""
    if step.kind != "message":
        return False
    words = {word.lower() for word in _WORD.findall(step.agent)}
    return bool(words & _PERSON) and words <= _PERSON | _ROLE


def persons_words(steps: Sequence[TraceStep]) -> frozenset[int]:
    """Numbers of the steps in which a person speaks. Not an empty message, nor the same one twice in a row: so answers a program in a person's place."""
    found: set[int] = set()
    said: dict[str, str] = {}
    for number, step in enumerate(steps):
        if is_person(step):
            if step.chars and said.get(step.agent) != step.masked:
                found.add(number)
            said[step.agent] = step.masked
    return frozenset(found)


def new_texts(steps: Sequence[TraceStep]) -> frozenset[int]:
    """Numbers of the steps that begin other agents' answers anew, as a brief does: what a person says, and what an agent says for the first time."""
    found: set[int] = set()
    said: set[tuple[str, str]] = set()
    for number, step in enumerate(steps):
        if step.kind in ("model", "message") and (is_person(step) or (step.agent, step.masked) not in said):
            found.add(number)
            said.add((step.agent, step.masked))
    return frozenset(found)


def is_answer(steps: Sequence[TraceStep], number: int) -> bool:
    """Returns True where a text is what an agent answered. A person's message is not, nor what the agent said on its way to a call.

    Nor are the words of its own handoff, which frameworks record once more as a message of its own.
    """
    step = steps[number]
    if step.kind not in ("model", "message") or is_person(step):
        return False
    before = steps[number - 1] if number else None
    if before is not None and before.kind == "handoff" and (before.agent, before.masked) == (step.agent, step.masked):
        return False
    after = steps[number + 1] if number + 1 < len(steps) else None
    return after is None or after.kind not in ("tool", "handoff") or after.agent != step.agent
