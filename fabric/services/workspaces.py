"""The default workspace, its owner, and the one-time links that log people in."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.db import transaction
from django.db.models import OuterRef, Subquery

from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.models import LoginLink, Run, Workspace
from fabric.services.audit import SYSTEM, audit_record

DEFAULT_WORKSPACE = "default"
OWNER = "owner"
COMMAND_LINE = "command_line"
"""By what an act at the machine itself came in."""
OWNER_ROLES = frozenset({"owner", "reviewer", "finance", "safety"})
"""On an installation of one's own, its owner answers every question."""
LOGIN_LINK_S = 3_600
TOKEN_CHARS_MAX = 200
US = 1_000_000


def workspace_default() -> str:
    """The id of the default workspace, which is made the first time."""
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
    """The id of the workspace in which another one's drills run; None: nothing was drilled in it so far that left a run."""
    return Workspace.objects.filter(drills_of_id=workspace_id).values_list("id", flat=True).first()


def drills_workspace_ensure(workspace_id: str) -> str:
    """The same, which is made the first time. What runs in it has budgets, breakers, memories and questions of its own."""
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
    """The workspace whose drills run in this one; None: it is nobody's drills'. Said once when a workspace is made, and never changed."""
    return Workspace.objects.filter(id=workspace_id).values_list("drills_of_id", flat=True).first()


def system_actor(workspace_id: str) -> Actor:
    """Who acts where nobody does: the installation itself, and its duties."""
    return Actor(name=SYSTEM, workspace_id=workspace_id, kind="system")


def owner_ensure() -> User:
    """The local owner, who is made the first time: without a password, so that only a login link lets anybody in."""
    with transaction.atomic():
        user, created = get_user_model().objects.get_or_create(username=OWNER)
        if created:
            user.set_unusable_password()
            user.save(update_fields=["password"])
            audit_record(actor=system_actor(workspace_default()), act=Act.USER_CREATED, subject=OWNER)
    return user


def actor_of(user: AbstractBaseUser | AnonymousUser) -> Actor:
    """A logged-in user as an actor: roles are the names of the user's groups; the local owner has all of them."""
    name = user.get_username()
    groups = user.groups.values_list("name", flat=True) if isinstance(user, User) else ()
    roles = OWNER_ROLES if name == OWNER else frozenset(groups)
    workspace_id, drills_id = _default_and_drills()
    return Actor(name=name, workspace_id=workspace_id, kind="person", roles=roles, drills_id=drills_id)


def _default_and_drills() -> tuple[str, str]:
    """The default workspace and the one in which its drills run, empty where there is none: both in the one statement that each request has."""
    drills = Workspace.objects.filter(drills_of_id=OuterRef("id")).values("id")[:1]
    found = Workspace.objects.filter(name=DEFAULT_WORKSPACE).values_list("id", Subquery(drills)).first()
    return (workspace_default(), "") if found is None else (found[0], found[1] or "")


def acting_in(actor: Actor, workspace_id: str, via: str) -> Actor:
    """The same actor in a workspace that may be another one, by a token or the like."""
    drills_id = actor.drills_id if workspace_id == actor.workspace_id else drills_workspace(workspace_id) or ""
    return replace(actor, workspace_id=workspace_id, via=via, drills_id=drills_id)


def actor_inside_drills(actor: Actor, run_id: str) -> Actor | None:
    """Who looks at a run of the drills of the actor's workspace: the same name in there, without any role. None: it is no such run.

    ``actor``: with ``drills_id``, as ``actor_of`` gives it. One look into an index where there is such a workspace, else none.
    """
    if not actor.drills_id or not Run.objects.filter(id=run_id, workspace_id=actor.drills_id).exists():
        return None
    return replace(actor, workspace_id=actor.drills_id, roles=frozenset(), drills_id="")


def people_held(workspace_id: str) -> frozenset[str] | None:
    """The names of those who may sign in, and the roles that one of them has at least; None for a workspace that no user belongs to yet."""
    if workspace_id != workspace_default():
        return None
    active = get_user_model().objects.filter(is_active=True)
    names = set(active.values_list("username", flat=True))
    roles = set(active.filter(groups__isnull=False).values_list("groups__name", flat=True))
    return frozenset(names | roles | (OWNER_ROLES if OWNER in names else set()))


def owner_actor() -> Actor:
    """The local owner as an actor: who acts at the command line of this machine."""
    return actor_of(owner_ensure())


def login_link_create(user: User, *, valid_s: float = LOGIN_LINK_S) -> str:
    """A token that logs ``user`` in once, within ``valid_s`` seconds. It is not kept and cannot be shown again."""
    token = secrets.token_urlsafe(32)
    now, workspace_id = _now(), workspace_default()
    expires_at = now + round(valid_s * US)
    with transaction.atomic():
        LoginLink.objects.filter(expires_at__lte=now).delete()
        LoginLink.objects.create(workspace_id=workspace_id, user=user, token_hash=_hash(token), expires_at=expires_at)
        maker = replace(system_actor(workspace_id), via=COMMAND_LINE)
        audit_record(actor=maker, act=Act.LOGIN_LINK_CREATED, subject=user.get_username(), expires_at=expires_at)
    return token


def login_link_consume(token: str) -> User | None:
    """The user whose token this is, once; None for a token that was used, has expired or never was."""
    if not token or len(token) > TOKEN_CHARS_MAX:
        return None
    now, hashed = _now(), _hash(token)
    # The update decides: of two who come at once, one finds it unused.
    fresh = LoginLink.objects.filter(token_hash=hashed, used_at__isnull=True, expires_at__gt=now, user__is_active=True)
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


def sign_out_record(user: AbstractBaseUser | AnonymousUser) -> None:
    """Notes in the audit stream that somebody signed out."""
    who = Actor(name=user.get_username(), workspace_id=workspace_default())
    audit_record(actor=who, act=Act.SIGNED_OUT, subject=who.name)


def _hash(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _now() -> int:
    return time.time_ns() // 1_000
