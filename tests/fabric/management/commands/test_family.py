"""`run`, `decide` and `explain` look at a whole family: a review of a team's member is shown to the person who follows the run (docs/specification/reviews.md)."""

from dataclasses import replace

import pytest

from fabric.models import Review, Run
from fabric.services.fabrics.revisions import fabric_publish
from tests.fabric.management.console import command, shown
from tests.fabric.services.world import PAYING, WATCHED, published_by_two, ran
from tests.people import member

REQUEST = ("--input", "What do the notes say?")
BRIEFS = "{goal: G, briefs: [%s], exit_criteria: [E]}"
BRIEF = "{agent: %s, title: Part, instructions: Do it.}"


def team(workers: str) -> str:
    """A fabric in which each lead has a team of one, who wants to pay a supplier."""
    names = workers.split(", ")
    leads = "".join(f"  - {{name: {name}, model: script, instructions: Lead.}}\n" for name in names)
    inner = "      topology:\n        planner: planner\n        workers: [reader]\n"
    teams = "".join(f"    {name}:\n      run_usd_micros: 100000\n{inner}" for name in names)
    plan = BRIEFS % ", ".join(BRIEF % name for name in names)
    topology = f"topology:\n  kind: hierarchical\n  plan: {plan}\n  workers: [{workers}]\n  teams:\n{teams}"
    return PAYING.replace("topology:\n  planner: planner\n  workers: [reader]\n", topology).replace(
        "agents:\n", f"agents:\n{leads}", 1
    )


@pytest.fixture(params=["interactive", "batch"])
def run(actor, request):
    fabric_publish(actor=actor, source=team("lead"))
    return command("run", "start", "paying", *REQUEST, "--tier", request.param, "--json")


def test_a_review_of_a_teams_member_ends_following_with_the_command_that_answers_it(run):
    item = Review.objects.get()
    assert Run.objects.get(id=item.run_id).parent_run_id == run.last["run_id"]
    assert (run.code, Run.objects.get(id=item.run_id).state) == (3, "waiting")
    assert [one["id"] for one in run.last["reviews"]] == [item.id]
    assert (
        f"python3 manage.py review decide {item.id} {item.verbs.replace(',', '|')} --digest {item.digest[:12]}"
        in run.err
    )


def test_the_answers_are_followed_to_the_end_of_the_run_that_was_asked_for(run):
    done = run
    for _ in range(4):  # A team that failed is tried again, and asks again.
        if done.code == 3:
            item = Review.objects.get(decided_at=None)
            done = command("decide", item.id, "reject", "--message", "No.", "--json")
    assert done.last["run_id"] == run.last["run_id"]
    assert (done.code, done.last["state"]) == (1, Run.objects.get(parent_run_id=None).state)
    assert set(Run.objects.values_list("state", flat=True)) <= {"failed", "aborted"}


def test_what_two_teams_ask_is_answered_one_after_the_other(actor):
    fabric_publish(actor=actor, source=team("lead, other"))
    assert command("run", "start", "paying", *REQUEST).code == 3
    first, second = Review.objects.all()
    done = command("decide", first.id, "respond", *shown(first.id), "--message", "Do without.", "--json")
    assert done.code == 3
    open_now = set(Review.objects.filter(decided_at=None).values_list("id", flat=True))
    assert {one["id"] for one in done.last["reviews"]} == open_now
    assert second.id in open_now
    assert Review.objects.get(id=first.id).verb == "respond"


def test_explain_prints_what_is_asked_below(run):
    item = Review.objects.get()
    assert f"Review {item.id}" in command("explain", run.last["run_id"]).out


def test_the_first_of_two_agreements_comes_back_with_the_review(actor):
    member("ana", "owner", "reviewer")
    published_by_two(actor, WATCHED)
    ran(replace(actor, name="ana"), "watched")
    item = Review.objects.get()
    done = command("decide", item.id, "approve", *shown(item.id), "--json")
    assert (done.code, done.last["second_wanted"]) == (3, True)
    assert [one["id"] for one in done.last["reviews"]] == [item.id]
