"""What people do with a run as a whole."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core.words import count, cut, duration, step_words, words
from fabric.selectors.display.row import Display, Fact


def _because(fact: Fact) -> str:
    return f": {cut(fact['reason'])}" if fact["reason"] else ""


def _cancel_accepted(fact: Fact) -> str:
    return f"{fact['actor']} cancelled the run{_because(fact)}"


def _terminate_accepted(fact: Fact) -> str:
    return f"{fact['actor']} terminated the run, nothing is undone{_because(fact)}"


def _run_paused(fact: Fact) -> str:
    left = f"; {duration(fact['run_remaining_us'] / 1e6)} of its time are left" if fact["run_remaining_us"] > 0 else ""
    return f"{fact['actor']} paused the run{_because(fact)}{left}"


def _run_resumed(fact: Fact) -> str:
    return f"{fact['actor']} let the run go on"


def _run_forked(fact: Fact) -> str:
    kept = [words(one["stage"]) for one in fact["stages"]]
    branches = f", {count(len(fact['branches']), 'branch', 'branches')}" if fact["branches"] else ""
    held = f"; kept: {', '.join(kept)}{branches}" if kept else ""
    edited = f"; edited: {words(fact['edited'])}" if fact["edited"] else ""
    return f"goes on from event {fact['origin_seq']} of run {fact['origin_run_id']}{held}{edited}"


def _content_kept(fact: Fact) -> str:
    return f"{words(fact['what'])} was taken over"


def _output_kept(fact: Fact) -> str:
    return "the branch was done in the run that this one goes on from"


def _output_edited(fact: Fact) -> str:
    what = step_words(fact["step_id"]) if fact["step_id"] else f"stage {words(fact['stage'])}"
    return f"{fact['actor']} wrote what stands in place of what {what} had"


def _guidance_given(fact: Fact) -> str:
    again = f"{count(len(fact['step_ids']), 'step', 'steps')} of stage {words(fact['stage'])} once more"
    return f"{fact['actor']} said what is to be done otherwise: {again}, which costs one replan"


ROWS: Mapping[str, Display] = {
    "cancel_accepted": Display("Cancelled", "warn", "cancel", 3, _cancel_accepted),
    "terminate_accepted": Display("Terminated", "danger", "stop", 3, _terminate_accepted),
    "run_paused": Display("Paused", "human", "pause", 3, _run_paused),
    "run_resumed": Display("Resumed", "human", "play", 3, _run_resumed),
    "run_forked": Display("Forked", "info", "handoff", 3, _run_forked),
    "content_kept": Display("Taken over", "neutral", "copy", 0, _content_kept),
    "output_kept": Display("Branch kept", "neutral", "copy", 1, _output_kept),
    "output_edited": Display("Edited", "human", "answer", 3, _output_edited),
    "guidance_given": Display("Guidance", "human", "message", 2, _guidance_given),
}
