"""The default workspace, its owner, and the one-time links that log people in."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.db import transaction
from django.db.models import Exists, OuterRef, Subquery

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.people.names import COMMAND_LINE
from fabric.core.people.roles import Right, Role, held_in, own_name, roles_at, write_roles
from fabric.core.values.units import US
from fabric.models import LoginLink, Member, Run, Workspace
from fabric.services.acts import SYSTEM, audit_record
from fabric.services.errors import Refused

DEFAULT_WORKSPACE = "default"
OWNER = "owner"
LOOKS_ON: Mapping[Right, Role] = {
    Right.CONTENTS: Role.READER,
    Right.AUDIT: Role.AUDITOR,
    Right.REVEAL: Role.SAFETY,
}
"""Role with which a member looks at runs of drills, by the right to see more than other members."""
OWNER_ROLES = frozenset(str(role) for role in Role)
"""Roles of the owner of an installation: all of them, so this member may do everything and answer every review."""
LOGIN_LINK_S = 3_600
TOKEN_CHARS_MAX = 200


def workspace_default() -> str:
    """Return the id of the default workspace, and create it at the first call."""
    # Asked for with each request, so it takes no lock when there is one.
    found = Workspace.objects.filter(name=DEFAULT_WORKSPACE).values_list("id", flat=True).first()
    if found is not None:
        return found
    with transaction.atomic():
        workspace, created = Workspace.objects.get_or_create(name=DEFAULT_WORKSPACE)
        if created:
            audit_record(actor=system_actor(workspace.id), act=Act.WORKSPACE_CREATED, subject=workspace.name)
    return workspace.id


def drills_workspace(workspace_id: str) -> str | None:
    """Return the id of the workspace for another one's drills; None: no drill has left a run so far."""
    return Workspace.objects.filter(drills_of_id=workspace_id).values_list("id", flat=True).first()


def drills_workspace_ensure(workspace_id: str) -> str:
    """Return the id of the workspace for the drills of ``workspace_id``, and create it at the first call.

    Runs in it have budgets, breakers, memories and reviews of their own.
    """
    if found := drills_workspace(workspace_id):
        return found
    with transaction.atomic():
        owner = Workspace.objects.get(id=workspace_id)
        made, created = Workspace.objects.get_or_create(drills_of=owner, defaults={"name": f"drills of {owner.name}"})
        if created:
            audit_record(actor=system_actor(made.id), act=Act.WORKSPACE_CREATED, subject=made.name)
    return made.id


@lru_cache(maxsize=1_024)
def drills_owner(workspace_id: str) -> str | None:
    """Return the workspace whose drills run in this one; None: this is no workspace of drills. Fixed when a
    workspace is created.
    """
    return Workspace.objects.filter(id=workspace_id).values_list("drills_of_id", flat=True).first()


def system_actor(workspace_id: str) -> Actor:
    """Return the installation itself as an actor, for its duties and for acts without a person."""
    return Actor(name=SYSTEM, workspace_id=workspace_id, kind="system")


def owner_ensure() -> User:
    """Return the local owner, and create that user at the first call. The owner has every role and no password, so only
    a login link signs in.
    """
    with transaction.atomic():
        user, created = get_user_model().objects.get_or_create(username=OWNER)
        if created:
            user.set_unusable_password()
            user.save(update_fields=["password"])
        workspace_id = workspace_default()
        row = {"user": user, "roles": write_roles(OWNER_ROLES), "created_at": _now(), "created_by": SYSTEM}
        Member.objects.get_or_create(workspace_id=workspace_id, name=OWNER, removed_at__isnull=True, defaults=row)
        if created:
            audit_record(actor=system_actor(workspace_id), act=Act.USER_CREATED, subject=OWNER)
    return user


def find_actor(
    user: AbstractBaseUser | AnonymousUser, *, signed_in_at: int | None = None, workspace_id: str = ""
) -> Actor:
    """Return a user as an actor with its present roles in a workspace (empty: the default one). One statement.

    ``signed_in_at``: beginning of the user's sign-in, 0 where it is unknown; None: there is none. Raises Refused
    forbidden: the user is no member, or was removed after that sign-in.
    """
    name, place = (
        user.get_username(),
        {"workspace_id": workspace_id} if workspace_id else {"workspace__name": DEFAULT_WORKSPACE},
    )
    drills = Workspace.objects.filter(drills_of_id=OuterRef("workspace_id")).values("id")[:1]
    since = {
        "workspace_id": OuterRef("workspace_id"),
        "user_id": OuterRef("user_id"),
        "removed_at__gt": signed_in_at or 0,
    }
    others = Member.objects.filter(
        workspace_id=OuterRef("workspace_id"), removed_at__isnull=True, service=False, user__is_active=True
    ).exclude(id=OuterRef("id"))
    found = (
        Member.objects.filter(user_id=user.pk or 0, removed_at__isnull=True, **place)
        .values("workspace_id", "name", "roles", "service")
        .annotate(
            drills_id=Subquery(drills), removed_since=Exists(Member.objects.filter(**since)), others=Exists(others)
        )
        .first()
    )
    if found is None:
        message = f"{name[:80] or 'who is not signed in'} is no member of this workspace (any more): ask an owner of it for an invitation"
        raise Refused(message, code="forbidden", field="actor")
    if signed_in_at is not None and (found["removed_since"] or found["service"]):
        raise Refused(f"this sign-in of {name[:80]} was ended: sign in again", code="forbidden", field="actor")
    return Actor(
        name=found["name"],
        workspace_id=found["workspace_id"],
        kind="service" if found["service"] else "person",
        roles=held_in(found["roles"]),
        alone=not found["service"] and not found["others"],
        signed_in_at=signed_in_at or 0,
        drills_id=found["drills_id"] or "",
    )


