"""All ways in ended at once: what was open before is closed, and who belongs to the workspace comes in anew."""

import time

import pytest
from django.core.management import call_command

from fabric.models import ApiToken, Invitation, LoginLink, Member
from fabric.services.actors import find_actor, login_link_consume, login_link_create, owner_actor
from fabric.services.installation.revocation import access_revoke_all
from fabric.services.people.invitations import invitation_create
from fabric.services.people.tokens import token_use
from tests.people import member, signed_in, token_of


@pytest.mark.django_db
def test_everything_that_let_a_person_in_is_over_and_no_role_is_lost(client):
    vera, program = member("vera", "operator"), member("ci", "editor", service=True)
    secrets = [token_of(vera, "hers", ["read"]), token_of(program, "its", ["read"])]
    browser = signed_in(vera)
    link = login_link_create(vera)
    invitation_create(actor=owner_actor(), roles=["viewer"])
    assert browser.get("/runs").status_code == 200

    ended = access_revoke_all(actor=owner_actor())

    assert (ended.people, ended.tokens, ended.invitations, ended.links) == (1, 2, 1, 1)
    assert [token_use(secret) for secret in secrets] == ["revoked", "revoked"]
    assert login_link_consume(link) is None
    assert browser.get("/runs").status_code != 200
    assert not Invitation.objects.filter(accepted_at=None, revoked_at=None).exists()
    assert not ApiToken.objects.filter(revoked_at=None).exists()
    assert not LoginLink.objects.filter(used_at=None).exists()

    assert find_actor(vera, signed_in_at=time.time_ns() // 1_000).roles == {"operator"}
    assert signed_in(vera).get("/runs").status_code == 200
    assert Member.objects.filter(name="vera", removed_at=None).count() == 1
    assert access_revoke_all(actor=owner_actor()).tokens == 0


def test_the_command_wants_a_word_that_it_is_meant():
    with pytest.raises(SystemExit, match="say --yes"):
        call_command("revoke_access")
