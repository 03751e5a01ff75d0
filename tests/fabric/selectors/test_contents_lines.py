"""Lines that may quote a content, where no crawl over addresses leads: each is withheld from who looks on, and its facts are not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.test import Client

from fabric.core.values.taxonomy import FailureType, Tier
from fabric.models import Run
from fabric.selectors.contents import UNREAD_LINE
from fabric.selectors.overview.success_cost import fabric_activities
from fabric.selectors.reviews.history import not_its_digest
from fabric.selectors.reviews.lookup import get_review, list_open_reviews
from fabric.selectors.reviews.queue import QueueFilter, Tab, queue_page
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.reviews.decisions import decide_review
from fabric.services.reviews.follow_ups import close_follow_up
from simulator.scenarios.baseline import work as baseline
from tests.fabric.services.reviews.test_named_digests import TWICE, driven_until
from tests.fabric.services.world import GIVEN_UP, ran
from tests.people import fresh, member, signed_in, token_of
from tests.simulator.drills.drilled import drilled
from tests.simulator.drills.test_history_preview import HALTS, preview, published, with_cell
from tests.simulator.drills.test_history_preview import ran as failed

CELL = (FailureType.PROVIDER, Tier.BATCH)


@pytest.fixture
def viewer(actor):
    return fresh(member("ben", "viewer"))


def test_the_preview_of_a_change_says_what_would_differ_and_no_failure_s_message(actor, viewer):
    spec = published(actor, baseline.scripted_models(drilled(lead=True)))
    failed(actor, spec, (CELL,))
    changed = with_cell(spec, CELL, HALTS)
    read, looked_on = (preview(one, spec, changed) for one in (actor, viewer))
    assert all(one.message not in ("", UNREAD_LINE) for one in read.listed)
    assert len(looked_on.listed) == len(read.listed) > 0
    for told, same in zip(looked_on.listed, read.listed, strict=True):
        assert told == replace(same, message=UNREAD_LINE)


def test_the_last_run_of_a_fabric_is_listed_without_why_it_ended(actor, viewer):
    run = ran(actor, fabric_publish(actor=actor, source=GIVEN_UP).name)
    assert run.reason
    fabric_id = Run.objects.get(id=run.id).fabric_id
    read, looked_on = (fabric_activities(one, run.created_at).find_activity(fabric_id).last for one in (actor, viewer))
    assert (read.id, read.reason) == (run.id, run.reason)
    assert looked_on == replace(read, reason=UNREAD_LINE)


def test_what_differs_from_an_old_digest_is_said_to_who_may_read_it(actor, viewer, store, nudge):
    name = fabric_publish(actor=actor, source=TWICE).name
    member("ana", "owner", "reviewer")
    run = ran(replace(actor, name="cleo"), name, documents=())
    (item,) = list_open_reviews(actor, run.id)
    ana = replace(actor, name="ana")
    proposed = {"review_id": item.id, "verb": "edit", "digest": item.digest, "message": "So."}
    decide_review(store=store, nudge=nudge, actor=ana, edited={"to": "Bob", "usd": 5}, **proposed)
    driven_until(run.id, lambda: get_review(actor, item.id).digest != item.digest)
    read, looked_on = (not_its_digest(get_review(one, item.id), item.digest) for one in (actor, viewer))
    assert 'to was "Ana", is "Bob"' in read
    assert "asks about something else by now" in looked_on
    assert looked_on.endswith("nothing that can be shown differs)")


def test_a_follow_up_s_note_is_for_who_may_read_its_run(actor, viewer):
    ran(actor, fabric_publish(actor=actor, source=GIVEN_UP).name)
    (row,) = queue_page(actor, Tab.FOLLOW_UPS, QueueFilter()).rows
    close_follow_up(actor=actor, review_id=row.review.id, note="The request was to pay Ana.")
    shown = {}
    for name, role in (("rae", "reader"), ("vic", "viewer")):
        user = member(name, role)
        page = signed_in(user).get(f"/reviews/{row.review.id}").content.decode()
        program = Client(HTTP_HOST="127.0.0.1", HTTP_AUTHORIZATION=f"Bearer {token_of(user, name)}")
        told = program.get(f"/api/v1/reviews/{row.review.id}").json()
        shown[name] = ("pay Ana" in page, told["closure"]["note"])
    assert shown == {"rae": (True, "The request was to pay Ana."), "vic": (False, UNREAD_LINE)}
