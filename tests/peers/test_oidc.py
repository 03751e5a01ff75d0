"""Signing in by a certified provider of identities, its groups, and who is taken out of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client

from fabric.core.people.roles import held_in
from fabric.models import AuditLine, Identity, Member, SignIn
from fabric.services.actors import login_link_create, owner_actor, owner_ensure
from fabric.services.people.identities import GRACE_S
from fabric.services.people.members import member_readmit, member_remove, member_roles_set
from tests.peers.oidc import SECRET, OidcServer, oidc_server, sign_in_at
from tests.people import token_of

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.django_db(transaction=True)]
US = 1_000_000
ADA = {"email": "ada@example.org", "email_verified": True, "groups": ["engineers"]}
BACK = "http://127.0.0.1:8420/login/sso/back"


@pytest.fixture
def provider(tmp_path: Path, settings: Any) -> Iterator[OidcServer]:
    owner_ensure()
    settings.FABRIC_PUBLIC_URL = "http://127.0.0.1:8420"
    with oidc_server(tmp_path, BACK) as found:
        settings.FABRIC_OIDC_ISSUER = found.issuer
        settings.FABRIC_OIDC_CLIENT_ID, settings.FABRIC_OIDC_CLIENT_SECRET = "fabric", SECRET
        settings.FABRIC_OIDC_ROLES = (("engineers", "editor"), ("engineers", "reviewer"), ("leads", "owner"))
        settings.FABRIC_OIDC_DOMAINS = ("example.org",)
        yield found


def visitor() -> Client:
    return Client(HTTP_HOST="127.0.0.1:8420")


def came_back(browser: Client, who: str = "ada", begin: str = "/login/sso") -> Any:
    """The answer to the provider's leading back."""
    asked = browser.get(begin)
    assert asked.status_code == 302, asked.content
    to = urlsplit(sign_in_at(asked.headers["Location"], who, BACK))
    return browser.get(f"{to.path}?{to.query}")


def signed_in(who: str = "ada") -> Client:
    browser = visitor()
    answer = came_back(browser, who)
    assert answer.status_code == 302, answer.content.decode()
    return browser


def later(seconds: float = 301) -> None:
    """As if the provider had been asked so long before."""
    for row in Identity.objects.all():
        Identity.objects.filter(id=row.id).update(checked_at=row.checked_at - round(seconds * US), asked_at=0)


def roles(name: str = "ada@example.org") -> frozenset[str]:
    return held_in(Member.objects.get(name=name, removed_at=None).roles)


def test_a_person_signs_in_and_has_the_roles_of_their_groups(provider: OidcServer) -> None:
    provider.has(ada=ADA)
    browser = visitor()
    answer = came_back(browser, begin="/login/sso?next=/reviews")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/reviews")
    assert browser.get("/reviews").status_code == 200
    assert roles() == {"editor", "reviewer"}
    assert SignIn.objects.get().way == "sso"
    assert AuditLine.objects.filter(kind="signed_in", actor="ada@example.org").exists()
    stored = bytes(Identity.objects.get().refresh)
    assert stored
    assert b"refresh" not in stored
    again = signed_in()  # The same person, not another one.
    assert again.get("/").status_code == 200
    assert Member.objects.filter(name="ada@example.org").count() == 1


