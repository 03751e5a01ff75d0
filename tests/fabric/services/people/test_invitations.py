"""Invitations: a link works once, for some days, for one person, with the roles that were chosen."""

from __future__ import annotations

import json

import pytest
from django.contrib.auth.models import User

from fabric.models import AuditLine, Invitation, Member
from fabric.selectors.people import invitations_open
from fabric.services.actors import find_actor
from fabric.services.errors import Refused
from fabric.services.people.invitations import (
    DAYS_MAX,
    NOT_TO_BE_HAD,
    invitation_accept,
    invitation_create,
    invitation_find,
    invitation_join,
    invitation_revoke,
)
from fabric.services.people.sign_in.credentials import password_sign_in
from tests.people import member

PASSWORD = "four-dull-words-in-a-row"


def refused(act, **asked):
    with pytest.raises(Refused) as caught:
        act(**asked)
    return caught.value


def test_who_accepts_is_a_member_with_the_roles_that_were_chosen(actor):
    made = invitation_create(actor=actor, roles=["finance", "legal"], email=" rosa@example.org ")
    rosa = invitation_accept(token=made.token, name="rosa", password=PASSWORD)
    assert find_actor(rosa).roles == {"finance", "legal"}
    assert password_sign_in(name="rosa", password=PASSWORD) == rosa
    row = Invitation.objects.get()
    assert (row.email, row.accepted_by, Member.objects.get(name="rosa").created_by) == (
        "rosa@example.org",
        "rosa",
        "owner",
    )
    assert made.token not in row.token_hash + repr(made)
    lines = AuditLine.objects.filter(kind__startswith="invitation").order_by("at").values_list("kind", "actor", "via")
    assert list(lines) == [
        ("invitation_created", "owner", ""),
        ("invitation_accepted", "rosa", f"invitation:{made.id}"),
    ]
    assert refused(invitation_accept, token=made.token, name="ben", password=PASSWORD).code == "not_found"
    assert not User.objects.filter(username="ben").exists()


def test_a_link_that_was_revoked_or_has_expired_lets_no_one_in(actor):
    revoked, old = (invitation_create(actor=actor, roles=["viewer"]) for _ in range(2))
    assert invitation_revoke(actor=actor, invitation_id=revoked.id)
    assert not invitation_revoke(actor=actor, invitation_id=revoked.id)
    Invitation.objects.filter(id=old.id).update(expires_at=1)
    for token in (revoked.token, old.token, "", "x", "\ud800", "y" * 300):
        assert refused(invitation_find, token=token).code == "not_found"
        assert refused(invitation_accept, token=token, name="rosa", password=PASSWORD).code == "not_found"
    assert not User.objects.filter(username="rosa").exists()


def test_what_cannot_be_invited_is_said(actor):
    for field, asked in (
        ("roles", {"roles": []}),
        ("roles", {"roles": ["No Role"]}),
        ("email", {"roles": ["viewer"], "email": "nobody"}),
        ("days", {"roles": ["viewer"], "days": 0}),
        ("days", {"roles": ["viewer"], "days": DAYS_MAX + 1}),
    ):
        found = refused(invitation_create, actor=actor, **asked)
        assert (found.code, found.field) == ("invalid", field)
    assert not Invitation.objects.exists()


@pytest.mark.parametrize(
    ("name", "password", "field"),
    [
        ("rosa", "short", "password"),
        ("rosa", "password1234", "password"),
        ("rosalinde", "rosalinde", "password"),
        ("owner", PASSWORD, "name"),
        ("finance", PASSWORD, "name"),
        ("legal", PASSWORD, "name"),
    ],
)
def test_a_name_or_a_password_that_cannot_be_taken_leaves_the_link_as_it_is(actor, name, password, field):
    made = invitation_create(actor=actor, roles=["legal"])
    found = refused(invitation_accept, token=made.token, name=name, password=password)
    assert (found.code, found.field) == ("invalid", field)
    assert invitation_find(made.token).id == made.id


def test_a_link_does_not_tell_who_has_an_account(actor):
    """One sentence says what is against a name; the tenth such name is the link's last, so that no guest goes through a list of names."""
    member("vera", "viewer")
    member("gone", "viewer")
    Member.objects.filter(name="gone").update(removed_at=1)
    User.objects.create_user("elsewhere")
    made, known = invitation_create(actor=actor, roles=["legal"]), ("vera", "VERA", "gone", "elsewhere", "legal")
    for name in known * 2:
        found = refused(invitation_accept, token=made.token, name=name, password=PASSWORD)
        assert (found.code, found.field, found.message) == ("invalid", "name", NOT_TO_BE_HAD)
    assert refused(invitation_accept, token=made.token, name="rosa", password=PASSWORD).code == "not_found"
    assert invitations_open(actor) == []


def test_who_has_an_account_joins_with_it_and_a_member_does_not(actor):
    made = invitation_create(actor=actor, roles=["safety"])
    vera = member("vera", "viewer")
    assert refused(invitation_join, token=made.token, user=vera).code == "conflict"
    assert refused(invitation_join, token=made.token, user=member("nightly", service=True)).code == "forbidden"
    Member.objects.filter(name="vera").update(removed_at=1)
    invitation_join(token=made.token, user=vera)
    assert find_actor(vera).roles == {"safety"}
    assert refused(invitation_find, token=made.token).code == "not_found"


def test_the_trail_says_who_invited_whom(actor):
    """An inviter may accept it and invent a person: that is seen here."""
    known, new = (invitation_create(actor=actor, roles=["viewer"]) for _ in range(2))
    invitation_accept(token=new.token, name="rosa", password=PASSWORD)
    invitation_join(token=known.token, user=User.objects.create_user("sam"))
    lines = AuditLine.objects.filter(kind="invitation_accepted")
    assert {line.actor: json.loads(bytes(line.body))["invited_by"] for line in lines} == {
        "rosa": "owner",
        "sam": "owner",
    }


def test_one_that_was_accepted_is_not_revoked(actor):
    made = invitation_create(actor=actor, roles=["viewer"])
    invitation_accept(token=made.token, name="rosa", password=PASSWORD)
    found = refused(invitation_revoke, actor=actor, invitation_id=made.id)
    assert (found.code, "rosa accepted this invitation" in found.message) == ("conflict", True)
    assert refused(invitation_revoke, actor=actor, invitation_id="nothing").code == "not_found"


def test_a_password_that_does_not_fit_and_an_account_of_programs_sign_no_one_in(actor):
    made = invitation_create(actor=actor, roles=["viewer"])
    rosa = invitation_accept(token=made.token, name="rosa", password=PASSWORD)
    assert password_sign_in(name="rosa", password="wrong") is None
    assert password_sign_in(name="nobody", password=PASSWORD) is None
    Member.objects.filter(name="rosa").update(service=True)
    assert password_sign_in(name="rosa", password=PASSWORD) is None
    Member.objects.filter(name="rosa").update(service=False)
    User.objects.filter(pk=rosa.pk).update(is_active=False)
    assert password_sign_in(name="rosa", password=PASSWORD) is None
