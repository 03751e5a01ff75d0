"""Cells of the decision table over whole runs in virtual time, in the three tiers: deadlock, no progress, visits, handover, safe fallback."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from fabric.core.events.inputs import CallFailed, ModelReplied, ToolCall
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.decision_table import Reaction
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, FailureType, Tier
from fabric.runtime.ports.calls import ModelRequest
from simulator.cast.agents import FRUITLESS, TWIN, Reply
from simulator.world.world import World
from tests.simulator.world.quiet_worlds import ROLES, cooperative, supervisor, world

FAST, BATCH, HIGH = Tier.INTERACTIVE, Tier.BATCH, Tier.HIGH_STAKES
COMPLETED, FAILED, ABORTED = RunState.COMPLETED, RunState.FAILED, RunState.ABORTED
STOPPED = RunState.STOPPED
ANSWER = "This cannot be answered here."
LEAD = {"name": "lead", "instructions": "You are lead.", "model": "model"}
Ask = Callable[[ModelRequest], Reply]


def said(request: ModelRequest, value: Any, *calls: ToolCall) -> Reply:
    text = value if isinstance(value, str) else json.dumps(value)
    return Reply(1.0, ModelReplied(command_id=request.command_id, attempt=request.attempt, text=text, calls=calls))


def twins(*planners: str) -> Ask:
    """Those planners hand one worker the same brief twice; other planners do not."""
    brief = {"agent": "one", "title": "Part", "instructions": TWIN}

    def ask(request: ModelRequest) -> Reply:
        if request.output != "plan":
            return cooperative(request)
        briefs = [brief, brief if request.agent in planners else {**brief, "agent": "two"}]
        return said(request, {"goal": "Answer it.", "briefs": briefs, "exit_criteria": ["It is answered."]})

    return ask


def fruitless(request: ModelRequest) -> Reply:
    """A worker that asks something else each time and hears the same; told to, it answers with what it has."""
    if request.agent != "one" or not request.tools:
        return cooperative(request)
    turn = len(request.messages)
    call = ToolCall(call_id=f"c{turn}", tool="lookup", args={"query": f"{FRUITLESS} {turn}"})
    return said(request, "", call)


def unsafe(request: ModelRequest) -> Reply:
    """A finalizer whose answer the provider's filter withholds."""
    if request.agent != "finalizer":
        return cooperative(request)
    ids: Any = {"command_id": request.command_id, "attempt": request.attempt}
    return Reply(1.0, CallFailed(**ids, cause=Cause.CONTENT_FILTER, message="withheld", status=400))


def ungrounded(request: ModelRequest) -> Reply:
    """A finalizer that cites what is not there."""
    if request.agent != "finalizer":
        return cooperative(request)
    return said(request, {"text": "It is so.", "citations": ["missing.md"]})


def fabric(*, lead: bool = False, **changes: Any) -> FabricSpec:
    plain = supervisor().model_dump(mode="json")
    plain["tools"] = [{"name": "lookup"}]
    plain["agents"] = [
        {
            "name": name,
            "instructions": f"You are {name}.",
            "model": "model",
            "tools": ["lookup"] if name == "one" else [],
        }
        for name in ROLES
    ]
    if lead:
        plain["agents"].append(LEAD)
        plain["topology"]["handover"] = "lead"
    return FabricSpec.model_validate({**plain, **changes})


def lived(spec: FabricSpec, tier: Tier, ask: Ask, *, approve: bool = False) -> World:
    """The run to its end; people say the same whenever they are asked. The first seed in which they do."""
    for seed in range(1, 40):
        made = world(spec, tier=tier, ask=ask, seed=seed)
        made.run()
        assert made.watch.violations == []
        asked = made.sometimes["decided_approve"] + made.sometimes["decided_reject"]
        if not asked or not made.sometimes["decided_reject" if approve else "decided_approve"]:
            return made
    raise AssertionError("no agent ever says that")


def told(made: World) -> tuple[RunState, str, bool]:
    [run] = made.watch.runs()
    return run.state, run.reason, run.recovered


def met(made: World) -> set[str]:
    """Every reaction that was decided."""
    return {str(one) for one in Reaction if made.sometimes[f"reaction_{one}"]}


