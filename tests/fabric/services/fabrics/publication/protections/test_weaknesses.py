"""A protection that is off, or that no run can reach, is noted at publication; the defaults are noted nowhere."""

from __future__ import annotations

from typing import get_args

import pytest

from fabric.core.spec.policies.loop_limits import LOOP_NAMES, Detector, LoopDetector
from fabric.services.fabrics.publication.protections.weaknesses import NUMBERS, RULES, find_weaknesses
from fabric.services.fabrics.publication.rules import publication_warnings
from tests.fabric.core.fabrics import spec


def test_each_detector_has_its_words():
    assert set(LOOP_NAMES) == set(get_args(Detector))
    assert set(NUMBERS) <= set(LoopDetector.model_fields)


def test_the_defaults_are_noted_nowhere():
    assert list(find_weaknesses(spec())) == []
    assert list(find_weaknesses(spec(limits={"turns": 3}))) == [], "a short run weakens nothing"


@pytest.mark.parametrize(
    ("policy", "path", "said"),
    [
        (
            {"loop_detector": {"detectors": ["same_answer"]}},
            "loop_detector.detectors",
            "the same call with the same result",
        ),
        (
            {"loop_detector": {"consecutive_threshold": 150}},
            "loop_detector.consecutive_threshold",
            "above the 25 turns",
        ),
        ({"loop_detector": {"identical_threshold": 100}}, "loop_detector.identical_threshold", "above the 25 turns"),
        ({"progress": {"agent_turns": 100}}, "progress.agent_turns", "no standstill stops it"),
        ({"deadlock_monitor": {"similarity": 1.0}}, "deadlock_monitor.similarity", "exactly the same words"),
        ({"deadlock_monitor": {"brief_chars": 1000}}, "deadlock_monitor.brief_chars", "shorter briefs"),
        ({"cost_velocity": {"factor": 0}}, "cost_velocity.factor", "the rate of spending is not watched"),
        (
            {"cost_velocity": {"times_usual": 0}},
            "cost_velocity.times_usual",
            "the spending rate of a run is not watched",
        ),
        ({"tau": 0}, "tau", "however unsure its critic is"),
    ],
)
def test_what_is_weakened_is_noted_once(policy, path, said):
    ((found, sentence),) = find_weaknesses(spec(**policy))
    assert found == f"policy.{path}"
    assert said in sentence
    noted = [(problem.path, problem.sentence) for problem in publication_warnings(spec(**policy))]
    assert (found, sentence) in noted


def counting(threshold, **more):
    signal = {"names": ["identical_call"], "mode": "consecutive", "threshold": threshold}
    return list(find_weaknesses(spec(breakers=[{"scope": "agent", "signals": [signal]}], **more)))


def test_a_breaker_of_repeated_calls_says_where_the_loop_detector_comes_first():
    ((path, said),) = counting(3)
    assert (path, said.partition(":")[0]) == (
        "policy.breakers.0.signals.0.threshold",
        "counts only calls whose results differ",
    )
    ((_, said),) = counting(5)
    assert said == "is never reached: the loop detector stops an agent at 5 equal calls in a row"
    assert counting(2) == []
    assert counting(3, loop_detector={"preset": "flow"}) == []


@pytest.mark.parametrize(
    "policy",
    [
        {"loop_detector": {"preset": "flow"}},
        {"cost_velocity": {"times_usual": 0, "usd_micros_per_minute": 1_000}},
        {"limits": {"turns": 200}, "loop_detector": {"consecutive_threshold": 150}},
    ],
)
def test_another_rule_in_its_place_is_no_weakness(policy):
    assert list(find_weaknesses(spec(**policy))) == []


def test_without_a_critic_tau_decides_nothing():
    assert list(find_weaknesses(spec(roles=(), tau=0))) == []
    assert len(RULES) == 6
