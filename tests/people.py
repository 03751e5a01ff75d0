"""People for tests: members with roles, and browsers in which they have signed in."""

from __future__ import annotations

import time
from collections.abc import Collection

from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

from fabric.core.people.actor import Actor
from fabric.core.people.roles import write_roles
from fabric.core.people.scopes import Scope
from fabric.models import Member
from fabric.services.actors import find_actor, login_link_create, owner_actor, owner_ensure, workspace_default
from fabric.services.people.tokens import token_create

UNTIL_NOW = ("editor", "reviewer")
"""Roles of a colleague in a test by default: all that members had before there were roles."""


def member(name: str, *roles: str, service: bool = False, is_active: bool = True, is_staff: bool = False) -> User:
    """A user who is a member of the default workspace with these roles; without any, ``UNTIL_NOW``."""
    made = User.objects.create_user(name, is_active=is_active, is_staff=is_staff)
    row = {"user": made, "name": name, "roles": write_roles(roles or UNTIL_NOW), "service": service}
    Member.objects.create(
        workspace_id=workspace_default(), created_at=time.time_ns() // 1_000, created_by="owner", **row
    )
    return made


def fresh(user: User) -> Actor:
    """A member who signed in just now."""
    return find_actor(user, signed_in_at=time.time_ns() // 1_000)


def token_of(user: User, name: str, scopes: Collection[str] = tuple(Scope)) -> str:
    """A token that a member made for themselves; of a service account, that the local owner made."""
    program = Member.objects.filter(user=user, service=True).exists()
    actor = owner_actor() if program else fresh(user)
    return token_create(actor=actor, name=name, user=user.username if program else "", scopes=scopes).secret


def aged(browser: Client, hours: int = 1) -> Client:
    """The same browser, in which a member signed in some hours ago."""
    session = browser.session
    session["signed_in_at"] = time.time_ns() // 1_000 - hours * 3_600_000_000
    session.save()
    browser.cookies[settings.SESSION_COOKIE_NAME] = session.session_key or ""
    return browser


def signed_in(user: User) -> Client:
    """A browser in which a member has signed in by a one-time link."""
    owner_ensure()
    client = Client(HTTP_HOST="127.0.0.1")
    client.post("/login/link", {"token": login_link_create(user)})
    return client
