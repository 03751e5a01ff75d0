"""The card of a failed call: another model, named by a ticked box, taken back, refused with a sentence."""

from __future__ import annotations

import html
import re

import pytest

from fabric.management.run_follower import Following
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.services.fabrics.revisions import fabric_publish
from tests.fabric.services.world import DOUBTFUL, SPARED_STRICT, ran


@pytest.fixture
def review(actor):
    """One that has nothing to do with a model."""
    (found,) = list_open_reviews(actor, ran(actor, fabric_publish(actor=actor, source=DOUBTFUL).name).id)
    return found


@pytest.fixture
def failed_call(actor):
    (found,) = list_open_reviews(actor, ran(actor, fabric_publish(actor=actor, source=SPARED_STRICT).name).id)
    return found


def named(browser, review, model, verb="approve", **more):
    data = {"verb": verb, "digest": review.digest, "model": model, "message": "Yes.", **more}
    return browser.post(f"/reviews/{review.id}/decision", data, headers={"HX-Request": "true"})


def test_the_review_of_a_failed_call_offers_the_other_model_and_no_other_does(browser, failed_call, review):
    page = html.unescape(browser.get(f"/reviews/{failed_call.id}").content.decode())
    assert '<input type="checkbox" name="model" value="spare"' in page
    assert "Unticked: script is called again." in page
    assert re.search(r"At worst the call costs \$[\d.]+ more", page)
    assert 'name="model"' not in browser.get(f"/reviews/{review.id}").content.decode()


def test_the_other_model_is_named_taken_back_and_stands_ticked(browser, actor, failed_call):
    named(browser, failed_call, "spare")
    assert "Answered by <b>spare</b>" in browser.get(f"/reviews/{failed_call.id}").content.decode()
    back = browser.post(f"/reviews/{failed_call.id}/undo", follow=True).content.decode()
    assert 'value="spare" checked' in back
    named(browser, failed_call, "spare")
    browser.post(f"/reviews/{failed_call.id}/continue")
    Following(actor, failed_call.run_id, answered=frozenset({failed_call.id})).to_rest()
    page = browser.get(f"/runs/{failed_call.run_id}").content.decode()
    assert "approved by owner" in html.unescape(page)


def test_a_model_that_was_not_asked_about_is_refused_with_a_sentence(browser, failed_call):
    refused = named(browser, failed_call, "nobody")
    assert refused.status_code == 422
    assert "not about 'nobody'" in html.unescape(refused.content.decode())
    assert named(browser, failed_call, "spare", "reject", message="Not that one.").status_code == 200
