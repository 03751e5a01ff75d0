"""Who could sign in before there were members is one, with what they could do."""

from __future__ import annotations

from importlib import import_module

from django.apps import apps
from django.contrib.auth.models import Group, User

from fabric.models import Member, Workspace
from fabric.services.workspaces import OWNER_ROLES, actor_of, owner_ensure

add = import_module("fabric.migrations.0017_members_who_were").add


def test_users_are_members_with_the_roles_of_their_groups_and_what_everybody_could_do(db):
    User.objects.create_user("owner")
    rosa = User.objects.create_user("rosa")
    rosa.groups.set([Group.objects.create(name=name) for name in ("finance", "legal, europe")])
    ben = User.objects.create_user("ben")
    gone = User.objects.create_user("gone", is_active=False)
    there = Workspace.objects.create(name="default")
    for _ in range(2):
        add(apps, None)
    assert actor_of(rosa).roles == {"editor", "reviewer", "finance", "legal  europe"}
    assert actor_of(ben).roles == {"editor", "reviewer"}
    assert actor_of(owner_ensure()).roles == OWNER_ROLES
    assert Member.objects.filter(workspace=there).count() == 3
    assert not Member.objects.filter(user=gone).exists()


def test_where_nothing_was_ever_asked_for_there_is_nothing_to_do(db):
    User.objects.create_user("root")
    add(apps, None)
    assert not Member.objects.exists()
