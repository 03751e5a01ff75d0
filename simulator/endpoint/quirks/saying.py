"""Gives a quirk its words: the answer of the well-behaved agent, changed where there is a place for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from simulator.endpoint.answers import Answer, answer_of
from simulator.endpoint.misbehaviour import healthy
from simulator.endpoint.scenario import Saying
from simulator.endpoint.steps import Step
from simulator.endpoint.turns import Turn, calls, is_handing_on

JSON = Any
Change = Callable[[Answer, Turn], Answer]


def own_tools(turn: Turn) -> list[Mapping[str, JSON]]:
    """Tools on offer that do not hand the work on."""
    return [tool for tool in turn.tools if not is_handing_on(tool)]


def calling(turn: Turn, rounds: int = 1, words: Sequence[str] = ()) -> Answer | None:
    """An answer that calls a tool: as the well-behaved agent does, and up to so many rounds. None: there is no place for a call."""
    if isinstance(turn.body.get("tool_choice"), Mapping) or (turn.result and turn.answers_by is not None):
        return None
    natural = answer_of(healthy(turn).body)
    if natural is not None and natural.calls and not words:
        return natural
    tools = own_tools(turn)
    if not tools or turn.number >= rounds:
        return None
    return answer_of(calls(turn, words or [f"part {turn.number + 1}"], tools[0]).body)


def in_calls(change: Change, *, rounds: int = 1, words: Sequence[str] = ()) -> Saying:
    """The answer changed where it calls a tool; the well-behaved one elsewhere. ``words``: a call for each."""

    def say(turn: Turn) -> Step:
        found = calling(turn, rounds, words)
        return healthy(turn) if found is None else Step(answer=change(found, turn))

    return say


def in_all(change: Change) -> Saying:
    """Each answer of the well-behaved agent, changed."""

    def say(turn: Turn) -> Step:
        found = answer_of(healthy(turn).body)
        return healthy(turn) if found is None else Step(answer=change(found, turn))

    return say


def in_texts(change: Change) -> Saying:
    """Each answer in words, changed; calls are as the well-behaved agent makes them."""
    return in_all(lambda answer, turn: answer if answer.calls else change(answer, turn))


def unchanged(answer: Answer, turn: Turn) -> Answer:
    """The answer as it is."""
    return answer


def with_ids(answer: Answer, ids: Callable[[int], JSON]) -> Answer:
    """The same calls with these ids, by their place."""
    return replace(answer, calls=tuple(replace(one, id=ids(at)) for at, one in enumerate(answer.calls)))


def with_arguments(answer: Answer, write: Callable[[str], str]) -> Answer:
    """The same calls with their arguments rewritten."""
    return replace(answer, calls=tuple(replace(one, arguments=write(one.arguments)) for one in answer.calls))
