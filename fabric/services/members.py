"""Who belongs to a workspace: roles given and taken, members removed, and accounts of programs made (docs/semantics.md "Roles").

Only an owner does any of it, and a workspace always has one. The local owner stays: it is who acts at the machine's command line.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.core.eligibility import ALONE, KINDS_OF_PROGRAMS, PROGRAM
from fabric.core.names import alike, name_problem
from fabric.core.reach import AT, is_place, place_of
from fabric.core.roles import PEOPLE_ONLY, Right, Role, held_in, written
from fabric.models import Identity, Invitation, Member
from fabric.services.audit import audit_record
from fabric.services.endings import Ended, ended_by_loss, ended_with, members_locked
from fabric.services.errors import Refused
from fabric.services.rights import fresh_wanted, right_wanted
from fabric.services.workspaces import OWNER, login_link_create

ROLES_MAX = 20
"""A member holds at most so many."""
PROVIDER = "provider"
"""Who removed a member whom the provider of identities let go, and by what the system acts for it."""
_role = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_decides = re.compile(rf"{PROGRAM}:[A-Za-z0-9][A-Za-z0-9_-]{{0,62}}:(?:{'|'.join(KINDS_OF_PROGRAMS)})")


def member_roles_set(
    *, actor: Actor, name: str, roles: Collection[str], before: Collection[str] | None = None
) -> frozenset[str]:
    """Gives a member exactly these roles, from their next request on; those that they have then. What exceeds them ends: tokens, invitations.

    ``before``: the roles that were seen; None: whatever they are.

    Raises Refused: forbidden, not_found, invalid (a role that is none, or not for a service account), conflict (others were given meanwhile; the last
    owner, or the local one, would be none any more).
    """
    right_wanted(actor, Right.MEMBERS, "give and take roles")
    fresh_wanted(actor, "give and take roles", by_token=True)
    with transaction.atomic():
        row = _row(actor, name)
        wanted, had = roles_checked(roles, service=row.service), held_in(row.roles)
        if wanted != had and Identity.objects.filter(user_id=row.user_id).exists():
            message = f"the roles of {row.name} are those of their groups at the provider of identities: change the groups, or FABRIC_OIDC_ROLES"
            raise Refused(message, code="conflict", field="roles")
        if before is not None and frozenset(before) != had:
            message = f"{row.name} was given other roles meanwhile ({_said(had)}): look at them, and change those"
            raise Refused(message, code="conflict", field="roles")
        if Role.OWNER in had and Role.OWNER not in wanted:
            _still_owned(actor, row, "would be owner no more")
        if wanted != had:
            Member.objects.filter(id=row.id).update(roles=written(wanted))
            ended = ended_by_loss(actor, row, had, wanted)
            change = {"roles": sorted(wanted), "before": sorted(had), **_told(ended)}
            audit_record(actor=actor, act=Act.MEMBER_ROLES_SET, subject=row.name, **change)
    return wanted


def member_remove(*, actor: Actor, name: str) -> Ended:
    """Ends a membership, and at once with it the sign-ins of that member, the tokens that act for them or that they made, and their open invitations.

    What they did stays in journals and in the audit stream. Raises Refused: forbidden, not_found, conflict (the last owner, or the local one).
    """
    right_wanted(actor, Right.MEMBERS, "remove members")
    fresh_wanted(actor, "remove members", by_token=True)
    with transaction.atomic():
        row = _row(actor, name)
        if Role.OWNER in held_in(row.roles):
            _still_owned(actor, row, "would be removed")
        Member.objects.filter(id=row.id).update(removed_at=_now(), removed_by=actor.name)
        ended = ended_with(actor, row)
        details = {"roles": sorted(held_in(row.roles)), "service": row.service or None, **_told(ended)}
        audit_record(actor=actor, act=Act.MEMBER_REMOVED, subject=row.name, **details)
    return ended


def service_create(*, actor: Actor, name: str, roles: Collection[str]) -> str:
    """Makes an account of programs: it has tokens and no sign-in, and decides what ``decides:FABRIC:KIND`` among its roles names alone. Its name.

    Raises Refused: forbidden, invalid (a name or a role that is none, or a role for people only), conflict (the name is taken).
    """
    right_wanted(actor, Right.MEMBERS, "make service accounts")
    fresh_wanted(actor, "make service accounts", by_token=True)
    wanted = roles_checked(roles, service=True)
    with transaction.atomic():
        user = user_new(actor.workspace_id, name, None)
        member_add(actor.workspace_id, user, wanted, by=actor.name, service=True)
        audit_record(actor=actor, act=Act.SERVICE_ACCOUNT_CREATED, subject=user.username, roles=sorted(wanted))
    return user.username


def login_link_for(*, actor: Actor, name: str) -> str:
    """A token that signs a member in once, within an hour: for who has no password, or has forgotten it. Raises Refused: forbidden, not_found, conflict (no person)."""
    right_wanted(actor, Right.MEMBERS, "make sign-in links for others")
    fresh_wanted(actor, "make sign-in links for others")
    with transaction.atomic():
        row = _row(actor, name)
    if row.service or not row.user.is_active:
        raise Refused(f"{row.name} cannot sign in: a link would let nobody in", code="conflict", field="name")
    if Identity.objects.filter(user_id=row.user_id).exists():
        message = f"{row.name} signs in by the provider of identities: a link would go round it"
        raise Refused(message, code="conflict", field="name")
    return login_link_create(row.user, by=actor)


def roles_checked(roles: Collection[str], *, service: bool = False) -> frozenset[str]:
    """Roles as they are kept. Refused invalid."""
    given = frozenset(str(role).strip() for role in roles) - {""}
    if not given:
        message = f"a member has at least one role: name some of {', '.join(Role)}; who only looks on is {Role.VIEWER}"
        raise Refused(message, code="invalid", field="roles")
    words = frozenset(role for role in given if service and _decides.fullmatch(role))
    _places_checked(given)
    bare = frozenset(role.partition(AT)[0] for role in given - words)
    wrong = sorted(role for role in bare if not _role.fullmatch(role) or role in (PROGRAM, ALONE))
    if wrong:
        message = f"{wrong[0][:40]!r} is no role: there are {', '.join(Role)}, and names of up to 63 lower-case letters, digits, - and _ that fabrics ask for"
        if service:
            message += f"; what a program may answer is written {PROGRAM}:FABRIC:KIND, with {', '.join(KINDS_OF_PROGRAMS)} for KIND"
        raise Refused(message, code="invalid", field="roles")
    if len(given) > ROLES_MAX:
        raise Refused(
            f"{len(given)} roles are more than anybody can have: name {ROLES_MAX} at most",
            code="invalid",
            field="roles",
        )
    if service and (people := sorted(bare & PEOPLE_ONLY)):
        message = f"a service account cannot be {', '.join(people)}: those are for people, who decide and say who does"
        raise Refused(message, code="invalid", field="roles")
    return given


def _places_checked(roles: Collection[str]) -> None:
    """Refuses a role that holds at what is no place, and an owner of less than the workspace."""
    there = sorted(role for role in roles if AT in role)
    for role in there:
        if not is_place(place_of(role)):
            message = f"{role[:60]!r} holds nowhere: after {AT} stands the name of a fabric, or of a folder such as payments-*"
            raise Refused(message, code="invalid", field="roles")
        if role.partition(AT)[0] == Role.OWNER:
            message = f"{role[:60]!r} cannot be: an owner runs the whole workspace; give {Role.EDITOR} and {Role.OPERATOR} there"
            raise Refused(message, code="invalid", field="roles")


def user_new(workspace_id: str, name: str, password: str | None) -> User:
    """A new user of this name; without a password nobody signs in as it. In the caller's transaction. Raises Refused: invalid, conflict (the name is taken)."""
    picked = User.normalize_username(name.strip())
    try:
        User.username_validator(picked)
    except ValidationError:
        picked = ""
    if not picked or len(picked) > 150:
        message = "a name has 1 to 150 letters, digits and @ . + - _: choose another one"
        raise Refused(message, code="invalid", field="name")
    if wrong := name_problem(picked):
        raise Refused(wrong, code="invalid", field="name")
    # A question asks for roles and for names alike: who bore a role's name would be asked in its place.
    if picked.casefold() in _roles_here(workspace_id):
        raise Refused(f"{picked} is the name of a role here: choose another one", code="conflict", field="name")
    if _has_the_name(picked):
        raise Refused(f"somebody has the name {picked} already: choose another one", code="conflict", field="name")
    try:
        with transaction.atomic():
            return User.objects.create_user(picked, password=password)
    except IntegrityError:
        raise Refused(
            f"somebody has the name {picked} already: choose another one", code="conflict", field="name"
        ) from None


