"""Forks: from any event of any run a new one goes on with what was settled there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.decision import slices
from fabric.core.events.inputs import INBOX, ForkRequested, Kept
from fabric.core.evolve import evolve, fold
from fabric.core.stages.forks import ForkPoint, find_fork_point, list_contents
from fabric.core.state.context import Contents
from fabric.core.state.run import Run
from fabric.core.values.fingerprint import content_ref, encode
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.taxonomy import Cause, Tier
from tests.fabric.core.fabrics import spec
from tests.fabric.core.family_scenes import ASKED, household, once_bad
from tests.fabric.core.harness import World, ran
from tests.fabric.core.mechanisms.facts import at
from tests.fabric.core.scripts import fails, planned, scored, summary
from tests.fabric.core.spec.test_retry_layers import DOWN
from tests.fabric.core.spec.test_retry_layers_out import partial

SCRIPT: dict[str, Any] = {
    "planner": planned(3),
    "worker": [summary("first").after(1), summary("second").after(2), summary("third").after(3)],
    "critic": scored(0.9),
}


def origin() -> World:
    return World(spec(), SCRIPT).start().go()


def forked(world: World, seq: int, script: dict[str, Any] = SCRIPT, **changes: Any) -> World:
    """A run of the same fabric, forked from an event of ``world``, not yet moved."""
    run = fold(Run("run-1", tier=world.tier, seed=world.seed), world.events[:seq])
    contents = Contents()
    for event in world.events[:seq]:
        if event.content_ref:
            contents.put(event.content_ref, world.contents(event.content_ref), event.content_bytes)
    point = find_fork_point(run, sources=world.spec.gates.reads_sources)
    made = World(world.spec, script)
    fields: dict[str, Any] = {
        "request": contents.read(run.request_ref),
        "stages": tuple((str(stage), ref) for stage, ref in point.stages),
        "branches": point.branches,
        "stopped": point.stopped,
        "work": point.work,
        "contents": tuple(Kept(what=what, content=content) for what, content in list_contents(point, contents)),
    }
    deadline = made.now + 300_000_000
    given = ForkRequested(
        input_id="fork",
        deadline_at=deadline,
        origin_run_id="run-0",
        origin_seq=seq,
        origin_hash="00",
        **{**fields, **changes},
    )
    assert INBOX.validate_json(INBOX.dump_json(given)) == given
    made.put(given)
    return made


def forks_at(world: World) -> Iterator[int]:
    """The events that a fork of a run can begin with."""
    for seq in range(1, len(world.events)):
        if find_fork_point(fold(Run("run-1", tier=world.tier, seed=world.seed), world.events[:seq])).stage is not None:
            yield seq


def settled_at(seq: int) -> ForkPoint:
    world = origin()
    return find_fork_point(fold(Run("run-1", tier=world.tier, seed=world.seed), world.events[:seq]))


def test_nothing_is_kept_before_the_plan_is_passed():
    assert settled_at(1) == ForkPoint(Stage.PLAN, (), ())


def test_a_run_that_was_through_leaves_nothing_to_do():
    assert settled_at(len(origin().events)).stage is None


@pytest.mark.parametrize("seq", range(1, 24))
def test_from_any_event_a_fork_asks_only_for_what_was_not_settled_and_comes_to_the_same_outcome(seq):
    first = origin()
    point = settled_at(seq)
    if point.stage is None:
        return
    world = forked(first, seq).go()
    assert world.end.state is RunState.COMPLETED
    entered = [fact.stage for fact in world.of(ev.StageEntered)]
    assert entered == list(Stage)[len(point.stages) :]
    branches = 0 if Stage.FAN_OUT not in entered else 3 - len(point.branches)
    assert world.asked("worker") == branches
    assert world.asked("planner") == (Stage.PLAN in entered)


def test_a_fork_reads_what_its_origin_left():
    first = origin()
    seq = next(e.seq for e in first.events if e.fact.kind == "stage_entered" and e.fact.stage is Stage.FAN_IN)
    world = forked(first, seq, {"critic": scored(0.9)}).go()
    request = next(one for one in world.requests if one.agent == "aggregator")
    text = "\n".join(message.text for message in request.messages)
    assert all(word in text for word in ("first", "second", "third"))


def test_a_branch_that_is_kept_is_not_run_again_but_after_a_replan():
    first = origin()
    answered = [e.seq for e in first.events if e.fact.kind == "model_answered" and e.fact.step_id.startswith("fan_out")]
    world = forked(first, answered[1])
    world.go()
    assert [fact.step_id for fact in world.of(ev.OutputKept)] == ["fan_out.0.e0.r0", "fan_out.1.e0.r0"]
    failing = {"planner": planned(3), "worker": [fails(), fails(), summary()], "critic": scored(0.9)}
    again = forked(first, answered[1], failing).go()
    assert again.run.epoch == 0 or len(again.of(ev.OutputKept)) == 2


@pytest.mark.parametrize(("stage", "asked"), [(Stage.FAN_IN, 0), (Stage.FINALIZE, 0), (Stage.FAN_OUT, 1)])
def test_a_fork_of_a_partial_success_is_one_as_long_as_it_goes_on_without_the_same(stage, asked):
    first = ran(partial(), {"worker": [DOWN, summary("Two."), DOWN, DOWN, DOWN]})
    assert first.end.partial
    world = forked(first, entered_at(first, stage), {"worker": summary("At last.")}).go()
    assert world.end.state is RunState.COMPLETED
    assert (world.asked("worker"), world.end.partial) == (2 * asked, not asked)
    assert ("partial success, with 1 of" in world.end.reason) is not asked


def entered_at(world: World, stage: Stage) -> int:
    found = ((e.seq, e.fact) for e in world.events)
    return next(seq for seq, fact in found if isinstance(fact, ev.StageEntered) and fact.stage is stage)


def test_an_edited_request_is_what_the_fork_is_asked():
    world = forked(
        origin(), 1, request={"text": "Something else", "documents": [], "document_bytes": []}, edited="request"
    )
    world.go()
    assert world.contents(world.run.request_ref)["text"] == "Something else"
    assert world.of(ev.RunForked)[0].edited == "request"


def test_a_fork_that_comes_to_a_run_that_has_started_changes_nothing():
    late = World(spec(), SCRIPT).start().go(until_s=1)
    late.put(ForkRequested(input_id="f", request={}, deadline_at=1, origin_run_id="r", origin_seq=1, origin_hash="00"))
    assert late.of(ev.InputIgnored)[0].reason == "the run has started already"


def test_the_state_of_a_fork_folds_from_its_own_journal():
    world = forked(origin(), 12).go()
    assert fold(Run("run-1", tier=world.tier, seed=world.seed), world.events) == world.run


def test_a_fork_keeps_what_each_round_of_a_slice_brought():
    """A fan-out's result refers to the rounds one by one: a slice with a gap has two."""
    asked = {
        "schema_grounding_fail": ASKED,
        "provider_failure": {t: {"rungs": [{"reaction": "surface"}]} for t in Tier},
    }
    answers = once_bad(1, fails(Cause.BAD_REQUEST, "no").after(5.0), summary("Found."))
    family = household(10, {"worker": answers}, table=asked, fan_in={"mode": "quorum", "k": 10})
    family.go(until=lambda family: bool(family.root.run.reviews) and not family.root.run.family.alive)
    review = next(iter(family.root.run.reviews))
    family.decide("root", "approve").go()
    events = family.root.events
    left = next(e.seq for e in events if e.fact.kind == "stage_left" and e.fact.stage is Stage.FAN_OUT)
    first = fold(Run("root", tier=family.tier, seed=0), [event for event in events if event.seq <= left])
    assert review not in first.reviews
    point = find_fork_point(first)
    contents = Contents()
    for event in events[:left]:
        if event.content_ref:
            contents.put(event.content_ref, family.root.content(event.content_ref), event.content_bytes)
    kept = {content_ref(encode(content)): what for what, content in list_contents(point, contents)}
    output = contents.read(first.stages[Stage.FAN_OUT].output_ref)["output"]
    assert {part["ref"] for part in output} <= set(kept)
    assert sorted(kept.values())[:1] == ["branch 1"]
    assert [(branch, briefs, missing) for branch, _, briefs, missing in point.parts if branch == 0] == [
        (0, (0, 1, 2), (0,)),
        (0, (0,), ()),
    ]
    assert fork_of(first, point) == {step.branch: slices.brought_parts(first, step) for step in first.steps.values() if step.stage is Stage.FAN_OUT}  # fmt: skip


def fork_of(first: Run, point: ForkPoint) -> dict[int, dict[int, str]]:
    """Return what the slices of a fork brought, by branch."""
    fact = ev.RunForked(
        origin_run_id=first.id,
        origin_seq=first.seq,
        origin_hash="00",
        stages=tuple(ev.KeptStage(stage=stage, output_ref=ref) for stage, ref in point.stages),
        branches=tuple(ev.KeptBranch(branch=n, agent=agent, output_ref=ref) for n, agent, ref in point.branches),
        parts=tuple(ev.KeptPart(branch=n, output_ref=ref, briefs=b, missing=m) for n, ref, b, m in point.parts),
    )
    run = evolve(Run("fork", tier=first.tier), at(fact))
    return {step.branch: slices.brought_parts(run, step) for step in run.steps.values()}
