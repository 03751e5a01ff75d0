"""Gives and takes roles, removes members, and creates accounts of programs (docs/specification/roles.md).

Only an owner may do this, and a workspace always has one. The local owner stays: it acts at the machine's command line.
A lost membership or role also ends the things that the person made, and things beyond the remaining rights. Sessions
and sockets need nothing here: each request and each live page looks up the user, and an ended membership ends them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, transaction
from django.db.models import Q

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.people.eligibility import ALONE, KINDS_OF_PROGRAMS, PROGRAM
from fabric.core.people.names import alike, name_problem
from fabric.core.people.roles import AT, PEOPLE_ONLY, Right, Role, has, held_in, is_place, read_place, write_roles
from fabric.core.people.scopes import Scope, find_lost_scopes
from fabric.models import ApiToken, Identity, Invitation, LoginLink, Member
from fabric.program.name import program
from fabric.services.actors import OWNER, login_link_create
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.rights import fresh_wanted, right_wanted

ROLES_MAX = 20
"""Largest number of a member's roles."""
PROVIDER = "provider"
"""Remover of members that the identity provider lets go, and means by which the system acts for it."""
_role = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_decides = re.compile(rf"{PROGRAM}:[A-Za-z0-9][A-Za-z0-9_-]{{0,62}}:(?:{'|'.join(KINDS_OF_PROGRAMS)})")


def member_roles_set(
    *, actor: Actor, name: str, roles: Collection[str], before: Collection[str] | None = None
) -> frozenset[str]:
    """Give a member exactly these roles, from their next request on, and return them. Tokens and invitations beyond
    them end.

    ``before``: the roles that the owner saw; None: any.
    Raises Refused: forbidden, not_found, invalid (an unknown role, or one not for a service account), conflict (the
    roles changed meanwhile; the last or the local owner would be owner no more).
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
            message = (
                f"{row.name} was given other roles meanwhile ({_roles_in_words(had)}): look at them, and change those"
            )
            raise Refused(message, code="conflict", field="roles")
        if Role.OWNER in had and Role.OWNER not in wanted:
            _still_owned(actor, row, "would no longer be owner")
        if wanted != had:
            Member.objects.filter(id=row.id).update(roles=write_roles(wanted))
            ended = ended_by_loss(actor, row, had, wanted)
            change = {"roles": sorted(wanted), "before": sorted(had), **_ended_counts(ended)}
            audit_record(actor=actor, act=Act.MEMBER_ROLES_SET, subject=row.name, **change)
    return wanted


def member_remove(*, actor: Actor, name: str) -> EndedAccess:
    """End a membership, and with it the member's sign-ins, open invitations, and tokens by or for them.

    Their acts stay in journals and in the audit stream. Raises Refused: forbidden, not_found, conflict (the last
    owner, or the local one).
    """
    right_wanted(actor, Right.MEMBERS, "remove members")
    fresh_wanted(actor, "remove members", by_token=True)
    with transaction.atomic():
        row = _row(actor, name)
        if Role.OWNER in held_in(row.roles):
            _still_owned(actor, row, "would be removed")
        Member.objects.filter(id=row.id).update(removed_at=_now(), removed_by=actor.name)
        ended = ended_with(actor, row)
        details = {"roles": sorted(held_in(row.roles)), "service": row.service or None, **_ended_counts(ended)}
        audit_record(actor=actor, act=Act.MEMBER_REMOVED, subject=row.name, **details)
    return ended


def service_create(*, actor: Actor, name: str, roles: Collection[str]) -> str:
    """Create an account of programs, and return its name. It has tokens and no sign-in, and decides only what its
    roles ``decides:FABRIC:KIND`` name.

    Raises Refused: forbidden, invalid (a name or a role that is none, or a role for people only), conflict (the name
    is taken).
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
    """Return a token that signs a member in once, within an hour: for members without a password. Raises Refused:
    forbidden, not_found, conflict (no person).
    """
    right_wanted(actor, Right.MEMBERS, "make sign-in links for others")
    fresh_wanted(actor, "make sign-in links for others")
    with transaction.atomic():
        row = _row(actor, name)
    if row.service or not row.user.is_active:
        raise Refused(f"{row.name} cannot sign in, so a link would not work", code="conflict", field="name")
    if Identity.objects.filter(user_id=row.user_id).exists():
        message = f"{row.name} signs in by the provider of identities: a link would go round it"
        raise Refused(message, code="conflict", field="name")
    return login_link_create(row.user, by=actor)


