"""What a fabric's run does before it meets a failure at its end: the calls of the undisturbed run, which breakers and retry tokens have counted by then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fabric.core.envelope import from_row
from fabric.core.flow import Stage
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import Tier
from simulator.drills import baseline
from simulator.drills.bounds import NotComputed
from simulator.drills.calling import Call, Earlier
from simulator.drills.observed import first

US = 1_000_000


def before_the_end(spec: FabricSpec, tier: Tier, *, seed: int = 1) -> Earlier:
    """Those of a fabric's undisturbed run. NotComputed where it does not complete."""
    before = baseline.undisturbed(baseline.scripted_models(spec), tier, seed=seed)
    if before.why:
        raise NotComputed(before.why)
    rows = before.world.store.rows(first(before.world).id)
    events = [from_row(row.seq, row.kind, row.version, row.header) for row in rows]
    facts: list[tuple[int, Any]] = [(event.at, event.fact) for event in events]
    began = facts[0][0]
    ended = next(at for at, fact in facts if fact.kind == "stage_entered" and fact.stage == Stage.FINALIZE)
    return Earlier(tuple(_calls(facts, began, ended)), (ended - began) / US)


def _calls(facts: list[tuple[int, Any]], began: int, ended: int) -> Iterator[Call]:
    """Those that were issued before the last stage began."""
    issued: dict[str, Any] = {}
    for at, fact in facts:
        if at > ended:
            return
        if fact.kind == "call_issued":
            issued[fact.command_id] = fact
        elif fact.kind in ("model_answered", "tool_answered") and (call := issued.get(fact.command_id)) is not None:
            model = call.target if call.call == "model" else ""
            yield Call((at - began) / US, call.step_id.partition(".")[0], call.agent, model)
