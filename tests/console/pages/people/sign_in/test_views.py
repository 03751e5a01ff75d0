import json
import time

from django.contrib.auth.models import User
from django.test import Client

from console.site.access.actors import find_actor
from fabric.models import AuditLine, LoginLink, SignInTries
from fabric.services.actors import login_link_create
from tests.people import member, signed_in


def visitor():
    return Client(HTTP_HOST="127.0.0.1")


def test_looking_at_a_link_does_not_use_it_up(owner):
    token = login_link_create(owner)
    for _ in range(3):
        assert visitor().get("/login/link").status_code == 200
        assert visitor().head("/login/link").status_code == 200
    assert not LoginLink.objects.filter(used_at__isnull=False).exists()
    assert visitor().post("/login/link", {"token": token}).headers["Location"] == "/"


def test_a_link_works_once(owner):
    token = login_link_create(owner)
    first, second = visitor(), visitor()
    assert first.post("/login/link", {"token": token}).status_code == 302
    assert first.get("/").status_code == 200
    again = second.post("/login/link", {"token": token})
    assert again.status_code == 410
    assert b"used before or has expired" in again.content
    assert second.get("/").status_code == 302


def test_an_unknown_link_says_the_same(owner):
    for token in ("x", "a" * 300, "ü"):
        assert visitor().post("/login/link", {"token": token}).status_code == 410


def test_the_token_is_not_in_the_page_or_kept(owner):
    token = login_link_create(owner)
    answer = visitor().get("/login/link")
    assert token not in answer.content.decode()
    assert "no-store" in answer.headers["Cache-Control"]


def test_a_link_is_used_by_what_stands_behind_its_hash(owner):
    token, browser = login_link_create(owner), visitor()
    assert browser.post("/login/link", {"token": f" {token} ", "next": "/reviews"}).headers["Location"] == "/reviews"
    assert visitor().post("/login/link", {"token": token}).status_code == 410


def test_it_goes_on_where_the_visitor_was_going(owner):
    answer = visitor().post("/login/link", {"token": login_link_create(owner), "next": "/runs?state=failed"})
    assert answer.headers["Location"] == "/runs?state=failed"


def test_it_goes_to_no_other_site(owner):
    for elsewhere in ("https://evil.example/", "//evil.example", "javascript:alert(1)", "http:evil"):
        answer = visitor().post("/login/link", {"token": login_link_create(owner), "next": elsewhere})
        assert answer.headers["Location"] == "/"


def test_signing_out(browser):
    assert browser.get("/logout").status_code == 405
    assert browser.post("/logout").headers["Location"] == "/login"
    assert browser.get("/").status_code == 302


def test_the_session_is_a_new_one_after_signing_in(owner):
    client = visitor()
    client.get("/login/link")
    before = {name: morsel.value for name, morsel in client.cookies.items()}
    client.post("/login/link", {"token": login_link_create(owner)})
    after = {name: morsel.value for name, morsel in client.cookies.items()}
    assert set(after) > set(before)
    assert all(after[name] != before[name] for name in before)


def test_a_cookie_kept_from_before_the_sign_out_lets_no_one_in(owner):
    browser, thief = visitor(), visitor()
    browser.post("/login/link", {"token": login_link_create(owner)})
    thief.cookies.update(browser.cookies)
    assert thief.get("/runs").status_code == thief.get("/api/v1/runs").status_code == 200
    browser.post("/logout")
    assert thief.get("/runs").headers["Location"].startswith("/login")
    assert thief.get("/api/v1/runs").status_code == 401


def test_a_sign_out_ends_that_sign_in_alone(owner):
    browser, elsewhere = visitor(), visitor()
    for one in (browser, elsewhere):
        one.post("/login/link", {"token": login_link_create(owner)})
    browser.post("/logout")
    assert elsewhere.get("/runs").status_code == 200


PASSWORD = "four-dull-words-in-a-row"


def with_password(name="vera", *roles):
    user = member(name, *roles)
    user.set_password(PASSWORD)
    user.save()
    return user


def enter(client, name="vera", password=PASSWORD, **more):
    return client.post("/login", {"name": name, "password": password, **more})


