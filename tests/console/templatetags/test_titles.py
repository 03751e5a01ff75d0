"""The title of a review names its matter first; without one that is known, the engine's reason is the title."""

from __future__ import annotations

from typing import get_args

import pytest

from console.templatetags.titles import EFFECTS, OUT_OF_TIME, failure_name, review_title
from fabric.core.spec.tools import ToolSpec
from fabric.core.values.taxonomy import Cause
from fabric.selectors.reviews.needed_caps import find_cap_need
from fabric.selectors.reviews.review_view import ReviewView

OVERRUN = {
    "cause": "budget_gate",
    "unit": "usd_micros",
    "limit": 900_000,
    "observed": 1_542_961,
    "details": {"worst_case": 40_000},
    "needs_cap": {"scope": "run", "unit": "usd_micros", "cap": 900_000},
    "cap_usd_micros": 900_000,
}


def review(item, given, reason="the engine's reason", **more):
    texts = ("id", "workspace_id", "run_id", "run_title", "run_state", "fabric_name", "revision_id", "step_id")
    named = {
        "tier": "batch",
        "failure_type": "",
        "stage": "finalize",
        "required_role": "",
        "verb": "",
        "decided_by": "",
    }
    rest = {"verbs": (), "digest": "d", "opened_at": 1, "due_at": 2, "decided_at": None, "by_system": False}
    return ReviewView(
        **{**dict.fromkeys(texts, "x"), **named, **rest, "item": item, "reason": reason, "given": given, **more}
    )


def pays(**more):
    return {"tool": "pay_now", "effect": "irreversible", "payload": {"to": "Ana", "usd": 90, "lines": [1]}, **more}


@pytest.mark.parametrize(
    ("found", "title"),
    [
        (review("pre_action", pays()), "Pay now (to Ana, usd 90): cannot be undone"),
        (review("pre_action", pays(effect="mutating", payload={})), "Pay now: changes the world"),
        (review("pre_action", pays(payload={"note": "x" * 50})), f"Pay now (note {'x' * 31}…): cannot be undone"),
        (review("pre_action", pays(payload={"to": "a\u202eb"})), "Pay now (to a⟨U+202E⟩b): cannot be undone"),
        (review("pre_action", pays(instructed={"tool": "find"})), "The engine's reason"),
        (review("pre_action", pays(), reads=False), "The engine's reason"),
        (review("compensation", pays()), "The engine's reason"),
        (review("post_stage", {}, score=0.549, tau=0.7), "Result of finalize scored 0.55, needs 0.70"),
        (review("post_stage", {}), "The engine's reason"),
        (review("failure", OVERRUN), "Spent $1.502961 of $0.90; the next call needs up to $0.04"),
        (
            review(
                "failure",
                {
                    **OVERRUN,
                    "unit": "tokens",
                    "limit": 1_100,
                    "observed": 1_500,
                    "details": {"worst_case": 400},
                    "needs_cap": {"scope": "stage:plan", "unit": "tokens", "cap": 1_100},
                },
            ),
            "Spent 1,100 tokens of 1,100 tokens by stage plan; the next call needs up to 400 tokens",
        ),
        (review("failure", {**OVERRUN, "needs_cap": None}), "The engine's reason"),
        (review("failure", {}), "The engine's reason"),
    ],
)
def test_titles(found, title):
    assert review_title(found) == title


def test_each_effect_has_words():
    assert set(EFFECTS) == set(get_args(ToolSpec.model_fields["effect"].annotation))


@pytest.mark.parametrize("cause", sorted(OUT_OF_TIME))
def test_a_passed_deadline_is_no_cost(cause):
    assert failure_name(review("failure", {"cause": cause}, failure_type="cost_overrun")) == "ran out of time"


def test_a_cost_stays_a_cost():
    found = review("failure", {"cause": Cause.BUDGET_GATE}, failure_type="cost_overrun")
    assert failure_name(found) == "cost overrun"


@pytest.mark.parametrize(
    ("observed", "least", "suggested"), [(1_542_961, 1_542_961, 2_000_000), (99, 99, 130), (1, 1, 1)]
)
def test_the_suggested_cap_carries_the_next_call(observed, least, suggested):
    need = find_cap_need(review("failure", {**OVERRUN, "observed": observed, "details": {"worst_case": 1}}))
    assert (need.least, need.suggested) == (least, suggested)
    assert need.problem(suggested) == ""
    assert "does not carry the next call" in need.problem(least - 1)
