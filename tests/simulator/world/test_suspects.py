"""Runs that kill the processes that drive them, among others that do nothing wrong."""

from __future__ import annotations

import pytest

from fabric.core.events.envelope import split_rows
from fabric.core.values.fingerprint import digest
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Tier
from fabric.runtime.ports.calls import ModelRequest
from fabric.runtime.ports.journal import ClaimedRun, StoreUnavailable
from fabric.runtime.quarantine.verdicts import SUSPECT_FROM
from simulator.agents import script as scripted
from simulator.cast.agents import Reply
from simulator.faults import catalogue as faults
from simulator.rules.runs.bugs import plant_bug
from simulator.swarm import fabrics as published
from simulator.swarm import setups as swarm
from simulator.world.world import World
from tests.simulator.world.quiet_worlds import supervisor

INNOCENT = 32
ANSWER_S, POISON_S = 5.0, 1.0
"""How long a model takes, and how much sooner the process is dead that asks it for a wrong one."""


class Poisoned:
    """A world in which asking a model for one of some runs ends the process that asks, before any model that it asked at the same time has answered."""

    def __init__(self, seed: int, processes: int, poison: int) -> None:
        plan = swarm.RunPlan(0.0, Tier.BATCH, True, "What does the report say?", seed)
        setup = swarm.Setup(
            seed=seed,
            fabric=published.publish(supervisor(), "revision"),
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
            self.world.end_process(process)

    @property
    def quarantined(self) -> set[str]:
        store = self.world.store
        return {
            run_id
            for run_id in store.run_ids()
            if any(row.kind == "run_quarantined" for row in split_rows(store.rows(run_id)))
        }


@pytest.mark.parametrize(("processes", "poison"), [(1, 1), (2, 1), (3, 1), (1, 4), (2, 2)])
@pytest.mark.parametrize("seed", range(3))
def test_runs_that_kill_their_workers_are_put_away_alone(seed, processes, poison):
    made = Poisoned(seed, processes, poison)
    assert made.world.watch.violations == []
    assert made.quarantined == made.poison
    ends = {run.id: run.state for run in made.world.watch.runs()}
    assert {state for run_id, state in ends.items() if run_id not in made.poison} == {RunState.COMPLETED}
    assert made.deaths >= 5


class Unheard(World):
    """A world in which the answers to claims are lost until each run has to be alone with its next owner."""

    def claim(self, name: str, again: tuple[str, ...], format: int) -> list[ClaimedRun]:
        claims = super().claim(name, again, format)
        if any(claimed.claims <= SUSPECT_FROM for claimed in claims):
            for claimed in claims:
                self.watch.register_claim(claimed, name, heard=False)
            raise StoreUnavailable("the answer to a claim is lost", unknown=True)
        return claims


@pytest.mark.parametrize("apart_s", range(0, 14, 2))
def test_two_that_have_to_be_alone_are_driven_whenever_their_process_found_them(apart_s):
    """It holds both without its knowing; neither may wait for the other."""
    plans = [swarm.RunPlan(at_s, Tier.BATCH, True, "What does the report say?", 3) for at_s in (0.0, float(apart_s))]
    setup = swarm.Setup(
        seed=3,
        fabric=published.publish(supervisor(), "revision"),
        rates=faults.Rates({}),
        runs=tuple(plans),
        processes=1,
        fault_phase_s=2_000.0,
        answers_within=0.1,
    )
    world = Unheard(setup, ask=lambda request: Reply(ANSWER_S, scripted.answer(request).result))
    world.run()
    assert world.watch.violations == []
    assert {run.state for run in world.watch.runs()} == {RunState.COMPLETED}
    assert {world.store.read_standing(run.id)[1] for run in world.watch.runs()} == {SUSPECT_FROM + 1}


@pytest.mark.parametrize("processes", [1, 2])
def test_without_the_rule_it_takes_its_neighbours_with_it(processes):
    with plant_bug("suspects_together"):
        made = Poisoned(0, processes, 1)
    (found,) = made.world.watch.violations
    assert found.invariant == "suspects_apart"
    assert made.deaths == 3
