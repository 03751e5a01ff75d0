"""The review queue over the API: counts, claims, several answers at one go, tickets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.core.scopes import Scope
from fabric.models import AuditLine, Escalation, Inbox, ReviewClaim, Run, TicketClosure
from fabric.services.fabrics import fabric_publish
from fabric.services.tokens import token_create
from tests.console.api.client import Program
from tests.fabric.services.world import COSTLY, PAYING, ran
from tests.people import member, token_of

LIST = "/api/v1/escalations"


@pytest.fixture
def question(program, doubtful, actor):
    """An open question, as the list has it. Somebody else started the run, so that its owner may answer beside a colleague."""
    ran(replace(actor, name="cleo"), doubtful)
    (found,) = program.get(LIST).json()["escalations"]
    return found


@pytest.fixture
def ana(actor):
    """Another one who is asked, by a program."""
    return Program(token_of(member("ana", "owner", "reviewer"), "anas"))


@pytest.fixture
def ben(actor):
    """A member who is asked nothing."""
    return Program(token_of(member("ben", "viewer"), "bens"))


def at(question, way=""):
    return f"{LIST}/{question['id']}{way}"


class TestTheList:
    def test_says_who_has_a_question_in_hand_and_whether_one_may(self, program, ana, ben, question):
        assert (question["claim"], question["may_answer"], question["why_not"]) == (None, True, "")
        ana.post(at(question, "/claim"))
        (found,) = ben.get(LIST).json()["escalations"]
        assert (found["claim"]["holder"], found["claim"]["live"], found["may_answer"]) == ("ana", True, False)
        assert found["why_not"].startswith("ben is not asked")
        assert [ana.get(LIST, tab=tab).json()["escalations"] != [] for tab in ("mine", "unclaimed")] == [True, False]

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
    def test_is_narrowed(self, program, question, query, found):
        assert len(program.get(LIST, **query).json()["escalations"]) == found

    @pytest.mark.parametrize("query", [{"tab": "all"}, {"text": "x" * 201}, {"reason": "x"}])
    def test_what_is_wrong_is_said_where_it_is(self, program, query):
        answer = program.get(LIST, **query)
        assert answer.status_code == 422
        assert [error["path"] for error in answer.json()["errors"]] == list(query)

    def test_what_was_decided(self, program, question):
        Escalation.objects.update(decided_at=5, decided_by="ana", verb="reject")
        (found,) = program.get(LIST, tab="decided", holder="ana").json()["escalations"]
        assert (found["id"], found["open"]) == (question["id"], False)


def test_counts(program, ana, ben, question):
    ana.post(at(question, "/claim"))
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
    def test_one_has_it_and_the_other_is_told_who(self, program, ana, question):
        taken = ana.post(at(question, "/claim"))
        assert taken.status_code == 200
        assert (taken.json()["claim"]["holder"], taken.json()["fresh"]) == ("ana", True)
        assert ana.post(at(question, "/claim")).json()["fresh"] is False
        refused = program.post(at(question, "/claim"))
        assert refused.status_code == 409
        assert refused.json()["claim"]["holder"] == "ana"
        body = {"verb": "approve", "digest": question["digest"]}
        refused = program.post(at(question, "/decision"), body)
        assert (refused.status_code, refused.json()["claim"]["holder"]) == (409, "ana")
        assert "answer" not in refused.json()
        assert ana.post(at(question, "/decision"), body | {"claim_lease": 1}).status_code == 200

    def test_a_claim_that_is_over_decides_nothing(self, program, ana, question):
        program.post(at(question, "/claim"))
        ReviewClaim.objects.update(lease_until=1)
        taken = ana.post(at(question, "/claim")).json()["claim"]
        assert (taken["taken_from"], taken["lease"]) == ("owner", 2)
        ana.post(at(question, "/release"), {"lease": 2})
        body = {"verb": "approve", "digest": question["digest"], "claim_lease": 1}
        refused = program.post(at(question, "/decision"), body)
        assert (refused.status_code, [one["path"] for one in refused.json()["errors"]]) == (409, ["claim"])

    def test_who_is_not_asked_takes_none(self, ben, question):
        assert ben.post(at(question, "/claim")).status_code == 403
        assert ben.post(f"{LIST}/next", {}).json() == {"escalation": None}

    def test_the_next_one(self, ana, question):
        found = ana.post(f"{LIST}/next", {"fabric": "doubtful"}).json()["escalation"]
        assert (found["id"], found["claim"]["holder"]) == (question["id"], "ana")
        assert ana.post(f"{LIST}/next", {}).json() == {"escalation": None}

    def test_a_heartbeat_renews_it_and_tells_who_looks(self, program, ana, question):
        program.post(at(question, "/heartbeat"), {})
        lease = ana.post(at(question, "/claim")).json()["claim"]["lease"]
        beat = ana.post(at(question, "/heartbeat"), {"lease": lease}).json()
        assert (beat["kept"], beat["open"], beat["viewers"]) == (True, True, ["owner"])
        assert program.get(at(question)).json()["viewers"] == ["ana"]
        assert program.post(at(question, "/heartbeat"), {"lease": lease}).json()["kept"] is False

    def test_it_is_let_go_once(self, ana, question):
        ana.post(at(question, "/claim"))
        told = [ana.post(at(question, "/release"), {"lease": 1}).json()["released"] for _ in range(2)]
        assert told == [True, False]

    def test_it_is_handed_on(self, program, ana, ben, question):
        given = program.post(at(question, "/reassign"), {"to": "ana"}).json()["claim"]
        assert (given["holder"], given["assigned_by"]) == ("ana", "owner")
        assert ben.post(at(question, "/reassign"), {"to": "owner"}).status_code == 403
        refused = program.post(at(question, "/reassign"), {"to": "ben"})
        assert (refused.status_code, [one["path"] for one in refused.json()["errors"]]) == (422, ["to"])


class TestSeveral:
    @pytest.fixture
    def two(self, program, question, actor, doubtful):
        ran(actor, doubtful)
        return program.get(LIST).json()["escalations"]

    def sent(self, *questions):
        return {
            "verb": "reject",
            "message": "Not now.",
            "items": [{k: q[k] for k in ("id", "digest")} for q in questions],
        }

    def test_each_has_its_own_result(self, program, ana, two):
        ana.post(at(two[1], "/claim"))
        gone = {"id": "0123456789abcdef", "digest": "d"}
        told = program.post(f"{LIST}/decisions", self.sent(*two, gone)).json()["results"]
        assert [one["status"] for one in told] == [200, 409, 404]
        assert told[0]["decision"]["recorded"] is True
        assert "in ana's hand" in told[1]["detail"]
        assert Inbox.objects.filter(input_id__startswith="decision:").count() == 1
        again = program.post(f"{LIST}/decisions", self.sent(two[0])).json()["results"]
        assert [(one["status"], one["decision"]["recorded"]) for one in again] == [(200, False)]

    def test_each_is_bound_to_what_it_showed(self, program, two):
        stale = {**two[1], "digest": "0" * 16}
        told = program.post(f"{LIST}/decisions", self.sent(two[0], stale)).json()["results"]
        assert [one["status"] for one in told] == [200, 409]

    def test_only_those_that_are_alike(self, program, actor, two):
        ran(actor, fabric_publish(actor=actor, source=PAYING).name, documents=())
        refused = program.post(f"{LIST}/decisions", self.sent(*program.get(LIST).json()["escalations"]))
        assert refused.status_code == 422
        assert "same fabric, kind and stage" in refused.json()["detail"]
        assert not Inbox.objects.filter(input_id__startswith="decision:").exists()

    def test_never_in_high_stakes(self, program, actor):
        ran(actor, fabric_publish(actor=actor, source=COSTLY).name)
        refused = program.post(f"{LIST}/decisions", self.sent(*program.get(LIST).json()["escalations"]))
        assert refused.status_code == 422
        assert "In high-stakes each" in refused.json()["detail"]

    def test_none_twice_none_at_all_and_none_of_another_workspace(self, program, stranger, two):
        assert program.post(f"{LIST}/decisions", self.sent(two[0], two[0])).status_code == 422
        assert program.post(f"{LIST}/decisions", self.sent()).status_code == 422
        assert program.post(f"{LIST}/decisions", {**self.sent(two[0]), "verb": "edit"}).status_code == 422
        Escalation.objects.update(workspace_id=stranger.workspace_id)
        assert program.post(f"{LIST}/decisions", self.sent(*two)).status_code == 404


class TestTickets:
    @pytest.fixture
    def ticket(self, question):
        Escalation.objects.update(item="ticket", verbs="respond", decided_at=9, by_system=True)
        return question

    def test_is_closed_with_a_note_once(self, program, ana, ticket):
        (found,) = program.get(LIST, tab="tickets").json()["escalations"]
        assert (found["item"], found["open"], found["closure"]) == ("ticket", False, None)
        told = [program.post(at(ticket, "/close"), {"note": "Done."}) for _ in range(2)]
        assert [one.json()["recorded"] for one in told] == [True, False]
        assert told[0].json()["closure"]["closed_by"] == "owner"
        assert program.get(LIST, tab="tickets").json()["escalations"] == []
        detail = program.get(at(ticket)).json()
        assert (detail["closure"]["note"], detail["answer"]) == ("Done.", None)
        for other in (
            program.post(at(ticket, "/close"), {"note": "Otherwise."}),
            ana.post(at(ticket, "/close"), {"note": "Done."}),
        ):
            assert other.status_code == 409
            assert "was closed by owner at " in other.json()["detail"]
        assert AuditLine.objects.filter(kind="ticket_closed").count() == 1
        assert not Inbox.objects.filter(input_id__startswith="decision:").exists()

    def test_an_answer_to_it_is_that_note(self, program, ticket):
        body = {"verb": "respond", "digest": ticket["digest"], "message": "By hand."}
        assert [program.post(at(ticket, "/decision"), body).json()["recorded"] for _ in range(2)] == [True, False]
        assert TicketClosure.objects.get().note == "By hand."
        assert program.post(at(ticket, "/decision"), {**body, "verb": "approve"}).status_code == 422

    def test_starts_a_fork_once(self, program, ticket):
        told = [program.post(at(ticket, "/close"), {"note": "Again.", "fork_seq": 2}) for _ in range(2)]
        assert [one.json()["recorded"] for one in told] == [True, False]
        (fork,) = Run.objects.exclude(id=ticket["run_id"])
        assert {one.json()["closure"]["fork_run_id"] for one in told} == {fork.id}
        assert fork.origin_run_id == ticket["run_id"]

    def test_a_token_that_may_not_run_starts_none(self, actor, ticket):
        scopes = (Scope.READ, Scope.DECIDE)
        deciding = Program(token_create(actor=actor, name="decides", scopes=scopes).secret)
        refused = deciding.post(at(ticket, "/close"), {"note": "Again.", "fork_seq": 2})
        assert refused.status_code == 403
        assert not TicketClosure.objects.exists()
        assert deciding.post(at(ticket, "/close"), {"note": "Done."}).status_code == 200

    @pytest.mark.parametrize("note", ["", " \n", "x" * 4_001])
    def test_a_note_says_something(self, program, ticket, note):
        assert program.post(at(ticket, "/close"), {"note": note}).status_code in (413, 422)

    def test_who_is_not_asked_closes_none(self, ben, ticket):
        assert ben.post(at(ticket, "/close"), {"note": "Done."}).status_code == 403

    def test_a_question_is_answered_and_not_closed(self, program, question):
        refused = program.post(at(question, "/close"), {"note": "Done."})
        assert refused.status_code == 422
        assert "is no ticket" in refused.json()["detail"]
