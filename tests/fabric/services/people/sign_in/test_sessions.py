"""Sign-ins: how long they go on, and how they are ended."""

from __future__ import annotations

import pytest

from fabric.models import AuditLine, SignIn
from fabric.selectors.errors import Refused
from fabric.services.actors import owner_actor, owner_ensure
from fabric.services.people.sign_in.sessions import list_sign_ins, member_sign_ins_end, own_sign_ins_end, sign_in_works
from tests.people import fresh, member, signed_in

pytestmark = pytest.mark.django_db
HOUR_US = 3_600_000_000


def browser_of(user):
    owner_ensure()
    return signed_in(user)


def aged(**columns):
    """As if the one sign-in had been begun or seen so many hours before."""
    row = SignIn.objects.get()
    changed = {name: getattr(row, name) - hours * HOUR_US for name, hours in columns.items()}
    SignIn.objects.filter(id=row.id).update(**changed)


@pytest.mark.parametrize(
    ("columns", "goes_on"),
    [
        ({"seen_at": 7}, True),
        ({"seen_at": 8}, False),
        ({"began_at": 23}, True),
        ({"began_at": 24}, False),
        ({"until": 24}, False),
    ],
)
def test_a_sign_in_ends_after_its_idle_and_its_whole_time(columns, goes_on):
    browser = browser_of(member("vera"))
    assert browser.get("/runs").status_code == 200
    aged(**columns)
    assert browser.get("/runs").status_code == (200 if goes_on else 302)


def test_the_bounds_of_this_moment_hold_for_sign_ins_of_before(settings):
    settings.FABRIC_SIGN_IN_HOURS = 168
    browser = browser_of(member("vera"))
    aged(began_at=30)
    assert browser.get("/runs").status_code == 200
    settings.FABRIC_SIGN_IN_HOURS = 24
    assert browser.get("/runs").status_code == 302


def test_a_page_that_asks_by_itself_keeps_no_sign_in_alive():
    browser = browser_of(member("vera"))
    aged(seen_at=7)
    assert browser.get("/shell/frame?at=runs").status_code == 200
    assert browser.get("/runs/news").status_code == 200
    before = SignIn.objects.get().seen_at
    assert browser.get("/runs").status_code == 200
    assert SignIn.objects.get().seen_at > before
    aged(seen_at=8)
    assert browser.get("/shell/frame?at=runs").status_code == 302


def test_a_session_that_names_no_sign_in_lets_no_one_in():
    browser = browser_of(member("vera"))
    SignIn.objects.all().delete()
    assert browser.get("/runs").status_code == 302
    assert browser.get("/api/v1/runs").status_code == 401


def test_a_sign_in_is_its_persons_alone():
    vera, ben = member("vera"), member("ben")
    mark = browser_of(vera).session["mark"]
    assert sign_in_works(mark, vera.pk) == "link"
    assert sign_in_works(mark, ben.pk) == ""


def test_one_is_ended_and_the_others_go_on():
    vera = member("vera")
    here, there = browser_of(vera), browser_of(vera)
    answer = here.post("/people/security/end", {"sign_in": there.session["mark"]})
    assert answer.headers["Location"] == "/people/security"
    assert there.get("/runs").status_code == 302
    assert here.get("/runs").status_code == 200


def test_all_are_ended_this_one_too():
    vera, ben = member("vera"), member("ben")
    here, there, bens = browser_of(vera), browser_of(vera), browser_of(ben)
    assert here.post("/people/security/end", {"sign_in": "all"}).headers["Location"] == "/login"
    assert [one.get("/runs").status_code for one in (here, there, bens)] == [302, 302, 200]


def test_anothers_is_not_ended_by_its_name():
    vera, ben = member("vera"), member("ben")
    here, bens = browser_of(vera), browser_of(ben)
    here.post("/people/security/end", {"sign_in": bens.session["mark"]})
    assert bens.get("/runs").status_code == 200


def test_an_owner_ends_those_of_a_member_and_no_one_else_does():
    vera = member("vera")
    browser = browser_of(vera)
    with pytest.raises(Refused, match="that is for owner"):
        member_sign_ins_end(actor=fresh(member("ben")), name="vera")
    assert browser.get("/runs").status_code == 200
    assert len(member_sign_ins_end(actor=owner_actor(), name="vera")) == 1
    assert browser.get("/runs").status_code == 302
    line = AuditLine.objects.get(kind="sign_ins_ended")
    assert (line.actor, line.subject) == ("owner", "vera")


def test_who_acts_by_a_token_ends_none():
    from dataclasses import replace

    vera = member("vera")
    browser_of(vera)
    with pytest.raises(Refused, match="people end their own sign-ins"):
        own_sign_ins_end(actor=replace(fresh(vera), via="token:t"), user=vera)
    assert len(list_sign_ins(vera)) == 1


def test_another_password_ends_the_others_and_the_list_has_one():
    vera = member("vera")
    vera.set_password("six dull words beside the sea")
    vera.save()
    here, there = browser_of(vera), browser_of(vera)
    new = "four new words without any sense"
    chosen = {"old": "six dull words beside the sea", "password": new, "again": new}
    assert here.post("/people/account", chosen).status_code == 302
    assert [one.get("/runs").status_code for one in (here, there)] == [200, 302]
    assert [one.id for one in list_sign_ins(vera)] == [here.session["mark"]]