def test_what_is_asked_for_has_a_state_a_nonce_and_a_challenge(provider: OidcServer) -> None:
    asked = parse_qs(urlsplit(visitor().get("/login/sso").headers["Location"]).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["response_type"] == ["code"]
    assert all(len(asked[name][0]) >= 40 for name in ("state", "nonce", "code_challenge"))


def test_groups_are_read_anew_and_a_role_is_lost_with_its_group(provider: OidcServer) -> None:
    provider.has(ada=ADA | {"groups": ["engineers", "leads"]})
    browser = signed_in()
    assert roles() == {"editor", "reviewer", "owner"}
    provider.has(ada=ADA)
    browser.get("/")
    assert "owner" in roles(), "not asked before its time"
    later()
    assert browser.get("/").status_code == 200
    assert roles() == {"editor", "reviewer"}
    later()
    assert browser.get("/").status_code == 200, "the other refresh token that came is good too"


@pytest.mark.parametrize("how", ["out of the provider", "out of every group", "into another domain"])
def test_who_is_taken_out_is_out(provider: OidcServer, how: str) -> None:
    provider.has(ada=ADA)
    browser = signed_in()
    user = Identity.objects.get().user
    secret = token_of(user, "script")
    program: dict[str, Any] = {"HTTP_AUTHORIZATION": f"Bearer {secret}"}
    assert visitor().get("/api/v1/runs", **program).status_code == 200
    now = {"out of every group": ADA | {"groups": []}, "into another domain": ADA | {"email": "ada@example.com"}}
    provider.has(**({} if how == "out of the provider" else {"ada": now[how]}))
    later()
    assert visitor().get("/api/v1/runs", **program).status_code == 401
    assert browser.get("/runs").headers["Location"].startswith("/login")
    assert browser.get("/runs").headers["Location"].startswith("/login")
    assert not SignIn.objects.filter(ended_at=None).exists()
    assert AuditLine.objects.filter(kind="sign_in_refused").exists()
    provider.has(ada=ADA)
    assert signed_in().get("/runs").status_code == 200, "who is back comes back"


@pytest.mark.parametrize(
    ("account", "said"),
    [
        (ADA | {"groups": ["gardeners"]}, "none of their groups has a role here"),
        (ADA | {"email": "ada@example.com"}, "of example.com are not let in here"),
        (ADA | {"email_verified": False}, "did not confirm your mail address"),
    ],
)
def test_who_has_no_place_here_is_told_so(provider: OidcServer, account: dict[str, Any], said: str) -> None:
    provider.has(ada=account)
    browser = visitor()
    answer = came_back(browser)
    assert answer.status_code == 403
    assert said in answer.content.decode()
    assert not Identity.objects.exists()
    assert browser.get("/runs").headers["Location"].startswith("/login")


def test_a_name_that_a_member_has_here_is_not_handed_over(provider: OidcServer) -> None:
    provider.has(ada=ADA | {"email": "owner", "email_verified": True, "groups": ["leads"]})
    provider.accounts.write_text(json.dumps({"owner": {"groups": ["leads"]}}))
    from django.conf import settings

    settings.FABRIC_OIDC_DOMAINS = ()
    answer = came_back(visitor(), who="owner")
    assert answer.status_code == 403
    assert "cannot be called" in answer.content.decode()


@pytest.mark.parametrize("changed", ["state", "code", "iss"])
def test_an_answer_that_was_changed_on_its_way_signs_no_one_in(provider: OidcServer, changed: str) -> None:
    provider.has(ada=ADA)
    browser = visitor()
    to = urlsplit(sign_in_at(browser.get("/login/sso").headers["Location"], "ada", BACK))
    given = {name: values[0] for name, values in parse_qs(to.query).items()}
    assert changed in given
    assert browser.get(to.path, given | {changed: given[changed][:-1] + "_"}).status_code == 403
    assert browser.get("/runs").headers["Location"].startswith("/login")
    assert json.loads(bytes(AuditLine.objects.get(kind="sign_in_failed").body))["how"] == "oidc"


def test_who_is_signed_in_becomes_no_one_else(provider: OidcServer) -> None:
    provider.has(ada=ADA)
    browser = visitor()
    browser.post("/login/link", {"token": login_link_create(owner_ensure())})
    answer = came_back(browser)
    assert answer.status_code == 403
    assert "Another person is signed in" in answer.content.decode()
    assert [one.user.username for one in SignIn.objects.filter(ended_at=None)] == ["owner"]


def test_an_answer_counts_once_and_in_the_browser_that_asked(provider: OidcServer) -> None:
    provider.has(ada=ADA)
    browser, other = visitor(), visitor()
    to = urlsplit(sign_in_at(browser.get("/login/sso").headers["Location"], "ada", BACK))
    kept = SimpleCookie({name: one.value for name, one in browser.cookies.items()})
    assert other.get(f"{to.path}?{to.query}").status_code == 403
    assert browser.get(f"{to.path}?{to.query}").status_code == 302
    other.cookies = kept
    assert other.get(f"{to.path}?{to.query}").status_code == 403


def test_a_provider_that_is_away_ends_nothing_at_once_and_keeps_no_one_for_long(
    provider: OidcServer, settings: Any
) -> None:
    provider.has(ada=ADA)
    browser = signed_in()
    from fabric.services.people import identities

    found = identities.provider()
    assert found is not None
    found._found |= {"token_endpoint": "http://127.0.0.1:9/token"}
    later()
    assert browser.get("/runs").status_code == 200
    later(GRACE_S)
    answer = browser.get("/runs")
    assert answer.status_code == 503
    assert "does not respond" in answer.content.decode()
    assert SignIn.objects.filter(ended_at=None).exists(), "no person said no"
    identities._provider.cache_clear()
    later(0)
    assert browser.get("/runs").status_code == 200


@pytest.mark.parametrize("gone", ["the provider", "the identity"])
def test_who_came_by_a_provider_that_is_none_any_more_is_out(provider: OidcServer, settings: Any, gone: str) -> None:
    provider.has(ada=ADA)
    browser = signed_in()
    program: dict[str, Any] = {"HTTP_AUTHORIZATION": f"Bearer {token_of(Identity.objects.get().user, 'script')}"}
    if gone == "the provider":
        settings.FABRIC_OIDC_ISSUER = "https://login.example.org"
    else:
        Identity.objects.all().delete()
    assert browser.get("/runs").headers["Location"].startswith("/login")
    assert browser.get("/api/v1/runs").status_code == 401
    if gone == "the provider":
        assert visitor().get("/api/v1/runs", **program).status_code == 401


def test_roles_and_ways_in_are_the_providers_alone(provider: OidcServer) -> None:
    provider.has(ada=ADA | {"groups": ["engineers", "leads"]})
    browser = signed_in()
    from fabric.services.errors import Refused
    from fabric.services.people.members import login_link_for

    with pytest.raises(Refused, match="those of their groups"):
        member_roles_set(actor=owner_actor(), name="ada@example.org", roles=["viewer"])
    with pytest.raises(Refused, match="would go round it"):
        login_link_for(actor=owner_actor(), name="ada@example.org")
    given = {"password": "six dull words beside the sea", "again": "six dull words beside the sea"}
    assert browser.post("/people/account", given).status_code == 403
    assert "Set up passwords and second factors there" in browser.get("/people/security").content.decode()


def test_whom_an_owner_removed_stays_out_until_an_owner_says_otherwise(provider: OidcServer) -> None:
    provider.has(ada=ADA)
    signed_in()
    member_remove(actor=owner_actor(), name="ada@example.org")
    answer = came_back(visitor())
    assert answer.status_code == 403
    assert "wner removed ada@example.org" in answer.content.decode()
    member_readmit(actor=owner_actor(), name="ada@example.org")
    assert signed_in().get("/runs").status_code == 200


def test_a_fresh_sign_in_is_one_that_the_provider_saw(provider: OidcServer) -> None:
    provider.has(ada=ADA | {"groups": ["leads"]})
    browser = signed_in()
    invite = {"roles": ["viewer"]}
    # Without max_age it does not say when it saw her.
    assert browser.post("/people/members/invite", invite).status_code == 403
    assert "max_age=0" in browser.get("/login/sso").headers["Location"]
    assert came_back(browser, begin="/login/sso?next=/people/members").headers["Location"] == "/people/members"
    assert browser.post("/people/members/invite", invite).status_code == 200
