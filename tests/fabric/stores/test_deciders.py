"""The store brings the roles of a person whose answer is taken: it marks programs and a lone person, and one who may not sign in holds nothing."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.db import connection

from fabric.models import Member, Workspace
from fabric.services.actors import owner_actor, owner_ensure
from fabric.stores.rows import HOLDS_SQL, decider
from tests.people import member

SERVICE = ("viewer", "decides:paying:pre_action")


@pytest.fixture
def actor(db):
    owner_ensure()
    return owner_actor()


def held(workspace: str, name: str) -> str | None:
    """As the stores ask it."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT ({HOLDS_SQL.format(workspace='%s', name='%s')})", [workspace, workspace, name])
        (found,) = cursor.fetchone()
    return found


def test_a_program_is_marked_as_one(actor):
    member("bot", *SERVICE, service=True)
    marked = held(actor.workspace_id, "bot")
    assert marked is not None
    assert set(marked.split(",")) == {"decides", *SERVICE}


@pytest.mark.parametrize("beside", ["nobody", "a program", "one who may not sign in", "one who was removed"])
def test_who_is_alone_stays_it_beside_members_who_cannot_sign_in(actor, beside):
    if beside == "a program":
        member("bot", *SERVICE, service=True)
    elif beside == "one who may not sign in":
        member("ann", "reviewer", is_active=False)
    elif beside == "one who was removed":
        member("ann", "reviewer")
        Member.objects.filter(name="ann").update(removed_at=1)
    assert held(actor.workspace_id, actor.name).startswith("alone,")


def test_beside_another_person_no_member_is_alone(actor):
    member("ann", "reviewer")
    assert held(actor.workspace_id, actor.name).split(",")[0] != "alone"
    assert held(actor.workspace_id, "ann") == "reviewer"


@pytest.mark.parametrize("service", [False, True])
@pytest.mark.parametrize("gone", ["inactive", "removed"])
def test_who_is_let_in_no_more_holds_nothing(actor, service, gone):
    member("ann", *(SERVICE if service else ("reviewer",)), service=service)
    assert held(actor.workspace_id, "ann") is not None
    if gone == "inactive":
        User.objects.filter(username="ann").update(is_active=False)
    else:
        Member.objects.filter(name="ann").update(removed_at=1)
    assert held(actor.workspace_id, "ann") is None


def test_in_drills_they_hold_what_they_hold_in_the_workspace_that_is_drilled(actor):
    member("ann", "reviewer")
    drills = Workspace.objects.create(id="drills", name="drills", drills_of_id=actor.workspace_id)
    assert held(drills.id, "ann") == "reviewer"
    other = Workspace.objects.create(id="other", name="other")
    assert held(other.id, "ann") is None


@pytest.mark.parametrize(
    ("body", "who"),
    [
        (b'{"kind":"decision_made","actor":"bob"}', "bob"),
        ('{"kind":"decision_made","actor":"bob"}', "bob"),
        (b'{"kind":"context_given","actor":"bob","set":{"decision_made":1}}', ""),
        (b'{"kind":"decision_made","actor":["bob"]}', ""),
        (b'{"kind":"decision_made"}', ""),
        (b'["decision_made"]', ""),
        (b'{"kind":"decision_made"', ""),
    ],
)
def test_an_answer_says_who_gave_it_and_nothing_else_does(body, who):
    assert decider(body) == who
