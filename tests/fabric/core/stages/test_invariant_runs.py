"""Invariants of the fabric's own at the post-gates: CEL over payload, run and stage (docs/specification/stages.md)."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.state.context import compile_spec
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, FailureType
from fabric.runtime.ports.journal import Document
from tests.fabric.core.fabrics import spec
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import summary

LEDGER = (Document("ledger.md", "A balance."),)


def asking(expression, stage="finalize", **more):
    one = {"stage": stage, "name": "own", "expression": expression, "message": "The answer is too short."}
    return spec(gates={"invariants": [one, *more.pop("others", ())], **more})


def failed(world):
    decided = world.of(ev.ReactionDecided)
    return decided[0].cause if decided else None


@pytest.mark.parametrize(
    "expression",
    [
        "size(payload.text) > 3",
        "payload.citations.all(name, name in run.documents)",
        "run.tier == 'interactive' && run.epoch == 0 && run.depth == 1 && run.request == 'What is it?'",
        "stage == 'finalize' && run.documents == ['ledger.md']",
        "!has(payload.gaps)",
    ],
)
def test_what_holds_lets_the_output_pass(expression):
    world = ran(asking(expression), {"finalizer": summary("Found.", citations=("ledger.md",))}, documents=LEDGER)
    assert (world.end.state, failed(world)) == (RunState.COMPLETED, None)


def test_what_does_not_hold_fails_the_gate_with_its_message():
    world = ran(asking("size(payload.text) > 30"))
    cause = failed(world)
    assert world.end.state is RunState.FAILED
    assert cause.cause is Cause.INVARIANT
    assert cause.evidence.details["problems"] == ["invariant own: The answer is too short."]
    assert world.of(ev.ReactionDecided)[0].failure_type is FailureType.SCHEMA_GROUNDING


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("payload.missing == 1", "KeyError: 'missing'"),
        ("1 / (run.depth - 1) == 0", "ZeroDivisionError"),
        ("payload.text", "it gave str, not true or false"),
        ("run.depth", "it gave int, not true or false"),
    ],
)
def test_an_error_in_evaluation_fails_the_gate_and_names_the_expression(expression, said):
    (problem,) = failed(ran(asking(expression))).evidence.details["problems"]
    assert problem.startswith("invariant own could not be evaluated: ")
    assert said in problem


def test_an_invariant_of_another_stage_is_not_asked_and_the_first_that_breaks_is_told():
    assert ran(asking("false", stage="plan")).of(ev.ReactionDecided)[0].cause.cause is Cause.PLAN_GATE
    second = {"stage": "finalize", "name": "second", "expression": "false", "message": "Second."}
    (problem,) = failed(ran(asking("true", others=(second,)))).evidence.details["problems"]
    assert problem == "invariant second: Second."


def test_the_built_in_ones_come_first():
    (problem,) = failed(ran(asking("false", max_outcome_chars=2))).evidence.details["problems"]
    assert "at most 2 are allowed" in problem


def test_invariants_that_were_not_compiled_never_pass():
    with pytest.raises(ValueError, match=r"gates\.invariants is not compiled"):
        compile_spec(asking("true"), prices={})
