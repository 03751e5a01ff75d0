"""Bearer tokens of the API: creates and revokes them, and finds the caller of a request.

A token is 256 random bits with a prefix and a checksum (``fabric.core.people.scopes``). It is shown once; the
database has its SHA-256, by which it is found. A fast hash is right here: trying 2^256 tokens is impossible, and
every request has to hash one.
"""

from __future__ import annotations

import hmac
import logging
import re
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Literal

from django.contrib.auth.models import User
from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import Exists, F, OuterRef
from django.views.decorators.debug import sensitive_variables

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.people.eligibility import PROGRAM
from fabric.core.people.roles import Right, has, held_in
from fabric.core.people.scopes import Scope, is_whole, token_text
from fabric.core.values.units import US
from fabric.models import ApiToken, Fabric, Identity, Member
from fabric.program.name import program
from fabric.services.actors import find_actor
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.people.identities import ProviderAway, identity_goes_on
from fabric.services.people.members import members_locked
from fabric.services.rights import TOKEN, fresh_wanted, right_wanted

log = logging.getLogger(__name__)

DAYS = 90
"""Days for which a token works by default."""
DAYS_MAX = 365
FABRICS_MAX = 20
"""Largest number of fabrics to which a token is confined."""
USED_EVERY_S = 60
"""Shortest time between two recordings of a token's use: a request must not cost a write."""

_name = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True, slots=True)
class CreatedToken:
    """A new token. ``secret`` is not stored and cannot be shown again."""

    name: str
    user: str
    scopes: tuple[Scope, ...]
    fabrics: tuple[str, ...]
    """Fabrics to which it is confined; empty: unconfined."""
    expires_at: int
    """Microseconds since the epoch, UTC."""
    secret: str

    def __repr__(self) -> str:
        return f"CreatedToken({self.name!r})"  # A log or a traceback that shows it must not show the secret.


@dataclass(frozen=True, slots=True)
class TokenHolder:
    """Caller of a request, with the acts that the token allows."""

    token: str
    """The token's name."""
    actor: Actor
    scopes: frozenset[Scope]


NotAccepted = Literal["mistyped", "unknown", "revoked", "expired", "inactive", "not_theirs", "let_go"]


def _machine_now() -> int:
    return time.time_ns() // 1_000


def token_create(
    *,
    actor: Actor,
    name: str,
    user: str = "",
    scopes: Collection[str] = (Scope.READ,),
    fabrics: Collection[str] = (),
    expires_days: int = DAYS,
    now: Callable[[], int] = _machine_now,
) -> CreatedToken:
    """Create a token that acts for its maker (``user`` empty), or for a service account. ``fabrics`` confine it.

    A person creates their own tokens, an owner those of programs, after a fresh sign-in. Raises Refused: forbidden,
    invalid (name, scopes, fabrics, expires), not_found (user, fabrics), conflict (an unrevoked token has the name).
    """
    fresh_wanted(actor, "make tokens")
    _may_make(actor, user or actor.name)
    if not _name.fullmatch(name):
        message = f"{name[:40]!r} is no name for a token; use up to 63 letters, digits, dots, - and _, beginning with a letter or digit"
        raise Refused(message, code="invalid", field="name")
    picked, holder = _scopes(scopes), _holder(actor, user or actor.name)
    if Scope.DECIDE in picked:
        _decides_something(holder)
    confined = _fabrics(actor.workspace_id, fabrics, picked)
    if not 1 <= expires_days <= DAYS_MAX:
        message = f"a token cannot expire in {expires_days:,} days; give 1 to {DAYS_MAX:,}, and make another one then"
        raise Refused(message, code="invalid", field="expires")
    created_at = now()
    expires_at = created_at + expires_days * 24 * 3_600 * US
    secret = token_text(secrets.choice)
    try:
        with transaction.atomic():
            _may_make(actor, holder.get_username(), members_locked(actor))
            ApiToken.objects.create(
                workspace_id=actor.workspace_id,
                user=holder,
                name=name,
                token_hash=_hash(secret),
                scopes=",".join(picked),
                fabrics=",".join(confined),
                created_at=created_at,
                created_by=actor.name,
                expires_at=expires_at,
            )
            details = {"user": holder.get_username(), "scopes": list(picked), "fabrics": list(confined) or None}
            audit_record(actor=actor, act=Act.TOKEN_CREATED, subject=name, expires_at=expires_at, **details)
    except IntegrityError:
        message = f"a token is named {name!r} already; revoke it first, or pick another name"
        raise Refused(message, code="conflict", field="name") from None
    return CreatedToken(name, holder.get_username(), picked, confined, expires_at, secret)


def token_revoke(*, actor: Actor, name: str, now: Callable[[], int] = _machine_now) -> bool:
    """Revoke a token at once; its name is free again. Returns False if it was revoked before. Raises Refused
    not_found, forbidden (another's token).
    """
    named = ApiToken.objects.filter(workspace_id=actor.workspace_id, name=name[:100])
    # A name is free again once its token was revoked: the one that works is meant.
    whose = named.order_by(F("revoked_at").desc(nulls_first=True)).values_list("user__username", flat=True).first()
    if whose not in (None, actor.name):
        right_wanted(actor, Right.MEMBERS, "revoke tokens of others")
    with transaction.atomic():
        if named.filter(revoked_at__isnull=True).update(revoked_at=now()):
            audit_record(actor=actor, act=Act.TOKEN_REVOKED, subject=name)
            return True
    if named.exists():
        return False
    message = f"no token is named {name[:40]!r}; `{program()} token list` shows the names"
    raise Refused(message, code="not_found", field="name")