def roles_checked(roles: Collection[str], *, service: bool = False) -> frozenset[str]:
    """Return roles as they are stored. Raises Refused invalid."""
    given = frozenset(str(role).strip() for role in roles) - {""}
    if not given:
        message = (
            f"a member has at least one role: name some of {', '.join(Role)}; {Role.VIEWER} is for read-only members"
        )
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
            f"{len(given)} roles are too many: name {ROLES_MAX} at most",
            code="invalid",
            field="roles",
        )
    if service and (people := sorted(bare & PEOPLE_ONLY)):
        message = f"a service account cannot be {', '.join(people)}: those are for people, who decide and say who does"
        raise Refused(message, code="invalid", field="roles")
    return given


def _places_checked(roles: Collection[str]) -> None:
    """Raise Refused for a role at an invalid place, and for an owner of less than the workspace."""
    there = sorted(role for role in roles if AT in role)
    for role in there:
        if not is_place(read_place(role)):
            message = f"{role[:60]!r} holds nowhere: after {AT} stands the name of a fabric, or of a folder such as payments-*"
            raise Refused(message, code="invalid", field="roles")
        if role.partition(AT)[0] == Role.OWNER:
            message = f"{role[:60]!r} cannot be: an owner runs the whole workspace; give {Role.EDITOR} and {Role.OPERATOR} there"
            raise Refused(message, code="invalid", field="roles")


def user_new(workspace_id: str, name: str, password: str | None) -> User:
    """Create a user of this name; without a password, signing in as it is impossible. Runs in the caller's
    transaction.

    Raises Refused: invalid, conflict (the name is taken).
    """
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
    # A review asks for roles and for names alike: who bore a role's name would be asked in its place.
    if picked.casefold() in _roles_here(workspace_id):
        raise Refused(f"{picked} is the name of a role here: choose another one", code="conflict", field="name")
    if _has_the_name(picked):
        raise Refused(f"a member has the name {picked} already: choose another one", code="conflict", field="name")
    try:
        with transaction.atomic():
            return User.objects.create_user(picked, password=password)
    except IntegrityError:
        raise Refused(
            f"a member has the name {picked} already: choose another one", code="conflict", field="name"
        ) from None


def member_add(workspace_id: str, user: User, roles: Collection[str], *, by: str, service: bool = False) -> None:
    """Make a user a member, in the caller's transaction. Raises Refused conflict for a member."""
    row = {"user": user, "roles": write_roles(roles), "service": service, "created_at": _now(), "created_by": by}
    _, made = Member.objects.get_or_create(
        workspace_id=workspace_id, name=user.username, removed_at__isnull=True, defaults=row
    )
    if not made:
        message = f"{user.username} is a member already: an owner gives more roles on the page of members"
        raise Refused(message, code="conflict", field="name")


def member_readmit(*, actor: Actor, name: str) -> None:
    """Readmit a removed person who comes by the identity provider: they are a member from their next sign-in on.

    Raises Refused: forbidden, not_found, conflict (they are a member).
    """
    right_wanted(actor, Right.MEMBERS, "let people in again")
    fresh_wanted(actor, "let people in again")
    rows = Member.objects.filter(workspace_id=actor.workspace_id, name=name)
    if rows.filter(removed_at__isnull=True).exists():
        raise Refused(f"{name[:80]} is a member: there is nothing to do", code="conflict", field="name")
    if not rows.filter(user__in=Identity.objects.values("user")).exists():
        message = f"no person from your organisation was removed as {name[:80]!r}: send an invitation instead"
        raise Refused(message, code="not_found", field="name")
    with transaction.atomic():
        rows.update(removed_by=PROVIDER)
        audit_record(actor=actor, act=Act.MEMBER_READMITTED, subject=name)


def _row(actor: Actor, name: str) -> Member:
    """Return the row of a member. Of two who remove each other, one finds the other gone."""
    held = members_locked(actor)
    if name not in held:
        message = f"there is no member {name[:80]!r} in this workspace; `{program()} member list` shows them"
        raise Refused(message, code="not_found", field="name")
    return held[name]


def _ended_counts(ended: EndedAccess) -> dict[str, int | None]:
    return {"tokens_revoked": ended.tokens or None, "invitations_revoked": ended.invitations or None}


