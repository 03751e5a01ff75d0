"""People's acts on a run as a whole."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core.values.words import count, cut, duration, join_words, step_words, words
from fabric.selectors.runs.display.row import EventDisplay, Fact, Parts


def _run_paused(fact: Fact) -> Parts:
    left = f"{duration(fact['run_remaining_us'] / 1e6)} of its time left" if fact["run_remaining_us"] > 0 else ""
    return Parts(fact["actor"], "paused the run", left, cut(fact["reason"]))


def _run_forked(fact: Fact) -> Parts:
    kept = [words(one["stage"]) for one in fact["stages"]]
    kept += [count(len(fact["branches"]), "branch", "branches")] if fact["branches"] else []
    numbers = join_words(
        f"kept {', '.join(kept)}" if kept else "", f"edited {words(fact['edited'])}" if fact["edited"] else ""
    )
    return Parts("The run", f"went on from event {fact['origin_seq']} of run {fact['origin_run_id']}", numbers)


def _output_edited(fact: Fact) -> Parts:
    return Parts(fact["actor"], f"replaced the output of {step_words(fact['step_id']) or words(fact['stage'])}")


def _guidance_given(fact: Fact) -> Parts:
    steps = count(len(fact["step_ids"]), "step")
    return Parts(fact["actor"], f"sent {steps} of {words(fact['stage'])} back with guidance", "it costs one replan")


ROWS: Mapping[str, EventDisplay] = {
    "cancel_accepted": EventDisplay(
        "Cancelled", "warn", "cancel", 3,
        lambda fact: Parts(fact["actor"], "cancelled the run", why=cut(fact["reason"])),
    ),
    "terminate_accepted": EventDisplay(
        "Terminated", "danger", "stop", 3,
        lambda fact: Parts(fact["actor"], "terminated the run", why=cut(fact["reason"])),
        "Calls in flight are given up, and nothing is undone.",
    ),
    "run_paused": EventDisplay(
        "Paused", "human", "pause", 3, _run_paused,
        "No new call starts until it is resumed. It keeps what comes back; a review keeps its own due time.",
    ),
    "run_resumed": EventDisplay("Resumed", "human", "play", 3, lambda fact: Parts(fact["actor"], "resumed the run")),
    "run_forked": EventDisplay("Forked", "info", "handoff", 3, _run_forked),
    "content_kept": EventDisplay(
        "Taken over", "neutral", "copy", 0,
        lambda fact: Parts("The run", f"took over {words(fact['what'])} from its origin"), content="Content",
    ),
    "output_kept": EventDisplay(
        "Branch reused", "neutral", "copy", 1,
        lambda fact: Parts("The run", f"kept the answer of {step_words(fact['step_id'])} from its origin"),
    ),
    "output_edited": EventDisplay(
        "Edited", "human", "answer", 3, _output_edited, content="Edited content", follows=True
    ),
    "guidance_given": EventDisplay(
        "Guidance", "human", "message", 2, _guidance_given, content="Guidance text", follows=True
    ),
}  # fmt: skip