@sensitive_variables("presented", "hashed")
def token_use(presented: str, *, now: Callable[[], int] = _machine_now) -> TokenHolder | NotAccepted:
    """Return the caller with this token, or the reason why it is not accepted, and record its use. Raises Refused
    forbidden for a former member.
    """
    if not is_whole(presented):
        return "mistyped"
    hashed = _hash(presented)
    # Found by an index over hashes: the time reveals the beginning of a hash, and no token can be made to fit one.
    by_provider = Exists(Identity.objects.filter(user_id=OuterRef("user_id")))
    row = ApiToken.objects.select_related("user").filter(token_hash=hashed).annotate(by_provider=by_provider).first()
    if row is None or not hmac.compare_digest(row.token_hash, hashed):
        return "unknown"
    at = now()
    if row.revoked_at is not None:
        return "revoked"
    if row.expires_at <= at:
        return "expired"
    if not row.user.is_active:
        return "inactive"
    if row.by_provider and not _goes_on(row.user_id):
        return "let_go"
    _note_use(row, at)
    actor = find_actor(row.user, workspace_id=row.workspace_id)
    if actor.kind == "person" and row.created_by != actor.name:
        return "not_theirs"
    behind = () if row.created_by == actor.name else (row.created_by,)
    actor = replace(actor, via=f"{TOKEN}{row.name}", behind=behind, fabrics=tuple(filter(None, row.fabrics.split(","))))
    return TokenHolder(row.name, actor, frozenset(Scope(scope) for scope in row.scopes.split(",")))


def _goes_on(user_id: int) -> bool:
    try:
        return identity_goes_on(user_id)
    except ProviderAway:
        message = "your organisation's sign-in does not respond, so this token's user cannot be checked: try again in a minute"
        raise Refused(message, code="unavailable", field="actor") from None


def _note_use(row: ApiToken, at: int) -> None:
    before = at - USED_EVERY_S * US
    if row.last_used_at is not None and row.last_used_at > before:
        return
    # The condition decides between requests that come at once: one of them writes.
    stale = ApiToken.objects.filter(id=row.id, last_used_at=row.last_used_at)
    try:
        stale.update(last_used_at=at)
    except DatabaseError as error:
        log.warning("the last use of token %s was not noted: %s", row.name, error)


def _scopes(given: Collection[str]) -> tuple[Scope, ...]:
    unknown = [scope for scope in given if scope not in tuple(Scope)]
    if unknown or not given:
        what = f"there is no scope {unknown[0][:40]!r}" if unknown else "a token needs a scope"
        raise Refused(f"{what}; there are: {', '.join(Scope)}", code="invalid", field="scopes")
    return tuple(scope for scope in Scope if scope in given)


def _fabrics(workspace_id: str, given: Collection[str], scopes: Collection[Scope]) -> tuple[str, ...]:
    """Return the fabrics to which a token is confined. Raises Refused invalid; not_found for an unknown one."""
    names = tuple(sorted({str(name).strip() for name in given} - {""}))
    if names and Scope.MANAGE in scopes:
        message = f"the scope {Scope.MANAGE} is about the whole workspace: leave it out, or name no fabrics"
        raise Refused(message, code="invalid", field="fabrics")
    if len(names) > FABRICS_MAX:
        message = f"a token is confined to at most {FABRICS_MAX} fabrics, and {len(names)} are named: name fewer, or none for all"
        raise Refused(message, code="invalid", field="fabrics")
    there = set(Fabric.objects.filter(workspace_id=workspace_id, name__in=names).values_list("name", flat=True))
    if missing := [name for name in names if name not in there]:
        message = f"no fabric is named {missing[0][:80]!r}: name those to which the token is confined as the list of fabrics has them"
        raise Refused(message, code="not_found", field="fabrics")
    return names


def _may_make(actor: Actor, user: str, members: Mapping[str, Member] | None = None) -> None:
    """Raise Refused for a token that would act as another person. ``members``: those at its creation; None: any
    signed-in maker may.
    """
    if user == actor.name and actor.kind == "person":
        return
    right_wanted(actor, Right.MEMBERS, "make tokens of programs")
    if members is None:
        found = Member.objects.filter(workspace_id=actor.workspace_id, name=user, removed_at__isnull=True).first()
    else:
        found = members.get(user)
        if not has(held_in(members[actor.name].roles), Right.MEMBERS):
            raise Refused(f"{actor.name} may not make tokens of programs any more", code="forbidden", field="actor")
    if found is not None and not found.service:
        message = f"only {user} can make tokens that act as {user}: sign in as {user}, on the page of members"
        raise Refused(message, code="forbidden", field="user")


def _holder(actor: Actor, name: str) -> User:
    rows = Member.objects.filter(
        workspace_id=actor.workspace_id, name=name, removed_at__isnull=True, user__is_active=True
    )
    found = rows.select_related("user").first()
    if found is None:
        message = f"there is no active member {name[:80]!r}: `{program()} member list` shows them"
        raise Refused(message, code="not_found", field="user")
    return found.user


def _decides_something(holder: User) -> None:
    """Raise Refused for a program without any fabric and kind of review that an owner named."""
    programs = Member.objects.filter(user=holder, service=True, removed_at__isnull=True)
    if any(f"{PROGRAM}:" not in roles for roles in programs.values_list("roles", flat=True)):
        message = (
            f"{holder.username} is an account of programs and decides nothing: leave out the scope {Scope.DECIDE}, or have an owner give it "
            f"a role such as {PROGRAM}:FABRIC:pre_action first"
        )
        raise Refused(message, code="invalid", field="scopes")


def _hash(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
