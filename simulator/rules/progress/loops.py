"""Checks repeated calls and errors, steps without progress, and takeovers in the simulator.

They are counted anew from the facts alone, by docs/specification/protections.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import groupby, pairwise
from typing import Any

from fabric.core.events.envelope import Event
from fabric.core.spec.policies.loop_limits import LoopDetector
from fabric.core.state.run import Run
from fabric.core.values.flow import Stage
from simulator.rules.facts.journals import Fruitless, WatchedRun, register_check
from simulator.rules.gates.checks import judges

Window = list[tuple[str, str, str, str, int]]
"""Executed calls of one step: tool, arguments, call id, masked result (empty while there is none), turn."""


@register_check("reaction_decided", "step_opened")
def loops_let_pass(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Record the calls that a person allowed to continue. Finds no violation."""
    place = read_place(fact.step_id)
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


def read_place(step_id: str) -> str:
    """Return a step's id without its round."""
    return step_id.rpartition(".r")[0]


@register_check("model_answered", "call_issued", "call_deduplicated", "tool_answered", "call_responded", "call_refused")
def loops_in_bounds(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A tool call that detectors A and D, or the preset's one rule, would have blocked never goes out."""
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
    elif fact.kind == "call_deduplicated":
        window.append((fact.tool, fact.args_hash, fact.call_id, fact.masked_hash, fact.turn))
    elif fact.kind == "call_issued" and fact.call == "tool" and fact.attempt == 1:
        window.append((fact.target, fact.args_hash, fact.call_id, "", fact.turn))
        polls = seen.compiled.spec.tool(fact.target).polling
        polls = polls or (read_place(fact.step_id), fact.target, fact.args_hash) in seen.polls
        return "" if polls else _check_loops(seen, fact.step_id, window)
    elif fact.kind == "call_issued" and fact.call == "model":
        return _take_request(seen, fact, window)
    return ""


def _take_request(seen: WatchedRun, fact: Any, window: list[Any]) -> str:
    """Take in a request to a model. What began with an attempt that failed is proposed anew."""
    if fact.attempt > 1:
        window[:] = [one for one in window if one[4] != fact.turn]
    preset = seen.compiled.spec.policy.loop_detector.preset
    return _fabro(seen, fact.step_id, window) if preset == "fabro" else ""


def _policy(seen: WatchedRun, step_id: str) -> LoopDetector:
    return seen.compiled.spec.policy.of_stage(Stage(step_id.partition(".")[0])).loop_detector


def _check_loops(seen: WatchedRun, step_id: str, window: Window) -> str:
    policy = _policy(seen, step_id)
    if policy.preset == "fabro" or (policy.preset == "ag2" and step_id in seen.warned):
        return ""
    return LETTERS[policy.preset](policy, window)


def _letters(policy: LoopDetector, window: Window) -> str:
    """Return an error for detector A (the third in five with equal results) or D (the sixth in a row)."""
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


def _fabro(seen: WatchedRun, step_id: str, window: Window) -> str:
    """Return an error if the last 10 turns are equal groups of 1, 2 or 3 turns, from their end.

    A single group is no cycle. It is checked once the last turn is complete: calls that a guard blocked make it
    another turn
    than the proposed one.
    """
    size = _policy(seen, step_id).period_window
    last = [call for call in window if call[4] == window[-1][4]]
    place = read_place(step_id)
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
"""Check of calls that must not go out, by preset that judges call by call."""


def _alike(policy: LoopDetector, window: Window) -> Window:
    return [call for call in window[-policy.identical_window :] if call[:2] == window[-1][:2]]


def _row(most: int, window: Window) -> str:
    tail = {call[:2] for call in window[-most:]}
    return "the same call goes out too often in a row" if len(window) >= most and len(tail) == 1 else ""


@register_check("tool_answered", "review_decided", "reaction_decided", "call_issued")
def errors_in_bounds(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """After a tool's error has reached its limit, the model is called only after a decision or a person's answer."""
    if fact.kind == "review_decided":
        if not fact.system:
            seen.heard_errors = set(seen.errors)
    elif fact.kind == "reaction_decided":
        seen.unanswered.clear()
    elif fact.kind == "tool_answered":
        _errs(seen, fact)
    elif fact.call == "model" and fact.attempt == 1 and not fact.final and fact.step_id in seen.unanswered:
        return f"its model is asked again after {seen.unanswered[fact.step_id]} came too often"
    return ""


def _errs(seen: WatchedRun, fact: Any) -> None:
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


BROUGHT = (
    "stage_entered",
    "stage_left",
    "output_accepted",
    "output_kept",
    "step_failed",
    "child_answered",
    "replanned",
)
CAME_BACK = ("tool_answered", "call_deduplicated", "call_refused", "call_responded")


@register_check(
    "call_streamed", "model_answered", "call_issued", *CAME_BACK, *BROUGHT, "step_opened", "message_injected"
)
def progress_in_bounds(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A model is not called again after the policy's number of fruitless turns without progress of the run."""
    if fact.kind in BROUGHT:
        seen.fruitless.clear()
        seen.streaming.clear()
    elif fact.kind in ("step_opened", "message_injected"):
        seen.fruitless.pop(fact.step_id, None)
        seen.streaming.pop(fact.step_id, None)
    elif fact.kind == "call_streamed":
        seen.streaming.setdefault(fact.step_id, Fruitless())
    elif fact.kind == "model_answered":
        if fact.verdict == "output":
            seen.fruitless.clear()
            seen.streaming.clear()
        else:
            seen.fruitless.setdefault(fact.step_id, []).append(_turn(seen, fact))
    elif fact.kind in CAME_BACK:
        turns = seen.fruitless.get(fact.step_id)
        turn = seen.streaming.get(fact.step_id) or (turns[-1] if turns else None)
        if turn is not None:
            turn.results.add(_came_to(seen, fact))
            turn.made.add((fact.tool, fact.args_hash))
    elif fact.call == "model":
        seen.streaming.pop(fact.step_id, None)
        return _too_many(seen, fact) if fact.attempt == 1 and not fact.final else ""
    return ""


def _came_to(seen: WatchedRun, fact: Any) -> str:
    tool = next((one for one in seen.compiled.spec.all_tools if one.name == fact.tool), None)
    told = fact.kind == "tool_answered" and tool is not None and not tool.polling and tool.effect == "read_only"
    # Anything but a plain result of a read-only tool counts as new: this invariant is the laxer one.
    return str(fact.masked_hash) if told else f"{fact.kind} {fact.step_id} {len(seen.fruitless.get(fact.step_id, ()))}"


def _turn(seen: WatchedRun, fact: Any) -> Fruitless:
    turn = seen.streaming.pop(fact.step_id, None) or Fruitless()
    turn.proposed = tuple((call.tool, call.args_hash) for call in fact.calls)
    turn.scans = any(_scans(call.get("args")) for call in json.loads(seen.content or b"{}").get("calls", ()))
    return turn


def _scans(args: Any) -> bool:
    if isinstance(args, dict | list):
        return any(_scans(one) for one in (args.values() if isinstance(args, dict) else args))
    text = str(args)
    return any(char.isdigit() for char in text) and not any(char.isspace() for char in text)


def _too_many(seen: WatchedRun, fact: Any) -> str:
    """Return an error for too many fruitless turns. Words are not compared: only equal proposals count as
    repetition.
    """
    stage = Stage(fact.step_id.partition(".")[0])
    config = seen.compiled.spec.policy.of_stage(stage).progress
    few = config.supervisor_turns if fact.step_id.startswith("plan.") else config.agent_turns
    turns = seen.fruitless.get(fact.step_id, [])
    last = turns[-few:]
    as_proposed = all(turn.made <= set(turn.proposed) for turn in last)
    if as_proposed and len({turn.proposed for turn in last}) == 1:
        most = few
    else:  # Arguments that refer to another call's result, or were edited, may be anything.
        most = few * (2 if as_proposed and not all(turn.scans for turn in last) else 4)
    results = [turn.results for turn in turns[-most:]]
    same = len(results) == most <= 100 and results[0] and all(one == results[0] for one in results)
    passed = any((read_place(fact.step_id), *call) in seen.polls for turn in turns[-most:] for call in turn.made)
    if passed:
        return ""
    return f"asked once more after {most} turns that came to the same" if same else ""


@register_check("stage_entered")
def visits_in_bounds(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A stage that reached its number of entries has no agent at work when it is entered again."""
    seen.visits[fact.stage] += 1
    limits = seen.compiled.spec.policy.limits
    most = (limits.max_visits or {}).get(fact.stage, limits.max_node_visits)
    if most is None or seen.visits[fact.stage] <= most or not fact.agents:
        return ""
    return f"stage {fact.stage} is entered for the {seen.visits[fact.stage]}th time, at most {most} are allowed"


@register_check("reaction_decided", "step_opened", "replanned")
def handed_over_upwards(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Only a decision to hand over gives a step or the planning to another agent, the one above."""
    if fact.kind == "reaction_decided":
        seen.handing = fact.reaction == "handover"
        return ""
    above = seen.compiled.spec.topology.handover
    if fact.kind == "replanned":
        return "" if not fact.planner or fact.planner == above else f"{fact.planner} plans, above is {above}"
    before = [step.agent for step in seen.run.steps.values() if (step.stage, step.branch) == (fact.stage, fact.branch)]
    if fact.agent in before:
        return ""
    if not before and fact.stage != "fan_out" and fact.branch:
        own = judges(seen.compiled.spec, fact.stage).get(fact.branch)
        return (
            ""
            if fact.agent == own
            else f"{fact.agent!r} judges {fact.stage} on branch {fact.branch}, which is {own!r}'s"
        )
    return "" if seen.handing and fact.agent == above else f"{fact.agent} does what {before} did"


@register_check("run_ended")
def falls_back_on_what_is_given(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A run that completes with the static answer has one, and did not complete otherwise."""
    if fact.reaction != "safe_fallback":
        return ""
    given = seen.compiled.spec.safe_fallback is not None and after.family.lineage is None
    return "" if given and fact.state == "completed" else f"it ended as {fact.state}, and a static answer is {given}"
