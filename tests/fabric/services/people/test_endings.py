"""A removed member loses all ways in that they made; a lost role ends what exceeds the rights that are left (docs/specification/roles.md)."""

from __future__ import annotations

import json

import pytest

from fabric.core.people.roles import RIGHTS, Right, Role
from fabric.core.people.scopes import NEEDS, Scope, find_lost_scopes, has_effect
from fabric.models import ApiToken, AuditLine, Invitation, LoginLink, Member
from fabric.services.actors import login_link_consume, login_link_create
from fabric.services.errors import Refused
from fabric.services.people.invitations import invitation_accept, invitation_create, invitation_find
from fabric.services.people.members import login_link_for, member_remove, member_roles_set
from fabric.services.people.tokens import token_create, token_use
from tests.people import fresh, member, token_of

PASSWORD = "four-dull-words-in-a-row"


def made_by_bea() -> dict[str, str]:
    """A second owner who makes what could bring her back."""
    bea, robot = fresh(member("bea", "owner")), member("robot", "operator", service=True)
    made = token_create(actor=bea, name="own", scopes=tuple(Scope)).secret
    for_robot = token_create(actor=bea, name="robots", user=robot.username).secret
    return {
        "own": made,
        "robots": for_robot,
        "invitation": invitation_create(actor=bea, roles=["owner"], days=30).token,
        "link": login_link_for(actor=bea, name="owner"),
    }


def comes_back(made: dict[str, str]) -> list[str]:
    """By what of it a person still comes in."""
    found = [name for name in ("own", "robots") if not isinstance(token_use(made[name]), str)]
    try:
        invitation_find(made["invitation"])
        found.append("invitation")
    except Refused:
        pass
    return found + (["link"] if login_link_consume(made["link"]) else [])


def test_what_a_removed_owner_made_brings_no_one_back(actor):
    made = made_by_bea()
    kept = invitation_create(actor=actor, roles=["viewer"]).token
    ended = member_remove(actor=actor, name="bea")
    assert (ended.tokens, ended.invitations) == (2, 1)
    assert comes_back(made) == []
    assert invitation_accept(token=kept, name="rosa", password=PASSWORD).username == "rosa"
    (line,) = AuditLine.objects.filter(kind="member_removed")
    assert json.loads(bytes(line.body)) == {"roles": ["owner"], "tokens_revoked": 2, "invitations_revoked": 1}


def test_what_an_owner_made_ends_with_the_role(actor):
    made = made_by_bea()
    member_roles_set(actor=actor, name="bea", roles=["editor"])
    assert comes_back(made) == []


def test_what_the_roles_that_are_left_carry_stays(actor):
    made = made_by_bea()
    member_roles_set(actor=actor, name="bea", roles=["owner", "auditor"])
    assert comes_back(made) == ["own", "robots", "invitation", "link"]
    bea = fresh(Member.objects.get(name="bea").user)
    reading = token_create(actor=bea, name="reads", scopes=(Scope.READ, Scope.DECIDE)).secret
    member_roles_set(actor=actor, name="bea", roles=["viewer"])
    assert not isinstance(token_use(reading), str), "who looks on reads still"
    assert token_use(made["own"]) == "revoked"


def test_a_program_that_lost_what_it_decides_has_no_token_left_that_does(actor):
    robot = member("robot", "operator", "decides:small:pre_action", service=True)
    both, one = token_of(robot, "both", (Scope.READ, Scope.DECIDE)), token_of(robot, "one", (Scope.READ,))
    member_roles_set(actor=actor, name="robot", roles=["operator"])
    assert token_use(both) == "revoked"
    assert not isinstance(token_use(one), str)


@pytest.mark.parametrize("change", ["removed", "demoted"])
def test_nothing_is_made_in_the_moment_in_which_its_maker_loses_the_right(actor, change):
    """The request came in before; what is written after is not."""
    bea = fresh(member("bea", "owner"))
    member("robot", "operator", service=True)
    if change == "removed":
        member_remove(actor=actor, name="bea")
    else:
        member_roles_set(actor=actor, name="bea", roles=["editor"])
    for act, more in (
        (token_create, {"name": "robots", "user": "robot"}),
        (invitation_create, {"roles": ["owner"]}),
    ):
        with pytest.raises(Refused) as caught:
            act(actor=bea, **more)
        assert caught.value.code == "forbidden"
    assert (ApiToken.objects.count(), Invitation.objects.count()) == (0, 0)


def test_no_member_makes_a_token_that_acts_for_another_person(actor):
    member("rosa", "reviewer")
    for scopes in ((Scope.READ,), (Scope.READ, Scope.DECIDE)):
        with pytest.raises(Refused, match="sign in as rosa") as caught:
            token_create(actor=actor, name="rosas", user="rosa", scopes=scopes)
        assert caught.value.code == "forbidden"


def test_a_token_that_another_member_made_for_a_person_is_not_accepted(actor):
    secret = token_of(member("rosa", "reviewer"), "rosas")
    ApiToken.objects.update(created_by="owner")
    assert token_use(secret) == "not_theirs"


def test_who_signs_in_by_another_ones_link_may_be_that_one(actor):
    rosa = member("rosa", "reviewer")
    link = login_link_for(actor=actor, name="rosa")
    assert LoginLink.objects.get().created_by == "owner"
    assert login_link_consume(link) == rosa
    login_link_create(rosa)
    assert LoginLink.objects.get(used_at=None).created_by == "", "the person at the machine is unknown"


def test_each_scope_says_what_carries_it():
    assert set(NEEDS) == set(Scope)
    assert {right for rights in NEEDS.values() for right in rights} == set(Right) - {
        Right.LOOK,
        Right.CONTENTS,
        Right.REVEAL,
    }
    for scope, rights in NEEDS.items():
        for role in Role:
            assert has_effect(scope, {role}, service=False) is (
                not rights or any(role in RIGHTS[one] for one in rights)
            )
    assert find_lost_scopes({"owner"}, {"viewer"}, service=False) == set(Scope) - {Scope.READ, Scope.DECIDE}
    assert find_lost_scopes({"viewer"}, {"owner"}, service=False) == set()
