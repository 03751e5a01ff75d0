"""Reviews over the API."""

from __future__ import annotations

from uuid import uuid4

import pytest

from fabric.composition import engine as wiring
from fabric.management.run_follower import Following
from fabric.models import Inbox, Review
from fabric.selectors.runs.lookup import run_events
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.reviews.decisions import decide_review
from tests.console.api.client import Program
from tests.fabric.services.world import COSTLY, CROWDED, REPLACEABLE, SPARED_STRICT, ran
from tests.people import member, token_of

LIST = "/api/v1/reviews"


@pytest.fixture
def review(program, doubtful, actor):
    """An open review, as the list has it."""
    ran(actor, doubtful)
    (found,) = program.get(LIST).json()["reviews"]
    return found


@pytest.fixture
def colleague(owner, actor):
    """Another person's program."""
    return Program(token_of(member("rosa"), "rosas"))


def answer_to(program, review, verb="approve", **more):
    return program.post(f"{LIST}/{review['id']}/decision", {"verb": verb, "digest": review["digest"], **more})


def test_there_is_none(program):
    assert program.get(LIST).json() == {"reviews": [], "next_cursor": None}


def test_the_open_ones(program, review, actor):
    assert review["open"]
    assert review["fabric"] == "doubtful"
    assert set(review["verbs"]) >= {"approve", "reject"}
    assert review["opened_at"] < review["due_at"]


def test_of_one_run(program, review):
    assert program.get(LIST, run_id=review["run_id"]).json()["reviews"] == [review]
    assert program.get(LIST, run_id=uuid4()).json()["reviews"] == []


def test_a_page_at_a_time(program, review, actor, doubtful):
    for _ in range(2):
        ran(actor, doubtful)
    seen, cursor = [], None
    for _ in range(3):
        page = program.get(LIST, limit=1, **({"cursor": cursor} if cursor else {})).json()
        seen += [one["id"] for one in page["reviews"]]
        cursor = page["next_cursor"]
    assert cursor is None
    assert len(set(seen)) == 3
    assert seen[0] == review["id"]


@pytest.mark.parametrize("query", [{"limit": 0}, {"cursor": "x"}, {"run_id": "x"}, {"state": "open"}])
def test_what_is_wrong_is_said_where_it_is(program, query):
    answer = program.get(LIST, **query)
    assert answer.status_code == 422
    assert [error["path"] for error in answer.json()["errors"]] == list(query)


def test_one_with_what_the_person_is_shown(program, review):
    found = program.get(f"{LIST}/{review['id']}").json()
    assert found["content"]
    assert found["answer"] is None
    assert {key: found[key] for key in review} == review


def test_an_answer_is_recorded(program, review):
    told = answer_to(program, review)
    assert told.status_code == 200
    assert told.json() == {
        "review_id": review["id"],
        "run_id": review["run_id"],
        "verb": "approve",
        "recorded": True,
        "second_wanted": False,
    }
    assert Inbox.objects.filter(run_id=review["run_id"], consumed_seq__isnull=True).count() == 1
    shown = program.get(f"{LIST}/{review['id']}").json()["answer"]
    assert (shown["verb"], shown["decided_by"], shown["by_system"]) == ("approve", "owner", False)


def test_the_same_answer_again_changes_nothing(program, review):
    assert [answer_to(program, review).json()["recorded"] for _ in range(3)] == [True, False, False]
    assert Inbox.objects.filter(run_id=review["run_id"], consumed_seq__isnull=True).count() == 1


def decided(review, **more):
    columns = {"decided_at": 1_772_357_400_123_456, "verb": "approve", "decided_by": "owner", "alone": True, **more}
    Review.objects.filter(id=review["id"]).update(**columns)


def test_the_same_answer_again_after_the_run_took_it(program, review):
    decided(review)
    told = answer_to(program, review)
    assert (told.status_code, told.json()["recorded"]) == (200, False)


