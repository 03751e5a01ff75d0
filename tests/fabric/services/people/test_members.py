"""Members: roles given and taken, removing, the last owner, and accounts of programs."""

from __future__ import annotations

import json

import pytest

from fabric.core.people.roles import PEOPLE_ONLY, Role
from fabric.models import ApiToken, AuditLine, Member
from fabric.services.actors import find_actor
from fabric.services.errors import Refused
from fabric.services.people.members import ROLES_MAX, member_remove, member_roles_set, service_create
from fabric.services.people.tokens import token_create, token_revoke, token_use
from tests.people import fresh, member, token_of


def refused(act, **asked):
    with pytest.raises(Refused) as caught:
        act(**asked)
    return caught.value


def told(act):
    return [(line.actor, line.subject, json.loads(bytes(line.body))) for line in AuditLine.objects.filter(kind=act)]


def test_roles_are_given_and_taken_and_told(actor):
    vera = member("vera", "viewer")
    given = member_roles_set(actor=actor, name="vera", roles=["finance", "legal", "finance"], before=["viewer"])
    assert given == find_actor(vera).roles == {"finance", "legal"}
    assert told("member_roles_set") == [("owner", "vera", {"roles": ["finance", "legal"], "before": ["viewer"]})]
    member_roles_set(actor=actor, name="vera", roles=["legal", "finance"])
    assert len(told("member_roles_set")) == 1, "the same again is no change"


def test_what_was_seen_must_still_stand(actor):
    member("vera", "viewer")
    found = refused(member_roles_set, actor=actor, name="vera", roles=["owner"], before=["editor"])
    assert (found.code, found.message) == (
        "conflict",
        "vera was given other roles meanwhile (viewer): look at them, and change those",
    )


@pytest.mark.parametrize(
    ("roles", "said"),
    [
        ([], "a member has at least one role"),
        (["", " "], "a member has at least one role"),
        (["Owner"], "'Owner' is no role"),
        (["a,b"], "'a,b' is no role"),
        (["x" * 64], "is no role"),
        ([f"r{n}" for n in range(ROLES_MAX + 1)], "21 roles are too many"),
    ],
)
def test_what_is_no_role_is_said(actor, roles, said):
    member("vera", "viewer")
    found = refused(member_roles_set, actor=actor, name="vera", roles=roles)
    assert (found.code, found.field) == ("invalid", "roles")
    assert said in found.message
    assert Member.objects.get(name="vera").roles == "viewer"


def test_who_is_removed_is_no_member_and_their_tokens_end(actor):
    vera = member("vera", "operator")
    secret = token_of(vera, "veras")
    assert member_remove(actor=actor, name="vera").tokens == 1
    assert refused(find_actor, user=vera).code == "forbidden"
    assert token_use(secret) == "revoked"
    assert ApiToken.objects.get().revoked_at
    assert told("member_removed") == [("owner", "vera", {"roles": ["operator"], "tokens_revoked": 1})]
    assert refused(member_remove, actor=actor, name="vera").code == "not_found"


def test_the_last_owner_and_the_local_one_stay(actor):
    for act, more in ((member_remove, {}), (member_roles_set, {"roles": ["viewer"]})):
        found = refused(act, actor=actor, name="owner", **more)
        assert (found.code, "the local owner stays" in found.message) == ("conflict", True)
    assert member_roles_set(actor=actor, name="owner", roles=["owner", "auditor"]) == {"owner", "auditor"}
    member("ana", "owner")
    Member.objects.filter(name="owner").delete()
    ana = fresh(Member.objects.get(name="ana").user)
    for act, more in ((member_remove, {}), (member_roles_set, {"roles": ["viewer"]})):
        found = refused(act, actor=ana, name="ana", **more)
        assert (found.code, "ana is the last owner" in found.message) == ("conflict", True)
    ben = member("ben", "owner", is_active=False)
    assert refused(member_remove, actor=ana, name="ana").code == "conflict", "who cannot sign in is no owner to stay"
    ben.is_active = True
    ben.save()
    assert member_remove(actor=ana, name="ana").tokens == 0


def test_who_was_removed_meanwhile_removes_no_one(actor):
    ana = fresh(member("ana", "owner"))
    member("ben", "owner")
    member_remove(actor=actor, name="ana")
    found = refused(member_remove, actor=ana, name="ben")
    assert (found.code, "no member of this workspace any more" in found.message) == ("forbidden", True)


def test_a_service_account_has_tokens_no_password_and_no_role_of_people(actor):
    assert service_create(actor=actor, name="nightly", roles=["operator", "importer"]) == "nightly"
    row = Member.objects.get(name="nightly")
    assert (row.service, row.roles, row.user.has_usable_password()) == (True, "importer,operator", False)
    holder = token_use(token_create(actor=actor, name="nightlys", user="nightly").secret)
    assert (holder.actor.kind, holder.actor.via, holder.actor.signed_in_at) == ("service", "token:nightlys", 0)
    for role in PEOPLE_ONLY:
        assert refused(service_create, actor=actor, name="other", roles=[role]).field == "roles"
        assert refused(member_roles_set, actor=actor, name="nightly", roles=["operator", role]).code == "invalid"
    assert told("service_account_created") == [("owner", "nightly", {"roles": ["importer", "operator"]})]


@pytest.mark.parametrize(
    ("name", "code"),
    [("", "invalid"), ("a b", "invalid"), ("x" * 151, "invalid"), ("VERA", "conflict"), ("finance", "invalid"),
     ("Legal", "conflict"), ("owner", "invalid"), ("a\0b", "invalid"),
     ("system", "invalid"), ("command_line", "invalid"), ("оwner", "invalid"), ("сос", "conflict")],
)  # fmt: skip
def test_a_name_that_is_taken_or_means_a_role_is_refused(actor, name, code):
    member("vera", "viewer", "legal")
    member("coc", "viewer")
    found = refused(service_create, actor=actor, name=name, roles=["viewer"])
    assert (found.code, found.field) == (code, "name")


def test_it_is_for_owners(actor):
    member("vera", "viewer")
    for role in set(Role) - {Role.OWNER}:
        who = find_actor(member(f"the-{role}", role))
        for act, more in (
            (member_remove, {"name": "vera"}),
            (member_roles_set, {"name": "vera", "roles": ["owner"]}),
            (service_create, {"name": "mine", "roles": ["operator"]}),
        ):
            found = refused(act, actor=who, **more)
            assert (found.code, found.message.endswith("that is for owner")) == ("forbidden", True)


def test_one_s_own_tokens_are_one_s_own_business_and_those_of_others_an_owner_s(actor):
    ana, ben = (fresh(member(name, "editor")) for name in ("ana", "ben"))
    assert token_create(actor=ana, name="anas").user == "ana"
    found = refused(token_revoke, actor=ben, name="anas")
    assert (found.code, found.message.endswith("tokens of others: that is for owner")) == ("forbidden", True)
    assert token_revoke(actor=ana, name="anas")
    service_create(actor=actor, name="nightly", roles=["operator"])
    assert refused(token_create, actor=actor, name="n", user="nightly", scopes=["start", "decide"]).field == "scopes"
    assert refused(token_create, actor=actor, name="n", user="nobody").code == "not_found"
