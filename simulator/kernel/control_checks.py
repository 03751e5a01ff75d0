"""What must be true of runs that people take hold of: invariants as in ``invariants.py``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fabric.core.envelope import Event
from fabric.core.family import at_work
from fabric.core.living import live
from fabric.core.run import Run
from simulator.kernel.seen import Seen, on


@on("call_issued")
def paused_issues_nothing(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Nothing goes out while the run is held."""
    return "" if seen.run.control.paused is None else f"{fact.command_id} was issued while the run was paused"


@on("run_paused", "run_resumed")
def paused_and_resumed_in_turn(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A run is paused when it goes on, and resumed when it is paused."""
    held = seen.run.control.paused is not None
    return "" if held == (fact.kind == "run_resumed") else f"it was {'paused' if held else 'not paused'} already"


@on("terminate_accepted", "run_ended")
def terminated_ends_at_once(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A terminated run ends as aborted with that as its reaction, unless it was ending already."""
    if fact.kind == "terminate_accepted":
        seen.terminated = seen.run.ending is None
        return ""
    said = (fact.state, fact.reaction)
    return "" if not seen.terminated or said == ("aborted", "terminated") else f"it was terminated and ended as {said}"


@on("run_forked")
def fork_keeps_what_was_settled(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A fork keeps what its origin had settled at that event, no more and no less, and runs the topology that its origin ran."""
    seen.compiled = seen.compiled.within(fact.topology)
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
    """Clocks stand still only while nothing is live but questions, its children's among them, or the run is held."""
    if run.suspended is None or run.control.paused is not None or run.ending is not None:
        return
    if live(run) or at_work(run.family) or not (run.questions or run.family.alive):
        yield "clocks_run_while_live", "its clocks stand still although it goes on"
