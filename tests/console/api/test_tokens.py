"""Tokens over the API: made, listed, revoked; nobody's token makes one that may do more; and what the caller is mailed."""

from __future__ import annotations

import pytest

from fabric.models import ApiToken
from fabric.services.members import service_create
from fabric.services.tokens import Scope, token_create, token_use
from tests.console.api.client import Program
from tests.people import member

TOKENS, MINE = "/api/v1/tokens", "/api/v1/notifications/mine"


@pytest.fixture
def nightly(actor):
    return service_create(actor=actor, name="nightly-import", roles=["operator"])


def test_a_service_accounts_token_is_made_used_listed_and_revoked(program, nightly):
    asked = {"name": "nightly", "user": nightly, "scopes": ["read", "run"], "days": 30}
    made = program.post(TOKENS, asked).json()
    assert (made["name"], made["user"], made["scopes"]) == ("nightly", nightly, ["read", "run"])
    assert token_use(made["secret"]).actor.name == nightly
    assert Program(made["secret"]).get("/api/v1/runs").status_code == 200
    (listed,) = program.get(TOKENS, user=nightly).json()["tokens"]
    assert "secret" not in listed
    assert listed["state"] == "active"
    assert listed["last_used_at"] is not None
    assert listed["expires_at"] == made["expires_at"]
    assert program.post(TOKENS, asked).status_code == 409
    assert [program.post(f"{TOKENS}/nightly/revoke", {}).json()["changed"] for _ in range(2)] == [True, False]
    assert Program(made["secret"]).get("/api/v1/runs").status_code == 401
    assert program.get(TOKENS, user=nightly).json()["tokens"][0]["state"] == "revoked"
    assert program.post(f"{TOKENS}/none/revoke", {}).status_code == 404


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"scopes": ["decide"]}, 422),
        ({"scopes": []}, 422),
        ({"scopes": ["all"]}, 422),
        ({"name": "a b"}, 422),
        ({"days": 0}, 422),
        ({"user": "nobody"}, 404),
    ],
)
def test_what_cannot_be_is_said(program, nightly, given, status):
    refused = program.post(TOKENS, {"name": "nightly", "user": nightly, "scopes": ["read"], **given})
    assert refused.status_code == status
    assert not ApiToken.objects.filter(name="nightly").exists()


def test_a_token_makes_none_that_may_do_more_than_itself(actor):
    managing = Program(token_create(actor=actor, name="manages", scopes=[Scope.READ, Scope.MANAGE]).secret)
    refused = managing.post(TOKENS, {"name": "more", "scopes": ["read", "decide"]})
    assert refused.status_code == 403
    assert "it lacks the scope decide" in refused.json()["detail"]
    assert managing.post(TOKENS, {"name": "same", "scopes": ["read"]}).status_code == 200
    reading = Program(token_create(actor=actor, name="reads").secret)
    assert reading.post(TOKENS, {"name": "less", "scopes": ["read"]}).status_code == 403


def test_who_is_no_owner_has_their_own_alone(program, actor, nightly):
    member("vera", "viewer")
    token_create(actor=actor, name="theirs", user=nightly)
    vera = Program(token_create(actor=actor, name="hers", user="vera", scopes=[Scope.READ, Scope.MANAGE]).secret)
    assert [one["name"] for one in vera.get(TOKENS).json()["tokens"]] == ["hers"]
    assert vera.get(TOKENS, user=nightly).json()["tokens"] == []
    assert {one["name"] for one in program.get(TOKENS).json()["tokens"]} >= {"hers", "theirs"}
    assert vera.post(TOKENS, {"name": "another", "scopes": ["read"]}).json()["user"] == "vera"
    assert vera.post(TOKENS, {"name": "other", "user": nightly, "scopes": ["read"]}).status_code == 403
    assert vera.post(f"{TOKENS}/theirs/revoke", {}).status_code == 403
    assert vera.post(f"{TOKENS}/another/revoke", {}).json()["changed"]


def test_what_somebody_is_mailed_is_theirs_to_say(actor, nightly):
    member("vera", "viewer")
    secret = token_create(actor=actor, name="hers", user="vera", scopes=[Scope.READ, Scope.MANAGE]).secret
    vera = Program(secret)
    assert vera.get(MINE).json() == {
        "email": "",
        "wants": ["question", "reminder", "onward", "ticket", "change", "changed"],
    }
    assert vera.post(MINE, {"wants": ["ticket", "question"]}).json()["wants"] == ["question", "ticket"]
    assert vera.post(MINE, {"wants": []}).json()["wants"] == []
    assert vera.post(MINE, {"wants": ["alert"]}).status_code == 422
    refused = vera.post(MINE, {"wants": ["question"], "email": "elsewhere@example.org"})
    assert refused.status_code == 403
    assert vera.get(MINE).json() == {"email": "", "wants": []}
    account = Program(token_create(actor=actor, name="of-it", user=nightly, scopes=[Scope.READ, Scope.MANAGE]).secret)
    assert account.post(MINE, {"wants": ["question"]}).status_code == 403
