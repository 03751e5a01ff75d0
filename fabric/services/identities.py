"""People who sign in by a provider of identities (OpenID Connect): who they are here, with which roles, and whether they still are.

The operator's table says which group has which role; the roles of who comes this way are those, and nobody gives others. The provider is asked again
every ``RECHECK_S`` by whoever comes with a request or a token. Who it lets go is out then; where it does not answer, after ``GRACE_S``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from fabric.adapters.oidc import Known, OidcAway, OidcRefused, Provider
from fabric.adapters.sealed_fields import REFRESH_TOKEN
from fabric.adapters.secret_box import Unsealable
from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.core.roles import held_in, written
from fabric.models import Identity, Member
from fabric.services import here
from fabric.services.audit import audit_record
from fabric.services.endings import ended_by_loss, ended_with
from fabric.services.errors import Refused
from fabric.services.members import PROVIDER, member_add, user_new
from fabric.services.sign_ins import sign_ins_end_all
from fabric.services.workspaces import system_actor, workspace_default

log = logging.getLogger(__name__)

US = 1_000_000
RECHECK_S = 300
GRACE_S = 900
TRY_EVERY_S = 30
EVERYBODY = "*"
"""In the table: everybody whom the provider lets in."""
GOOGLE = "accounts.google.com"
"""It has an account for everybody in the world."""

_asking = [threading.Lock() for _ in range(32)]
"""Of those who ask for one person in this process, one asks the provider: a refresh token may be good for one use."""


class ProviderAway(Exception):
    """The provider has not answered for so long that nobody knows whether this person may go on."""


def provider() -> Provider | None:
    """The provider that the operator named; None: there is none."""
    if not settings.FABRIC_OIDC_ISSUER:
        return None
    return _provider(
        settings.FABRIC_OIDC_ISSUER,
        settings.FABRIC_OIDC_CLIENT_ID,
        settings.FABRIC_OIDC_CLIENT_SECRET,
        settings.FABRIC_OIDC_GROUPS_CLAIM,
    )


def roles_for(known: Known) -> frozenset[str]:
    """The roles that the operator's table has for somebody, by group, by checked mail address, and for everybody."""
    groups, mail = {*known.groups, EVERYBODY}, known.email.casefold()
    # Whoever may name groups must not become somebody by their mail address.
    return frozenset(
        role
        for name, role in settings.FABRIC_OIDC_ROLES
        if (name.casefold() == mail if "@" in name else name in groups)
    )


def person_in(known: Known) -> User:
    """The user whom the provider tells of, a member from now on with the roles of their groups. Refused forbidden with what is to be done."""
    workspace_id = workspace_default()
    actor = _acting(workspace_id)
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
        Identity.objects.filter(id=row.id).update(refresh=_sealed(row, known), checked_at=_now(), asked_at=0)
        who = Actor(name=user.username, workspace_id=workspace_id)
        audit_record(actor=who, act=Act.SIGNED_IN, subject=who.name, by=PROVIDER)
    return user


def identity_goes_on(user_id: int) -> bool:
    """Whether who came by the provider may go on: asked of the provider where it was not for ``RECHECK_S``. Raises ProviderAway."""
    row = _row(user_id)
    if row is None or row.issuer != settings.FABRIC_OIDC_ISSUER:
        return False
    if row.checked_at > _now() - RECHECK_S * US:
        return True
    with _asking[user_id % len(_asking)]:
        row = _row(user_id)  # Somebody may have asked meanwhile.
        if row is None or not row.checked_at:
            return False
        if row.checked_at > _now() - RECHECK_S * US:
            return True
        return _asked(row)


def identity_known(user_id: int) -> bool:
    """The same from what is known, without asking the provider: for who looks every few seconds."""
    row = _row(user_id)
    fits = row is not None and row.issuer == settings.FABRIC_OIDC_ISSUER
    return fits and row is not None and row.checked_at > _now() - GRACE_S * US


def _asked(row: Identity) -> bool:
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
        known = found.refreshed(_opened(row), row.subject)
    except OidcAway as error:
        log.warning("the provider of identities was asked and did not answer: %s", error)
        return _good_or_away(good)
    except (OidcRefused, Unsealable) as error:
        _no_more(row, f"the provider says no more of them: {error}"[:300])
        return False
    return _goes_on(row, known)


def _good_or_away(good: bool) -> bool:
    if good:
        return True
    raise ProviderAway


