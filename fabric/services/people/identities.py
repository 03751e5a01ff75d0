"""People who sign in by an identity provider (OpenID Connect): their user, their roles, and whether they may go on.

1. The operator's table maps groups to roles. These people have exactly those roles; no owner can give others.
2. A request or a token of theirs makes the engine check with the provider every ``RECHECK_S``.
3. A person that the provider refuses is out at once; where it does not answer, after ``GRACE_S``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from fabric.adapters.people.oidc_answers import OidcAway, OidcClaims, OidcRefused
from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.people.roles import held_in, write_roles
from fabric.core.values.units import US
from fabric.models import Identity, Member
from fabric.program.name import program
from fabric.secrets.secret_box import REFRESH_TOKEN, SecretUnsealable
from fabric.services.actors import system_actor, workspace_default
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.installation import facts as here
from fabric.services.people.members import PROVIDER, ended_by_loss, ended_with, member_add, user_new
from fabric.services.people.sign_in.sessions import sign_ins_end_all

if TYPE_CHECKING:
    from fabric.adapters.people.oidc import OidcProvider

log = logging.getLogger(__name__)

RECHECK_S = 300
GRACE_S = 900
TRY_EVERY_S = 30
EACH_PERSON = "*"
"""Group of all persons whom the provider lets in, in the operator's table."""
GOOGLE = "accounts.google.com"
"""Issuer at which anyone in the world can have an account."""

_asking = [threading.Lock() for _ in range(32)]
"""Locks so that only one thread of this process asks the provider about a person. A refresh token may be good for one
use.
"""


class ProviderAway(Exception):
    """The provider has not answered for so long that this person's access is unknown."""


def provider() -> OidcProvider | None:
    """Return the operator's identity provider; None: there is none."""
    if not settings.FABRIC_OIDC_ISSUER:
        return None
    return _provider(
        settings.FABRIC_OIDC_ISSUER,
        settings.FABRIC_OIDC_CLIENT_ID,
        settings.FABRIC_OIDC_CLIENT_SECRET,
        settings.FABRIC_OIDC_GROUPS_CLAIM,
    )


def roles_for(known: OidcClaims) -> frozenset[str]:
    """Return the roles of a person in the operator's table, by group, by checked mail address, and for all persons."""
    groups, mail = {*known.groups, EACH_PERSON}, known.email.casefold()
    # A person who may name groups must not become another one by a mail address.
    return frozenset(
        role
        for name, role in settings.FABRIC_OIDC_ROLES
        if (name.casefold() == mail if "@" in name else name in groups)
    )


def person_in(known: OidcClaims) -> User:
    """Return the provider's user, who is a member from now on with the roles of their groups. Raises Refused
    forbidden with the remedy.
    """
    workspace_id = workspace_default()
    actor = _build_actor(workspace_id)
    roles = roles_for(known)
    if wrong := _domain_wrong(known) or ("" if roles else _no_role(known)):
        _tell_refused(actor, known, wrong)
        _out(known, actor)
        raise Refused(wrong, code="forbidden", field="actor")
    with transaction.atomic():
        found = Identity.objects.filter(issuer=settings.FABRIC_OIDC_ISSUER, subject=known.subject)
        row = found.select_related("user").first()
        user = _newcomer(workspace_id, known) if row is None else row.user
        if not user.is_active:
            raise Refused(f"{user.username} was switched off here: ask an owner", code="forbidden", field="actor")
        _belongs(actor, user, roles)
        if row is None:
            row = Identity.objects.create(user=user, issuer=settings.FABRIC_OIDC_ISSUER, subject=known.subject)
        Identity.objects.filter(id=row.id).update(refresh=_seal_token(row, known), checked_at=_now(), asked_at=0)
        who = Actor(name=user.username, workspace_id=workspace_id)
        audit_record(actor=who, act=Act.SIGNED_IN, subject=who.name, by=PROVIDER)
    return user


