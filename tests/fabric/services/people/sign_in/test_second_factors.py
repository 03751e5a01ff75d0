"""Second factors beside a password: an app, codes for when it is lost, and who may take them away."""

from __future__ import annotations

import re
import time

import pyotp
import pytest
from django.test import Client

from fabric.models import AuditLine, RecoveryCode, SecondFactor, SignIn
from fabric.selectors.errors import Refused
from fabric.services.actors import owner_actor, owner_ensure
from fabric.services.people.members import login_link_for
from fabric.services.people.sign_in.second_factors import (
    code_use,
    factor_remove,
    factors_reset,
    recovery_codes_make,
    totp_add,
    totp_secret,
)
from tests.people import aged, fresh, member, signed_in

pytestmark = pytest.mark.django_db
PASSWORD = "six dull words beside the sea"


def with_password(name="vera", *roles):
    owner_ensure()
    user = member(name, *roles)
    user.set_password(PASSWORD)
    user.save()
    return user


def with_app(user):
    """The secret of a member's app, and their recovery codes."""
    secret = totp_secret()
    codes = totp_add(actor=fresh(user), user=user, secret=secret, code=pyotp.TOTP(secret).now())
    SecondFactor.objects.update(counter=0)  # As if that code had been shown long ago.
    return secret, codes


def enter(client, name="vera"):
    return client.post("/login", {"name": name, "password": PASSWORD, "next": "/reviews"})


def test_a_password_alone_is_not_enough_beside_an_app():
    vera = with_password()
    secret, _ = with_app(vera)
    client = Client(HTTP_HOST="127.0.0.1")
    assert enter(client).headers["Location"] == "/login/second"
    assert client.get("/reviews").status_code == 302
    assert client.get("/api/v1/runs").status_code == 401
    wrong = client.post("/login/second", {"code": "000000"})
    assert (wrong.status_code, client.get("/reviews").status_code) == (422, 302)
    right = client.post("/login/second", {"code": pyotp.TOTP(secret).now()})
    assert right.headers["Location"] == "/reviews"
    assert client.get("/reviews").status_code == 200
    assert SignIn.objects.get().way == "password, totp"


def test_a_second_factor_shows_who_came_by_a_link_that_another_made():
    vera = with_password()
    secret, _ = with_app(vera)
    link = login_link_for(actor=owner_actor(), name="vera")
    client = Client(HTTP_HOST="127.0.0.1")
    assert client.post("/login/link", {"token": link}).headers["Location"] == "/login/second"
    assert client.post("/people/security/codes").headers["Location"].startswith("/login")
    client.post("/login/second", {"code": pyotp.TOTP(secret).now()})
    assert client.post("/people/security/codes").status_code == 200


def test_a_code_counts_once():
    vera = with_password()
    secret, _ = with_app(vera)
    code = pyotp.TOTP(secret).now()
    assert [code_use(vera, code), code_use(vera, code)] == ["totp", ""]


def test_the_code_that_set_an_app_up_is_used():
    vera, secret = with_password(), totp_secret()
    code = pyotp.TOTP(secret).now()
    totp_add(actor=fresh(vera), user=vera, secret=secret, code=code)
    assert code_use(vera, code) == ""


@pytest.mark.parametrize(("steps", "fits"), [(-2, False), (-1, True), (0, True), (1, True), (2, False)])
def test_clocks_may_differ_by_one_step(steps, fits):
    vera = with_password()
    secret, _ = with_app(vera)
    made = pyotp.TOTP(secret)
    before = time.time() // 30
    found = bool(code_use(vera, made.generate_otp(int(before) + steps)))
    assert found is fits or time.time() // 30 != before


def test_the_secret_is_sealed_and_opens_for_its_person_alone(caplog):
    vera, ben = with_password(), with_password("ben")
    secret, _ = with_app(vera)
    row = SecondFactor.objects.get()
    assert secret.encode() not in bytes(row.secret)
    SecondFactor.objects.update(user=ben)
    assert code_use(ben, pyotp.TOTP(secret).now()) == ""
    assert "does not open" in caplog.text


