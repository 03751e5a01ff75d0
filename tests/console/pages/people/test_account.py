"""One's own password: the old one is asked for, the rules are told, other browsers are signed out; and the tokens of a member on their page."""

from __future__ import annotations

import html
import re
import time

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client

from console.live.admission import SIGNED_OUT, Credentials, admissions
from fabric.models import ApiToken, AuditLine, LoginLink, Member
from fabric.services.actors import login_link_create
from fabric.services.people.members import service_create
from fabric.services.people.tokens import token_create, token_use
from tests.people import member, signed_in

OLD, NEW = "four-dull-words-in-a-row", "another-four-dull-words"
PAGE = "/people/account"


@pytest.fixture(autouse=True)
def _clear_throttle():
    cache.clear()


@pytest.fixture
def ana(actor):
    user = member("ana", "reviewer")
    user.set_password(OLD)
    user.save()
    return user


def by_password(name="ana", password=OLD):
    client = Client(HTTP_HOST="127.0.0.1")
    assert client.post("/login", {"name": name, "password": password}).status_code == 302
    return client


def change(client, old=OLD, password=NEW, again=None):
    return client.post(PAGE, {"old": old, "password": password, "again": password if again is None else again})


def text_of(answer):
    return html.unescape(" ".join(re.sub("<[^>]+>", " ", answer.content.decode()).split()))


def at(page, place):
    return page.content.decode().partition(f'id="{place}"')[2].partition("</div>")[0]


def test_a_changed_password_ends_every_other_sign_in_and_this_one_stays(ana):
    here, there = by_password(), by_password()
    link = login_link_create(ana)
    cookie = there.cookies[settings.SESSION_COOKIE_NAME].value
    done = change(here)
    assert done.headers["Location"] == PAGE
    assert "Your password is changed." in text_of(here.get(PAGE))
    assert there.get(PAGE).headers["Location"].startswith("/login"), "a signed cookie from before is none any more"
    (told,) = admissions([(Credentials(cookie), "run")]).values()
    assert told.code == SIGNED_OUT, "nor does a socket come in by it"
    assert Client(HTTP_HOST="127.0.0.1").post("/login/link", {"token": link}).status_code == 410
    assert not LoginLink.objects.filter(user=ana, used_at__isnull=True).exists()
    assert Client(HTTP_HOST="127.0.0.1").post("/login", {"name": "ana", "password": OLD}).status_code == 422
    assert by_password(password=NEW).get(PAGE).status_code == 200
    (line,) = AuditLine.objects.filter(kind="password_changed")
    assert (line.actor, line.subject) == ("ana", "ana")
    assert NEW.encode() not in bytes(line.body)


@pytest.mark.parametrize(
    ("given", "place", "said"),
    [
        ({"old": "not this"}, "e-old", "not your password"),
        ({"old": ""}, "e-old", "not your password"),
        ({"password": "short"}, "e-password", "too short"),
        ({"password": "password1234567"}, "e-password", "tried first"),
        ({"password": "fabricflow-ana-1"}, "e-password", "made of your name"),
        ({"password": OLD}, "e-password", "choose another one"),
        ({"password": ""}, "e-password", "Choose a new password"),
        ({"again": "otherwise"}, "e-again", "passwords differ"),
    ],
)
def test_what_is_wrong_is_said_at_its_field_and_nothing_changes(ana, given, place, said):
    client = by_password()
    refused = change(client, **given)
    assert refused.status_code == 422
    assert said in html.unescape(at(refused, place))
    for secret in (OLD, NEW, "not this", "short"):
        assert f'value="{secret}"' not in refused.content.decode()
    assert User.objects.get(pk=ana.pk).check_password(OLD)
    assert not AuditLine.objects.filter(kind="password_changed").exists()
    assert client.get(PAGE).status_code == 200


def test_the_rules_are_told_before_anything_is_typed(ana):
    said = text_of(by_password().get(PAGE))
    assert "At least 15 characters" in said
    assert "Your other browsers are signed out" in said


def test_old_passwords_are_not_guessed_at_without_end(ana, settings):
    settings.FABRIC_SIGN_IN_TRIES = 3
    client = by_password()
    tried = [change(client, old=f"guess-{n}").status_code for n in range(4)]
    assert tried == [422, 422, 422, 429]
    answer = change(client)
    assert (answer.status_code, "Retry-After" in answer.headers) == (429, True)
    assert User.objects.get(pk=ana.pk).check_password(OLD)