def identity_goes_on(user_id: int) -> bool:
    """Return True if a person of the provider may go on; asks the provider after ``RECHECK_S``. Raises ProviderAway."""
    row = _row(user_id)
    if row is None or row.issuer != settings.FABRIC_OIDC_ISSUER:
        return False
    if row.checked_at > _now() - RECHECK_S * US:
        return True
    with _asking[user_id % len(_asking)]:
        row = _row(user_id)  # Another thread may have asked meanwhile.
        if row is None or not row.checked_at:
            return False
        if row.checked_at > _now() - RECHECK_S * US:
            return True
        return _ask_provider(row)


def identity_known(user_id: int) -> bool:
    """Return True if a person of the provider may go on, without asking the provider. Pages that check every few
    seconds use it.
    """
    row = _row(user_id)
    fits = row is not None and row.issuer == settings.FABRIC_OIDC_ISSUER
    return fits and row is not None and row.checked_at > _now() - GRACE_S * US


def _ask_provider(row: Identity) -> bool:
    now = _now()
    good = row.checked_at > now - GRACE_S * US
    if not row.refresh:
        if not good:
            _no_more(row, "the provider gave nothing to ask it again by, and the time is over")
        return good
    # The update decides: of several servers one asks.
    turn = Identity.objects.filter(id=row.id, checked_at=row.checked_at, asked_at__lt=now - TRY_EVERY_S * US)
    if turn.update(asked_at=now) != 1:
        return _good_or_away(good)
    found = provider()
    try:
        assert found is not None
        known = found.refresh_claims(_open_refresh_token(row), row.subject)
    except OidcAway as error:
        log.warning("the provider of identities was asked and did not answer: %s", error)
        return _good_or_away(good)
    except (OidcRefused, SecretUnsealable) as error:
        _no_more(row, f"the provider gives no more details: {error}"[:300])
        return False
    return _goes_on(row, known)


def _good_or_away(good: bool) -> bool:
    if good:
        return True
    raise ProviderAway


def _goes_on(row: Identity, known: OidcClaims) -> bool:
    actor, roles = _build_actor(workspace_default()), roles_for(known)
    wrong = _domain_wrong(known) if settings.FABRIC_OIDC_DOMAINS and known.email else ""
    if not roles or wrong:
        _tell_refused(actor, known, wrong or _no_role(known))
        _out(known, actor)
        return False
    try:
        with transaction.atomic():
            _belongs(actor, row.user, roles)
            Identity.objects.filter(id=row.id).update(refresh=_seal_token(row, known), checked_at=_now(), asked_at=0)
    except Refused:
        return False
    return True


def _belongs(actor: Actor, user: User, roles: Collection[str]) -> None:
    """Make a user a member with exactly these roles. Raises Refused forbidden for a person whom an owner removed."""
    rows = Member.objects.filter(workspace_id=actor.workspace_id, user=user)
    member = rows.filter(removed_at__isnull=True).first()
    if member is None:
        last = rows.order_by("-removed_at").first()
        if last is not None and last.removed_by != PROVIDER:
            message = f"{last.removed_by} removed {user.username} from this workspace: `{program()} member readmit {user.username}` lets them in again"
            raise Refused(message, code="forbidden", field="actor")
        member_add(actor.workspace_id, user, roles, by=PROVIDER)
        return
    had = held_in(member.roles)
    if had != frozenset(roles):
        Member.objects.filter(id=member.id).update(roles=write_roles(roles))
        ended_by_loss(actor, member, had, roles)
        change = {"roles": sorted(roles), "before": sorted(had)}
        audit_record(actor=actor, act=Act.MEMBER_ROLES_SET, subject=member.name, **change)


