"""People for tests: members with roles, and browsers in which they have signed in."""

from __future__ import annotations

import time

from django.contrib.auth.models import User
from django.test import Client

from fabric.core.roles import written
from fabric.models import Member
from fabric.services.workspaces import login_link_create, owner_ensure, workspace_default

UNTIL_NOW = ("editor", "reviewer")
"""What anybody could do before there were roles: what a colleague in a test can, where it says nothing else."""


def member(name: str, *roles: str, service: bool = False, is_active: bool = True, is_staff: bool = False) -> User:
    """A user who is a member of the default workspace with these roles; without any, ``UNTIL_NOW``."""
    made = User.objects.create_user(name, is_active=is_active, is_staff=is_staff)
    row = {"user": made, "name": name, "roles": written(roles or UNTIL_NOW), "service": service}
    Member.objects.create(
        workspace_id=workspace_default(), created_at=time.time_ns() // 1_000, created_by="owner", **row
    )
    return made


def signed_in(user: User) -> Client:
    """A browser in which somebody has signed in by a one-time link."""
    owner_ensure()
    client = Client(HTTP_HOST="127.0.0.1")
    client.post(f"/login/{login_link_create(user)}")
    return client