def test_another_answer_is_refused_and_says_who_when_what(program, colleague, review):
    Review.objects.update(barred="\ncleo\n")  # A colleague started it, so that its owner may answer too.
    answer_to(program, review)
    told = answer_to(colleague, review, "reject", message="no")
    assert told.status_code == 409
    found = told.json()["answer"]
    assert (found["verb"], found["decided_by"], found["by_system"]) == ("approve", "owner", False)
    assert found["decided_at"].startswith("20")
    assert "owner" in told.json()["detail"]


def test_the_same_verb_of_another_person_is_another_answer(program, colleague, review):
    decided(review)
    told = answer_to(colleague, review)
    assert told.status_code == 409
    assert told.json()["answer"] == {
        "verb": "approve",
        "decided_by": "owner",
        "decided_at": "2026-03-01T09:30:00.123456Z",
        "by_system": False,
        "takes_at": None,
    }


def test_one_that_the_system_answered(program, review):
    decided(review, by_system=True)
    told = answer_to(program, review)
    assert told.status_code == 409
    assert told.json()["answer"]["by_system"]


def test_another_digest_is_refused(program, review):
    told = answer_to(program, {**review, "digest": "0" * 16})
    assert told.status_code == 409
    assert Inbox.objects.filter(run_id=review["run_id"], consumed_seq__isnull=True).count() == 0


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"verb": "shrug"}, "verb"),
        ({"verb": "reject"}, "message"),
        ({"verb": "reject", "message": " "}, "message"),
        ({"digest": ""}, "digest"),
        ({"digest": None}, "digest"),
        ({"message": "m" * 4001}, "message"),
        ({"lease": 1}, "lease"),
    ],
)
def test_what_is_not_acceptable_is_said_where_it_is(program, review, wrong, path):
    body = {"verb": "approve", "digest": review["digest"], **wrong}
    told = program.post(f"{LIST}/{review['id']}/decision", body)
    assert told.status_code == 422
    assert [error["path"] for error in told.json()["errors"]] == [path]


@pytest.mark.parametrize("name", ["0123456789abcdef", "%00", "x" * 3000, "..."])
def test_an_unknown_one(program, name):
    assert program.get(f"{LIST}/{name}").status_code == 404
    assert program.post(f"{LIST}/{name}/decision", {"verb": "approve", "digest": "d"}).status_code == 404


def test_one_of_another_workspace_is_unknown(program, review, stranger):
    Review.objects.update(workspace_id=stranger.workspace_id)
    assert program.get(LIST).json()["reviews"] == []
    assert program.get(f"{LIST}/{review['id']}").status_code == 404
    assert answer_to(program, review).status_code == 404


def test_an_answer_is_taken_back(program, review):
    answer_to(program, review, message="Fine.")
    address = f"{LIST}/{review['id']}"
    assert program.get(address).json()["answer"]["takes_at"] is not None
    undone = program.post(f"{address}/undo", {})
    assert undone.status_code == 200
    assert undone.json() == {
        "review_id": review["id"],
        "run_id": review["run_id"],
        "verb": "approve",
        "message": "Fine.",
        "recorded": True,
    }
    assert program.post(f"{address}/undo", {}).json()["recorded"] is False
    assert program.get(address).json()["answer"] is None
    assert answer_to(program, review, "reject", message="No.").json()["recorded"] is True


def test_an_answer_counts_at_once(program, review, actor):
    decide_review(
        store=wiring.store(),
        nudge=wiring.nudge(),
        actor=actor,
        review_id=review["id"],
        digest=review["digest"],
        verb="approve",
        undo_s=30,
    )
    address = f"{LIST}/{review['id']}/continue"
    assert [program.post(address, {}).json()["recorded"] for _ in range(2)] == [True, False]


def test_second_thoughts_about_what_is_not_there_or_not_yours(program, colleague, review):
    Review.objects.update(barred="\ncleo\n")  # A colleague started it, so that its owner may answer too.
    for way in ("undo", "continue"):
        assert program.post(f"{LIST}/{review['id']}/{way}", {}).status_code == 409
        assert program.post(f"{LIST}/0123456789abcdef/{way}", {}).status_code == 404
    answer_to(program, review)
    for way in ("undo", "continue"):
        refused = colleague.post(f"{LIST}/{review['id']}/{way}", {})
        assert refused.status_code == 403
        assert "was answered by owner" in refused.json()["detail"]