def _out(known: OidcClaims, actor: Actor) -> None:
    """End the membership of a person without any role, with all that ends with it."""
    found = Identity.objects.filter(issuer=settings.FABRIC_OIDC_ISSUER, subject=known.subject)
    row = found.select_related("user").first()
    if row is None:
        return
    with transaction.atomic():
        Identity.objects.filter(id=row.id).update(checked_at=0, refresh=b"")
        sign_ins_end_all(actor, row.user)
        mine = Member.objects.filter(workspace_id=actor.workspace_id, user=row.user, removed_at__isnull=True)
        for member in mine:
            Member.objects.filter(id=member.id).update(removed_at=_now(), removed_by=PROVIDER)
            ended_with(actor, member)
            details = {"roles": sorted(held_in(member.roles))}
            audit_record(actor=actor, act=Act.MEMBER_REMOVED, subject=member.name, **details)


def _no_more(row: Identity, why: str) -> None:
    """End a person's sign-ins; their tokens wait until the provider lets them in again."""
    actor = _build_actor(workspace_default())
    with transaction.atomic():
        Identity.objects.filter(id=row.id).update(checked_at=0, refresh=b"")
        sign_ins_end_all(actor, row.user)
        audit_record(actor=actor, act=Act.SIGN_IN_REFUSED, subject=row.user.get_username(), why=why)


def _newcomer(workspace_id: str, known: OidcClaims) -> User:
    name = known.email or known.username
    if not name:
        message = "the provider gave neither a checked mail address nor a user name: let it send one of them"
        raise Refused(message, code="forbidden", field="actor")
    try:
        user = user_new(workspace_id, name, None)
    except Refused as refusal:
        message = f"you cannot be called {name[:80]!r} here ({refusal.message}): ask an owner"
        raise Refused(message, code="forbidden", field="actor") from refusal
    if known.email:
        User.objects.filter(pk=user.pk).update(email=known.email)
    return user


def _domain_wrong(known: OidcClaims) -> str:
    """Return the reason why a mail address keeps its owner out; empty if it does not."""
    allowed = {one.casefold() for one in settings.FABRIC_OIDC_DOMAINS}
    if not allowed and (
        GOOGLE in settings.FABRIC_OIDC_ISSUER or any(group == EACH_PERSON for group, _ in settings.FABRIC_OIDC_ROLES)
    ):
        return "this provider lets no one in until FABRIC_OIDC_DOMAINS names the domains: ask the operator"
    # Google gives accounts to anyone, with any mail address: only its word on the organisation counts.
    by_mail = "" if GOOGLE in settings.FABRIC_OIDC_ISSUER else known.email.rpartition("@")[2]
    domain = (known.domain or by_mail).casefold()
    if not allowed or domain in allowed:
        return ""
    if not domain:
        return "the provider did not confirm your mail address, which this installation requires: let it send email_verified"
    return f"people of {domain[:80]} are not let in here: sign in with another account"


def _no_role(known: OidcClaims) -> str:
    who = known.email or known.username or "you"
    return f"the provider knows {who[:80]}, and none of their groups has a role here: ask who looks after the groups"


def _tell_refused(actor: Actor, known: OidcClaims, why: str) -> None:
    subject = known.email or known.username or known.subject
    audit_record(actor=actor, act=Act.SIGN_IN_REFUSED, subject=subject[:150], why=why)


def _row(user_id: int) -> Identity | None:
    return Identity.objects.filter(user_id=user_id).select_related("user").first()


def _seal_token(row: Identity, known: OidcClaims) -> bytes:
    return here.secret_box().seal(known.refresh, *REFRESH_TOKEN.list_bindings(row)) if known.refresh else b""


def _open_refresh_token(row: Identity) -> str:
    return here.secret_box().open(bytes(row.refresh), *REFRESH_TOKEN.list_bindings(row))


def _build_actor(workspace_id: str) -> Actor:
    return replace(system_actor(workspace_id), via=PROVIDER)


@lru_cache(maxsize=4)
def _provider(issuer: str, client_id: str, secret: str, groups_claim: str) -> OidcProvider:
    from fabric.adapters.people.oidc import OidcProvider  # Its libraries are for those who have a provider.

    return OidcProvider(issuer, client_id, secret, groups_claim)


def _now() -> int:
    return time.time_ns() // 1_000