def member_add(workspace_id: str, user: User, roles: Collection[str], *, by: str, service: bool = False) -> None:
    """Makes a user a member. In the caller's transaction. Raises Refused conflict: they are one."""
    row = {"user": user, "roles": written(roles), "service": service, "created_at": _now(), "created_by": by}
    _, made = Member.objects.get_or_create(
        workspace_id=workspace_id, name=user.username, removed_at__isnull=True, defaults=row
    )
    if not made:
        message = f"{user.username} is a member already: an owner gives more roles on the page of members"
        raise Refused(message, code="conflict", field="name")


def member_readmit(*, actor: Actor, name: str) -> None:
    """Lets somebody in again whom an owner removed, and who comes by the provider of identities: they are a member from their next sign-in on.

    Raises Refused: forbidden, not_found, conflict (they are a member).
    """
    right_wanted(actor, Right.MEMBERS, "let people in again")
    fresh_wanted(actor, "let people in again")
    rows = Member.objects.filter(workspace_id=actor.workspace_id, name=name)
    if rows.filter(removed_at__isnull=True).exists():
        raise Refused(f"{name[:80]} is a member: there is nothing to do", code="conflict", field="name")
    if not rows.filter(user__in=Identity.objects.values("user")).exists():
        message = f"nobody who came by the provider of identities was removed as {name[:80]!r}: send an invitation to whom it concerns"
        raise Refused(message, code="not_found", field="name")
    with transaction.atomic():
        rows.update(removed_by=PROVIDER)
        audit_record(actor=actor, act=Act.MEMBER_READMITTED, subject=name)