def test_a_recovery_code_stands_in_once_however_it_is_typed():
    vera = with_password()
    _, codes = with_app(vera)
    assert len(set(codes)) == 10
    assert code_use(vera, f" {codes[0].upper()} ") == "recovery"
    assert code_use(vera, codes[0]) == ""
    assert codes[1].replace("-", "") not in str(list(RecoveryCode.objects.values()))
    assert code_use(with_password("ben"), codes[2]) == ""
    other = recovery_codes_make(actor=fresh(vera), user=vera)
    assert code_use(vera, codes[1]) == ""
    assert code_use(vera, other[0].replace("-", "")) == "recovery"


def test_a_secret_that_another_began_with_is_not_taken():
    vera, ben = signed_in(with_password()), signed_in(with_password("ben"))
    page = ben.get("/people/security/app").content.decode()
    secret = re.search(r'class="secret">([A-Z2-7 ]+)<', page)[1].replace(" ", "")
    sent = {"secret": re.search(r'name="secret" value="([^"]+)"', page)[1], "code": pyotp.TOTP(secret).now()}
    assert vera.post("/people/security/app", sent).status_code == 422
    assert not SecondFactor.objects.exists()
    assert ben.post("/people/security/app", sent).status_code == 200


def test_codes_are_guessed_at_only_so_often_whatever_the_address(settings):
    settings.FABRIC_SIGN_IN_TRIES = 3
    with_app(with_password())
    client = Client(HTTP_HOST="127.0.0.1")
    enter(client)
    for n in range(3):
        assert client.post("/login/second", {"code": "000000"}, REMOTE_ADDR=f"10.0.0.{n}").status_code == 422
    late = client.post("/login/second", {"code": "000000"}, REMOTE_ADDR="10.0.0.9")
    assert (late.status_code, int(late["Retry-After"]) > 0) == (429, True)


def test_half_a_sign_in_ends_with_the_password_and_with_time(monkeypatch):
    vera = with_password()
    secret, _ = with_app(vera)
    client = Client(HTTP_HOST="127.0.0.1")
    enter(client)
    from console.pages.people.sign_in import second_factors as login_second

    monkeypatch.setattr(login_second, "HALF_S", 0)
    assert client.post("/login/second", {"code": pyotp.TOTP(secret).now()}).headers["Location"] == "/login"
    monkeypatch.undo()
    vera.set_password("four new words without any sense")
    vera.save()
    assert client.post("/login/second", {"code": pyotp.TOTP(secret).now()}).headers["Location"] == "/login"
    assert client.get("/runs").status_code == 302


def test_an_app_is_set_up_on_the_page_and_codes_are_shown_once():
    browser = signed_in(with_password())
    page = browser.get("/people/security/app").content.decode()
    secret = re.search(r'class="secret">([A-Z2-7 ]+)<', page)[1].replace(" ", "")
    signed = re.search(r'name="secret" value="([^"]+)"', page)[1]
    assert "<svg" in page
    wrong = browser.post("/people/security/app", {"secret": signed, "code": "000000"})
    assert (wrong.status_code, SecondFactor.objects.count()) == (422, 0)
    done = browser.post("/people/security/app", {"secret": signed, "code": pyotp.TOTP(secret).now(), "name": "phone"})
    assert done.content.decode().count("<li><code>") == 10
    assert "phone" in browser.get("/people/security").content.decode()
    assert AuditLine.objects.get(kind="factor_added").actor == "vera"
    forged = browser.post("/people/security/app", {"secret": signed[:-2] + "xx", "code": pyotp.TOTP(secret).now()})
    assert (forged.status_code, SecondFactor.objects.count()) == (422, 1)