def test_what_the_run_took_is_not_taken_back(program, review, actor):
    answer_to(program, review)
    Following(actor, review["run_id"], answered=frozenset({review["id"]})).to_rest()
    refused = program.post(f"{LIST}/{review['id']}/undo", {})
    assert refused.status_code == 409
    assert refused.json()["detail"].endswith("approve; it can no longer be undone.")


def test_a_call_that_asks_first_is_made_with_other_arguments(program, actor, paying):
    run = ran(actor, paying, documents=())
    (review,) = program.get(LIST, run_id=run.id).json()["reviews"]
    assert answer_to(program, review, "edit").status_code == 422
    refused = answer_to(program, review, "edit", edited={"to": "Ana", "usd": 400})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["path"] == "edited"
    assert answer_to(program, review, "edit", edited={"to": "Ana", "usd": 40}).json()["recorded"] is True


def test_an_approval_names_the_other_model(signed_in, actor):
    ran(actor, fabric_publish(actor=actor, source=SPARED_STRICT).name)
    (asked,) = signed_in.get(LIST).json()["reviews"]
    refused = answer_to(signed_in, asked, message="Fine.", model="nobody")
    assert refused.status_code == 422
    assert [one["path"] for one in refused.json()["errors"]] == ["model"]
    assert answer_to(signed_in, asked, message="Fine.", model="spare").json()["recorded"]


def test_finance_names_the_new_cap(signed_in, actor):
    ran(actor, fabric_publish(actor=actor, source=COSTLY).name)
    (asked,) = signed_in.get(LIST).json()["reviews"]
    refused = answer_to(signed_in, asked, message="Fine.", cap_usd_micros=100)
    assert refused.status_code == 422
    assert [one["path"] for one in refused.json()["errors"]] == ["cap_usd_micros"]
    assert answer_to(signed_in, asked, message="Fine.", cap_usd_micros=1_000_000).json()["recorded"]
    assert Following(actor, asked["run_id"], answered=frozenset({asked["id"]})).to_rest().state == "completed"


def test_finance_raises_the_tokens_of_a_stage_and_an_agent(signed_in, actor):
    ran(actor, fabric_publish(actor=actor, source=CROWDED).name)
    (asked,) = signed_in.get(LIST).json()["reviews"]
    low = {"scope": "stage:plan", "unit": "tokens", "cap": 50}
    refused = answer_to(signed_in, asked, message="Fine.", caps=[low])
    assert refused.status_code == 422
    assert [one["path"] for one in refused.json()["errors"]] == ["caps"]
    assert answer_to(signed_in, asked, message="Fine.", caps=[low | {"unit": "euros"}]).status_code == 422
    both = [low | {"cap": 50_000}, {"scope": "agent:planner", "unit": "tokens", "cap": 40_000}]
    assert answer_to(signed_in, asked, message="Fine.", caps=both).json()["recorded"]
    assert answer_to(signed_in, asked, message="Fine.", caps=both).json()["recorded"] is False


def test_another_call_in_place_of_the_one_that_is_asked_about(program, actor):
    run = ran(actor, fabric_publish(actor=actor, source=REPLACEABLE).name)
    (item,) = program.get(LIST).json()["reviews"]
    assert program.get(f"{LIST}/{item['id']}").json()["content"]["takes_tools"] == ["calculator"]
    refused = answer_to(program, item, "edit", tool="teleport", edited={})
    assert refused.status_code == 422
    assert "there are: calculator" in str(refused.json())
    assert answer_to(program, item, "edit", tool="calculator", edited={"expression": "2 * 45"}).json()["recorded"]
    Following(actor, run.id, answered=frozenset({item["id"]})).to_rest()
    (edited,) = [row for row in run_events(actor, run.id, limit=500) if row.kind == "call_edited"]
    assert (edited.fact["tool"], edited.fact["proposed_tool"]) == ("calculator", "pay")
