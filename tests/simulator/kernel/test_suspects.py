"""Runs that kill whoever drives them, among others that do nothing wrong."""

from __future__ import annotations

import pytest

from fabric.core.fingerprint import digest
from fabric.core.flow import RunState
from fabric.core.taxonomy import Tier
from fabric.runtime.call_ports import ModelRequest
from simulator.kernel import faults, scripted, swarm
from simulator.kernel.agents import Reply
from simulator.kernel.plants import planted
from simulator.kernel.world import World
from tests.simulator.kernel.worlds import supervisor

INNOCENT = 32
ANSWER_S, POISON_S = 5.0, 1.0
"""How long a model takes, and how much sooner the process is dead that asks it for a wrong one."""


class Poisoned:
    """A world in which asking a model for one of some runs ends the process that asks, before anybody that it asked at the same time has answered."""

    def __init__(self, seed: int, processes: int, poison: int) -> None:
        plan = swarm.RunPlan(0.0, Tier.BATCH, True, "What does the report say?", seed)
        setup = swarm.Setup(
            seed=seed,
            fabric=swarm.publish(supervisor(), "revision"),
            rates=faults.Rates({}),
            runs=(plan,) * (INNOCENT + poison),
            processes=processes,
            fault_phase_s=200_000.0,
            answers_within=0.1,
        )
        self.poison = {digest(seed, "run", number) for number in range(poison)}
        self.deaths = 0
        self.world = World(setup, ask=self.ask)
        self.world.run()

    def ask(self, request: ModelRequest) -> Reply:
        if request.run_id in self.poison:
            (owner,) = [process for process in self.world.processes if request.run_id in process.owned]
            self.world.later(POISON_S, self._kill, owner)
        return Reply(ANSWER_S, scripted.answer(request).result)

    def _kill(self, process) -> None:
        self.deaths += process.alive
        if process.alive:
            self.world.died(process)

    @property
    def quarantined(self) -> set[str]:
        store = self.world.store
        return {
            run_id for run_id in store.run_ids() if any(row.kind == "run_quarantined" for row in store.rows(run_id))
        }


@pytest.mark.parametrize(("processes", "poison"), [(1, 1), (2, 1), (3, 1), (1, 4), (2, 2)])
@pytest.mark.parametrize("seed", range(3))
def test_runs_that_kill_their_workers_are_put_away_and_nobody_with_them(seed, processes, poison):
    made = Poisoned(seed, processes, poison)
    assert made.world.watch.violations == []
    assert made.quarantined == made.poison
    ends = {run.id: run.state for run in made.world.watch.runs()}
    assert {state for run_id, state in ends.items() if run_id not in made.poison} == {RunState.COMPLETED}
    assert made.deaths >= 5


@pytest.mark.parametrize("processes", [1, 2])
def test_without_the_rule_it_takes_its_neighbours_with_it(processes):
    with planted("suspects_together"):
        made = Poisoned(0, processes, 1)
    (found,) = made.world.watch.violations
    assert found.invariant == "suspects_apart"
    assert made.deaths == 3
