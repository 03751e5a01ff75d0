"""The virtual world: whole runs, many seeds, the same seed twice."""

import gc
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from fabric.core.events.envelope import KINDS
from fabric.core.spec.policies.decision_table import Reaction
from fabric.core.values.flow import TERMINAL, RunState
from fabric.core.values.taxonomy import Tier
from simulator.faults.catalogue import DRAWN
from simulator.swarm.setups import draw, variant
from simulator.world.campaign import campaign, simulate, simulate_setup
from tests.simulator.world.quiet_worlds import PRICED, supervisor, world

ROOT = Path(__file__).resolve().parents[3]
SEEDS = 500
RARE = (586, 589, 610, 760, 810, 850, 866, 987, 1216, 1454, 2614, 2902, 513485, 527042)
"""Seeds behind them in which happens what happens in none of them: a family has no room for a child, a result of a replaced plan comes late, a quarantined child goes on, a compensation
is interrupted, a service does not say what it has done, a fork keeps a branch, a vote is for no side, a compensation is given up, a person lets the last
call of a first step pass, a person edits a call, an answer takes the id of a call whose answer broke off.
"""
CRASHES = {"claim", "append", "perform", "performed", "wakeat", "release", "before_commit", "after_commit"}
PATHS = {
    "taken_over",
    "zombie_call",
    "noticed_retired",
    "write_fenced",
    "write_input_gone",
    "write_family_full",
    "undone_in_time",
    "undone_too_late",
    "decided_approve",
    "decided_reject",
    "decided_by_system",
    "asked_failure",
    "asked_post_stage",
    "late_plan",
    "late_call",
    "ignored_decision_made",
    *("mutation_unknown", "reconciled_executed", "asked_compensation", "unwinding_replan", "compensation_skipped"),
    *("asked_pre_action", "granted_call", "shared_refusal", "reaped"),
}


@pytest.fixture(scope="module")
def reports():
    return list(campaign([*range(SEEDS), *RARE]))


def test_a_clean_run_completes_in_few_events():
    made = world(supervisor())
    made.run()
    (run,) = made.watch.runs()
    assert made.watch.violations == []
    assert (run.state, run.reason, run.recovered) == (RunState.COMPLETED, "finished", False)
    assert run.seq <= 28
    assert [step.agent for step in run.steps.values()] == [
        "planner",
        "one",
        "two",
        "three",
        "four",
        "aggregator",
        "critic",
        "finalizer",
    ]


def test_many_seeds_break_no_rule(reports):
    assert [violation for report in reports for violation in report.violations] == []


def test_every_fault_and_every_path_is_met(reports):
    met = sum((report.sometimes for report in reports), Counter())
    wanted = {*DRAWN, *PATHS, *(f"crash_at_{point}" for point in CRASHES), *(f"ended_{state}" for state in TERMINAL)}
    wanted |= {f"reaction_{reaction}" for reaction in Reaction}
    wanted |= set(KINDS)
    assert {name for name in wanted if not met[name]} == set()


FOUND = json.loads((ROOT / "tests" / "regress_seeds.json").read_text())
"""Seeds that found something wrong once, and what; with another fabric than the drawn one, ``SEED in FABRIC``."""


@pytest.mark.parametrize("seed", FOUND)
def test_a_seed_that_found_something_wrong_finds_it_no_more(seed):
    number, _, fabric = seed.partition(" in ")
    setup = draw(int(number))
    report = simulate_setup(replace(setup, fabric=variant(int(fabric))) if fabric else setup)
    assert report.violations == (), FOUND[seed]


def test_a_world_that_cannot_be_run_to_its_end_is_a_violation_of_its_seed():
    setup = draw(3)
    report = simulate_setup(replace(setup, fault_phase_s="no number"))
    assert (report.seed, [one.invariant for one in report.violations]) == (3, ["nothing_raises"])
    assert report.violations[0].sentence.startswith("ValueError: ")


def test_the_same_seed_gives_the_same_world(reports):
    for report in reports[:40]:
        again = simulate(report.seed)
        assert (again.digest, again.sometimes) == (report.digest, report.sometimes)


def test_cycles_are_looked_for_once_a_world_is_over():
    gc.collect()  # So that no look of its own is due.
    looks = [each["collections"] for each in gc.get_stats()]
    simulate(2)
    assert gc.isenabled()
    # In between nothing was: the world's one look is at what is young.
    assert [each["collections"] for each in gc.get_stats()][1] - looks[1] == 1
    with pytest.raises(KeyError):
        simulate(2, "no such plant")
    assert gc.isenabled()


def test_the_seed_alone_decides_whatever_the_hash_seed(reports):
    program = "from simulator.world.campaign import campaign\nfor one in campaign(range(40)): print(one.digest)"
    expected = [report.digest for report in reports[:40]]
    for hash_seed in ("0", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split() == expected


def test_several_processes_find_the_same():
    expected = [(report.seed, report.digest) for report in campaign(range(60))]
    assert [(report.seed, report.digest) for report in campaign(range(60), jobs=2)] == expected


def test_an_unsure_critic_parks_the_run_until_a_person_lets_it_pass():
    made = world(supervisor(), tier=Tier.BATCH, rates={"unsure": 1.0}, ask=None)
    made.run()
    (run,) = made.watch.runs()
    assert made.watch.violations == []
    assert made.sometimes["asked_post_stage"] == 1
    assert run.state is (RunState.COMPLETED if made.sometimes["decided_approve"] else RunState.ABORTED)


def test_a_run_survives_the_death_of_its_process_at_every_effect():
    for seed in range(30):
        made = world(supervisor(), seed=seed, tier=Tier.BATCH, rates={"crash": 0.1})
        made.run()
        (run,) = made.watch.runs()
        assert made.watch.violations == []
        killed_too_often = made.sometimes["asked_quarantine"] and run.state is RunState.ABORTED
        assert run.state is RunState.COMPLETED or killed_too_often, run.reason


def test_what_one_run_decided_is_spent_before_the_next_is_told_wherever_the_process_stands_still():
    spec = supervisor(
        models=[{"name": "model", "provider": "scripted", "price": PRICED}],
        policy={"budget": {"run_usd_micros": 1_000_000, "fabric_hour_usd_micros": 100_000}},
    )
    for seed in range(8):
        made = world(spec, seed=seed, tier=Tier.BATCH, rates={"zombie": 0.3}, runs=4)
        made.run()
        assert made.watch.violations == []
        assert all(made.sometimes[met] for met in ("zombie", "granted_call", "shared_refusal"))


def test_the_kernel_needs_no_framework():
    program = (
        "import sys, simulator.world.campaign\nprint({'django', 'celery', 'channels', 'httpx'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
