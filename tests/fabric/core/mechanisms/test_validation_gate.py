"""Gates: schema, policy, semantic invariants, grounding, in that order, the first failure stops (docs/specification/stages.md)."""

from __future__ import annotations

from functools import partial

import pytest

from fabric.core.mechanisms import validation_gate as gate
from fabric.core.state import demands
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import PASS, Cause
from fabric.core.values.words import words
from tests.fabric.core.fabrics import plan, proposal, spec, view

CONFIG = gate.Config()
GOOD = {
    Stage.PLAN: plan(2),
    Stage.FAN_OUT: [{"branch": 0, "agent": "worker", "title": "Part 1", "ref": "r", "gap": ""}],
    Stage.FAN_IN: {"text": "All of it.", "citations": []},
    Stage.VALIDATE: {"text": "All of it.", "citations": []},
    Stage.FINALIZE: {"text": "The answer.", "citations": []},
}


def judge(stage, payload, documents=(), **fields):
    judged = proposal(kind="output", stage=stage, payload=payload, documents=documents)
    return gate.judge(CONFIG, judged, view(fabric=spec(**fields)))


POST = ("schema", "policy", "invariants", "grounding")


def failed_check(result):
    return next(check for check in result.checks if check.result == "failed")


def names(result):
    return [(check.name, check.result) for check in result.checks]


@pytest.mark.parametrize("stage", list(Stage))
def test_what_is_as_it_should_be_passes_all_four_in_order(stage):
    result = judge(stage, GOOD[stage])
    assert names(result) == [("schema", "passed"), *((name, "not_configured") for name in POST[1:])]
    assert result.cause is None
    assert gate.find_trip(result, stage) is None


@pytest.mark.parametrize("stage", list(Stage))
def test_the_first_failure_stops_and_what_was_checked_is_kept(stage):
    result = judge(stage, {"nonsense": True})
    assert names(result) == [("schema", "failed"), *((name, "not_reached") for name in POST[1:])]
    assert result.cause is (Cause.PLAN_GATE if stage is Stage.PLAN else Cause.SCHEMA_INVALID)
    trip = gate.find_trip(result, stage)
    assert trip.message.startswith(f"the output of stage {words(stage)} was refused by its check schema: ")
    assert trip.evidence.details["check"] == "schema"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"exit_criteria": []}, "exit_criteria: Tuple should have at least 1 item"),
        ({"exit_criteria": ["  "]}, "exit_criteria.0: String should have at least 1 character"),
        ({"briefs": []}, "briefs: Tuple should have at least 1 item"),
        ({"briefs": [{"agent": "worker"}]}, "briefs.0.instructions is missing"),
    ],
)
def test_a_malformed_plan_says_where(change, problem):
    result = judge(Stage.PLAN, plan(1) | change)
    assert result.cause is Cause.PLAN_GATE
    assert failed_check(result).problems[0].startswith(problem)


def test_a_plan_names_workers_only():
    result = judge(Stage.PLAN, plan(2, agent="critic"))
    assert failed_check(result).name == "schema"
    assert failed_check(result).problems[0] == "briefs.0.agent: 'critic' is not one of the workers (worker)"
    assert result.cause is Cause.PLAN_GATE


def test_a_plan_of_16_briefs_passes_and_one_of_17_does_not():
    assert judge(Stage.PLAN, plan(16)).cause is None
    result = judge(Stage.PLAN, plan(17))
    assert failed_check(result).problems == ("briefs: 17 of them, at most 16 are allowed",)


def test_an_outcome_keeps_to_its_length():
    limits = {"gates": {"max_outcome_chars": 5}}
    assert judge(Stage.FINALIZE, {"text": "12345"}, **limits).cause is None
    result = judge(Stage.FINALIZE, {"text": "123456"}, **limits)
    assert (result.cause, failed_check(result).problems) == (
        Cause.INVARIANT,
        ("text: 6 characters, at most 5 are allowed",),
    )
    assert judge(Stage.FAN_IN, {"text": "123456"}, **limits).cause is None


CITED = {"text": "x", "citations": ["a.md", "gone.md"]}
NONE = {"text": "x", "citations": []}
REAL = {"text": "x", "citations": ["a.md"]}


