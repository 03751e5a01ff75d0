"""Tokens over the API: made, listed, revoked; no token makes one; and what the caller is mailed."""

from __future__ import annotations

import pytest

from fabric.core.people.scopes import Scope
from fabric.models import ApiToken
from fabric.services.errors import Refused
from fabric.services.people.members import service_create
from fabric.services.people.tokens import token_create, token_revoke, token_use
from tests.console.api.client import Program
from tests.people import fresh, member, token_of
from tests.people import signed_in as in_browser

TOKENS, MINE = "/api/v1/tokens", "/api/v1/notifications/mine"


@pytest.fixture
def nightly(actor):
    return service_create(actor=actor, name="nightly-import", roles=["operator"])


def test_a_name_that_is_used_again_means_the_token_that_works(actor):
    """A person who had the name before cannot revoke the token of its new owner."""
    vera = member("vera")
    token_of(vera, "nightly")
    assert token_revoke(actor=fresh(vera), name="nightly")
    mine = token_create(actor=actor, name="nightly")
    with pytest.raises(Refused, match="revoke tokens of others"):
        token_revoke(actor=fresh(vera), name="nightly")
    assert token_use(mine.secret).actor.name == actor.name


def test_a_token_of_a_disabled_member_is_none(db):
    vera = member("vera")
    secret = token_of(vera, "hers")
    vera.is_active = False
    vera.save()
    assert token_use(secret) == "inactive"


def test_a_service_accounts_token_is_made_used_listed_and_revoked(signed_in, program, nightly):
    asked = {"name": "nightly", "user": nightly, "scopes": ["read", "start"], "days": 30}
    made = signed_in.post(TOKENS, asked).json()
    assert (made["name"], made["user"], made["scopes"]) == ("nightly", nightly, ["read", "start"])
    assert token_use(made["secret"]).actor.name == nightly
    assert Program(made["secret"]).get("/api/v1/runs").status_code == 200
    (listed,) = program.get(TOKENS, user=nightly).json()["tokens"]
    assert "secret" not in listed
    assert listed["state"] == "active"
    assert listed["last_used_at"] is not None
    assert listed["expires_at"] == made["expires_at"]
    assert (listed["fabrics"], made["fabrics"]) == ([], [])
    assert signed_in.post(TOKENS, asked).status_code == 409
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
        ({"days": 366}, 422),
        ({"days": None}, 422),
        ({"fabrics": ["nowhere"]}, 404),
        ({"fabrics": ["small"] * 21}, 422),
        ({"scopes": ["read", "manage"], "fabrics": ["small"]}, 422),
        ({"user": "nobody"}, 404),
    ],
)
def test_what_cannot_be_is_said(signed_in, nightly, given, status):
    refused = signed_in.post(TOKENS, {"name": "nightly", "user": nightly, "scopes": ["read"], **given})
    assert refused.status_code == status
    assert not ApiToken.objects.filter(name="nightly").exists()


def test_one_that_is_confined_says_so_and_works_for_90_days(signed_in, small, nightly):
    asked = {"name": "nightly", "user": nightly, "scopes": ["read", "start"], "fabrics": [small]}
    made = signed_in.post(TOKENS, asked).json()
    row = ApiToken.objects.get(name="nightly")
    assert (made["fabrics"], row.fabrics) == ([small], small)
    assert row.expires_at - row.created_at == 90 * 24 * 3_600 * 1_000_000
    assert token_use(made["secret"]).actor.fabrics == (small,)


def test_a_token_makes_none(actor):
    managing = Program(token_create(actor=actor, name="manages", scopes=tuple(Scope)).secret)
    refused = managing.post(TOKENS, {"name": "same", "scopes": ["read"]})
    assert refused.status_code == 403
    assert "a token cannot make tokens" in refused.json()["detail"].lower()
    assert ApiToken.objects.count() == 1


def test_who_is_no_owner_has_their_own_alone(program, actor, nightly):
    user = member("vera", "viewer")
    token_create(actor=actor, name="theirs", user=nightly)
    vera = Program(token_of(user, "hers", [Scope.READ, Scope.MANAGE]))
    page = Program()
    page.client = in_browser(user)
    assert [one["name"] for one in vera.get(TOKENS).json()["tokens"]] == ["hers"]
    assert vera.get(TOKENS, user=nightly).json()["tokens"] == []
    assert {one["name"] for one in program.get(TOKENS).json()["tokens"]} >= {"hers", "theirs"}
    assert page.post(TOKENS, {"name": "another", "scopes": ["read"]}).json()["user"] == "vera"
    assert page.post(TOKENS, {"name": "other", "user": nightly, "scopes": ["read"]}).status_code == 403
    assert vera.post(f"{TOKENS}/theirs/revoke", {}).status_code == 403
    assert vera.post(f"{TOKENS}/another/revoke", {}).json()["changed"]


def test_each_member_chooses_their_mail(actor, nightly):
    vera = Program(token_of(member("vera", "viewer"), "hers", [Scope.READ, Scope.MANAGE]))
    assert vera.get(MINE).json() == {
        "email": "",
        "wants": ["review", "reminder", "onward", "follow_up", "change", "changed", "mention"],
    }
    assert vera.post(MINE, {"wants": ["follow_up", "review"]}).json()["wants"] == ["review", "follow_up"]
    assert vera.post(MINE, {"wants": []}).json()["wants"] == []
    assert vera.post(MINE, {"wants": ["alert"]}).status_code == 422
    refused = vera.post(MINE, {"wants": ["review"], "email": "elsewhere@example.org"})
    assert refused.status_code == 403
    assert vera.get(MINE).json() == {"email": "", "wants": []}
    account = Program(token_create(actor=actor, name="of-it", user=nightly, scopes=[Scope.READ, Scope.MANAGE]).secret)
    assert account.post(MINE, {"wants": ["review"]}).status_code == 403
