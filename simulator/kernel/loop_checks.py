"""What must be true of calls and errors that come back: invariants as in ``invariants.py``. Counted anew from the facts alone, by the letter of semantics.md 4."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby, pairwise
from typing import Any

from fabric.core.envelope import Event
from fabric.core.flow import Stage
from fabric.core.loop_policy import LoopDetector
from fabric.core.run import Run
from simulator.kernel.seen import Seen, on

Window = list[tuple[str, str, str, str, int]]
"""Executed calls of one step: tool, arguments, call id, masked result (empty while there is none), turn."""


@on("reaction_decided", "step_opened")
def loops_let_pass(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Breaks nothing: counts which calls a person let go on, for the other rules."""
    place = place_of(fact.step_id)
    if fact.kind == "step_opened":
        asked = seen.put_to_people.pop(place, [])
        if fact.approved:
            seen.polls |= {(place, call["tool"], call["args_hash"]) for call in asked}
    elif fact.reaction == "escalate":
        seen.put_to_people[place] = [one for trip in (fact.cause, *fact.causes) for one in _asked_about(trip)]
    return ""


def _asked_about(trip: Any) -> list[Any]:
    details = trip.evidence.details
    if trip.mechanism == "progress":
        return list(details.get("calls", ()))
    return [details] if trip.mechanism == "loop_detector" and "args_hash" in details else []


def place_of(step_id: str) -> str:
    """A step without its round."""
    return step_id.rpartition(".r")[0]


@on("model_answered", "call_issued", "call_deduplicated", "tool_answered", "call_responded", "call_refused")
def loops_in_bounds(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """No tool call goes out that the detectors A and D, or the one rule of the fabric's preset, would have blocked."""
    window = seen.windows.setdefault(fact.step_id, [])
    if fact.kind == "model_answered":
        seen.proposed[fact.step_id] = len(fact.calls)
    elif fact.kind == "call_responded":
        window.clear()  # A person spoke: the agent begins anew.
        seen.warned.discard(fact.step_id)
    elif fact.kind == "call_refused":
        if fact.mechanism == "loop_detector":
            seen.warned.add(fact.step_id)
    elif fact.kind == "tool_answered":
        for n, (tool, args_hash, call_id, masked, turn) in enumerate(window):
            if call_id == fact.call_id and not masked:
                window[n] = (tool, args_hash, call_id, fact.masked_hash, turn)
    elif fact.kind == "call_deduplicated" and not fact.begun:
        window.append((fact.tool, fact.args_hash, fact.call_id, fact.masked_hash, fact.turn))
    elif fact.kind == "call_issued" and fact.call == "tool" and fact.attempt == 1:
        window.append((fact.target, fact.args_hash, fact.call_id, "", fact.turn))
        polls = seen.compiled.spec.tool(fact.target).polling
        polls = polls or (place_of(fact.step_id), fact.target, fact.args_hash) in seen.polls
        return "" if polls else _looped(seen, fact.step_id, window)
    elif (
        fact.kind == "call_issued"
        and fact.call == "model"
        and seen.compiled.spec.policy.loop_detector.preset == "fabro"
    ):
        return _fabro(seen, fact.step_id, window)
    return ""


def _policy(seen: Seen, step_id: str) -> LoopDetector:
    return seen.compiled.spec.policy.of_stage(Stage(step_id.partition(".")[0])).loop_detector


def _looped(seen: Seen, step_id: str, window: Window) -> str:
    policy = _policy(seen, step_id)
    if policy.preset == "fabro" or (policy.preset == "ag2" and step_id in seen.warned):
        return ""
    return LETTERS[policy.preset](policy, window)


def _letters(policy: LoopDetector, window: Window) -> str:
    """A: the third in five with equal results. D: the sixth in a row."""
    same = _alike(policy, window)
    results = {masked for _, _, _, masked, _ in same[:-1]} - {""}
    if len(same) >= policy.identical_threshold and len(results) <= 1:
        return (
            f"{same[-1][0]} goes out {len(same)} times in {policy.identical_window} calls, same arguments, same results"
        )
    return _row(policy.consecutive_threshold, window)


def _flow(policy: LoopDetector, window: Window) -> str:
    same = _alike(policy, window)
    often = len(same) >= policy.identical_threshold
    return (
        f"{same[-1][0]} goes out {len(same)} times in {policy.identical_window} calls, same arguments" if often else ""
    )


def _ag2(policy: LoopDetector, window: Window) -> str:
    return _row(policy.ag2_threshold, window)


def _fabro(seen: Seen, step_id: str, window: Window) -> str:
    """The last 10 turns are there, and all complete groups of 1, 2 or 3 turns, counted from their end, are equal. One group
    alone is equal to nothing, so it is no cycle. Asked once the last one is whole: what a guard held back of it makes it another turn than the one that was proposed.
    """
    size = _policy(seen, step_id).period_window
    last = [call for call in window if call[4] == window[-1][4]]
    place = place_of(step_id)
    polls = any(seen.compiled.spec.tool(call[0]).polling or (place, *call[:2]) in seen.polls for call in last)
    turns = [[call[:2] for call in calls] for _, calls in groupby(window, key=lambda call: call[4])][-size:]
    if len(turns) < size or polls or len(last) != seen.proposed.get(step_id):
        return ""
    for period in (1, 2, 3):
        groups = [turns[end - period : end] for end in range(len(turns), period - 1, -period)]
        if len(groups) > 1 and all(one == other for one, other in pairwise(groups)):
            return f"the last {len(turns)} turns are {len(groups)} times the same {period}"
    return ""


LETTERS: Mapping[str | None, Callable[[LoopDetector, Window], str]] = {
    None: _letters,
    "flow": _flow,
    "ag2": _ag2,
}
"""What must not go out, by preset that judges call by call."""


def _alike(policy: LoopDetector, window: Window) -> Window:
    return [call for call in window[-policy.identical_window :] if call[:2] == window[-1][:2]]


def _row(most: int, window: Window) -> str:
    tail = {call[:2] for call in window[-most:]}
    return "the same call goes out too often in a row" if len(window) >= most and len(tail) == 1 else ""


@on("tool_answered", "escalation_decided", "reaction_decided", "call_issued")
def errors_in_bounds(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Nobody is asked again after a tool gave the same error as often as the policy allows, unless that was decided about or a person has spoken, as often as
    rounds with people go.
    """
    if fact.kind == "escalation_decided":
        if not fact.system:
            seen.heard_errors = set(seen.errors)
    elif fact.kind == "reaction_decided":
        seen.unanswered.clear()
    elif fact.kind == "tool_answered":
        _errs(seen, fact)
    elif fact.call == "model" and fact.attempt == 1 and not fact.final and fact.step_id in seen.unanswered:
        return f"its model is asked again after {seen.unanswered[fact.step_id]} came too often"
    return ""


def _errs(seen: Seen, fact: Any) -> None:
    if not fact.error:
        return
    turns = seen.errors.setdefault(fact.failure, set())
    turn = fact.command_id.rpartition(".c")[0]
    if turn in turns:
        return
    turns.add(turn)
    limit = seen.compiled.spec.policy.failure_signature.limit
    most, rounds = limit if limit > 0 else 3, seen.compiled.spec.policy.humans.failure_rounds
    if len(turns) >= (most + rounds if fact.failure in seen.heard_errors else most):
        seen.unanswered[fact.step_id] = fact.failure
    seen.heard_errors.discard(fact.failure)
