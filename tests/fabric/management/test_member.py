"""`manage.py member`: listed, invited, given roles, removed, from the command line."""

from __future__ import annotations

import pytest

from fabric.services.actors import find_actor, login_link_consume
from fabric.services.people.invitations import invitation_accept
from tests.fabric.management.console import command
from tests.fabric.services.world import actor
from tests.people import member

__all__ = ["actor"]
PASSWORD = "four-dull-words-in-a-row"


def test_from_the_invitation_to_the_end(actor):
    said = command("member", "invite", "viewer", "legal", "--email", "rosa@example.org", "--days", "2")
    (link,) = said.out.split()
    rosa = invitation_accept(token=link.rpartition("#")[2], name="rosa", password=PASSWORD)
    assert find_actor(rosa).roles == {"viewer", "legal"}
    assert "rosa has the roles auditor from now on" in command("member", "roles", "rosa", "auditor").out
    listed = command("member", "list").out
    assert "rosa   auditor  never signed in" in listed
    assert command("member", "remove", "rosa", "--json").last == {
        "name": "rosa",
        "tokens_revoked": 0,
        "invitations_revoked": 0,
    }
    assert [one["name"] for one in command("member", "list", "--json").last["members"]] == ["owner"]


def test_an_invitation_is_listed_and_revoked(actor):
    made = command("member", "invite", "viewer", "--json").last
    assert f"invited {made['id']}  viewer  anyone with the link" in command("member", "list").out
    assert "is revoked" in command("member", "revoke", made["id"]).out
    assert "was revoked before" in command("member", "revoke", made["id"]).out
    assert command("member", "list", "--json").last["invitations"] == []


def test_an_account_of_programs_gets_a_token(actor):
    assert "token create NAME --user nightly" in command("member", "service", "nightly", "operator").out
    assert command("token", "create", "nightlys", "--user", "nightly").out.startswith("ff_")
    assert "nightly  operator  account of programs, 1 token" in command("member", "list").out


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("roles", "nobody", "viewer"), "there is no member 'nobody'"),
        (("roles", "vera", "No"), "'No' is no role"),
        (("remove", "owner"), "the local owner stays"),
        (("invite", "viewer", "--days", "90"), "cannot expire in 90 days"),
        (("service", "nightly", "owner"), "a service account cannot be owner"),
        (("revoke", "x"), "there is no invitation 'x'"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(actor, line, said):
    member("vera")
    done = command("member", *line)
    assert (done.code, said in done.err) == (2, True)


def test_who_has_no_password_is_given_a_link(actor):
    vera = member("vera")
    link = command("member", "link", "vera").out.strip()
    assert login_link_consume(link.rpartition("#")[2]) == vera
    member("nightly", service=True)
    assert "cannot sign in" in command("member", "link", "nightly").err
