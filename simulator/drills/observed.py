"""What a drill's run did, out of its journal."""

from __future__ import annotations

from fabric.core.envelope import Row, fact_json, from_row
from fabric.core.flow import RunState
from fabric.core.run import Run
from simulator.drills.expectation import Chain, chain_of
from simulator.kernel.world import World


def journaled(rows: tuple[Row, ...], state: RunState) -> Chain:
    """The chain that a journal holds, whatever rows of the table it belongs to."""
    events = (from_row(row.seq, row.kind, row.version, row.header) for row in rows)
    return chain_of(((event.fact.kind, fact_json(event)) for event in events), state)


def first(world: World) -> Run:
    """The run that was started; what it spawned comes after it."""
    return world.watch.runs()[0]


def decided(world: World) -> int:
    """How many decisions its run has journaled so far."""
    return sum(row.kind == "reaction_decided" for row in world.store.rows(first(world).id))


def observed(world: World, run: Run | None = None) -> Chain:
    """The chain of a run of a world; of its first where none is named."""
    run = run or first(world)
    return journaled(world.store.rows(run.id), run.state)