def _still_owned(actor: Actor, row: Member, so: str) -> None:
    """Raise Refused conflict where a workspace would lose its last owner, or the local one."""
    if row.name == OWNER:
        message = f"{OWNER} is who acts at the command line of this machine and {so}: the local owner stays"
        raise Refused(message, code="conflict", field="name")
    others = Member.objects.filter(
        workspace_id=actor.workspace_id, removed_at__isnull=True, service=False, user__is_active=True
    )
    if not any(Role.OWNER in held_in(roles) for roles in others.exclude(id=row.id).values_list("roles", flat=True)):
        message = f"{row.name} is the last owner and {so}: make another member owner first"
        raise Refused(message, code="conflict", field="name")


def _has_the_name(name: str) -> bool:
    """Return True if a user has this name, or one that looks like it."""
    return alike(name) in {alike(one) for one in User.objects.values_list("username", flat=True)}


def _roles_here(workspace_id: str) -> set[str]:
    """Return the roles of all members and invitations."""
    texts = [
        Model.objects.filter(workspace_id=workspace_id).values_list("roles", flat=True)
        for Model in (Member, Invitation)
    ]
    return {role.partition(AT)[0] for found in texts for text in found.distinct() for role in held_in(text)}


def _roles_in_words(roles: Collection[str]) -> str:
    return ", ".join(sorted(roles)) or "none"


def _now() -> int:
    return time.time_ns() // 1_000


@dataclass(frozen=True, slots=True)
class EndedAccess:
    """Numbers of ended tokens and invitations."""

    tokens: int = 0
    invitations: int = 0


def members_locked(actor: Actor) -> dict[str, Member]:
    """Lock the members and return them by name; transactions change them one after the other. Raises Refused
    forbidden for a former member.

    The maker of a token or an invitation locks them too: nothing is made while its maker loses the right.
    """
    if connection.vendor == "postgresql":  # SQLite has one writer anyway.
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 17))", [f"members {actor.workspace_id}"])
    rows = Member.objects.filter(workspace_id=actor.workspace_id, removed_at__isnull=True)
    held = {row.name: row for row in rows}
    if actor.kind == "person" and actor.name not in held:
        raise Refused(f"{actor.name} is no member of this workspace any more", code="forbidden", field="actor")
    return held


def still_may(actor: Actor, right: Right, doing: str) -> None:
    """Raise Refused forbidden if the actor lost the right since the request came in. The caller's transaction has
    locked the members.
    """
    if not has(held_in(members_locked(actor)[actor.name].roles), right):
        raise Refused(f"{actor.name} may not {doing} any more", code="forbidden", field="actor")


def ended_with(actor: Actor, row: Member) -> EndedAccess:
    """End what a removed member made and what acts for them. Runs within the caller's transaction."""
    mine = Q(user_id=row.user_id) | Q(created_by=row.name)
    LoginLink.objects.filter(Q(user_id=row.user_id) | Q(created_by=row.name), used_at__isnull=True).delete()
    return EndedAccess(_tokens_end(actor, mine), _invitations_end(actor, row))


def ended_by_loss(actor: Actor, row: Member, before: Collection[str], after: Collection[str]) -> EndedAccess:
    """End what exceeds the remaining rights of a member who lost some. Runs within the caller's transaction."""
    gone = find_lost_scopes(before, after, service=row.service)
    exceeding = [
        one.id
        for one in ApiToken.objects.filter(workspace_id=actor.workspace_id, user_id=row.user_id, revoked_at=None)
        if not gone.isdisjoint(Scope(scope) for scope in one.scopes.split(","))
    ]
    ended = Q(id__in=exceeding)
    if not has(before, Right.MEMBERS) or has(after, Right.MEMBERS):
        return EndedAccess(_tokens_end(actor, ended))
    LoginLink.objects.filter(created_by=row.name, used_at__isnull=True).delete()
    others = Q(created_by=row.name) & ~Q(user_id=row.user_id)
    return EndedAccess(_tokens_end(actor, ended | others), _invitations_end(actor, row))


def _tokens_end(actor: Actor, which: Q) -> int:
    rows = ApiToken.objects.filter(which, workspace_id=actor.workspace_id, revoked_at__isnull=True)
    return rows.update(revoked_at=time.time_ns() // 1_000)


def _invitations_end(actor: Actor, row: Member) -> int:
    rows = Invitation.objects.filter(
        workspace_id=actor.workspace_id, created_by=row.name, accepted_at__isnull=True, revoked_at__isnull=True
    )
    return rows.update(revoked_at=time.time_ns() // 1_000, revoked_by=actor.name)
