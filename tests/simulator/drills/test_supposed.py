"""A failure that is supposed, walked by the engine's own choice, against what the drills expect of the table by code of their own, and against drills."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.composition import engine as wiring
from fabric.core import events as ev
from fabric.core.events.envelope import from_row, split_rows
from fabric.core.spec.fabric import FabricSpec
from fabric.core.supposed import NotSupposed, Supposed, Supposing, suppose_failure
from fabric.core.supposed.models import MET
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.taxonomy import CLASSIFY, Cause, FailureType, Tier
from simulator.drills import fabrics as chosen
from simulator.scenarios.baseline import work as baseline
from simulator.scenarios.baseline.equipment import equip_fabric
from simulator.scenarios.baseline.work import first_run, observe_chain
from simulator.scenarios.play.cells import drill_told, promised_by
from simulator.scenarios.promises.digests import CELLS
from simulator.scenarios.promises.expectation import Chain, Link
from simulator.scenarios.promises.layers import MET_IN
from tests.simulator.drills.drilled import RATE_LIMIT, behind_breaker, drilled, with_cell
from tests.simulator.drills.variants import VARIANTS, layered, with_fallbacks, with_policy

F, T = FailureType, Tier
FABRICS = {spec.name: with_policy(spec, breakers=[RATE_LIMIT]) for spec in (chosen.default_table(), *chosen.samples())}
MOVED = (
    "layers, ways out",
    "layers, breaker, fallbacks",
    *(name for name in VARIANTS if name.startswith("breaker endpoint")),
)
"""Variants in which the failure opens breakers, or calls before it earn retry tokens: the walk takes neither into account, and says so."""


def chain(found: Supposed) -> Chain:
    """The walk as the drills write it."""
    links = tuple(Link(line.what, line.rung - 1, line.reaction) for line in found.lines)
    return Chain(links, found.state, sum(line.asks is not None and line.what != "left" for line in found.lines))


def walked(spec: FabricSpec, failure: FailureType, tier: Tier, **given: Any) -> Supposed:
    return suppose_failure(wiring.compile_revision(spec), failure, tier, Supposing(**given))


def agrees(spec: FabricSpec) -> int:
    """How many cells of a fabric the two know and agree about; they disagree about none."""
    known = 0
    for failure, tier in CELLS:
        met, _ = equip_fabric(baseline.scripted_models(spec), failure)
        promised, _ = promised_by(met, failure, tier, "reject")
        if promised is not None:
            known += 1
            assert chain(walked(met, failure, tier)) == promised, (failure, tier)
    return known


@pytest.mark.parametrize("name", FABRICS)
def test_all_24_cells_of_a_sample_are_walked_as_the_drills_expect_them(name):
    assert agrees(FABRICS[name]) == 24


@pytest.mark.parametrize("name", [name for name in VARIANTS if name not in MOVED])
def test_with_layers_and_models_that_stand_in_too(name):
    assert agrees(VARIANTS[name](drilled())) == 24


def test_all_24_cells_are_walked_as_the_engine_went_and_its_waits_are_within_what_is_said():
    spec = baseline.scripted_models(drilled(lead=True, fallbacks=2))
    waits = 0
    for failure, tier in CELLS:
        told = drill_told(spec, failure, tier)
        assert told.world is not None
        found = walked(told.spec, failure, tier)
        assert chain(found) == observe_chain(told.world), (failure, tier)
        drawn = _waits(told.world)
        said = [line.waits for line in found.lines if line.waits is not None]
        assert len(drawn) == len(said)
        assert all(one.low_s <= delay <= one.high_s for delay, one in zip(drawn, said, strict=True))
        waits += len(drawn)
    assert waits == 10


def _waits(world: Any) -> list[float]:
    facts = (
        from_row(row.seq, row.kind, row.version, row.header).fact
        for row in split_rows(world.store.rows(first_run(world).id))
    )
    return [fact.delay_s for fact in facts if isinstance(fact, ev.RetryScheduled | ev.NodeRetryScheduled)]


def test_it_is_met_where_the_drills_meet_it():
    assert set(MET) == set(FailureType)
    spec = drilled()
    for failure, met in MET.items():
        assert CLASSIFY[met.cause].goes_to == failure
        found = walked(spec, failure, T.BATCH)
        if failure is not F.COST_OVERRUN:  # After the agent that spends it all the critic is asked.
            assert found.stage is MET_IN[failure]


def test_each_rung_with_its_uses_waits_and_why_it_is_passed_over():
    found = walked(drilled(), F.PROVIDER, T.INTERACTIVE)
    assert [(one.reaction, one.times, one.per, one.uses, one.state, one.why) for one in found.ladder] == [
        ("retry", 2, "call", 2, "taken", ""),
        ("fallback_model", 1, "call", 0, "passed_over", "no fallback model is configured"),
        ("wait_for_breaker", 3, "call", 0, "passed_over", "no circuit breaker refused the call"),
        ("surface", None, "unbounded", 1, "taken", ""),
    ]
    first_wait, second = (line.waits for line in found.lines[:2])
    assert first_wait is not None
    assert second is not None
    assert (first_wait.low_s, first_wait.high_s, first_wait.of) == (0.0, 1.0, "backoff")
    assert (second.low_s, second.high_s) == (0.0, 2.0)
    assert (found.stage, found.agent, found.own, found.state) == (Stage.FINALIZE, "finalizer", False, RunState.FAILED)
    assert found.reason == "the endpoint answered 503"


def test_the_reviewers_the_deadline_and_the_effect_of_each_answer():
    found = walked(drilled(), F.COST_OVERRUN, T.HIGH_STAKES)
    (asks,) = [line.asks for line in found.lines if line.asks is not None]
    assert (asks.role, asks.due_s, asks.remind_s, asks.onward_s) == ("finance", 28_800.0, 14_400.0, 21_600.0)
    assert (asks.onward_to, asks.on_expiry, asks.approvals) == (("owner",), "reject", 1)
    assert asks.verbs["reject"] == "the run is aborted"
    assert found.state is RunState.ABORTED
    assert found.ladder[0].role == "finance"


def test_a_follow_up_is_left_and_no_run_waits():
    found = walked(drilled(), F.PLAN_MALFORMED, T.HIGH_STAKES)
    assert [(line.what, line.reaction) for line in found.lines] == [("decided", "abort"), ("left", "follow_up")]
    assert found.lines[1].asks is not None
    assert found.lines[1].asks.on_expiry == "nothing"


def test_the_models_that_stand_in_are_named():
    rungs = ({"reaction": "fallback_model", "times": 2}, {"reaction": "surface"})
    spec = with_fallbacks(with_cell("provider_failure", "interactive", *rungs), 2)
    found = walked(spec, F.PROVIDER, T.INTERACTIVE)
    assert [line.model for line in found.lines] == ["model-1", "model-2", ""]
    assert found.own


def test_the_layers_stand_before_the_cells_rungs():
    found = walked(layered(drilled()), F.PROVIDER, T.BATCH)
    assert [(one.reaction, one.layer) for one in found.ladder] == [
        ("retry", "call_retries"),
        ("wait_for_breaker", "failover"),
        ("retry_node", "node_retries"),
        ("escalate", "run_failure"),
    ]
    first_wait, node = found.lines[0].waits, next(line for line in found.lines if line.reaction == "retry_node").waits
    assert first_wait is not None
    assert node is not None
    assert (first_wait.low_s, first_wait.high_s) == (0.5, 1.5)
    assert (node.low_s, node.high_s, node.of) == (2.5, 7.5, "node")


def test_a_breaker_that_is_open_is_waited_for_where_the_cell_says_so():
    found = walked(behind_breaker(3), F.PROVIDER, T.BATCH, breaker_open=True)
    assert [(line.what, line.reaction) for line in found.lines] == [
        ("skipped", "retry"), ("decided", "wait_for_breaker"),
        ("skipped", "retry"), ("decided", "wait_for_breaker"),
        ("skipped", "retry"), ("decided", "escalate"),
    ]  # fmt: skip
    assert found.lines[0].why.startswith("its circuit breaker is open")
    waits = found.lines[1].waits
    assert waits is not None
    assert (waits.low_s, waits.high_s, waits.of) == (120.0, 132.0, "breaker")


def test_an_endpoint_that_asks_for_quiet_is_left_alone_so_long():
    found = walked(drilled(), F.PROVIDER, T.BATCH, cause=Cause.RATE_LIMIT, retry_after_s=7.0)
    waits = found.lines[0].waits
    assert waits is not None
    assert (waits.low_s, waits.high_s, waits.of) == (7.0, 7.0, "retry_after")
    longer = walked(drilled(), F.PROVIDER, T.BATCH, retry_after_s=61.0)
    assert longer.ladder[0].why == "Retry-After of 61 s is over the cap of 60 s"


def test_a_call_that_would_cost_too_much_goes_to_a_cheaper_model():
    tree = drilled().model_dump(mode="json", by_alias=True)
    cheap = {**tree["models"][0], "name": "cheap", "price": {"input_usd_per_mtok": 0.001, "output_usd_per_mtok": 0.001}}
    tree["models"][0]["cheaper"] = "cheap"
    tree["models"].append(cheap)
    spec = FabricSpec.model_validate(tree)
    found = walked(spec, F.COST_OVERRUN, T.BATCH, of_call=True)
    assert [(line.reaction, line.model) for line in found.lines][:1] == [("cheaper_model", "cheap")]
    whole = walked(spec, F.COST_OVERRUN, T.BATCH)
    assert whole.ladder[0].why == "no model call is at fault"


def test_in_another_stage_the_failure_is_of_who_works_there():
    found = walked(drilled(), F.PROVIDER, T.INTERACTIVE, stage=Stage.PLAN)
    assert (found.stage, found.agent) == (Stage.PLAN, "planner")
    of_branch = walked(drilled(), F.PROVIDER, T.INTERACTIVE, stage=Stage.FAN_OUT)
    assert [line.failure for line in of_branch.lines][-1] is F.SCHEMA_GROUNDING, "a branch that ends leaves a gap"


def test_a_cause_of_its_own_enters_the_ladder_at_its_end():
    found = walked(drilled(), F.PROVIDER, T.BATCH, cause=Cause.AUTH)
    assert [one.state for one in found.ladder] == ["passed_over", "passed_over", "taken"]
    assert found.ladder[0].why == "auth does not go away by itself"


def _fixed() -> FabricSpec:
    return next(spec for spec in FABRICS.values() if spec.topology.planner is None)


REFUSED: dict[str, tuple[FabricSpec, FailureType, dict[str, Any], str]] = {
    "a cause of another row": (
        drilled(),
        F.PROVIDER,
        {"cause": Cause.PLAN_GATE},
        "plan_gate is no cause of provider_failure",
    ),
    "no worker": (drilled(), F.TOOL_LOOP, {"agent": "critic"}, "'critic' is no worker; there are: "),
    "no agent plans": (_fixed(), F.PLAN_MALFORMED, {}, "stage plan of this fabric calls no agent"),
    "no tool": (drilled(), F.TOOL_LOOP, {"agent": "two"}, "agent two has no tool"),
    "no breaker": (
        FabricSpec.model_validate(
            {
                **drilled().model_dump(mode="json"),
                "policy": {**drilled().policy.model_dump(mode="json"), "breakers": []},
            }
        ),
        F.PROVIDER,
        {"breaker_open": True},
        "has no circuit breaker",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_met_is_said(case):
    spec, failure, given, said = REFUSED[case]
    with pytest.raises(NotSupposed, match=said):
        walked(spec, failure, T.BATCH, **given)


def led(**topology: Any) -> FabricSpec:
    """The graph of the sample without its rules on failures, and with others."""
    tree = FABRICS["support-routing"].model_dump(mode="json", by_alias=True)
    rules = tree["topology"]["transitions"][1:]
    first = topology.pop("first", ())
    tree["topology"] |= {"retry_targets": {}, **topology, "transitions": [*first, *rules]}
    return FabricSpec.model_validate(tree)


RESTART = {"when": {"kind": "outcome_is", "outcome": "fail"}, "then": {"kind": "agent", "agent": "router"}}


@pytest.mark.parametrize("tier", T)
@pytest.mark.parametrize(
    ("topology", "reactions"),
    [
        ({"retry_target": "front-office"}, ["go_back"]),
        ({"retry_target": "router", "max_visits": {"router": 1}, "fallback_retry_target": "billing"}, ["go_back"]),
        ({"first": [{**RESTART, "restart": True}]}, ["route", "abort"]),
    ],
)
def test_a_first_turn_that_fails_goes_back_or_is_blocked_as_the_drills_expect(
    topology: dict[str, Any], reactions: list[str], tier: Tier
) -> None:
    spec, failure = led(**topology), F.NO_PROGRESS
    met, _ = equip_fabric(baseline.scripted_models(spec), failure)
    promised, _ = promised_by(met, failure, tier, "reject")
    assert promised is not None
    assert chain(walked(met, failure, tier)) == promised
    told = ["escalate" if one == "abort" and tier is T.HIGH_STAKES else one for one in reactions]
    assert [link.reaction for link in promised.links if link.what == "decided"] == told
    report = drill_told(spec, failure, tier).cell
    assert (report.verdict, report.expected) == ("pass", report.observed)
