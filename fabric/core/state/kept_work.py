"""Work that a fork takes over from its origin: tools' answers, and the turns of a branch whose call failed."""

from __future__ import annotations

import re

from fabric.core.events import KeptCall, KeptWork
from fabric.core.state.run import CallRecord, Run, Step, Turn
from fabric.core.values.fingerprint import digest
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import replace

# -- kept answers ------------------------------------------------------------------------------------------------------

_NAMED = re.compile(r"answer of (\S+) in (\w+), \w+")


def answer_name(stage: Stage, tool: str, ref: str) -> str:
    """Return the name of a tool's answer in a stage, by its content reference."""
    return f"answer of {tool} in {stage}, {ref[:8]}"


def answer_named(what: str) -> tuple[Stage, str] | None:
    """Return ``(stage, tool)`` of such a name; None: another content's name."""
    found = _NAMED.fullmatch(what)
    return None if found is None else (Stage(found[2]), found[1])


# -- kept work ---------------------------------------------------------------------------------------------------------


def refs_of_work(work: KeptWork) -> tuple[str, ...]:
    """Return the content references of the kept turns, each once."""
    found: list[str] = []
    for turn in work.turns:
        found += [turn.answer_ref, *turn.notes]
        found += [ref for call in turn.calls for ref in (call.args_ref, call.result_ref) if ref]
    return tuple(dict.fromkeys(found))


def add_kept_work(run: Run, step: Step) -> Step:
    """Return a fork's step as its stage is entered, with the kept turns of its branch if there are any."""
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
