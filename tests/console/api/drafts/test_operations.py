"""Drafts over the API: stored whatever they say, read back with everything that is said of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from fabric.selectors.drafts.lookup import draft_get
from fabric.services.actors import find_actor
from fabric.services.drafts.beginnings import draft_import
from fabric.services.fabrics.revisions import fabric_publish
from tests.fabric.services.world import SMALL
from tests.people import member

DRAFTS, CHANGES = "/api/v1/drafts", "/api/v1/change-requests"


def answered(answer, status):
    assert answer.status_code == status
    return answer.json()


def test_a_draft_is_stored_and_read_back(program, actor):
    made = answered(program.post(DRAFTS, {"source": SMALL, "origin": "small.yaml"}), 201)
    assert (made["draft"]["name"], made["draft"]["publishable"], made["replaced"]) == ("small", True, False)
    assert answered(program.get(f"{DRAFTS}/small"), 200) == made["draft"]
    assert made["draft"]["source"] == SMALL == draft_get(actor, "small").text


def test_what_is_wrong_is_told_with_path_and_line(program):
    made = answered(program.post(DRAFTS, {"source": SMALL.replace("model: script", "model: big")}), 201)
    first = made["draft"]["findings"][0]
    assert (first["level"], first["path"], first["line"]) == ("error", "agents.0.model", 12)
    assert made["draft"]["publishable"] is False
    broken = answered(program.post(DRAFTS, {"source": "a: [1", "name": "broken"}), 201)
    assert len(broken["draft"]["findings"]) == 1


def test_a_draft_that_there_is_is_replaced_only_when_asked(program, actor):
    program.post(DRAFTS, {"source": SMALL})
    again = {"source": SMALL.replace("Read.", "Read twice.")}
    told = answered(program.post(DRAFTS, again), 409)
    assert "has a draft of 'small' already" in told["detail"]
    assert draft_get(actor, "small").text == SMALL
    assert answered(program.post(DRAFTS, {**again, "replace": True}), 201)["replaced"] is True


def test_the_list_names_all_authors_and_the_text_is_its_author_s(program, actor):
    draft_import(actor=find_actor(member("ana", "editor")), text=SMALL, name="hers")
    draft_import(actor=actor, text=SMALL)
    found = answered(program.get(DRAFTS), 200)["drafts"]
    assert [(one["name"], one["author"]) for one in found] == [("small", "owner"), ("hers", "ana")]
    answered(program.get(f"{DRAFTS}/hers"), 404)


@pytest.mark.parametrize(
    ("body", "status"),
    [({"source": "x" * 300_000, "name": "a"}, 413), ({"source": "x", "name": "No"}, 422), ({"name": "a"}, 422)],
)
def test_only_size_encoding_and_name_are_refused(program, body, status):
    answered(program.post(DRAFTS, body), status)


def test_a_publication_is_scheduled_and_withdrawn(program, actor):
    fabric_publish(actor=actor, source=SMALL)
    second = SMALL.replace("A small fabric", "Second")
    at = f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%dT%H:%M:00}"
    given = {"source": second, "message": "Later.", "publish_at": f"{at}+00:00", "expect_revision": 1}
    made = answered(program.post(CHANGES, given), 201)
    assert (made["state"], made["publish_at"], made["message"]) == ("open", f"{at}.000000Z", "Later.")
    assert answered(program.get(CHANGES), 200)["requests"] == [made]
    refused = answered(program.post(f"{CHANGES}/{made['id']}/approve", {"digest": made["digest"]}), 403)
    assert "made this request and cannot approve it" in refused["detail"]
    assert answered(program.post(f"{CHANGES}/{made['id']}/withdraw", {}), 200)["state"] == "withdrawn"
    for wrong, said in (("2001-01-01T00:00:00Z", "is past"), ("2900-01-01T00:00:00Z", "more than a year away")):
        assert said in answered(program.post(CHANGES, {**given, "publish_at": wrong}), 422)["detail"]
    answered(program.post(CHANGES, {**given, "publish_at": "soon"}), 422)
