"""The outcome oracle: the last check of finalize's post-gate, over what is handed in and what the plan said must be true of it (docs/specification/stages.md)."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.state.context import compile_spec
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.taxonomy import Cause, FailureType, Tier
from fabric.runtime.ports.journal import Document
from tests.fabric.core.fabrics import spec
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import planned, summary

LEDGER = (Document("ledger.md", "A balance."),)


def asking(*expressions, **gates):
    checks = [{"name": f"own-{n}", "expression": one, "message": f"Not {n}."} for n, one in enumerate(expressions)]
    return spec(gates={"oracle": checks, **gates})


def last_gate(world):
    return [one.gate for one in world.of(ev.StageLeft) if one.stage is Stage.FINALIZE][-1]


@pytest.mark.parametrize(
    "expression",
    [
        "outcome.text.contains('Found') && outcome.citations == ['ledger.md']",
        "exit_criteria == ['It names the balance.']",
        "exit_criteria.all(one, one.size() > 3) && run.tier == 'interactive' && run.request != ''",
    ],
)
def test_an_outcome_that_keeps_it_completes_and_says_so(expression):
    script = {
        "planner": planned(exit_criteria=["It names the balance."]),
        "finalizer": summary("Found.", citations=("ledger.md",)),
    }
    world = ran(asking(expression), script, documents=LEDGER)
    assert world.end.state is RunState.COMPLETED
    assert [(check.name, check.result) for check in last_gate(world).checks][3:] == [
        ("grounding", "not_configured"),
        ("oracle", "passed"),
        ("confidence", "not_configured"),
    ]


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("size(outcome.text) > 3000", "check own-1: Not 1."),
        ("outcome.missing == 1", "check own-1 could not be evaluated: KeyError: 'missing'"),
        ("outcome.text", "check own-1 could not be evaluated: it gave str, not true or false"),
    ],
)
def test_one_that_does_not_keep_it_fails_the_gate_at_its_last_check(expression, said):
    world = ran(asking("true", expression))
    decided = world.of(ev.ReactionDecided)[0]
    assert world.end.state is RunState.FAILED
    assert (decided.failure_type, decided.cause.cause) == (FailureType.SCHEMA_GROUNDING, Cause.INVARIANT)
    assert decided.cause.evidence.details == {"check": "oracle", "problems": [said]}


def test_each_tier_takes_its_own_cell():
    wrong = {"finalizer": summary("No.")}
    assert ran(asking("outcome.text == 'Yes.'"), wrong).reactions == ["retry", "surface"]
    assert ran(asking("outcome.text == 'Yes.'"), wrong, tier=Tier.BATCH).reactions == ["replan", "replan", "abort"]
    assert ran(asking("outcome.text == 'Yes.'"), wrong, tier=Tier.HIGH_STAKES).reactions == ["escalate"]


def test_a_retry_that_keeps_it_completes_after_recovery():
    world = ran(asking("outcome.text == 'Yes.'"), {"finalizer": [summary("No."), summary("Yes.")]})
    assert (world.end.state, world.end.recovered) == (RunState.COMPLETED, True)


def test_it_is_asked_last_and_only_of_the_outcome():
    world = ran(asking("false", max_outcome_chars=1))
    decided = world.of(ev.ReactionDecided)[0]
    assert decided.cause.evidence.details["check"] == "invariants"
    assert [(check.name, check.result) for check in decided.gate.checks] == [
        ("schema", "passed"),
        ("policy", "passed"),
        ("invariants", "failed"),
        ("grounding", "not_reached"),
        ("oracle", "not_reached"),
        ("confidence", "not_reached"),
    ]
    assert decided.gate.checks[2].problems == ("text: 11 characters, at most 1 are allowed",)
    passed = ran(asking("true"))
    others = [one.gate for one in passed.of(ev.StageLeft) if one.stage is not Stage.FINALIZE]
    assert all(len(gate.checks) == 5 for gate in others)


def test_it_is_off_unset_and_never_passes_for_want_of_being_compiled():
    assert len(last_gate(ran(spec())).checks) == 5
    with pytest.raises(ValueError, match=r"gates\.oracle is not compiled"):
        compile_spec(asking("true"), prices={})