# -- sub-agent deadlock ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tier", "reactions"),
    [(FAST, {"abort"}), (BATCH, {"abort"}), (HIGH, {"escalate"})],
    ids=["interactive", "batch", "high"],
)
def test_a_deadlock_without_a_lead_above(tier, reactions):
    made = lived(fabric(), tier, twins("planner"))
    state, reason, _ = told(made)
    assert (state, met(made)) == (ABORTED, reactions)
    assert "planner passed one the same brief twice" in reason
    assert made.sometimes["rung_skipped"] == (1 if tier is BATCH else 0)


def test_a_deadlock_in_batch_is_handed_over_and_recovers():
    made = lived(fabric(lead=True), BATCH, twins("planner"))
    assert (told(made), met(made)) == ((COMPLETED, "finished", True), {"handover"})


def test_a_deadlock_that_the_lead_does_not_end_aborts_in_batch():
    made = lived(fabric(lead=True), BATCH, twins("planner", "lead"))
    assert (told(made)[0], met(made)) == (ABORTED, {"handover", "abort"})


@pytest.mark.parametrize("tier", [FAST, HIGH])
def test_the_other_tiers_do_not_hand_over(tier):
    made = lived(fabric(lead=True), tier, twins("planner"))
    assert told(made)[0] is ABORTED
    assert "handover" not in met(made)


def test_a_deadlock_in_high_stakes_that_a_person_lets_plan_again_is_asked_about_again_and_then_aborts():
    made = lived(fabric(), HIGH, twins("planner"), approve=True)
    assert told(made)[0] is ABORTED
    assert made.sometimes["asked_failure"] == 2


# -- semantic no-progress ----------------------------------------------------------------------------------------------


def test_no_progress_in_interactive_terminates():
    made = lived(fabric(), FAST, fruitless)
    state, reason, recovered = told(made)
    assert (state, recovered, met(made)) == (STOPPED, False, {"terminate"})
    assert reason == (
        "agent one called lookup in 12 turns in a row with other arguments each time, and each came to the same result (limit 12); "
        "one then answered with the 12 results that it had"
    )


def test_no_progress_in_batch_replans_once_and_escalates():
    made = lived(fabric(), BATCH, fruitless)
    assert (told(made)[0], met(made)) == (ABORTED, {"replan", "escalate"})
    assert "each came to the same result" in told(made)[1]


def test_no_progress_in_high_stakes_escalates():
    made = lived(fabric(), HIGH, fruitless)
    assert (told(made)[0], met(made)) == (ABORTED, {"escalate"})


def test_no_progress_may_be_handed_over_with_the_step():
    rungs = {"rungs": [{"reaction": "handover", "times": 1}, {"reaction": "escalate"}]}
    made = lived(fabric(lead=True, decision_table={"semantic_no_progress": {"batch": rungs}}), BATCH, fruitless)
    assert (told(made), met(made)) == ((COMPLETED, "finished", True), {"handover"})


# -- visits: infinite tool loop ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tier", "state", "reactions"),
    [
        (FAST, FAILED, {"replan", "terminate"}),
        (BATCH, ABORTED, {"replan", "abort"}),
        (HIGH, ABORTED, {"replan", "escalate"}),
    ],
)
def test_a_stage_that_is_entered_too_often(tier, state, reactions):
    rungs = {"rungs": [{"reaction": "replan", "times": 2}, {"reaction": "abort"}]}
    plain = fabric().model_dump(mode="json")
    plain["policy"]["limits"] |= {"max_visits": {"fan_out": 1}}
    plain |= {"gates": {"citations": "exist"}}
    plain["decision_table"] = {FailureType.SCHEMA_GROUNDING: {tier: rungs}}
    made = lived(FabricSpec.model_validate(plain), tier, ungrounded)
    assert (told(made)[0], met(made)) == (state, reactions)
    assert "as often as it may be" in told(made)[1]


# -- unsafe output -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tier", "answer", "state", "reactions"),
    [
        (FAST, ANSWER, COMPLETED, {"safe_fallback"}),
        (FAST, None, FAILED, {"safe_fallback"}),
        (BATCH, ANSWER, ABORTED, {"halt"}),
        (HIGH, ANSWER, ABORTED, {"escalate"}),
    ],
)
def test_an_unsafe_output(tier, answer, state, reactions):
    made = lived(fabric(**({"safe_fallback": answer} if answer else {})), tier, unsafe)
    assert (told(made)[0], met(made)) == (state, reactions)
    if state is COMPLETED:
        assert told(made)[1:] == ("the fabric's static answer was given, because withheld", True)
