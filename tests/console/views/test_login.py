from django.test import Client

from fabric.models import LoginLink
from fabric.services.workspaces import login_link_create


def visitor():
    return Client(HTTP_HOST="127.0.0.1")


def test_looking_at_a_link_does_not_use_it_up(owner):
    token = login_link_create(owner)
    for _ in range(3):
        assert visitor().get(f"/login/{token}").status_code == 200
        assert visitor().head(f"/login/{token}").status_code == 200
    assert not LoginLink.objects.filter(used_at__isnull=False).exists()
    assert visitor().post(f"/login/{token}").headers["Location"] == "/"


def test_a_link_works_once(owner):
    token = login_link_create(owner)
    first, second = visitor(), visitor()
    assert first.post(f"/login/{token}").status_code == 302
    assert first.get("/").status_code == 200
    again = second.post(f"/login/{token}")
    assert again.status_code == 410
    assert b"used before or has expired" in again.content
    assert second.get("/").status_code == 302


def test_an_unknown_link_says_the_same(owner):
    for token in ("x", "a" * 300, "ü"):
        assert visitor().post(f"/login/{token}").status_code == 410


def test_the_token_is_not_in_the_page_or_kept(owner):
    token = login_link_create(owner)
    answer = visitor().get(f"/login/{token}")
    assert token not in answer.content.decode()
    assert "no-store" in answer.headers["Cache-Control"]


def test_it_goes_on_where_the_visitor_was_going(owner):
    answer = visitor().post(f"/login/{login_link_create(owner)}", {"next": "/runs?state=failed"})
    assert answer.headers["Location"] == "/runs?state=failed"


def test_it_goes_to_no_other_site(owner):
    for elsewhere in ("https://evil.example/", "//evil.example", "javascript:alert(1)", "http:evil"):
        answer = visitor().post(f"/login/{login_link_create(owner)}", {"next": elsewhere})
        assert answer.headers["Location"] == "/"


def test_signing_out(browser):
    assert browser.get("/logout").status_code == 405
    assert browser.post("/logout").headers["Location"] == "/login"
    assert browser.get("/").status_code == 302


def test_the_session_is_a_new_one_after_signing_in(owner):
    client = visitor()
    client.get(f"/login/{login_link_create(owner)}")
    before = {name: morsel.value for name, morsel in client.cookies.items()}
    client.post(f"/login/{login_link_create(owner)}")
    after = {name: morsel.value for name, morsel in client.cookies.items()}
    assert set(after) > set(before)
    assert all(after[name] != before[name] for name in before)


def test_a_cookie_kept_from_before_the_sign_out_lets_nobody_in(owner):
    browser, thief = visitor(), visitor()
    browser.post(f"/login/{login_link_create(owner)}")
    thief.cookies.update(browser.cookies)
    assert thief.get("/runs").status_code == thief.get("/api/v1/runs").status_code == 200
    browser.post("/logout")
    assert thief.get("/runs").headers["Location"].startswith("/login")
    assert thief.get("/api/v1/runs").status_code == 401


def test_a_sign_out_ends_that_sign_in_alone(owner):
    browser, elsewhere = visitor(), visitor()
    for one in (browser, elsewhere):
        one.post(f"/login/{login_link_create(owner)}")
    browser.post("/logout")
    assert elsewhere.get("/runs").status_code == 200
