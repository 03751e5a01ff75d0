"""What the run of a virtual world came to, as the probes of a steady state ask it."""

from __future__ import annotations

import json

from fabric.core.envelope import from_row
from fabric.core.run import Run
from simulator.drills.observed import first, observed
from simulator.kernel.clock import US
from simulator.kernel.world import World
from simulator.scenarios.injection import Injection
from simulator.scenarios.probes import Observed


def observe(world: World, injection: Injection, run: Run | None = None) -> Observed:
    """What a world's run came to, and how often it was disturbed. The world has been run, with that injection in it. ``run``: the first where none is named."""
    run = run or first(world)
    chain = observed(world, run)
    rows = world.store.rows(run.id)
    answer, citations = _answer(world, run)
    return Observed(
        state=str(run.state),
        chain=str(chain),
        cost_usd_micros=world.store.columns(run.id).cost_usd_micros,
        duration_s=((run.ended_at or world.clock.now()) - run.started_at) / US,
        model_calls=injection.calls["model"],
        tool_calls=injection.calls["tool"],
        questions=chain.asked,
        replans=sum(row.kind == "replanned" for row in rows),
        answer=answer,
        citations=citations,
        violations=len(world.watch.violations),
        struck=sum(injection.struck.values()),
    )


def _answer(world: World, run: Run) -> tuple[str, list[str]]:
    """The text of the answer and what it cites; empty: there is none."""
    for row in world.store.rows(run.id) if run.outcome_ref else ():
        if row.payload is None or from_row(row.seq, row.kind, row.version, row.header).content_ref != run.outcome_ref:
            continue
        said = json.loads(row.payload)
        output = said.get("output", said)
        return str(output.get("text", "")), list(output.get("citations", ()))
    return "", []
