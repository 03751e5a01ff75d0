"""The default workspace, its owner, and login links that work once."""

from django.contrib.auth.models import AnonymousUser, Group, User

from fabric.models import LoginLink, Workspace
from fabric.services.workspaces import (
    actor_of,
    login_link_consume,
    login_link_create,
    owner_actor,
    owner_ensure,
    workspace_default,
)


def test_the_workspace_and_its_owner_are_made_once(db):
    assert workspace_default() == workspace_default()
    assert owner_ensure() == owner_ensure()
    assert (Workspace.objects.count(), User.objects.count()) == (1, 1)
    assert not owner_ensure().has_usable_password()


def test_a_link_logs_in_once(db):
    owner = owner_ensure()
    token = login_link_create(owner)
    assert login_link_consume(token) == owner
    assert login_link_consume(token) is None


def test_an_expired_link_and_a_made_up_one_log_nobody_in(db):
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


def test_the_owner_has_every_role_and_others_have_their_groups(db):
    assert owner_actor().roles >= {"owner", "reviewer", "finance", "safety"}
    user = User.objects.create(username="rosa")
    user.groups.add(Group.objects.create(name="finance"))
    rosa = actor_of(user)
    assert (rosa.name, rosa.kind, rosa.roles) == ("rosa", "person", frozenset({"finance"}))
    assert actor_of(AnonymousUser()).roles == frozenset()
