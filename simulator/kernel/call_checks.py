"""Invariants of a call's attempts, and of a call that is made again after a person's approval; counted anew from the facts alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fabric.core.envelope import Event
from fabric.core.run import CallRecord, Run, Step
from fabric.core.taxonomy import CLASSIFY
from simulator.kernel.seen import Seen, on, step_before

US = 1_000_000
SHARE, LEAST = 1.4, 0.1
"""All attempts of a call, and the least of one, in timeouts of one (semantics.md 4)."""


@on("attempt_failed", "retry_scheduled", "model_changed")
def call_time_is_counted(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Breaks nothing: counts what the failed attempts of a call took since it was asked of nobody but a breaker or another model."""
    if fact.kind == "attempt_failed":
        began = seen.began.get(fact.command_id, event.at)
        seen.call_us[fact.command_id] += event.at - began
        away = fact.retry_after_s is not None and CLASSIFY[fact.cause].failover
        (seen.named.add if away else seen.named.discard)(fact.command_id)
    elif fact.kind == "model_changed" or fact.source not in ("backoff", "retry_after"):
        seen.call_us.pop(fact.command_id, None)
    return ""


@on("input_given")
def edited_call_begins_anew(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Breaks nothing: a call with the arguments of a person is another call, and has a time of its own."""
    seen.call_us.pop(fact.command_id, None)
    return ""


@on("call_issued")
def attempts_share_a_time(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """No attempt of a call may last longer than what those before have left of the call's time."""
    spec = seen.compiled.spec
    timeout = spec.policy.of_stage(after.steps[fact.step_id].stage).deadlines_of(after.tier).call_s
    if fact.call == "tool":
        timeout = min(timeout, spec.tool(fact.target).timeout_s or timeout)
    if fact.attempt == 1:
        seen.call_us.pop(fact.command_id, None)
    seen.began[fact.command_id] = event.at
    left = max(SHARE * timeout * US - seen.call_us[fact.command_id], LEAST * timeout * US)
    lasts = fact.deadline_at - event.at
    return f"it may last {lasts / US:g} s, and its call has {left / US:g} s left" if lasts > left + 1 else ""


def _calls(before: Step, after: Step) -> Iterator[tuple[CallRecord, CallRecord]]:
    """Yields each call of a step beside the same one as it stands now."""
    for old, new in zip(before.history, after.history, strict=False):
        yield from zip(old.calls, new.calls, strict=False)


@on("step_opened")
def what_was_done_stands(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A step whose failed call is made again keeps all its turns and goes on from there."""
    if not fact.keeps:
        return ""
    before = seen.run.steps.get(step_before(seen, fact))
    step = after.steps[fact.step_id]
    if before is None or not before.history:
        return "nothing was done before"
    opened = {call.call_id: (call.state, now.state) for call, now in _calls(before, step) if call != now}
    if opened != dict.fromkeys(fact.passes, ("refused", "open")):
        return f"calls {sorted(opened)} of it changed, and {sorted(fact.passes)} were let pass"
    same = [turn.answer_ref for turn in step.history] == [turn.answer_ref for turn in before.history]
    if not same or step.corrections != before.corrections:
        return f"{len(before.history)} answers were given before, and {len(step.history)} stand"
    return "" if step.turns == len(step.history) else f"turn {step.turns + 1} follows {len(step.history)} answers"
