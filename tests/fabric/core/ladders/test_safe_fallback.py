"""Safe fallback: the fabric's static answer becomes the outcome (docs/specification/decision-table.md)."""

from __future__ import annotations

import pytest

from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Tier
from tests.fabric.core.fabrics import tree
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import fails, scored, summary

ANSWER = "We cannot answer this here. Please call us."
UNSAFE = fails(Cause.CONTENT_FILTER, "the filter withheld it")


def fabric(answer: str | None = ANSWER, **fields):

    return FabricSpec.model_validate({**tree(**fields), **({"safe_fallback": answer} if answer else {})})


def test_the_static_answer_is_the_outcome_of_a_run_whose_answer_was_unsafe():
    world = ran(fabric(), {"finalizer": UNSAFE})
    assert world.reactions == ["safe_fallback"]
    end = world.end
    assert (end.state, end.reaction) == (RunState.COMPLETED, "safe_fallback")
    assert end.reason.startswith("the fabric's static answer was given, because ")
    assert (end.partial, end.truncated, end.recovered) == (False, False, True)
    assert world.outcome == {"text": ANSWER, "citations": [], "gaps": []}


def test_a_branch_that_is_unsafe_ends_the_run_with_it_and_calls_in_flight_are_settled():
    slow = {0: UNSAFE, 1: summary("Late.").after(20.0)}
    script = {"worker": lambda command: slow[int(command.command_id.split(".")[1])]}
    fabric_ = fabric(roles=(), workers=2)
    world = ran(fabric_, script)
    assert (world.end.state, world.end.reaction, world.outcome["text"]) == (
        RunState.COMPLETED,
        "safe_fallback",
        ANSWER,
    )
    assert world.elapsed_s >= 20, "the other branch's call was heard, so that its cost is known"
    assert world.run.pending == {}


def test_without_one_it_is_surfaced():
    world = ran(fabric(None), {"finalizer": UNSAFE})
    assert world.reactions == ["safe_fallback"]
    assert (world.end.state, world.end.reaction) == (RunState.FAILED, "surface")


@pytest.mark.parametrize(("tier", "state"), [(Tier.BATCH, RunState.ABORTED), (Tier.HIGH_STAKES, RunState.ABORTED)])
def test_in_the_other_tiers_no_default_cell_uses_it(tier, state):
    world = ran(fabric(), {"finalizer": UNSAFE}, tier=tier)
    if world.run.reviews:
        world.decide("reject").go()
    assert world.end.state is state
    assert world.outcome is None or world.outcome["text"] != ANSWER


def test_another_cell_may_end_with_it():
    table = {"schema_grounding_fail": {"interactive": {"rungs": [{"reaction": "safe_fallback"}]}}}
    world = ran(fabric(gates={"citations": "exist"}, table=table), {"finalizer": summary("It is.", citations=("no.md",)), "critic": scored(0.9)})  # fmt: skip
    assert (world.end.state, world.outcome["text"]) == (RunState.COMPLETED, ANSWER)
