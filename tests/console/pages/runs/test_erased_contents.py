"""A run whose contents were erased: every page and every answer of the API still stands, says so, and shows nothing of them."""

import asyncio

import pytest
from django.urls import reverse

from console.pages.runs.panels import ALONE
from fabric.composition import engine as wiring
from fabric.management.run_follower import Following
from fabric.models import Event, Review
from fabric.runtime.ports.journal import Document
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.services.installation.retention import retention_apply, retention_set
from fabric.services.people.tokens import token_create
from fabric.services.reviews.decisions import decide_review
from tests.fabric.services.world import HeardNudge, ran

WORD = "Quetzalcoatl"
GONE = "removed by retention"


@pytest.fixture
def run(actor, doubtful):
    """A run with documents, an answered review and an outcome, erased."""
    asked = ran(actor, doubtful, f"What does {WORD} say?", (Document("notes.md", f"{WORD} says nothing."),))
    (item,) = list_open_reviews(actor, asked.id)
    decide_review(
        store=wiring.store(),
        nudge=HeardNudge(),
        actor=actor,
        review_id=item.id,
        digest=item.digest,
        verb="approve",
        message=WORD,
    )
    done = Following(actor, asked.id, wait=True).to_rest()
    assert done.state == "completed"
    retention_set(actor=actor, days=1)
    assert retention_apply(now=2**62)
    return done


def read(browser, path, code=200):
    answer = browser.get(path)
    assert answer.status_code == code, (path, answer.status_code)
    text = answer.content.decode()
    assert WORD not in text, path
    return text


def iterated(answer):
    """The pieces of an answer that is streamed by a coroutine."""

    async def all_of():
        return [piece async for piece in answer.streaming_content]

    return asyncio.run(all_of())


def test_the_run_page(browser, run):
    page = reverse("run", args=[run.id])
    for view in ("timeline", "graph", "events", "protections", "cost", "io"):
        read(browser, f"{page}?view={view}")
    for part in ALONE:
        read(browser, f"{page}?part={part}")
    assert GONE in read(browser, page)
    shown = read(browser, f"{page}?view=io")
    assert shown.count(GONE) == 3, "the request, the document and the outcome"


def test_every_event(browser, run):
    rows = dict(Event.objects.filter(run_id=run.id).values_list("seq", "payload_hash"))
    for seq, payload_hash in rows.items():
        shown = read(browser, reverse("run-event", args=[run.id, seq]))
        assert ("erased" in shown) == bool(payload_hash), seq
        read(browser, reverse("run-event-json", args=[run.id, seq]), code=404)


def test_the_downloads(browser, run):
    rows = Event.objects.filter(run_id=run.id).count()
    for form, count in (("journal", rows), ("readable", run.last_seq)):
        answer = browser.get(f"{reverse('run-events-download', args=[run.id])}?form={form}")
        lines = "".join(piece.decode() for piece in map(bytes, iterated(answer)))
        assert lines.count("\n") == count
        assert WORD not in lines
    assert '"content_erased": true' in lines


def test_lists_reviews_and_search(browser, run):
    item = Review.objects.get(run_id=run.id)
    for path in (
        *(reverse("runs"), reverse("reviews"), reverse("overview"), f"{reverse('search')}?q=erased"),
        reverse("run-review", args=[run.id]),
        *(f"{reverse('search')}?q={run.id}", f"{reverse('search')}?q={item.id}"),
    ):
        read(browser, path)
    assert "(erased)" in read(browser, reverse("runs"))


def test_one_like_this_begins_empty(browser, run):
    shown = read(browser, f"{reverse('start')}?from={run.id}")
    assert "(erased)" not in shown
    assert "notes.md" not in shown


def test_its_documents_are_not_taken_along(browser, run, small):
    asked = {"fabric": small, "text": "Again", "documents_of": run.id, "start_key": "once"}
    answer = browser.post(reverse("start"), asked)
    assert answer.status_code == 409
    assert "are no longer kept; attach them again" in answer.content.decode()


def test_the_api(browser, actor, run):
    secret = token_create(actor=actor, name="ci", scopes=["read"]).secret
    item = Review.objects.get(run_id=run.id)
    for path in (f"runs/{run.id}", "runs", f"runs/{run.id}/events", "reviews", f"reviews/{item.id}"):
        answer = browser.get(f"/api/v1/{path}", headers={"Authorization": f"Bearer {secret}"})
        assert answer.status_code == 200, path
        assert WORD not in answer.content.decode(), path
