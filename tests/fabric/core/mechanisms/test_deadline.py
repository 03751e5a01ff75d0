"""min of call, stage and run; and no attempt that could not finish (docs/specification/protections.md)."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.mechanisms import deadline
from fabric.core.spec.policies.limits import DEADLINES
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import PASS, Cause, Tier
from tests.fabric.core.fabrics import proposal, view
from tests.fabric.core.mechanisms.facts import at, entered

S = 1_000_000


def check(*, run_s=300.0, stage_s=120.0, now_s=0.0, **fields):
    state = deadline.State(int(run_s * S), int(stage_s * S))
    given = {"kind": "model", "timeout_s": 30.0, **fields}
    return deadline.check(deadline.Config(), state, proposal(**given), view(now=int(now_s * S)))


def test_the_defaults_of_the_tiers():
    values = {tier: (d.call_s, d.stage_s, d.run_s) for tier, d in DEADLINES.items()}
    assert values == {
        Tier.INTERACTIVE: (30, 2 * 60, 5 * 60),
        Tier.BATCH: (120, 3_600, 24 * 3_600),
        Tier.HIGH_STAKES: (60, 10 * 60, 3_600),
    }


@pytest.mark.parametrize(
    ("timeout", "margin"),
    [(120, 12), (60, 6), (30, 3), (20, 2), (5, 2), (2, 2), (1.5, 1.5), (0.1, 0.1)],
)
def test_the_margin_is_min_of_own_value_and_max_of_2_s_and_a_tenth(timeout, margin):
    assert deadline.margin_s(timeout) == pytest.approx(margin)


def test_exactly_the_margin_is_enough_and_a_microsecond_less_is_not():
    assert check(stage_s=120, now_s=117) is PASS
    verdict = check(stage_s=120, now_s=117.000001)
    assert verdict.cause is Cause.DEADLINE_NEAR
    assert (verdict.evidence.limit, verdict.evidence.scope) == (3.0, "stage:fan_out")
    assert verdict.evidence.observed == 2.999
    assert (
        verdict.message
        == "an attempt needs 3.0 s, and 2.9 s were left before the deadline of stage fan-out at 1970-01-01 00:02:00 UTC"
    )


def test_the_nearer_of_stage_and_run_counts():
    assert check(run_s=100, stage_s=100, now_s=98).evidence.scope == "run"
    assert check(run_s=300, stage_s=100, now_s=98).evidence.scope == "stage:fan_out"


@pytest.mark.parametrize(("run_s", "cause"), [(300, Cause.STAGE_DEADLINE), (100, Cause.RUN_DEADLINE)])
def test_what_is_over_is_over(run_s, cause):
    for now in (100, 100.5, 10_000):
        assert check(run_s=run_s, stage_s=100, now_s=now).cause is cause


def test_a_call_without_a_value_of_its_own_still_ends_with_its_stage():
    assert check(stage_s=100, now_s=99.9, timeout_s=0.0) is PASS
    assert check(stage_s=100, now_s=100, timeout_s=0.0).cause is Cause.STAGE_DEADLINE


def test_a_retry_is_judged_at_the_instant_it_would_start():
    assert check(kind="retry", now_s=100, delay_s=17) is PASS
    assert check(kind="retry", now_s=100, delay_s=17.5).cause is Cause.DEADLINE_NEAR
    assert check(kind="retry", now_s=100, delay_s=60).cause is Cause.DEADLINE_NEAR


def test_a_short_tool_may_start_where_a_model_call_may_not():
    assert check(kind="tool", timeout_s=1.0, stage_s=120, now_s=118) is PASS
    assert check(kind="model", timeout_s=30.0, stage_s=120, now_s=118).cause is Cause.DEADLINE_NEAR


def test_the_instants_come_from_the_facts_that_fix_them():
    started = ev.RunStarted(fabric="f", revision="r", tier=Tier.BATCH, deadline_at=900, seed=1)
    state = deadline.observe(deadline.State(), at(started))
    state = deadline.observe(state, at(entered(Stage.PLAN, deadline_at=100)))
    assert state == deadline.State(900, 100)
    state = deadline.observe(state, at(entered(Stage.FAN_OUT, deadline_at=200)))
    assert state == deadline.State(900, 200)
    again = ev.DeadlinesReissued(run_deadline_at=1_900, stage_deadline_at=1_200)
    assert deadline.observe(state, at(again)) == deadline.State(1_900, 1_200)
