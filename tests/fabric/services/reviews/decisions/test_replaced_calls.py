"""Answering a review about a call with another call: held to its own tool, one answer, and what follows."""

from __future__ import annotations

import pytest

from fabric.core.values.flow import RunState
from fabric.management.run_follower import Following
from fabric.selectors.reviews.answers import find_answer
from fabric.selectors.reviews.lookup import get_review, list_open_reviews
from fabric.selectors.runs.display.calls import ROWS
from fabric.selectors.runs.lookup import run_events
from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.reviews.decisions import decide_review
from tests.fabric.services.world import REPLACEABLE, ran

SUM = {"expression": "2 * 45"}


@pytest.fixture
def item(actor):
    (found,) = list_open_reviews(
        actor, ran(actor, fabric_publish(actor=actor, source=REPLACEABLE).name, documents=()).id
    )
    assert (found.content["tool"], found.content["takes_tools"]) == ("pay", ["calculator"])
    return found


@pytest.fixture
def decide(store, nudge, actor, item):
    def decided(verb, **changes):
        asked = {
            "store": store,
            "nudge": nudge,
            "actor": actor,
            "review_id": item.id,
            "digest": item.digest,
            "verb": verb,
        }
        return decide_review(**asked, **changes)

    return decided


def test_another_tool_is_called_and_the_answer_says_which(decide, actor, item):
    assert decide("edit", tool="calculator", edited=SUM, message="Only count.").created
    assert decide("edit", tool="calculator", edited=SUM, message="Only count.").created is False
    assert Following(actor, item.run_id, answered=frozenset({item.id})).to_rest().state is RunState.COMPLETED
    rows = [row for row in run_events(actor, item.run_id, limit=500) if row.kind in ("call_edited", "call_issued")]
    sent = [row.fact for row in rows if row.kind == "call_issued" and row.fact["call"] == "tool"]
    assert [fact["target"] for fact in sent] == ["calculator"]
    (edited,) = [row.fact for row in rows if row.kind == "call_edited"]
    assert (edited["tool"], edited["proposed_tool"]) == ("calculator", "pay")
    assert ROWS["call_edited"].parts(edited).sentence == "owner had calculator called in place of pay"
    answer = find_answer(get_review(actor, item.id))
    assert answer is not None
    assert (answer.tool, answer.edited) == ("calculator", SUM)


@pytest.mark.parametrize(
    ("verb", "changes", "field", "said"),
    [
        ("edit", {"tool": "teleport", "edited": {}}, "tool", "'teleport' may not be called in place of this one; there are: calculator"),
        ("approve", {"tool": "calculator"}, "tool", "another tool goes with the edit of a call"),
        ("edit", {"tool": "calculator", "edited": {"to": "Ana", "usd": 4}}, "edited", "the arguments do not fit"),
        ("edit", {"tool": "calculator"}, "edited", "a JSON object is wanted"),
        ("edit", {"tool": "pay", "edited": {"to": "Ana", "usd": 400}}, "edited", "400 is greater than the maximum"),
    ],
)  # fmt: skip
def test_what_cannot_be_called_is_refused_at_once(decide, verb, changes, field, said):
    with pytest.raises(Refused) as caught:
        decide(verb, **changes)
    assert (caught.value.code, caught.value.field) == ("invalid", field)
    assert said in caught.value.message


def test_another_tool_is_another_answer(decide):
    decide("edit", tool="calculator", edited=SUM, undo_s=30)
    with pytest.raises(Refused) as caught:
        decide("edit", edited={"to": "Ana", "usd": 40})
    assert caught.value.code == "conflict"


def test_where_there_is_no_other_tool_none_is_taken(store, nudge, actor, paying):
    (item,) = list_open_reviews(actor, ran(actor, paying, documents=()).id)
    assert "takes_tools" not in item.content
    with pytest.raises(Refused, match="takes none"):
        decide_review(
            store=store,
            nudge=nudge,
            actor=actor,
            review_id=item.id,
            digest=item.digest,
            verb="edit",
            tool="calculator",
            edited=SUM,
        )
