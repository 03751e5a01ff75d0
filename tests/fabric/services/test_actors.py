"""The default workspace, its owner, and login links that work once."""

import ast
import re
from pathlib import Path

import pytest
from django.contrib.auth.models import AnonymousUser, User

from fabric.core.people.roles import Role
from fabric.models import LoginLink, Member, Workspace
from fabric.services.actors import (
    find_actor,
    login_link_consume,
    login_link_create,
    owner_actor,
    owner_ensure,
    workspace_default,
)
from fabric.services.errors import Refused
from tests.people import member

ROOT = Path(__file__).parents[3]


def test_the_workspace_and_its_owner_are_made_once(db):
    assert workspace_default() == workspace_default()
    assert owner_ensure() == owner_ensure()
    assert (Workspace.objects.count(), User.objects.count()) == (1, 1)
    assert not owner_ensure().has_usable_password()


def test_an_installation_makes_its_own_workspace_and_the_one_of_its_drills_and_no_other():
    """docs/how-to/manage-members.md: no owner can make what cannot be used whole."""
    makers = sorted(
        (path.relative_to(ROOT).as_posix(), one.name)
        for folder in ("fabric", "console", "simulator")
        for path in (ROOT / folder).rglob("*.py")
        if "Workspace" in (source := path.read_text())
        for one in ast.walk(ast.parse(source))
        if isinstance(one, ast.FunctionDef) and _makes_a_workspace(one)
    )
    assert makers == [
        ("fabric/services/actors.py", "drills_workspace_ensure"),
        ("fabric/services/actors.py", "workspace_default"),
    ]


def _makes_a_workspace(function: ast.FunctionDef) -> bool:
    made = re.compile(r"Workspace(\.objects\.(a?create|a?get_or_create|a?update_or_create|bulk_create))?$")
    return any(isinstance(one, ast.Call) and made.match(ast.unparse(one.func)) for one in ast.walk(function))


def test_a_link_logs_in_once(db):
    owner = owner_ensure()
    token = login_link_create(owner)
    assert login_link_consume(token) == owner
    assert login_link_consume(token) is None


def test_an_expired_link_and_a_made_up_one_log_no_one_in(db):
    owner = owner_ensure()
    assert login_link_consume(login_link_create(owner, valid_s=0)) is None
    for made_up in ("", "x", "\0", "\ud800", "y" * 10_000):
        assert login_link_consume(made_up) is None


def test_a_user_who_was_switched_off_cannot_come_in(db):
    owner = owner_ensure()
    token = login_link_create(owner)
    User.objects.update(is_active=False)
    assert login_link_consume(token) is None


def test_the_token_is_not_kept(db):
    token = login_link_create(owner_ensure())
    (link,) = LoginLink.objects.all()
    assert token not in (link.token_hash, link.id)
    assert len(link.token_hash) == 64
    assert link.workspace_id == workspace_default()


def test_old_links_are_cleared_away(db):
    owner = owner_ensure()
    login_link_create(owner, valid_s=0)
    login_link_create(owner)
    assert LoginLink.objects.count() == 1


def test_the_owner_has_every_role_and_others_have_those_of_their_membership(db, django_assert_num_queries):
    assert owner_actor().roles == set(Role)
    user = member("rosa", "finance", "legal")
    with django_assert_num_queries(1):
        rosa = find_actor(user)
    assert (rosa.name, rosa.kind, rosa.roles) == ("rosa", "person", frozenset({"finance", "legal"}))
    assert find_actor(member("nightly", "operator", service=True)).kind == "service"


def test_who_is_no_member_is_no_actor(db):
    rosa = member("rosa")
    for stranger in (AnonymousUser(), User.objects.create(username="ben")):
        with pytest.raises(Refused, match="is no member of this workspace"):
            find_actor(stranger)
    elsewhere = Workspace.objects.create(name="elsewhere").id
    with pytest.raises(Refused, match="rosa is no member"):
        find_actor(rosa, workspace_id=elsewhere)
    Member.objects.filter(name="rosa").update(removed_at=2)
    with pytest.raises(Refused, match="rosa is no member") as refused:
        find_actor(rosa)
    assert refused.value.code == "forbidden"


def test_who_comes_back_has_to_sign_in_again(db):
    rosa = member("rosa")
    Member.objects.update(removed_at=10)
    row = {"user": rosa, "name": "rosa", "workspace_id": workspace_default()}
    Member.objects.create(roles="viewer", created_at=20, **row)
    for old in (0, 9):
        with pytest.raises(Refused, match="this sign-in of rosa was ended: sign in again"):
            find_actor(rosa, signed_in_at=old)
    assert find_actor(rosa, signed_in_at=10).signed_in_at == 10
    assert find_actor(rosa).roles == {"viewer"}


def test_a_service_account_has_no_sign_in(db):
    with pytest.raises(Refused, match="was ended"):
        find_actor(member("nightly", service=True), signed_in_at=5)