@pytest.mark.parametrize("stage", [Stage.FAN_IN, Stage.FINALIZE])
@pytest.mark.parametrize(
    ("level", "payload", "documents", "problem"),
    [
        ("off", CITED, ("a.md",), ""),
        ("exist", REAL, ("a.md",), ""),
        ("exist", NONE, ("a.md",), ""),
        ("exist", CITED, ("a.md",), "citations: no document is named 'gone.md'"),
        ("exist", REAL, (), "citations: no document is named 'a.md'"),
        ("required", REAL, ("a.md",), ""),
        ("required", CITED, ("a.md",), "citations: no document is named 'gone.md'"),
        ("required", NONE, ("a.md",), "citations: at least one of the attached documents must be cited"),
        ("required", NONE, (), ""),
    ],
)
def test_citations_level_by_level(stage, level, payload, documents, problem):
    result = judge(stage, payload, documents, gates={"citations": level})
    check = next(one for one in result.checks if one.name == "grounding")
    assert check.result == ("failed" if problem else "not_configured" if level == "off" else "passed")
    assert check.problems == ((problem,) if problem else ())
    assert result.cause is (Cause.GROUNDING if problem else None)


@pytest.mark.parametrize("stage", [Stage.PLAN, Stage.FAN_OUT, Stage.VALIDATE])
def test_stages_that_cite_nothing_are_not_asked_to(stage):
    assert judge(stage, GOOD[stage], ("a.md",), gates={"citations": "required"}).cause is None


def test_a_gate_is_a_verdict_too():
    good, bad = (proposal(kind="output", stage=Stage.FAN_IN, payload=payload) for payload in (NONE, {}))
    assert gate.check(CONFIG, gate.State(), good, view()) is PASS
    assert gate.check(CONFIG, gate.State(), bad, view()).cause is Cause.SCHEMA_INVALID


# -- pre-gate ----------------------------------------------------------------------------------------------------------


PRE = ("schema", "policy", "budget", "artifacts")


def pre(*failed):
    asked = []

    def one(name):
        asked.append(name)
        return gate.CheckFinding((f"{name} is wrong",) if name in failed else ())

    return gate.pre_gate({name: partial(one, name) for name in reversed(PRE)}), asked


def test_the_pre_gate_checks_in_its_own_order():
    result, asked = pre()
    assert names(result) == [(name, "passed") for name in PRE]
    assert asked == list(PRE)
    assert result.cause is None


@pytest.mark.parametrize(
    ("failed", "cause"),
    [
        (PRE, Cause.SCHEMA_INVALID),
        (PRE[1:], Cause.POLICY_DENIED),
        (PRE[2:], Cause.BUDGET_GATE),
        (PRE[3:], Cause.INVARIANT),
    ],
)
def test_the_pre_gate_stops_at_its_first_failure_and_asks_nothing_more(failed, cause):
    result, asked = pre(*failed)
    assert (result.gate, result.cause) == ("pre", cause)
    at = PRE.index(failed[0])
    results = ["passed"] * at + ["failed"] + ["not_reached"] * (len(PRE) - at - 1)
    assert names(result) == list(zip(PRE, results, strict=True))
    assert asked == list(PRE[: at + 1])


# -- what the next stage demands ---------------------------------------------------------------------------------------


def part(n, **fields):
    return {"branch": n, "agent": "worker", "title": f"Part {n + 1}", "ref": "r", "gap": "", **fields}


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ([], "answer: there is no branch"),
        ([part(1)], "0.branch: 1 stands where 0 belongs"),
        ([part(0), part(0)], "1.branch: 0 stands where 1 belongs"),
        ([part(0, ref="")], "0: branch 1 has neither a summary nor a gap"),
        ([part(0), part(1, gap="late")], "1: branch 2 has both a summary and a gap"),
    ],
)
def test_parts_that_the_fan_in_could_not_begin_with_do_not_leave_the_fan_out(parts, problem):
    result = judge(Stage.FAN_OUT, parts)
    assert (failed_check(result).name, result.cause) == ("schema", Cause.SCHEMA_INVALID)
    assert failed_check(result).problems[0] == problem
    assert demands.unmet(Stage.FAN_IN, parts, spec())[0] == problem, "the fan-in's pre-gate says the same"


@pytest.mark.parametrize("stage", list(Stage)[:-1])
def test_what_passes_a_post_gate_passes_the_next_pre_gate(stage):
    following = list(Stage)[list(Stage).index(stage) + 1]
    assert demands.unmet(following, GOOD[stage], spec()) == []
    assert demands.unmet_next(stage, {"nonsense": True}, spec()) == demands.unmet(following, {"nonsense": True}, spec())
    assert demands.unmet(following, {"nonsense": True}, spec())


def test_the_last_stage_owes_nothing():
    assert demands.unmet_next(Stage.FINALIZE, {"nonsense": True}, spec()) == []


def test_problems_name_paths_and_never_values():
    result = judge(Stage.PLAN, plan(1, exit_criteria="a secret value"))
    assert failed_check(result).problems
    assert "secret" not in str(result.checks)
