"""At or above tau passes (docs/specification/stages.md)."""

from __future__ import annotations

import pytest

from fabric.core.mechanisms import escalation
from fabric.core.spec.policies.flow_policy import FlowPolicy
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import PASS, Cause
from tests.fabric.core.fabrics import proposal, view


def check(score, tau=0.7):
    judged = proposal(kind="output", stage=Stage.VALIDATE, score=score)
    return escalation.check(escalation.Config(tau), escalation.State(), judged, view())


def test_tau_is_point_seven():
    policy = FlowPolicy.model_validate({"budget": {"run_usd_micros": 1}})
    assert escalation.config(policy) == escalation.Config(0.7)


@pytest.mark.parametrize("score", [0.7, 0.70001, 1.0])
def test_at_tau_passes(score):
    assert check(score) is PASS


@pytest.mark.parametrize("score", [0.0, 0.5, 0.69999])
def test_below_tau_trips_with_the_numbers(score):
    verdict = check(score)
    assert verdict.cause is Cause.BELOW_TAU
    assert (verdict.evidence.limit, verdict.evidence.observed, verdict.evidence.scope) == (0.7, score, "stage:validate")


def test_a_stage_without_a_score_has_no_confidence_check():
    assert check(None) is PASS


def test_a_tau_of_zero_asks_no_person_and_one_asks_about_everything_else():
    assert check(0.0, tau=0.0) is PASS
    assert check(0.999, tau=1.0) is not PASS
