"""Members over the API: listed, invited, given roles, removed; by owners, with the scope for it."""

from __future__ import annotations

import pytest

from fabric.models import Member
from fabric.services.people.tokens import token_create
from tests.console.api.client import Program
from tests.people import member, signed_in, token_of

MEMBERS = "/api/v1/members"
INVITATIONS = f"{MEMBERS}/invitations"


def test_a_person_is_invited_comes_in_is_given_roles_and_removed(program, owner):
    made = program.post(INVITATIONS, {"roles": ["viewer"], "email": "rosa@example.org", "days": 1}).json()
    assert (made["roles"], made["email"]) == (["viewer"], "rosa@example.org")
    (listed,) = program.get(MEMBERS).json()["invitations"]
    assert (listed["id"], "link" in listed) == (made["id"], False)
    rosa = signed_in(member("ben"))
    rosa.post("/logout")
    rosa.post("/people/invitations", {"token": made["link"].partition("#")[2]})
    password = "four-dull-words-in-a-row"
    assert (
        rosa.post("/people/invitations", {"name": "rosa", "password": password, "again": password}).status_code == 302
    )
    assert rosa.get("/runs").status_code == 200
    seen = program.post(f"{MEMBERS}/rosa/roles", {"roles": ["operator", "legal"], "before": ["viewer"]}).json()
    assert (seen["roles"], seen["added_by"], seen["service"]) == (["legal", "operator"], "owner", False)
    assert program.post(f"{MEMBERS}/rosa/roles", {"roles": ["owner"], "before": ["viewer"]}).status_code == 409
    gone = program.post(f"{MEMBERS}/rosa/remove", {})
    assert (gone.status_code, gone.json()) == (200, {"name": "rosa", "tokens_revoked": 0, "invitations_revoked": 0})
    assert rosa.get("/runs").status_code == 403
    assert rosa.get("/api/v1/runs").status_code == 403
    assert [one["name"] for one in program.get(MEMBERS).json()["members"]] == ["ben", "owner"]
    assert program.get(MEMBERS).json()["invitations"] == []


def test_an_invitation_is_revoked(program):
    made = program.post(INVITATIONS, {"roles": ["viewer"]}).json()
    for changed in (True, False):
        assert program.post(f"{INVITATIONS}/{made['id']}/revoke", {}).json() == {"id": made["id"], "changed": changed}
    assert program.post(f"{INVITATIONS}/nothing/revoke", {}).status_code == 404


def test_an_account_of_programs_is_made(program):
    made = program.post(f"{MEMBERS}/services", {"name": "nightly", "roles": ["operator"]})
    assert (made.status_code, made.json()["service"], made.json()["last_sign_in"]) == (200, True, None)
    assert program.post(f"{MEMBERS}/services", {"name": "nightly", "roles": ["operator"]}).status_code == 409
    assert program.post(f"{MEMBERS}/services", {"name": "other", "roles": ["reviewer"]}).status_code == 422


def test_it_takes_an_owner_and_the_scope(program, owner, actor):
    other = Program(token_of(member("vera", "auditor"), "veras"))
    program.post(INVITATIONS, {"roles": ["viewer"], "email": "rosa@example.org"})
    seen = other.get(MEMBERS).json()
    assert ([one["name"] for one in seen["members"]], seen["invitations"]) == (["owner", "vera"], [])
    narrow = Program(
        token_create(actor=actor, name="narrow", scopes=("read", "start", "decide", "publish", "operate")).secret
    )
    for path, body in (
        (INVITATIONS, {"roles": ["owner"]}),
        (f"{MEMBERS}/services", {"name": "mine", "roles": ["operator"]}),
        (f"{MEMBERS}/vera/roles", {"roles": ["owner"]}),
        (f"{MEMBERS}/vera/remove", {}),
    ):
        refused = other.post(path, body)
        assert (refused.status_code, "that is for owner" in refused.json()["detail"]) == (403, True)
        assert "lacks the scope manage" in narrow.post(path, body).json()["detail"]
    assert Member.objects.get(name="vera").roles == "auditor"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (INVITATIONS, {}),
        (INVITATIONS, {"roles": "viewer"}),
        (INVITATIONS, {"roles": ["viewer"], "days": 31}),
        (INVITATIONS, {"roles": ["viewer"], "email": "x"}),
        (f"{MEMBERS}/owner/roles", {"roles": []}),
    ],
)
def test_what_cannot_be_taken_is_said(program, path, body):
    assert program.post(path, body).status_code == 422


def test_the_local_owner_stays(program):
    assert program.post(f"{MEMBERS}/owner/remove", {}).status_code == 409
    assert program.post(f"{MEMBERS}/nobody/remove", {}).status_code == 404
