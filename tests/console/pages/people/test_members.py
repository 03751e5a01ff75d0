"""The pages of members and invitations, without a script: who there is, inviting, accepting, roles, removing."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.test import Client

from console.live.admission import NOT_ALLOWED, Credentials, admissions
from fabric.composition import engine as wiring
from fabric.core.people.roles import MEANS, PEOPLE_ONLY, Role
from fabric.models import Invitation, Member
from fabric.services.actors import find_actor
from fabric.services.people.invitations import invitation_create
from fabric.services.people.members import member_remove
from fabric.services.runs.start import run_start
from fabric.worker.nudges.listener import NullNudge
from tests.people import member, signed_in, token_of

PAGE = "/people/members"
PASSWORD = "four-dull-words-in-a-row"


def text(response):
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", response.content.decode())).split())


def of(name):
    return f"{PAGE}/{Member.objects.get(name=name, removed_at__isnull=True).id}"


def stranger():
    return Client(HTTP_HOST="127.0.0.1")


def invited(browser, **more):
    """The token of the link that the page shows."""
    page = browser.post(f"{PAGE}/invite", {"roles": ["viewer"], **more})
    assert page.status_code == 200
    assert "no-store" in page["Cache-Control"]
    return re.search(r"/people/invitations#([\w-]+)", page.content.decode())[1]


def opened(browser, token):
    """The page of an invitation: the page behind the link posts the token that stands after its #."""
    return browser.post("/people/invitations", {"token": token}, follow=True)


def test_alone_the_page_says_what_is_missing_and_what_roles_mean(browser):
    shown = text(browser.get(PAGE))
    assert "You are the only member. Invite a second person before two people must agree." in shown
    assert "No open invitation." in shown
    assert "There is no service account yet." in shown
    for role in Role:
        assert MEANS[role] in shown.lower() or MEANS[role] in shown


def test_it_lies_in_the_navigation(browser):
    assert re.search(r'href="/people/members" aria-current="page"', browser.get(PAGE).content.decode())


def test_a_person_is_invited_and_accepts(browser):
    token = invited(browser, email="rosa@example.org", names="legal", days="3")
    assert "rosa@example.org" in text(browser.get(PAGE))
    assert token not in browser.get(PAGE).content.decode(), "shown once"
    rosa = stranger()
    assert 'id="token"' in rosa.get("/people/invitations").content.decode()
    shown = text(opened(rosa, token))
    assert "owner invited you to this workspace as legal and viewer" in shown
    assert MEANS[Role.VIEWER].capitalize() in shown
    wrong = rosa.post("/people/invitations", {"name": "rosa", "password": PASSWORD, "again": "other"})
    assert (wrong.status_code, "The passwords differ" in text(wrong)) == (422, True)
    assert PASSWORD not in wrong.content.decode()
    answer = rosa.post("/people/invitations", {"name": "rosa", "password": PASSWORD, "again": PASSWORD})
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert rosa.get("/runs").status_code == 200
    assert find_actor(User.objects.get(username="rosa")).roles == {"legal", "viewer"}
    again = opened(stranger(), token)
    assert (again.status_code, "was used, revoked or has expired" in text(again)) == (410, True)
    assert "rosa" in text(browser.get(PAGE))


@pytest.mark.parametrize(
    ("sent", "status", "said"),
    [
        ({"name": "", "password": PASSWORD, "again": PASSWORD}, 422, "Choose a name."),
        ({"name": "rosa"}, 422, "Choose a password."),
        ({"name": "rosa", "password": "short", "again": "short"}, 422, "This password is too short:"),
        ({"name": "owner", "password": PASSWORD, "again": PASSWORD}, 422, "Owner means something else in journals"),
        ({"name": "VERA", "password": PASSWORD, "again": PASSWORD}, 422, "This name is not available"),
    ],
)
def test_what_cannot_be_accepted_is_said_beside_its_field(browser, sent, status, said):
    member("vera")
    rosa = stranger()
    opened(rosa, invited(browser))
    answer = rosa.post("/people/invitations", sent)
    assert (answer.status_code, said in text(answer)) == (status, True)
    assert Invitation.objects.get().accepted_at is None


def test_who_has_an_account_accepts_with_it(browser, owner):
    token = invited(browser)
    vera = signed_in(member("vera", "operator"))
    opened(vera, token)
    refused = vera.post("/people/invitations", {"as": "me"})
    assert (refused.status_code, "Vera is a member already" in text(refused)) == (409, True)
    browser.post(of("vera"), {"act": "remove"})
    assert vera.get("/runs").status_code == 403
    assert "Accept as vera" in text(opened(vera, token))
    assert vera.post("/people/invitations", {"as": "me"}).status_code == 302
    ended = vera.get("/runs")
    assert (ended.status_code, "was ended: sign in again" in text(ended)) == (403, True)
    again = signed_in(User.objects.get(username="vera"))
    assert again.get("/runs").status_code == 200


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({"roles": []}, "A member has at least one role"),
        ({"roles": ["viewer"], "names": "Not,Good"}, "is no role"),
        ({"roles": ["king"]}, "king is not one of the available choices"),
        ({"roles": ["viewer"], "email": "nobody"}, "is no e-mail address"),
        ({"roles": ["viewer"], "days": "0"}, "cannot expire in 0 days"),
        ({"roles": ["viewer"], "days": "x"}, "Give a whole number of days"),
    ],
)
def test_what_cannot_be_invited_is_said_and_what_was_written_is_kept(browser, sent, said):
    answer = browser.post(f"{PAGE}/invite", {"email": "kept@example.org", **sent})
    assert (answer.status_code, said in text(answer)) == (422, True)
    assert not Invitation.objects.exists()
    if "email" not in sent:
        assert 'value="kept@example.org"' in answer.content.decode()