def _goes_on(row: Identity, known: Known) -> bool:
    actor, roles = _acting(workspace_default()), roles_for(known)
    wrong = _domain_wrong(known) if settings.FABRIC_OIDC_DOMAINS and known.email else ""
    if not roles or wrong:
        _tell_refused(actor, known, wrong or _no_role(known))
        _out(known, actor)
        return False
    try:
        with transaction.atomic():
            _belongs(actor, row.user, roles)
            Identity.objects.filter(id=row.id).update(refresh=_sealed(row, known), checked_at=_now(), asked_at=0)
    except Refused:
        return False
    return True


def _belongs(actor: Actor, user: User, roles: Collection[str]) -> None:
    """Makes a user a member with exactly these roles. Refused forbidden for whom an owner removed."""
    rows = Member.objects.filter(workspace_id=actor.workspace_id, user=user)
    member = rows.filter(removed_at__isnull=True).first()
    if member is None:
        last = rows.order_by("-removed_at").first()
        if last is not None and last.removed_by != PROVIDER:
            message = f"{last.removed_by} removed {user.username} from this workspace: `manage.py member readmit {user.username}` lets them in again"
            raise Refused(message, code="forbidden", field="actor")
        member_add(actor.workspace_id, user, roles, by=PROVIDER)
        return
    had = held_in(member.roles)
    if had != frozenset(roles):
        Member.objects.filter(id=member.id).update(roles=written(roles))
        ended_by_loss(actor, member, had, roles)
        change = {"roles": sorted(roles), "before": sorted(had)}
        audit_record(actor=actor, act=Act.MEMBER_ROLES_SET, subject=member.name, **change)


def _out(known: Known, actor: Actor) -> None:
    """Ends the membership of somebody who has no role any more, with all that ends with it."""
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
    """Ends somebody's sign-ins; their tokens wait until the provider lets them in again."""
    actor = _acting(workspace_default())
    with transaction.atomic():
        Identity.objects.filter(id=row.id).update(checked_at=0, refresh=b"")
        sign_ins_end_all(actor, row.user)
        audit_record(actor=actor, act=Act.SIGN_IN_REFUSED, subject=row.user.get_username(), why=why)


def _newcomer(workspace_id: str, known: Known) -> User:
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


def _domain_wrong(known: Known) -> str:
    """Why somebody's mail address keeps them out; empty: it does not."""
    allowed = {one.casefold() for one in settings.FABRIC_OIDC_DOMAINS}
    if not allowed and (
        GOOGLE in settings.FABRIC_OIDC_ISSUER or any(group == EVERYBODY for group, _ in settings.FABRIC_OIDC_ROLES)
    ):
        return "nobody is let in by this provider as long as FABRIC_OIDC_DOMAINS does not say of which domains: ask the operator"
    # Anybody can have an account at Google with a mail address of elsewhere: only what Google says of the organisation counts.
    by_mail = "" if GOOGLE in settings.FABRIC_OIDC_ISSUER else known.email.rpartition("@")[2]
    domain = (known.domain or by_mail).casefold()
    if not allowed or domain in allowed:
        return ""
    if not domain:
        return "the provider did not say that it checked your mail address, which is asked for here: let it send email_verified"
    return f"people of {domain[:80]} are not let in here: sign in with another account"


def _no_role(known: Known) -> str:
    who = known.email or known.username or "you"
    return f"the provider knows {who[:80]}, and none of their groups has a role here: ask who looks after the groups"


def _tell_refused(actor: Actor, known: Known, why: str) -> None:
    subject = known.email or known.username or known.subject
    audit_record(actor=actor, act=Act.SIGN_IN_REFUSED, subject=subject[:150], why=why)


def _row(user_id: int) -> Identity | None:
    return Identity.objects.filter(user_id=user_id).select_related("user").first()


def _sealed(row: Identity, known: Known) -> bytes:
    return here.secret_box().seal(known.refresh, *REFRESH_TOKEN.about(row)) if known.refresh else b""


def _opened(row: Identity) -> str:
    return here.secret_box().open(bytes(row.refresh), *REFRESH_TOKEN.about(row))


def _acting(workspace_id: str) -> Actor:
    return replace(system_actor(workspace_id), via=PROVIDER)


@lru_cache(maxsize=4)
def _provider(issuer: str, client_id: str, secret: str, groups_claim: str) -> Provider:
    return Provider(issuer, client_id, secret, groups_claim)


def _now() -> int:
    return time.time_ns() // 1_000