def actor_named(workspace_id: str, name: str) -> Actor:
    """Return the member with this name as an actor without a sign-in. Programs act so in the name of an absent person.

    Raises Refused forbidden.
    """
    found = (
        Member.objects.filter(workspace_id=workspace_id, name=name, removed_at__isnull=True)
        .select_related("user")
        .first()
    )
    if found is None or not found.user.is_active:
        raise Refused(f"{name[:80]} is no member of this workspace (any more)", code="forbidden", field="actor")
    return find_actor(found.user, workspace_id=workspace_id)


def actor_inside_drills(actor: Actor, run_id: str) -> Actor | None:
    """Return the actor as it looks at a run of its workspace's drills; None: the run belongs to no drill.

    The name stays; of the rights, only those to look. ``actor``: with ``drills_id``, as ``find_actor`` returns it.
    Costs one look-up in an index where the workspace has drills, else none.
    """
    if not actor.drills_id:
        return None
    rows = Run.objects.filter(id=run_id, workspace_id=actor.drills_id)
    fabric = rows.values_list("fabric__name", flat=True).first()
    if fabric is None or not actor.sees(fabric):
        return None
    looks = frozenset(role for right, role in LOOKS_ON.items() if actor.place_at(fabric).may(right))
    inside = replace(actor, workspace_id=actor.drills_id, roles=looks, drills_id="")
    return replace(inside, held=actor.held or actor.roles, place=own_name(fabric)) if actor.narrow else inside


def find_people(workspace_id: str, fabric: str = "") -> Mapping[str, frozenset[str]] | None:
    """Return the people of a workspace who can be asked, by name, with their roles at a fabric. None: the workspace has
    no members.

    ``fabric``: empty for the whole workspace.
    """
    people = Member.objects.filter(
        workspace_id=workspace_id, removed_at__isnull=True, service=False, user__is_active=True
    )
    return {name: roles_at(held_in(roles), fabric) for name, roles in people.values_list("name", "roles")} or None


def owner_actor() -> Actor:
    """Return the local owner as an actor: it acts at this machine's command line, which counts as a fresh sign-in."""
    return replace(find_actor(owner_ensure()), signed_in_at=_now())


def login_link_create(user: User, *, valid_s: float = LOGIN_LINK_S, by: Actor | None = None) -> str:
    """Return a token that logs ``user`` in once, within ``valid_s`` seconds. It is not stored. ``by``: its maker;
    None: made at the machine.
    """
    token = secrets.token_urlsafe(32)
    now, workspace_id = _now(), workspace_default()
    expires_at = now + round(valid_s * US)
    with transaction.atomic():
        LoginLink.objects.filter(expires_at__lte=now).delete()
        made = {"user": user, "expires_at": expires_at, "created_by": by.name if by else ""}
        LoginLink.objects.create(workspace_id=workspace_id, token_hash=_hash(token), **made)
        maker = by or replace(system_actor(workspace_id), via=COMMAND_LINE)
        audit_record(actor=maker, act=Act.LOGIN_LINK_CREATED, subject=user.get_username(), expires_at=expires_at)
    return token


def login_link_consume(token: str) -> User | None:
    """Return the user of this token, once; None for a token that was used, has expired or never existed."""
    if not token or len(token) > TOKEN_CHARS_MAX:
        return None
    now, hashed = _now(), _hash(token)
    # The update decides: of two who come at once, one finds it unused.
    usable = {"used_at__isnull": True, "expires_at__gt": now, "user__is_active": True}
    fresh = LoginLink.objects.filter(token_hash=hashed, purpose="sign_in", **usable)
    # Looked for first: who has no link does not get SQLite's one writer either.
    if not fresh.exists():
        return None
    with transaction.atomic():
        if fresh.update(used_at=now) != 1:
            return None
        link = LoginLink.objects.select_related("user").get(token_hash=hashed)
        who = Actor(name=link.user.get_username(), workspace_id=link.workspace_id)
        audit_record(actor=who, act=Act.SIGNED_IN, subject=who.name, link=link.id)
    return link.user


def login_link_maker(token: str) -> str:
    """Return the member who made this link for another user. Empty: the user made it, or the machine did."""
    found = LoginLink.objects.filter(token_hash=_hash(token)).values_list("created_by", "user__username").first()
    return "" if found is None or found[0] == found[1] else found[0]


def sign_out_record(user: AbstractBaseUser | AnonymousUser) -> None:
    """Record in the audit stream that a user signed out."""
    who = Actor(name=user.get_username(), workspace_id=workspace_default())
    audit_record(actor=who, act=Act.SIGNED_OUT, subject=who.name)


def _hash(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _now() -> int:
    return time.time_ns() // 1_000
