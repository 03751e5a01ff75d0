"""The story of a drill: what its page draws, out of the journals of its runs."""

from __future__ import annotations

import json
import re
from itertools import pairwise

from fabric.core.values.taxonomy import FailureType, Tier
from simulator.scenarios.play.cells import DrilledCell, drill_told
from simulator.scenarios.stories import story
from simulator.scenarios.stories.story import build_story
from tests.simulator.drills.drilled import behind_breaker, drilled

FAST, BATCH, HIGH = Tier.INTERACTIVE, Tier.BATCH, Tier.HIGH_STAKES


def told(failure: FailureType, tier: Tier, spec=None) -> DrilledCell:
    return drill_told(spec or drilled(), failure, tier)


def disturbed(failure: FailureType, tier: Tier, spec=None):
    found = told(failure, tier, spec)
    return build_story(found.world, found.before)["disturbed"]


def evidence(failure: FailureType, tier: Tier) -> list[tuple[str, str]]:
    return [(one["reaction"], one["evidence"]) for one in disturbed(failure, tier)["decisions"]]


def test_the_undisturbed_run_is_a_ghost_of_stages_that_ends_where_its_last_one_does():
    found = told(FailureType.PROVIDER, FAST)
    ghost = build_story(found.world, found.before)["undisturbed"]
    assert [one["stage"] for one in ghost["stages"]] == ["plan", "fan_out", "fan_in", "validate", "finalize"]
    assert ghost["state"] == "completed"
    assert ghost["stages"][-1]["end_s"] == ghost["total_s"] > 0
    assert "decisions" not in ghost
    assert {one["kind"] for one in ghost["segments"]} == {"model"}


def test_failed_attempts_and_back_offs_follow_each_other_to_the_end():
    seen = disturbed(FailureType.PROVIDER, FAST)
    kinds = [one["kind"] for one in seen["segments"] if one["kind"] in ("failed", "backoff")]
    assert kinds == ["failed", "backoff", "failed", "backoff", "failed"]
    at_work = [one for one in seen["segments"] if one["kind"] in ("failed", "backoff")]
    assert all(one["end_s"] <= other["start_s"] for one, other in pairwise(at_work))
    assert at_work[-1]["end_s"] <= seen["total_s"]


def test_a_decision_names_its_rung_its_use_and_the_numbers_that_it_rests_on():
    seen = disturbed(FailureType.PROVIDER, FAST)["decisions"]
    assert [(one["what"], one["reaction"], one["rung"], one["use"], one["bound"]) for one in seen] == [
        ("decided", "retry", 0, 1, 2),
        ("decided", "retry", 0, 2, 2),
        ("skipped", "fallback_model", 1, None, None),
        ("skipped", "wait_for_breaker", 2, None, None),
        ("decided", "surface", 3, 1, None),
    ]
    assert re.fullmatch(
        r"503, attempt 1; scheduled attempt 2 in \d+ ms \(9\.0 retries left\): backoff with full jitter",
        seen[0]["evidence"],
    )
    assert {one["row"] for one in seen} == {"provider_failure"}
    assert sorted(one["seq"] for one in seen) == [one["seq"] for one in seen]


def test_evidence_of_each_row_has_its_numbers():
    assert evidence(FailureType.TOOL_LOOP, FAST)[0] == ("inject", "same call 3 of last 5: lookup")
    assert evidence(FailureType.DEADLOCK, FAST) == [("abort", "planner -> one, brief repeated 2 of 2 times")]
    assert evidence(FailureType.COST_OVERRUN, FAST)[0][1].endswith(" of $1.0000 spent")
    assert evidence(FailureType.NO_PROGRESS, FAST) == [("terminate", "6 of 6 turns came to the same")]
    assert evidence(FailureType.SCHEMA_GROUNDING, FAST)[0][1] == "citations: no document is named 'missing.md'"
    assert evidence(FailureType.PLAN_MALFORMED, BATCH)[0][1].endswith("; began replan 1")
    assert evidence(FailureType.PLAN_MALFORMED, BATCH)[-1][1].endswith("; 3 times, 3 end it")
    assert evidence(FailureType.UNSAFE_OUTPUT, FAST)[0][1].startswith("content filter (400), attempt 1")


def test_a_review_is_a_wait_with_its_due_time_and_its_answer():
    seen = disturbed(FailureType.DEADLOCK, HIGH)
    (wait,) = [one for one in seen["segments"] if one["kind"] == "human"]
    assert wait["start_s"] < wait["end_s"] < wait["due_s"]
    assert "asked reviewer; rejected the review after" in seen["decisions"][0]["evidence"]


def test_a_wait_for_a_breaker_is_no_back_off_and_its_state_is_told():
    seen = disturbed(FailureType.PROVIDER, BATCH, behind_breaker(5))
    waits = [one for one in seen["segments"] if one["kind"] == "breaker"]
    assert len(waits) == 2
    assert all(one["end_s"] - one["start_s"] > 100 for one in waits)
    told_so = [one["evidence"] for one in seen["decisions"] if one["reaction"] == "wait_for_breaker"]
    assert all(one.endswith(": its circuit breaker is open") for one in told_so)
    assert [one["breaker"] for one in seen["moments"]].count("half_open") > 0
    assert seen["moments"][-1]["breaker"] == "open"


def test_moments_go_on_in_time_and_add_up():
    seen = disturbed(FailureType.PROVIDER, BATCH)["moments"]
    assert [one["at_s"] for one in seen] == sorted(one["at_s"] for one in seen)
    assert (seen[0]["kind"], seen[-1]["kind"]) == ("run_started", "run_ended")
    assert seen[-1]["retries"] == 5
    assert seen[-1]["tokens_left"] == 5.0
    assert [one["spent_usd_micros"] for one in seen] == sorted(one["spent_usd_micros"] for one in seen)
    assert {one["stage"] for one in seen[1:]} == {"plan", "fan_out", "fan_in", "validate", "finalize"}


def test_what_is_too_much_is_left_out_of_the_middle_and_counted(monkeypatch):
    whole = disturbed(FailureType.PROVIDER, BATCH)
    monkeypatch.setattr(story, "MOMENTS_MAX", 10)
    seen = disturbed(FailureType.PROVIDER, BATCH)
    assert seen["moments"] == [*whole["moments"][:5], *whole["moments"][-5:]]
    assert seen["folded"] == {"moments": len(whole["moments"]) - 10}
    assert whole["folded"] == {}


def test_a_story_is_json_of_a_bounded_size():
    found = told(FailureType.NO_PROGRESS, BATCH)
    assert len(json.dumps(build_story(found.world, found.before))) < 60_000


def test_without_a_world_there_is_no_story_of_it():
    found = told(FailureType.PROVIDER, FAST)
    assert set(build_story(None, found.before)) == {"undisturbed"}
    assert build_story(None, None) == {}
