"""Gives a quirk its words: the answer of the well-behaved agent, changed where there is a place for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fabric.core.values.units import JSON
from simulator.endpoint.behaviour.definition import Saying
from simulator.endpoint.behaviour.misbehaviour import healthy
from simulator.endpoint.behaviour.turns import Turn, calls, is_handing_on
from simulator.endpoint.wire.steps import SimulatedAnswer, Step, find_answer

Change = Callable[[SimulatedAnswer, Turn], SimulatedAnswer]


def own_tools(turn: Turn) -> list[Mapping[str, JSON]]:
    """Tools on offer that do not hand the work on."""
    return [tool for tool in turn.tools if not is_handing_on(tool)]


def answer_with_call(turn: Turn, rounds: int = 1, words: Sequence[str] = ()) -> SimulatedAnswer | None:
    """Return an answer that calls a tool as the well-behaved agent does, for up to so many rounds.

    None: there is no place for a call.
    """
    if isinstance(turn.body.get("tool_choice"), Mapping) or (turn.result and turn.answers_by is not None):
        return None
    natural = find_answer(healthy(turn).body)
    if natural is not None and natural.calls and not words:
        return natural
    tools = own_tools(turn)
    if not tools or turn.number >= rounds:
        return None
    return find_answer(calls(turn, words or [f"part {turn.number + 1}"], tools[0]).body)


def change_calls(change: Change, *, rounds: int = 1, words: Sequence[str] = ()) -> Saying:
    """Return a behaviour that changes answers with tool calls. ``words`` has the text of each call."""

    def say(turn: Turn) -> Step:
        found = answer_with_call(turn, rounds, words)
        return healthy(turn) if found is None else Step(answer=change(found, turn))

    return say


def change_all(change: Change) -> Saying:
    """Each answer of the well-behaved agent, changed."""

    def say(turn: Turn) -> Step:
        found = find_answer(healthy(turn).body)
        return healthy(turn) if found is None else Step(answer=change(found, turn))

    return say


def change_texts(change: Change) -> Saying:
    """Each answer in words, changed; calls are as the well-behaved agent makes them."""
    return change_all(lambda answer, turn: answer if answer.calls else change(answer, turn))


def keep_answer(answer: SimulatedAnswer, turn: Turn) -> SimulatedAnswer:
    """The answer as it is."""
    return answer


def replace_ids(answer: SimulatedAnswer, ids: Callable[[int], JSON]) -> SimulatedAnswer:
    """Return the calls with these ids, by their place."""
    return replace(answer, calls=tuple(replace(one, id=ids(at)) for at, one in enumerate(answer.calls)))


def rewrite_arguments(answer: SimulatedAnswer, write: Callable[[str], str]) -> SimulatedAnswer:
    """Return the calls with their arguments rewritten."""
    return replace(answer, calls=tuple(replace(one, arguments=write(one.arguments)) for one in answer.calls))
