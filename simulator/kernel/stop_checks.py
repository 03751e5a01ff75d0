"""Invariants of runs that a protection stopped early, as in ``invariants.py``. They are counted anew from the facts alone."""

from __future__ import annotations

from typing import Any

from fabric.core.envelope import Event
from fabric.core.flow import ANSWERED, RunState, Stage
from fabric.core.run import Run
from simulator.kernel.seen import Seen, on


@on("tools_stripped", "child_answered", "run_forked", "output_edited", "replanned")
def stops_are_counted(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Keeps whose work was stopped early: a new plan begins without, and what a person writes takes the place of what was there."""
    if fact.kind == "replanned":
        seen.cut_short.clear()
    elif fact.kind == "run_forked":
        seen.cut_short.update(f"origin {n}" for n in range(len(fact.stopped)))
    elif fact.kind == "tools_stripped" or (fact.kind == "child_answered" and fact.state == "stopped" and not fact.late):
        seen.cut_short.add(fact.step_id)
    elif fact.kind == "output_edited":
        order = [str(stage) for stage in Stage]
        later = order[order.index(fact.stage) + 1 :]
        gone = {name for name in seen.cut_short if name.partition(".")[0] not in later}
        seen.cut_short -= {fact.step_id} if fact.step_id else gone
    return ""


@on("run_ended")
def stopped_is_never_completed(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A run that hands over what a stopped agent had ends as stopped, and no other run does."""
    if fact.state not in ANSWERED or fact.reaction == "safe_fallback":
        return ""
    cut = sorted(name for name in seen.cut_short if name.startswith("origin") or name in seen.run.steps)
    out_of_time = seen.run.talk.closed in ("ttl", "expectation_violated:turn_within")
    wanted = RunState.STOPPED if cut or out_of_time else RunState.COMPLETED
    return "" if fact.state == wanted else f"it ended as {fact.state}, and these were stopped early: {cut}"