def _row(actor: Actor, name: str) -> Member:
    """The row of a member. Of two who remove each other, one finds the other gone."""
    held = members_locked(actor)
    if name not in held:
        message = f"there is no member {name[:80]!r} in this workspace; `manage.py member list` shows them"
        raise Refused(message, code="not_found", field="name")
    return held[name]


def _told(ended: Ended) -> dict[str, int | None]:
    return {"tokens_revoked": ended.tokens or None, "invitations_revoked": ended.invitations or None}


def _still_owned(actor: Actor, row: Member, so: str) -> None:
    """Refused conflict where a workspace would lose its last owner, or the local one."""
    if row.name == OWNER:
        message = f"{OWNER} is who acts at the command line of this machine and {so}: the local owner stays"
        raise Refused(message, code="conflict", field="name")
    others = Member.objects.filter(
        workspace_id=actor.workspace_id, removed_at__isnull=True, service=False, user__is_active=True
    )
    if not any(Role.OWNER in held_in(roles) for roles in others.exclude(id=row.id).values_list("roles", flat=True)):
        message = f"{row.name} is the last owner and {so}: make somebody else an owner first"
        raise Refused(message, code="conflict", field="name")


def _has_the_name(name: str) -> bool:
    """Whether somebody has it, or one that is taken for it."""
    return alike(name) in {alike(one) for one in User.objects.values_list("username", flat=True)}


def _roles_here(workspace_id: str) -> set[str]:
    """The roles that a member has or somebody is invited to."""
    texts = [
        Model.objects.filter(workspace_id=workspace_id).values_list("roles", flat=True)
        for Model in (Member, Invitation)
    ]
    return {role.partition(AT)[0] for found in texts for text in found.distinct() for role in held_in(text)}


def _said(roles: Collection[str]) -> str:
    return ", ".join(sorted(roles)) or "none"


def _now() -> int:
    return time.time_ns() // 1_000