def test_changing_factors_wants_a_fresh_sign_in():
    vera = with_password()
    with_app(vera)
    browser = aged(signed_in_with_code(vera))
    factor = SecondFactor.objects.get().id
    for path, given in (("remove", {"factor": factor}), ("codes", {}), ("passkey", {"state": "x", "answer": "{}"})):
        assert browser.post(f"/people/security/{path}", given).status_code == 403, path
    assert browser.get("/people/security/app").status_code == 403
    assert SecondFactor.objects.count() == 1


def signed_in_with_code(user):
    """A browser in which a member signed in by a recovery code."""
    codes = recovery_codes_make(actor=fresh(user), user=user)
    client = Client(HTTP_HOST="127.0.0.1")
    enter(client, user.username)
    client.post("/login/second", {"code": codes[0]})
    return client


def test_the_last_one_is_removed_where_it_is_offered_and_kept_where_it_is_demanded(settings):
    vera = with_password()
    with_app(vera)
    settings.FABRIC_SECOND_FACTOR = "required"
    factor = SecondFactor.objects.get().id
    with pytest.raises(Refused, match="this is your last one"):
        factor_remove(actor=fresh(vera), user=vera, factor_id=factor)
    settings.FABRIC_SECOND_FACTOR = "offered"
    factor_remove(actor=fresh(vera), user=vera, factor_id=factor)
    assert not RecoveryCode.objects.exists()
    assert enter(Client(HTTP_HOST="127.0.0.1")).headers["Location"] == "/reviews"


def test_no_member_removes_anothers():
    vera, ben = with_password(), with_password("ben")
    with_app(vera)
    with pytest.raises(Refused, match="no such second factor"):
        factor_remove(actor=fresh(ben), user=ben, factor_id=SecondFactor.objects.get().id)
    with pytest.raises(Refused, match="people change their own second factors"):
        factor_remove(actor=fresh(ben), user=vera, factor_id=SecondFactor.objects.get().id)
    with pytest.raises(Refused, match="that is for owner"):
        factors_reset(actor=fresh(ben), name="vera")
    assert SecondFactor.objects.count() == 1


def test_a_lost_factor_goes_through_an_owner_and_ends_sign_ins():
    vera = with_password()
    with_app(vera)
    browser = signed_in_with_code(vera)
    assert browser.get("/runs").status_code == 200
    factors_reset(actor=owner_actor(), name="vera")
    assert browser.get("/runs").status_code == 302
    assert enter(Client(HTTP_HOST="127.0.0.1")).headers["Location"] == "/reviews"
    line = AuditLine.objects.get(kind="factor_removed")
    assert (line.actor, line.subject) == ("owner", "vera")


def test_where_one_is_demanded_nothing_else_is_to_be_had_before(settings):
    settings.FABRIC_SECOND_FACTOR = "required"
    owner = owner_ensure()
    browser = signed_in(owner)
    assert browser.get("/runs").headers["Location"] == "/people/security"
    assert browser.get("/api/v1/runs").status_code == 403
    assert browser.post("/people/members/invite", {"roles": ["viewer"]}).status_code == 403
    assert "This installation requires a second factor" in browser.get("/people/security").content.decode()
    page = browser.get("/people/security/app").content.decode()
    secret = re.search(r'class="secret">([A-Z2-7 ]+)<', page)[1].replace(" ", "")
    signed = re.search(r'name="secret" value="([^"]+)"', page)[1]
    assert browser.post("/people/security/app", {"secret": signed, "code": pyotp.TOTP(secret).now()}).status_code == 200
    assert browser.get("/runs").status_code == 200


def test_where_one_is_demanded_an_owner_has_one_first(settings):
    vera = with_password()
    settings.FABRIC_SECOND_FACTOR = "required"
    refused = enter(Client(HTTP_HOST="127.0.0.1"))
    assert refused.status_code == 403
    assert "An owner must set one up first" in refused.content.decode()
    with_app(owner_ensure())
    client = Client(HTTP_HOST="127.0.0.1")
    assert enter(client).status_code == 302
    assert client.get("/runs").headers["Location"] == "/people/security"
    assert not SecondFactor.objects.filter(user=vera).exists()
