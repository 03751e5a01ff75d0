"""Checks runs that people or protections stop, counted anew from the facts alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fabric.core.events.envelope import Event
from fabric.core.state.family import at_work
from fabric.core.state.living import is_live
from fabric.core.state.run import Run
from fabric.core.values.flow import ANSWERED, RunState, Stage
from simulator.rules.facts.journals import WatchedRun, register_check


@register_check("call_issued")
def paused_issues_nothing(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A paused run issues nothing."""
    return "" if seen.run.control.paused is None else f"{fact.command_id} was issued while the run was paused"


@register_check("run_paused", "run_resumed")
def paused_and_resumed_in_turn(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Only a running run is paused, and only a paused run is resumed."""
    held = seen.run.control.paused is not None
    return "" if held == (fact.kind == "run_resumed") else f"it was {'paused' if held else 'not paused'} already"


@register_check("terminate_accepted", "run_ended")
def terminated_ends_at_once(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A terminated run ends as aborted by the termination, unless it was ending already."""
    if fact.kind == "terminate_accepted":
        seen.terminated = seen.run.ending is None
        return ""
    said = (fact.state, fact.reaction)
    return "" if not seen.terminated or said == ("aborted", "terminated") else f"it was terminated and ended as {said}"


@register_check("run_forked")
def fork_keeps_what_was_settled(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A fork keeps exactly the origin's settled results at that event, and its topology."""
    seen.compiled = seen.compiled.select_topology(fact.topology)
    ran = seen.family[fact.origin_run_id].run.topology
    if fact.topology != ran:
        return f"it runs the topology of {fact.topology!r}, its origin that of {ran!r}"
    kept = (
        tuple((one.stage, one.output_ref) for one in fact.stages),
        tuple((one.branch, one.agent, one.output_ref) for one in fact.branches),
        tuple((one.branch, one.output_ref, one.briefs, one.missing) for one in fact.parts),
    )
    return "" if kept == seen.forked_from else f"it keeps {kept}, its origin had {seen.forked_from}"


def clocks(run: Run) -> Iterator[tuple[str, str]]:
    """Yield an error if clocks stand still although more than reviews is live, and the run is not paused."""
    if run.suspended is None or run.control.paused is not None or run.ending is not None:
        return
    if is_live(run) or at_work(run.family) or not (run.reviews or run.family.alive):
        yield "clocks_run_while_live", "its clocks stand still although it goes on"


@register_check("tools_stripped", "child_answered", "run_forked", "output_edited", "replanned")
def stops_are_counted(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Record steps that were stopped early. A new plan begins without any; a person's edit replaces one."""
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


@register_check("run_ended")
def stopped_is_never_completed(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A run ends as stopped exactly if it returns the result of a stopped agent."""
    if fact.state not in ANSWERED or fact.reaction == "safe_fallback":
        return ""
    cut = sorted(name for name in seen.cut_short if name.startswith("origin") or name in seen.run.steps)
    out_of_time = seen.run.talk.closed in ("ttl", "expectation_violated:turn_within")
    wanted = RunState.STOPPED if cut or out_of_time else RunState.COMPLETED
    return "" if fact.state == wanted else f"it ended as {fact.state}, and these were stopped early: {cut}"
