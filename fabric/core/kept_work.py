"""Keeps the turns of a branch whose call failed for a fork of its run. The fork makes that call again and calls no tool twice.

A branch that changed the world is done anew: what it did is undone where its run ended so. So is one that failed of what it did itself.
"""

from __future__ import annotations

from fabric.core.events import KeptCall, KeptWork
from fabric.core.fingerprint import digest
from fabric.core.flow import Stage
from fabric.core.frozen import replace
from fabric.core.run import CallRecord, Run, Step, Turn


def refs_of_work(work: KeptWork) -> tuple[str, ...]:
    """Where the contents stand that the kept turns are made of, each once."""
    found: list[str] = []
    for turn in work.turns:
        found += [turn.answer_ref, *turn.notes]
        found += [ref for call in turn.calls for ref in (call.args_ref, call.result_ref) if ref]
    return tuple(dict.fromkeys(found))


def with_work(run: Run, step: Step) -> Step:
    """A step of a fork as its stage is entered: with what was said and done in its branch before, where that is kept."""
    fork = run.control.forked
    if fork is None or step.stage is not Stage.FAN_OUT or step.epoch:
        return step
    work = next((one for one in fork.work if (one.branch, one.agent) == (step.branch, step.agent)), None)
    if work is None:
        return step
    turns = tuple(Turn(turn.answer_ref, "calls", tuple(map(_record, turn.calls)), turn.notes) for turn in work.turns)
    refs = [
        ref for turn in work.turns for ref in (turn.answer_ref, *(call.result_ref for call in turn.calls), *turn.notes)
    ]
    prompt = step.prompt
    for ref in filter(None, refs):
        prompt = digest(prompt, ref)
    return replace(step, history=turns, turns=len(turns), prompt=prompt, prompt_bytes=run.control.kept_bytes)


def _record(call: KeptCall) -> CallRecord:
    return CallRecord(
        call.call_id,
        call.tool,
        call.args_hash,
        args_ref=call.args_ref,
        state=call.state,
        result_ref=call.result_ref,
        error=call.error,
        given=call.given,
    )
