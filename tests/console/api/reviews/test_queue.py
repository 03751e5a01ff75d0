"""The review queue over the API: counts, claims, several answers at one go, follow-ups."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.core.people.scopes import Scope
from fabric.models import AuditLine, FollowUpClosure, Inbox, Review, ReviewAssignment, Run
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.people.tokens import token_create
from tests.console.api.client import Program
from tests.fabric.services.world import COSTLY, PAYING, ran
from tests.people import member, token_of

LIST = "/api/v1/reviews"


@pytest.fixture
def review(program, doubtful, actor):
    """An open review, as the list has it. A colleague started the run, so that its owner may answer too."""
    ran(replace(actor, name="cleo"), doubtful)
    (found,) = program.get(LIST).json()["reviews"]
    return found


@pytest.fixture
def ana(actor):
    """Another one who is asked, by a program."""
    return Program(token_of(member("ana", "owner", "reviewer"), "anas"))


@pytest.fixture
def ben(actor):
    """A member who is asked nothing."""
    return Program(token_of(member("ben", "viewer"), "bens"))


def at(review, way=""):
    return f"{LIST}/{review['id']}{way}"


class TestTheList:
    def test_says_who_has_a_review_in_hand_and_whether_one_may(self, program, ana, ben, review):
        assert (review["assignment"], review["may_answer"], review["why_not"]) == (None, True, "")
        ana.post(at(review, "/claim"))
        (found,) = ben.get(LIST).json()["reviews"]
        assert (found["assignment"]["holder"], found["assignment"]["live"], found["may_answer"]) == ("ana", True, False)
        assert found["why_not"].startswith("ben is not asked")
        assert [ana.get(LIST, tab=tab).json()["reviews"] != [] for tab in ("mine", "unclaimed")] == [True, False]

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ({"fabric": "doubtful"}, 1),
            ({"fabric": "other"}, 0),
            ({"item": "post_stage", "stage": "validate"}, 1),
            ({"failure_type": "cost_overrun"}, 0),
            ({"holder": "ana"}, 0),
            ({"text": "NOTES"}, 1),
            ({"tab": "decided"}, 0),
        ],
    )
    def test_is_narrowed(self, program, review, query, found):
        assert len(program.get(LIST, **query).json()["reviews"]) == found

    @pytest.mark.parametrize("query", [{"tab": "all"}, {"text": "x" * 201}, {"reason": "x"}])
    def test_what_is_wrong_is_said_where_it_is(self, program, query):
        answer = program.get(LIST, **query)
        assert answer.status_code == 422
        assert [error["path"] for error in answer.json()["errors"]] == list(query)

    def test_what_was_decided(self, program, review):
        Review.objects.update(decided_at=5, decided_by="ana", verb="reject")
        (found,) = program.get(LIST, tab="decided", holder="ana").json()["reviews"]
        assert (found["id"], found["open"]) == (review["id"], False)


def test_counts(program, ana, ben, review):
    ana.post(at(review, "/claim"))
    told = [one.get(f"{LIST}/counts").json() for one in (program, ana, ben)]
    assert [one["waiting"] for one in told] == [
        {"count": 0, "more": False},
        {"count": 1, "more": False},
        {"count": 0, "more": False},
    ]
    assert [one["mine"]["count"] for one in told] == [0, 1, 0]
    assert {one["open"]["count"] for one in told} == {1}
    assert program.get(f"{LIST}/counts", fabric="other").json()["open"]["count"] == 0


class TestClaims:
    def test_one_has_it_and_the_other_is_told_who(self, program, ana, review):
        taken = ana.post(at(review, "/claim"))
        assert taken.status_code == 200
        assert (taken.json()["assignment"]["holder"], taken.json()["fresh"]) == ("ana", True)
        assert ana.post(at(review, "/claim")).json()["fresh"] is False
        refused = program.post(at(review, "/claim"))
        assert refused.status_code == 409
        assert refused.json()["assignment"]["holder"] == "ana"
        body = {"verb": "approve", "digest": review["digest"]}
        refused = program.post(at(review, "/decision"), body)
        assert (refused.status_code, refused.json()["assignment"]["holder"]) == (409, "ana")
        assert "answer" not in refused.json()
        assert ana.post(at(review, "/decision"), body | {"assignment_lease": 1}).status_code == 200

    def test_a_claim_that_is_over_decides_nothing(self, program, ana, review):
        program.post(at(review, "/claim"))
        ReviewAssignment.objects.update(lease_until=1)
        taken = ana.post(at(review, "/claim")).json()["assignment"]
        assert (taken["taken_from"], taken["lease"]) == ("owner", 2)
        ana.post(at(review, "/release"), {"lease": 2})
        body = {"verb": "approve", "digest": review["digest"], "assignment_lease": 1}
        refused = program.post(at(review, "/decision"), body)
        assert (refused.status_code, [one["path"] for one in refused.json()["errors"]]) == (409, ["assignment"])

    def test_who_is_not_asked_takes_none(self, ben, review):
        assert ben.post(at(review, "/claim")).status_code == 403
        assert ben.post(f"{LIST}/next", {}).json() == {"review": None}

    def test_the_next_one(self, ana, review):
        found = ana.post(f"{LIST}/next", {"fabric": "doubtful"}).json()["review"]
        assert (found["id"], found["assignment"]["holder"]) == (review["id"], "ana")
        assert ana.post(f"{LIST}/next", {}).json() == {"review": None}

    def test_a_heartbeat_renews_it_and_tells_who_looks(self, program, ana, review):
        program.post(at(review, "/heartbeat"), {})
        lease = ana.post(at(review, "/claim")).json()["assignment"]["lease"]
        beat = ana.post(at(review, "/heartbeat"), {"lease": lease}).json()
        assert (beat["kept"], beat["open"], beat["viewers"]) == (True, True, ["owner"])
        assert program.get(at(review)).json()["viewers"] == ["ana"]
        assert program.post(at(review, "/heartbeat"), {"lease": lease}).json()["kept"] is False

    def test_it_is_let_go_once(self, ana, review):
        ana.post(at(review, "/claim"))
        told = [ana.post(at(review, "/release"), {"lease": 1}).json()["released"] for _ in range(2)]
        assert told == [True, False]

    def test_it_is_handed_on(self, program, ana, ben, review):
        given = program.post(at(review, "/reassign"), {"to": "ana"}).json()["assignment"]
        assert (given["holder"], given["assigned_by"]) == ("ana", "owner")
        assert ben.post(at(review, "/reassign"), {"to": "owner"}).status_code == 403
        refused = program.post(at(review, "/reassign"), {"to": "ben"})
        assert (refused.status_code, [one["path"] for one in refused.json()["errors"]]) == (422, ["to"])


class TestSeveral:
    @pytest.fixture
    def two(self, program, review, actor, doubtful):
        ran(actor, doubtful)
        return program.get(LIST).json()["reviews"]

    def sent(self, *reviews):
        return {
            "verb": "reject",
            "message": "Not now.",
            "items": [{k: q[k] for k in ("id", "digest")} for q in reviews],
        }

    def test_each_has_its_own_result(self, program, ana, two):
        ana.post(at(two[1], "/claim"))
        gone = {"id": "0123456789abcdef", "digest": "d"}
        told = program.post(f"{LIST}/decisions", self.sent(*two, gone)).json()["results"]
        assert [one["status"] for one in told] == [200, 409, 404]
        assert told[0]["decision"]["recorded"] is True
        assert "ana has claimed" in told[1]["detail"]
        assert Inbox.objects.filter(input_id__startswith="decision:").count() == 1
        again = program.post(f"{LIST}/decisions", self.sent(two[0])).json()["results"]
        assert [(one["status"], one["decision"]["recorded"]) for one in again] == [(200, False)]

    def test_each_is_bound_to_what_it_showed(self, program, two):
        stale = {**two[1], "digest": "0" * 16}
        told = program.post(f"{LIST}/decisions", self.sent(two[0], stale)).json()["results"]
        assert [one["status"] for one in told] == [200, 409]

    def test_only_those_that_are_alike(self, program, actor, two):
        ran(actor, fabric_publish(actor=actor, source=PAYING).name, documents=())
        refused = program.post(f"{LIST}/decisions", self.sent(*program.get(LIST).json()["reviews"]))
        assert refused.status_code == 422
        assert "same fabric, kind and stage" in refused.json()["detail"]
        assert not Inbox.objects.filter(input_id__startswith="decision:").exists()

    def test_never_in_high_stakes(self, program, actor):
        ran(actor, fabric_publish(actor=actor, source=COSTLY).name)
        refused = program.post(f"{LIST}/decisions", self.sent(*program.get(LIST).json()["reviews"]))
        assert refused.status_code == 422
        assert "igh-stakes reviews are decided one by one" in refused.json()["detail"]

    def test_none_twice_none_at_all_and_none_of_another_workspace(self, program, stranger, two):
        assert program.post(f"{LIST}/decisions", self.sent(two[0], two[0])).status_code == 422
        assert program.post(f"{LIST}/decisions", self.sent()).status_code == 422
        assert program.post(f"{LIST}/decisions", {**self.sent(two[0]), "verb": "edit"}).status_code == 422
        Review.objects.update(workspace_id=stranger.workspace_id)
        assert program.post(f"{LIST}/decisions", self.sent(*two)).status_code == 404


class TestFollowUps:
    @pytest.fixture
    def follow_up(self, review):
        Review.objects.update(item="follow_up", verbs="respond", decided_at=9, by_system=True)
        return review

    def test_is_closed_with_a_note_once(self, program, ana, follow_up):
        (found,) = program.get(LIST, tab="follow_ups").json()["reviews"]
        assert (found["item"], found["open"], found["closure"]) == ("follow_up", False, None)
        told = [program.post(at(follow_up, "/close"), {"note": "Done."}) for _ in range(2)]
        assert [one.json()["recorded"] for one in told] == [True, False]
        assert told[0].json()["closure"]["closed_by"] == "owner"
        assert program.get(LIST, tab="follow_ups").json()["reviews"] == []
        detail = program.get(at(follow_up)).json()
        assert (detail["closure"]["note"], detail["answer"]) == ("Done.", None)
        for other in (
            program.post(at(follow_up, "/close"), {"note": "Otherwise."}),
            ana.post(at(follow_up, "/close"), {"note": "Done."}),
        ):
            assert other.status_code == 409
            assert "was closed by owner at " in other.json()["detail"]
        assert AuditLine.objects.filter(kind="follow_up_closed").count() == 1
        assert not Inbox.objects.filter(input_id__startswith="decision:").exists()

    def test_an_answer_to_it_is_that_note(self, program, follow_up):
        body = {"verb": "respond", "digest": follow_up["digest"], "message": "By hand."}
        assert [program.post(at(follow_up, "/decision"), body).json()["recorded"] for _ in range(2)] == [True, False]
        assert FollowUpClosure.objects.get().note == "By hand."
        assert program.post(at(follow_up, "/decision"), {**body, "verb": "approve"}).status_code == 422

    def test_starts_a_fork_once(self, program, follow_up):
        told = [program.post(at(follow_up, "/close"), {"note": "Again.", "fork_seq": 2}) for _ in range(2)]
        assert [one.json()["recorded"] for one in told] == [True, False]
        (fork,) = Run.objects.exclude(id=follow_up["run_id"])
        assert {one.json()["closure"]["fork_run_id"] for one in told} == {fork.id}
        assert fork.origin_run_id == follow_up["run_id"]

    def test_a_token_that_may_not_run_starts_none(self, actor, follow_up):
        scopes = (Scope.READ, Scope.DECIDE)
        deciding = Program(token_create(actor=actor, name="decides", scopes=scopes).secret)
        refused = deciding.post(at(follow_up, "/close"), {"note": "Again.", "fork_seq": 2})
        assert refused.status_code == 403
        assert not FollowUpClosure.objects.exists()
        assert deciding.post(at(follow_up, "/close"), {"note": "Done."}).status_code == 200

    @pytest.mark.parametrize("note", ["", " \n", "x" * 4_001])
    def test_a_note_says_something(self, program, follow_up, note):
        assert program.post(at(follow_up, "/close"), {"note": note}).status_code in (413, 422)

    def test_who_is_not_asked_closes_none(self, ben, follow_up):
        assert ben.post(at(follow_up, "/close"), {"note": "Done."}).status_code == 403

    def test_a_review_is_answered_and_not_closed(self, program, review):
        refused = program.post(at(review, "/close"), {"note": "Done."})
        assert refused.status_code == 422
        assert "is no follow-up" in refused.json()["detail"]
