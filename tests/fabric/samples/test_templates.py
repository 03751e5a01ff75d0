"""A run of each template comes to its end with nothing but what comes along."""

from __future__ import annotations

import pytest

from fabric.composition import engine as wiring
from fabric.core.people.actor import Actor
from fabric.core.values.flow import RunState
from fabric.management.base import providers
from fabric.management.run_follower import Following
from fabric.runtime.ports.journal import Document
from fabric.selectors.memories.lookup import memory_find
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.runs.lookup import RunView, run_events, run_outcome
from fabric.services.actors import find_people
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.fabrics.templates import TEMPLATES, template_begun, template_get
from fabric.services.installation import facts as here
from fabric.services.reviews.decisions import decide_review
from tests.fabric.services.world import NOTES, HeardNudge, ran

ASKED = "payment-approval"


def began(actor: Actor, template: str, documents: tuple[Document, ...] = (NOTES,)) -> RunView:
    """A run of a template as it stands, without its pauses, with its own example."""
    one, where = template_get(template), here.installation(providers(), people=find_people(actor.workspace_id))
    text = template_begun(one, where, name=template).text.replace("delay_s: 0.3", "delay_s: 0")
    fabric_publish(actor=actor, source=text, providers=providers())
    return ran(actor, template, one.spec.example, documents)


@pytest.mark.parametrize("name", [one for one in TEMPLATES if one != ASKED])
def test_a_template_answers(actor: Actor, name: str) -> None:
    run = began(actor, name)
    assert (run.state, run.reason) == (RunState.COMPLETED, "finished")
    outcome = run_outcome(actor, run.id)
    assert outcome is not None
    assert outcome["text"]


def test_an_extracted_record_is_kept(actor: Actor) -> None:
    began(actor, "extraction")
    found = memory_find(actor, "extraction", "records", "invoice/2026-104")
    assert found.value == {"number": "2026-104", "date": "2026-03-31", "supplier": "Acme", "total_cents": 129900}


@pytest.mark.parametrize(
    ("verb", "state"), [("approve", RunState.COMPLETED), ("reject", RunState.ABORTED)], ids=["approved", "rejected"]
)
def test_nothing_is_paid_without_approval(actor: Actor, verb: str, state: RunState) -> None:
    run = began(actor, ASKED, ())
    answered: frozenset[str] = frozenset()
    while run.state is RunState.WAITING:
        (review,) = [one for one in list_open_reviews(actor, run.id) if one.id not in answered]
        decide_review(
            store=wiring.store(), nudge=HeardNudge(), actor=actor, review_id=review.id, digest=review.digest, verb=verb, message="looked at"
        )  # fmt: skip
        answered |= {review.id}
        run = Following(actor, run.id, answered=answered).to_rest()
    assert (run.state, len(answered) > 0) == (state, True)
    events = run_events(actor, run.id)
    answered_tools = {one.fact["tool"] for one in events if one.kind == "tool_answered"}
    undone = [one.kind for one in events if one.kind == "compensation_answered"]
    assert ("pay" in answered_tools, len(undone)) == ((True, 0) if verb == "approve" else (False, 1))
