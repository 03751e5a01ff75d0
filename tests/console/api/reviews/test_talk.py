"""The talk about a review over the API: comments, a person's own snooze, and its assignment to a role."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.models import AuditLine, Review, ReviewComment
from tests.console.api.client import Program
from tests.fabric.services.world import ran
from tests.people import member, token_of

LIST = "/api/v1/reviews"
LATE = 4_102_444_800_000_000
"""The year 2100, in microseconds since the epoch."""


@pytest.fixture
def at(program, doubtful, actor):
    """Address of an open review. A colleague started the run, so that its owner may answer too."""
    ran(replace(actor, name="cleo"), doubtful)
    Review.objects.update(due_at=LATE)
    (found,) = program.get(LIST).json()["reviews"]
    return f"{LIST}/{found['id']}"


@pytest.fixture
def ana(actor):
    """Another person who is asked, by a program."""
    return Program(token_of(member("ana", "owner", "reviewer"), "anas"))


@pytest.fixture
def ben(actor):
    """A member who is asked nothing."""
    return Program(token_of(member("ben", "viewer"), "bens"))


class TestComments:
    def test_a_comment_is_added_and_listed(self, program, ana, at):
        added = ana.post(f"{at}/comments", {"text": "Look, @owner."}).json()
        assert (added["author"], added["text"], added["mentions"]) == ("ana", "Look, @owner.", ["owner"])
        assert program.get(f"{at}/comments").json() == {"comments": [added]}
        assert AuditLine.objects.filter(kind="review_commented").count() == 1

    def test_a_reader_without_the_right_to_contents_gets_no_text(self, program, ben, at):
        program.post(f"{at}/comments", {"text": "The supplier is Acme."})
        assert "Acme" not in ben.get(f"{at}/comments").content.decode()
        assert ben.post(f"{at}/comments", {"text": "Why?"}).status_code == 403
        assert ReviewComment.objects.count() == 1

    @pytest.mark.parametrize("text", ["", " ", "@nobody", "x" * 4_001])
    def test_a_bad_comment_is_refused_at_its_field(self, program, at, text):
        refused = program.post(f"{at}/comments", {"text": text})
        assert refused.status_code == 422
        assert [one["path"] for one in refused.json()["errors"]] == ["text"]

    def test_a_review_elsewhere_has_none(self, program, at):
        assert program.get(f"{LIST}/nothing/comments").status_code == 404
        assert program.post(f"{LIST}/nothing/comments", {"text": "Why?"}).status_code == 404


class TestSnoozes:
    def test_it_leaves_the_callers_list_alone(self, program, ana, at):
        told = program.post(f"{at}/snooze", {"until": "2099-01-01T00:00:00Z"})
        assert (told.status_code, told.json()["until"]) == (200, "2099-01-01T00:00:00.000000Z")
        assert [len(one.get(LIST, tab="yours").json()["reviews"]) for one in (program, ana)] == [0, 1]
        assert program.post(f"{at}/snooze", {"until": None}).json()["until"] is None
        assert len(program.get(LIST, tab="yours").json()["reviews"]) == 1

    @pytest.mark.parametrize("until", ["2020-01-01T00:00:00Z", "2101-01-01T00:00:00Z", "soon", 5])
    def test_a_bad_time_is_refused_at_its_field(self, program, at, until):
        refused = program.post(f"{at}/snooze", {"until": until})
        assert refused.status_code == 422
        assert [one["path"] for one in refused.json()["errors"]] == ["until"]

    def test_only_people_who_are_asked_snooze(self, ben, at):
        assert ben.post(f"{at}/snooze", {"until": "2099-01-01T00:00:00Z"}).status_code == 403


class TestRoles:
    def test_it_is_assigned_to_a_role(self, program, ana, at):
        given = program.post(f"{at}/reassign", {"to": "owner", "kind": "role"}).json()["assignment"]
        assert (given["holder"], given["role"], given["live"], given["assigned_by"]) == ("", "owner", False, "owner")
        assert ana.get(at).json()["assignment"]["role"] == "owner"
        assert ana.post(f"{at}/claim").status_code == 200

    def test_a_role_of_no_one_who_is_asked_is_refused(self, program, ben, at):
        refused = program.post(f"{at}/reassign", {"to": "finance", "kind": "role"})
        assert (refused.status_code, [one["path"] for one in refused.json()["errors"]]) == (422, ["to"])
        assert ben.post(f"{at}/reassign", {"to": "owner", "kind": "role"}).status_code == 403
