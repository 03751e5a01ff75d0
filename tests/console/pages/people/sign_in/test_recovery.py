"""Another password by mail: what is told of whom, and how often a link works."""

from __future__ import annotations

import re
import threading
from html import unescape

import pyotp
import pytest
from django.core import mail
from django.test import Client

from fabric.core.people.roles import Right, Role, has
from fabric.models import AuditLine, LoginLink, SignIn
from fabric.selectors.errors import Refused
from fabric.services.people.invitations import invitation_create
from fabric.services.people.sign_in.second_factors import totp_add, totp_secret
from tests.people import fresh, member, signed_in

NEW = "four new words without any sense"


@pytest.fixture
def vera(owner, settings):
    settings.EMAIL_HOST, settings.DEFAULT_FROM_EMAIL = "mail.example.org", "fabric@example.org"
    user = member("vera")
    user.email = "vera@example.org"
    user.set_password("six dull words beside the sea")
    user.save()
    return user


def visitor():
    return Client(HTTP_HOST="127.0.0.1")


def asked(wanted, browser=None):
    """The page that answers, once the mail has left or none will."""
    answer = (browser or visitor()).post("/login/recover", {"wanted": wanted})
    for thread in threading.enumerate():
        if thread.name == "password link":
            thread.join(20)
    return answer


def link():
    return re.search(r"/login/link#(\S+)", mail.outbox[-1].body)[1]


@pytest.mark.parametrize("wanted", ["vera", "VERA@example.org"])
def test_a_link_is_mailed_and_works_once(vera, wanted):
    elsewhere = signed_in(vera)
    assert asked(wanted).status_code == 200
    assert mail.outbox[0].to == ["vera@example.org"]
    token, browser = link(), visitor()
    assert browser.get("/login/link").status_code == 200
    assert browser.post("/login/link", {"token": token}).headers["Location"] == "/login/password"
    short = browser.post("/login/password", {"password": "short", "again": "short"})
    assert (short.status_code, "too short" in short.content.decode()) == (422, True)
    assert browser.post("/login/password", {"password": NEW, "again": NEW}).headers["Location"] == "/login"
    assert elsewhere.get("/runs").status_code == 302
    assert not SignIn.objects.filter(ended_at=None).exists()
    assert browser.post("/login", {"name": "vera", "password": NEW}).headers["Location"] == "/"
    assert visitor().post("/login/link", {"token": token}).status_code == 410
    kinds = set(AuditLine.objects.values_list("kind", flat=True))
    assert {"password_link_sent", "password_changed", "sign_ins_ended"} <= kinds


@pytest.mark.parametrize(
    ("to", "then"), [("/runs?q=state:failed", "/runs?q=state:failed"), ("https://evil.example", "/")]
)
@pytest.mark.parametrize("first", [True, False])
def test_who_chose_a_password_comes_to_where_they_wanted_to_go(vera, to, then, first):
    if first:
        vera.set_unusable_password()
        vera.save()
    browser = visitor()
    page = browser.get("/login", {"next": to}).content.decode()
    recover = unescape(re.search(r'href="(/login/recover[^"]*)"', page)[1])
    assert browser.get(recover).status_code == 200
    asked("vera", browser)
    browser.post("/login/link", {"token": link()})
    assert browser.post("/login/password", {"password": NEW, "again": NEW}).headers["Location"] == "/login"
    assert browser.post("/login", {"name": "vera", "password": NEW}).headers["Location"] == then


def test_whether_a_member_exists_is_not_told(vera):
    pages = {re.sub(r'(nonce|value)="[^"]*"', "", asked(who).content.decode()) for who in ("vera", "nobody", "x@y.org")}
    assert len(pages) == 1
    assert len(mail.outbox) == 1


def test_the_link_stands_in_for_no_second_factor(vera):
    secret = totp_secret()
    totp_add(actor=fresh(vera), user=vera, secret=secret, code=pyotp.TOTP(secret).now())
    asked("vera")
    browser = visitor()
    browser.post("/login/link", {"token": link()})
    browser.post("/login/password", {"password": NEW, "again": NEW})
    assert browser.post("/login", {"name": "vera", "password": NEW}).headers["Location"] == "/login/second"


def test_it_works_for_twenty_minutes_and_the_newest_alone(vera):
    asked("vera")
    first = link()
    asked("vera")
    assert visitor().post("/login/link", {"token": first}).status_code == 410
    row = LoginLink.objects.get(purpose="password")
    made = AuditLine.objects.filter(kind="password_link_sent").latest("at").at
    assert 0 <= row.expires_at - made <= 1_200_000_000 + 5_000_000
    LoginLink.objects.update(expires_at=1)
    assert visitor().post("/login/link", {"token": link()}).status_code == 410


def test_a_mailed_link_signs_no_one_in_and_a_link_to_sign_in_changes_no_password(vera):
    from fabric.services.actors import login_link_consume, login_link_create
    from fabric.services.people.sign_in.credentials import password_link_use

    asked("vera")
    assert login_link_consume(link()) is None
    assert password_link_use(login_link_create(vera), NEW) is None


def test_who_has_no_way_to_use_one_gets_none(vera):
    ben = member("ben")
    ben.email = "vera@example.org"  # Where two members have an address, it belongs to neither.
    ben.save()
    member("nightly", service=True)
    for wanted in ("vera@example.org", "nightly", "owner"):
        asked(wanted)
    assert mail.outbox == []
    vera.is_active = False
    vera.save()
    asked("vera")
    assert mail.outbox == []


@pytest.mark.parametrize("role", Role)
def test_an_address_that_an_inviter_wrote_is_unconfirmed_until_its_person_says_so(vera, role):
    """An inviter could write an address of their own, and have another's password link mailed there."""
    inviter = fresh(member("ivan", role))
    if not has({role}, Right.MEMBERS):
        with pytest.raises(Refused, match="may not invite people"):
            invitation_create(actor=inviter, roles=["reviewer"], email="ivan@example.org")
        return
    token = invitation_create(actor=inviter, roles=["reviewer"], email="ivan@example.org").token
    browser = visitor()
    browser.post("/people/invitations", {"token": token})
    browser.post("/people/invitations", {"name": "rosa", "password": NEW, "again": NEW})
    assert browser.get("/runs").status_code == 200
    for wanted in ("rosa", "ivan@example.org"):
        asked(wanted)
    assert mail.outbox == []
    browser.post("/notifications/mine", {"email": "rosa@example.org", "wants": ["review"]})
    asked("rosa")
    assert [one.to for one in mail.outbox] == [["rosa@example.org"]]


def test_so_many_are_asked_for_and_no_more(vera, settings):
    settings.FABRIC_SIGN_IN_TRIES = 2
    assert [asked("vera").status_code for _ in range(3)] == [200, 200, 429]
    assert [asked("nobody").status_code for _ in range(3)] == [200, 200, 429]
    assert len(mail.outbox) == 2


def test_a_link_that_is_made_has_its_token_behind_the_hash(owner, browser):
    from django.core.management import call_command

    made = browser.post("/people/members/invite", {"roles": ["viewer"]}).content.decode()
    assert re.search(r"/people/invitations#[\w-]{40,}", made)
    assert not re.search(r"/people/invitations/[\w-]{40,}", made)
    from io import StringIO

    said = StringIO()
    call_command("bootstrap", stdout=said)
    assert re.search(r"/login/link#[\w-]{40,}", said.getvalue())