def test_who_came_by_links_alone_sets_a_first_one_from_a_fresh_sign_in(actor):
    user = member("rosa", "reviewer")
    user.set_unusable_password()
    user.save()
    client = signed_in(user)
    assert 'name="old"' not in client.get(PAGE).content.decode()
    session = client.session
    session["signed_in_at"] = time.time_ns() // 1_000 - 3_600_000_000
    session.save()
    client.cookies[settings.SESSION_COOKIE_NAME] = session.session_key
    refused = change(client)
    assert refused.status_code == 403
    assert "Sign in again" in text_of(refused)
    client = signed_in(user)
    assert change(client).status_code == 302
    assert by_password("rosa", NEW).get(PAGE).status_code == 200


# -- tokens ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def program(actor):
    """The page of an account of programs."""
    service_create(actor=actor, name="nightly-import", roles=["operator"])
    return Member.objects.get(name="nightly-import")


def make(client, one, **more):
    return client.post(f"/people/members/{one.id}/tokens", {"name": "nightly", "scopes": ["read", "start"], **more})


def test_a_token_is_shown_once_when_it_is_made_and_listed_without(browser, program):
    made = make(browser, program, days="30")
    assert made.status_code == 200
    assert "no-store" in made.headers["Cache-Control"]
    found = re.search(r'id="secret"[^>]*>(ff_\w+)<', made.content.decode())
    assert found
    holder = token_use(found[1])
    assert (holder.actor.name, holder.scopes) == ("nightly-import", {"read", "start"})
    page = browser.get(f"/people/members/{program.id}")
    assert found[1] not in page.content.decode()
    row = page.content.decode().partition(f'id="t-{ApiToken.objects.get().id}"')[2].partition("</tr>")[0]
    assert "expires" in row
    assert "never used" not in row
    assert 'name="scopes" value="decide"' not in page.content.decode(), "it decides nothing"


def test_a_token_is_revoked_on_the_page(browser, actor, program):
    secret = token_create(actor=actor, name="ci.v2", user="nightly-import").secret
    done = browser.post("/people/tokens/ci.v2/revoke", {"member": program.id})
    assert done.headers["Location"] == f"/people/members/{program.id}"
    assert token_use(secret) == "revoked"
    page = browser.get(f"/people/members/{program.id}").content.decode()
    assert "revoked <" in page
    assert "/people/tokens/ci.v2/revoke" not in page
    assert browser.post("/people/tokens/none/revoke").status_code == 404
    assert browser.post("/people/tokens/ci.v2/revoke", {"member": "//evil"}).headers["Location"] == "/people/members"


@pytest.mark.parametrize(
    ("given", "status", "place", "said"),
    [
        ({"name": ""}, 422, "token-e-name", "needs a name"),
        ({"name": "a b"}, 422, "token-e-name", "is no name for a token"),
        ({"name": "taken"}, 409, "token-e-name", "is named 'taken' already"),
        ({"scopes": []}, 422, "token-e-scopes", "needs a scope"),
        ({"scopes": ["decide"]}, 422, "token-e-scopes", "decides nothing"),
        ({"scopes": ["all"]}, 422, "token-e-scopes", "all"),
        ({"days": "0"}, 422, "token-e-days", "cannot expire in 0 days"),
        ({"days": "soon"}, 422, "token-e-days", "whole number"),
    ],
)
def test_what_is_wrong_with_a_token_is_said_at_its_field(browser, actor, program, given, status, place, said):
    token_create(actor=actor, name="taken", user="nightly-import")
    refused = make(browser, program, **given)
    assert refused.status_code == status
    assert said in html.unescape(at(refused, place))
    assert ApiToken.objects.count() == 1


def test_ones_own_tokens_are_ones_own_and_those_of_others_for_owners(browser, program):
    vera = signed_in(member("vera", "viewer"))
    me = Member.objects.get(name="vera")
    assert make(vera, me).status_code == 200
    refused = make(vera, program, name="other")
    assert refused.status_code == 403
    assert "that is for owner" in text_of(refused)
    theirs = vera.get(f"/people/members/{program.id}").content.decode()
    assert 'id="tokens"' not in theirs
    assert 'id="tokens"' in vera.get(f"/people/members/{me.id}").content.decode()
    assert make(browser, program, name="other").status_code == 200
    assert vera.post("/people/tokens/other/revoke").status_code == 403
    assert browser.post("/people/tokens/nightly/revoke", {"member": me.id}).status_code == 302
