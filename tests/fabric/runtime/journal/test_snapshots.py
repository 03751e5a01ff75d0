"""Snapshots: a run as bytes and back, taken when it is time, and a state that does not grow with its journal."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.events.envelope import Event
from fabric.core.evolve import evolve
from fabric.core.evolve.calls import VOIDED_MAX
from fabric.core.mechanisms import ORDER, loop_detector
from fabric.core.spec.fabric import FabricSpec
from fabric.core.state.context import Contents
from fabric.core.state.run import Run
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Tier
from fabric.runtime.journal.loader import LoadedRun, load
from fabric.runtime.journal.snapshots import (
    STATE_DIGEST,
    Cadence,
    UnsoundSnapshot,
    build_snapshot,
    is_sound,
    live_refs,
    restore_run,
)
from simulator.rules.facts.journals import state_bytes
from tests.fabric.core.fabrics import agent, spec, tree
from tests.fabric.core.harness import World, ran
from tests.fabric.core.scripts import asks, call, fails, planned, say, scored, summary
from tests.fabric.runtime.claimed_runs import claimed, stored

SCRIPT: dict[str, Any] = {
    "planner": [fails(), planned(2)],
    "worker": [asks(), asks(), summary(), summary()],
    "critic": scored(0.4),
}


def loaded(world: World) -> LoadedRun:
    found = load(claimed(world))
    assert isinstance(found, LoadedRun)
    return found


def test_a_run_survives_its_bytes_at_every_row():
    world = ran(spec(), SCRIPT, tier=Tier.BATCH)
    rows = stored(world.rows)
    for number, row in enumerate(rows, start=1):
        at = load(replace(claimed(world, rows=rows[:number]), last_seq=row.last_seq, head=row.hash))
        assert isinstance(at, LoadedRun)
        snapshot = build_snapshot(at.run, at.head, at.contents)
        run, kept = restore_run(snapshot)
        assert state_bytes(run) == state_bytes(at.run)
        assert {one.ref for one in kept} == set(live_refs(at.run, at.contents.seqs))
        assert is_sound(snapshot)
        assert (snapshot.seq, snapshot.head, snapshot.digest) == (row.last_seq, row.hash, STATE_DIGEST)


def test_every_mechanism_state_comes_back_as_what_it_was():
    guards = {(f"{m.NAME}/plan.0.e0.r0" if m.SCOPE == "step" else m.NAME): m.State() for m in ORDER}
    guards["loop_detector/plan.0.e0.r0"] = loop_detector.State((loop_detector.SeenCall("t", "h", 1, "c"),))
    run, _ = restore_run(build_snapshot(Run("run-1", seq=1, guards=guards), b"\0" * 32, Contents()))
    assert run.guards == guards
    assert [type(state) for state in run.guards.values()] == [type(state) for state in guards.values()]


def test_another_programs_snapshot_is_refused():
    whole = loaded(ran(spec(), SCRIPT))
    snapshot = build_snapshot(whole.run, whole.head, whole.contents)
    with pytest.raises(UnsoundSnapshot, match="was changed, or is of another program"):
        restore_run(replace(snapshot, digest="0" * 32))


# -- when --------------------------------------------------------------------------------------------------------------


def test_the_cadence():
    cadence = Cadence()
    assert [cadence.due(n, release=True) for n in (199, 200)] == [False, True]
    assert [cadence.due(n, release=False) for n in (1_999, 2_000)] == [False, True]


def snapshots_of(cadence: Cadence) -> tuple[World, list[tuple[int, bool]]]:
    """A run that waits for a person, then goes on to its end; ``(seq, release)`` of its snapshots."""
    world = World(spec(), SCRIPT, tier=Tier.BATCH, cadence=cadence)
    world.start().go()
    world.decide().go()
    taken = [(batch.snapshot.seq, batch.release) for batch in world.written if batch.snapshot is not None]
    assert world.end.state == "completed"
    return world, taken


def test_a_short_run_has_none():
    assert snapshots_of(Cadence())[1] == []


def test_one_is_taken_when_the_run_is_given_back_and_none_at_its_end():
    world, taken = snapshots_of(Cadence(on_release=5, while_owned=10_000))
    assert len(taken) == 1
    seq, release = taken[0]
    assert release
    assert seq < world.run.seq


def test_while_it_is_driven_one_is_taken_every_so_often_and_memory_holds_what_it_needs():
    world, taken = snapshots_of(Cadence(on_release=10_000, while_owned=8))
    seqs = [seq for seq, _ in taken]
    assert len(seqs) >= 3
    assert all(later - sooner >= 8 for sooner, later in pairwise(seqs))
    assert not any(release for _, release in taken)


def test_contents_are_let_go_of_with_a_snapshot():
    world = World(spec(), SCRIPT, tier=Tier.BATCH, cadence=Cadence(on_release=1, while_owned=1))
    world.start().go(steps=6)
    assert world.driver is not None
    run, contents = world.driver.run, world.driver.contents
    assert set(contents.values) == set(live_refs(run, contents.seqs))


def test_what_a_judge_may_yet_have_handed_over_is_kept_for_as_long_as_it_judges():
    """The plan was made with a tool, and its critic sends it to the lead, who is told all that was said."""
    once = {"rungs": [{"reaction": "handover", "times": 1}, {"reaction": "abort"}]}
    made = tree(
        topology={"handover": "lead", "plan_critic": "judge"},
        agents={"planner": {"tools": ["look"]}},
        table={"plan_malformed": {"batch": once}},
    )
    made["agents"] += [agent("lead"), agent("judge")]
    no, yes = (
        {"accept": not said, "score": None, "findings": said, "evidence": ["It says so."]}
        for said in (["Too thin."], [])
    )
    script: dict[str, Any] = {
        "planner": [asks(call(q="what is there")), planned()],
        "lead": planned(),
        "judge": [say(json.dumps(no)), say(json.dumps(yes))],
    }
    each = Cadence(on_release=1, while_owned=1)
    world = World(FabricSpec.model_validate(made), script, tier=Tier.BATCH, cadence=each)
    world.start().go()
    assert world.reactions[0] == "handover"
    told = next(request for request in world.requests if request.agent == "lead").messages[-1].text
    assert 'planner calls look: {"q":"what is there"}' in told


# -- a state that does not grow ----------------------------------------------------------------------------------------


def test_a_step_that_is_run_again_leaves_nothing_behind():
    world = ran(spec(), {"worker": [*(asks() for _ in range(2)), fails(), *(asks() for _ in range(2)), summary()]})
    opened = [fact for fact in world.facts if fact.kind == "step_opened"]
    gone = {f"{fact.stage}.{fact.branch}.e0.r{fact.round - 1}" for fact in opened}
    assert not gone & set(world.run.steps)
    assert not [key for key in world.run.guards if key.partition("/")[2] in gone]


def test_calls_let_go_are_remembered_up_to_a_number():
    run = Run("run-1", stage=Stage.PLAN)
    for number in range(VOIDED_MAX + 5):
        fact = ev.CallAborted(command_id=f"plan.0.e0.r0.t{number}", attempt=1, reason="x")
        run = evolve(run, Event(number + 1, 1, fact))
    assert len(run.voided) == VOIDED_MAX
    assert run.voided[-1] == f"plan.0.e0.r0.t{VOIDED_MAX + 4}"