def test_a_name_and_a_password_sign_in(owner):
    with_password()
    client = visitor()
    assert b'autocomplete="current-password"' in client.get("/login").content
    answer = enter(client, next="/runs?q=state:failed")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/runs?q=state:failed")
    assert client.get("/runs").status_code == 200
    line = AuditLine.objects.get(kind="signed_in")
    assert (line.actor, json.loads(bytes(line.body))["by"]) == ("vera", "password")
    assert enter(visitor(), next="https://evil.example/").headers["Location"] == "/"


def test_what_does_not_fit_says_the_same_for_each_caller(owner):
    with_password()
    member("nightly", service=True)
    for name, password in (("vera", "wrong"), ("nobody", PASSWORD), ("owner", ""), ("owner", "x"), ("nightly", "x")):
        answer = enter(visitor(), name, password)
        assert answer.status_code == 422
        assert PASSWORD not in answer.content.decode()
        if password:
            assert b"This name and password do not fit together" in answer.content
    assert not AuditLine.objects.filter(kind="signed_in").exists()


def test_passwords_are_tried_for_a_name_only_so_often_from_wherever(owner, settings):
    settings.FABRIC_SIGN_IN_TRIES = 3
    with_password()
    for n in range(3):
        tried = Client(HTTP_HOST="127.0.0.1", REMOTE_ADDR=f"10.0.0.{n}")
        assert enter(tried, password="wrong").status_code == 422
    late = enter(Client(HTTP_HOST="127.0.0.1", REMOTE_ADDR="10.0.0.9"))
    assert (late.status_code, int(late["Retry-After"]) > 0) == (429, True)
    assert b"Too many sign-ins were tried" in late.content
    SignInTries.objects.all().delete()
    for _ in range(5):
        assert enter(visitor()).status_code == 302, "what was right does not count"


def test_who_is_signed_in_signs_in_once_more_and_comes_back(owner):
    user = with_password()
    client = visitor()
    enter(client)
    first = client.session["signed_in_at"]
    page = client.get("/login?again=1&next=/reviews/x").content.decode()
    assert "Sign in again" in page
    assert 'value="vera"' in page
    assert enter(client, password="wrong").status_code == 422
    assert enter(client, "owner", PASSWORD).status_code == 422, "no one else"
    assert client.session["signed_in_at"] == first
    mark = client.session["mark"]
    assert enter(client, next="/reviews/x").headers["Location"] == "/reviews/x"
    assert client.session["signed_in_at"] > first
    assert client.session["mark"] == mark, "signing out ends what was there before as well"
    client.get("/login?again=1&next=/reviews/y")
    assert client.post("/login/link", {"token": login_link_create(user)}).headers["Location"] == "/reviews/y"


def test_who_has_no_password_is_told_of_the_link(browser):
    page = browser.get("/login?again=1&next=/reviews").content.decode()
    assert "has no password" in page
    assert 'type="password"' not in page


def test_from_when_a_sign_in_is_is_known_to_services(owner):
    client, before = visitor(), time.time_ns() // 1_000
    client.post("/login/link", {"token": login_link_create(owner)})
    request = client.get("/runs").wsgi_request
    assert before <= find_actor(request.user).signed_in_at <= time.time_ns() // 1_000


def test_who_is_no_member_may_sign_out_and_nothing_else(owner):
    user = User.objects.create_user("ben")
    client = signed_in(user)
    for path in ("/", "/runs", "/people/members", "/search?q=x", "/api/v1/docs"):
        answer = client.get(path)
        assert (answer.status_code, b"is no member of this workspace" in answer.content) == (403, True)
    assert client.get("/api/v1/runs").status_code == 403
    assert client.get("/runs", headers={"HX-Request": "true"}).content.startswith(b"ben is no member")
    assert client.get("/login").status_code == 200
    assert client.post("/logout").status_code == 302


def test_after_links_that_were_no_good_none_is_looked_at_whatever_a_header_says(owner, settings):
    settings.FABRIC_SIGN_IN_TRIES = 1
    link, told = login_link_create(owner), []
    for n in range(11):
        client = Client(HTTP_HOST="127.0.0.1", headers={"X-Forwarded-For": f"10.0.0.{n}"})
        told.append(client.post("/login/link", {"token": "nosuch"}).status_code)
    assert told == [410] * 10 + [429]
    refused = Client(HTTP_HOST="127.0.0.1").post("/login/link", {"token": link})
    assert (refused.status_code, int(refused["Retry-After"]) > 0) == (429, True)
    assert LoginLink.objects.get().used_at is None