def test_an_invitation_is_revoked(browser, actor):
    made = invitation_create(actor=actor, roles=["viewer"])
    address = f"/people/invitations/{made.id}/revoke"
    assert address in browser.get(PAGE).content.decode()
    assert "The invitation is revoked" in text(browser.post(address, follow=True))
    assert opened(stranger(), made.token).status_code == 410
    assert browser.post("/people/invitations/none/revoke").status_code == 404


def test_roles_are_given_on_the_member_s_page_and_a_change_in_between_is_seen(browser):
    member("vera", "viewer", "legal")
    page = browser.get(of("vera")).content.decode()
    before = re.search(r'name="before" value="([^"]*)"', page)[1]
    assert re.findall(r'name="roles" value="(\w+)" checked', page) == ["viewer"]
    sent = {"act": "roles", "before": before, "roles": ["finance"], "names": "legal"}
    assert "The roles of vera apply now." in text(browser.post(of("vera"), sent, follow=True))
    assert Member.objects.get(name="vera").roles == "finance,legal"
    late = browser.post(of("vera"), {**sent, "roles": ["owner"]})
    assert (late.status_code, "was given other roles meanwhile (finance, legal)" in text(late)) == (409, True)
    assert browser.post(of("vera"), {"act": "roles"}).status_code == 422
    assert browser.post(of("vera"), {"act": "crown"}).status_code == 422


def test_who_is_removed_is_out_with_every_sign_in_and_token_at_once(browser, actor, small):
    user = member("vera", "editor")
    vera = signed_in(user)
    token_of(user, "veras")
    run_id = run_start(store=wiring.store(), nudge=NullNudge(), actor=actor, fabric=small, text="What?").run_id
    shown = Credentials(next(morsel.value for name, morsel in vera.cookies.items() if "session" in name))
    assert admissions([(shown, run_id)])[shown, run_id].key is not None
    assert "1 token with it." in text(browser.post(of("vera"), {"act": "remove"}, follow=True))
    assert admissions([(shown, run_id)])[shown, run_id].code == NOT_ALLOWED
    for path in ("/", "/runs", "/people/members", "/protections", f"/runs/{run_id}"):
        answer = vera.get(path)
        assert (answer.status_code, "Vera is no member of this workspace (any more): ask an owner" in text(answer)) == (
            403,
            True,
        )
        assert 'class="nav"' not in answer.content.decode()
    assert vera.post("/logout")["Location"] == "/login"


def test_the_last_owner_stays_and_is_told_why(browser):
    answer = browser.post(of("owner"), {"act": "remove"})
    assert (answer.status_code, "the local owner stays" in text(answer)) == (409, True)
    assert len(re.findall(r'name="roles" value="\w+" checked', answer.content.decode())) == len(Role)
    answer = browser.post(of("owner"), {"act": "roles", "before": ",".join(sorted(Role)), "roles": ["viewer"]})
    assert (answer.status_code, "the local owner stays" in text(answer)) == (409, True)
    assert browser.get("/runs").status_code == 200


def test_an_account_of_programs_is_made_and_roles_of_people_are_not_offered(browser):
    page = browser.get(PAGE).content.decode().partition('id="service"')[2]
    assert set(re.findall(r'name="roles" value="(\w+)"', page)) == set(Role) - PEOPLE_ONLY
    answer = browser.post(f"{PAGE}/services", {"name": "nightly", "roles": ["operator"]}, follow=True)
    assert "A new token" in text(answer)
    assert "never signs in" in text(browser.get(PAGE))
    wrong = browser.post(f"{PAGE}/services", {"name": "nightly", "roles": ["operator"]})
    assert (wrong.status_code, "A member has the name nightly already" in text(wrong)) == (409, True)
    assert browser.post(f"{PAGE}/services", {"name": "other", "roles": ["owner"]}).status_code == 422
    assert browser.post(f"{PAGE}/services", {}).status_code == 422


def test_who_is_no_owner_looks_on(owner, actor):
    invitation_create(actor=actor, roles=["viewer"], email="rosa@example.org")
    vera = signed_in(member("vera", "auditor"))
    shown = text(vera.get(PAGE))
    assert "Inviting people, giving roles and removing members is for owners." in shown
    assert "rosa@example.org" not in shown
    assert "Only owners can change roles." in text(vera.get(of("owner")))
    assert (
        '<button type="submit" class="btn primary"' not in vera.get(of("owner")).content.decode().partition("<main")[2]
    )
    assert vera.get(f"{PAGE}/nobody").status_code == 404


def test_names_and_addresses_act_as_nothing(browser, actor):
    Member.objects.create(
        user=User.objects.create(username="x"),
        name="<b>\u202ex",
        workspace_id=actor.workspace_id,
        roles="viewer",
        created_at=1,
    )
    page = browser.get(PAGE).content.decode()
    assert "<b>\u202e" not in page
    assert "&lt;b&gt;⟨U+202E⟩x" in page


def test_the_page_s_cost_does_not_grow_with_who_is_there(browser, django_assert_max_num_queries):
    for n in range(30):
        member(f"m{n}")
    with django_assert_max_num_queries(16):
        assert text(browser.get(PAGE)).count("never signed in") == 30


def test_a_member_who_was_removed_by_the_service_is_gone_from_the_list(browser, actor):
    member("vera")
    member_remove(actor=actor, name="vera")
    assert "vera" not in text(browser.get(PAGE))
