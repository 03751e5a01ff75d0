"""Finance names a new cap: over the service, and what it is refused for."""

from __future__ import annotations

import re

import pytest

from fabric.core.spec.policies.budgets import NamedCap
from fabric.core.values.flow import RunState
from fabric.management.run_follower import Following
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.runs.lookup import run_events
from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.reviews.decisions import decide_review
from tests.fabric.services.world import COSTLY, CROWDED, DOUBTFUL, ran


def asked_by(actor, source):
    (found,) = list_open_reviews(actor, ran(actor, fabric_publish(actor=actor, source=source).name).id)
    return found


@pytest.fixture
def item(actor):
    found = asked_by(actor, COSTLY)
    assert (found.required_role, found.content["takes_cap"], found.content["cap_usd_micros"]) == ("finance", True, 100)
    return found


@pytest.fixture
def decide(store, nudge, actor):
    def decided(item, verb="approve", **changes):
        asked = {
            "store": store,
            "nudge": nudge,
            "actor": actor,
            "review_id": item.id,
            "digest": item.digest,
            "verb": verb,
        }
        return decide_review(**asked, **{"message": "It is worth that.", **changes})

    return decided


def test_the_run_goes_on_with_more_money(decide, actor, item):
    assert decide(item, cap_usd_micros=1_000_000).created
    assert decide(item, cap_usd_micros=1_000_000).created is False
    with pytest.raises(Refused, match="was answered by owner"):
        decide(item, cap_usd_micros=2_000_000)
    run = Following(actor, item.run_id, answered=frozenset({item.id})).to_rest()
    assert run.state is RunState.COMPLETED
    (raised,) = [row.fact for row in run_events(actor, item.run_id, limit=500) if row.kind == "cap_raised"]
    assert (raised["cap_usd_micros"], raised["before_usd_micros"], raised["actor"]) == (1_000_000, 100, "owner")


def test_an_approval_that_names_no_cap_is_refused(decide, item):
    with pytest.raises(
        Refused, match="the run has spent its budget of .0.0001: name a higher cap with the approval"
    ) as refused:
        decide(item)
    assert (refused.value.code, refused.value.field) == ("invalid", "cap_usd_micros")


@pytest.mark.parametrize(
    ("cap", "said"),
    [
        (1, "is not above the present one of $0.0001"),
        (100, "is not above the present one of $0.0001"),
        (101, "the new cap of the run, $0.000101, does not carry the next call: it needs $"),
        (5_000_001, "is above the $5.00 that its session may spend"),
    ],
)
def test_too_little_and_more_than_the_session_has(decide, item, cap, said):
    with pytest.raises(Refused, match=re.escape(said)) as caught:
        decide(item, cap_usd_micros=cap)
    assert (caught.value.code, caught.value.field) == ("invalid", "cap_usd_micros")


def test_other_answers_and_reviews_take_none(decide, actor, item):
    with pytest.raises(Refused, match="a new cap goes with the approval"):
        decide(item, "reject", message="no", cap_usd_micros=1_000_000)
    with pytest.raises(Refused, match="takes none"):
        decide(asked_by(actor, DOUBTFUL), cap_usd_micros=1_000_000)


# -- stages, agents, tokens ------------------------------------------------------------------------------------------

STAGE, AGENT = NamedCap("stage:plan", "tokens", 50_000), NamedCap("agent:planner", "tokens", 40_000)


@pytest.fixture
def crowded(actor):
    return asked_by(actor, CROWDED)


def test_finance_raises_the_tokens_of_a_stage_and_an_agent(decide, actor, crowded):
    offered = [(one["scope"], one["unit"], one["cap"]) for one in crowded.content["takes_caps"]]
    assert offered == [("stage:plan", "tokens", 1_100), ("agent:planner", "tokens", 1_090)]
    assert decide(crowded, caps=[STAGE, AGENT]).created
    assert decide(crowded, caps=[STAGE, AGENT]).created is False
    with pytest.raises(Refused, match="was answered by owner"):
        decide(crowded, caps=[STAGE])
    Following(actor, crowded.run_id, answered=frozenset({crowded.id})).to_rest()
    raised = [row.fact for row in run_events(actor, crowded.run_id, limit=500) if row.kind == "budget_raised"]
    assert [(one["scope"], one["unit"], one["before"], one["cap"], one["actor"]) for one in raised] == [
        ("stage:plan", "tokens", 1_100, 50_000, "owner"),
        ("agent:planner", "tokens", 1_090, 40_000, "owner"),
    ]
    asked_next = list_open_reviews(actor, crowded.run_id)
    assert [one.content["takes_caps"][0]["scope"] for one in asked_next] == ["stage:fan_out"]


@pytest.mark.parametrize(
    ("caps", "said"),
    [
        (
            [NamedCap("stage:plan", "tokens", 1_100)],
            "stage plan, 1,100 tokens, is not above the present one of 1,100 tokens",
        ),
        ([NamedCap("stage:fan_out", "tokens", 900)], "there is no cap of stage fan_out in tokens"),
        ([STAGE, STAGE], "a cap is named twice"),
    ],
)
def test_what_cannot_be_raised_is_said(decide, crowded, caps, said):
    with pytest.raises(Refused, match=said) as caught:
        decide(crowded, caps=caps)
    assert (caught.value.code, caught.value.field) == ("invalid", "caps")


def test_a_run_is_given_no_more_tokens_than_its_session_may_use(decide, actor):
    tight = CROWDED.replace("stage_tokens: 1100, agent_tokens: 1090", "run_tokens: 1090, session_tokens: 2000")
    with pytest.raises(Refused, match="2,001 tokens, is above the 2,000 tokens that its session may use") as caught:
        decide(asked_by(actor, tight), caps=[NamedCap("run", "tokens", 2_001)])
    assert (caught.value.code, caught.value.field) == ("invalid", "caps")


def test_a_rejection_and_another_review_take_none_of_them(decide, actor, crowded):
    with pytest.raises(Refused, match="a new cap goes with the approval"):
        decide(crowded, "reject", message="no", caps=[STAGE])
    with pytest.raises(Refused, match="takes none"):
        decide(asked_by(actor, DOUBTFUL), caps=[STAGE])
