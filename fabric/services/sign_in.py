"""Signing in by name and password; by a one-time link it is ``workspaces.login_link_consume``."""

from __future__ import annotations

from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.views.decorators.debug import sensitive_variables

from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.models import Member
from fabric.services.audit import audit_record
from fabric.services.workspaces import workspace_default


@sensitive_variables("password")
def password_sign_in(*, name: str, password: str) -> User | None:
    """The active user with this name and password, which is told in the audit stream; None: there is none such, or it is an account of programs.

    It takes as long for a name that nobody has as for a wrong password.
    """
    user = authenticate(username=name, password=password)
    if not isinstance(user, User) or Member.objects.filter(user=user, service=True, removed_at__isnull=True).exists():
        return None
    who = Actor(name=user.username, workspace_id=workspace_default())
    audit_record(actor=who, act=Act.SIGNED_IN, subject=who.name, by="password")
    return user
