"""Second factors of people with a password here: authenticator apps (RFC 6238), passkeys (``passkeys``), and codes for
lost factors.

The operator decides whether one is required (``FABRIC_SECOND_FACTOR``). People of an identity provider have theirs
there.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import time
from dataclasses import dataclass

import pyotp
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.utils.crypto import salted_hmac
from django.views.decorators.debug import sensitive_variables

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right, Role, held_in
from fabric.models import Identity, Member, RecoveryCode, SecondFactor
from fabric.models.people.sign_ins import TOTP
from fabric.program.name import program
from fabric.secrets.secret_box import TOTP_SECRET, SecretUnsealable
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.installation import facts as here
from fabric.services.people.sign_in.sessions import sign_ins_end_all
from fabric.services.rights import fresh_wanted, right_wanted

log = logging.getLogger(__name__)

REQUIRED = "required"
SECOND_FACTOR = "second_factor"
"""Field of a refusal that ends when the user sets up a second factor."""
APP = "authenticator app"
FACTORS_MAX = 10
NAME_MAX = 40
CODES = 10
STEP_S = 30
SKEW_STEPS = 1
"""Steps around the present one whose codes count too: clocks differ."""
CODE_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
CODE_CHARS = 12
"""Length of a recovery code: 31^12 is 59 bits; attempts are counted (``attempts``)."""
ISSUER = "Fabric Flow"


@dataclass(frozen=True, slots=True)
class FactorView:
    """A second factor. Instants are microseconds since the epoch, UTC."""

    id: str
    kind: str
    name: str
    made_at: int
    used_at: int | None


def list_factors(user: User) -> list[FactorView]:
    """Return a user's second factors, the oldest first."""
    rows = SecondFactor.objects.filter(user=user).order_by("made_at", "id")
    return [FactorView(row.id, row.kind, row.name, row.made_at, row.used_at) for row in rows]


def has_factor(user: User) -> bool:
    """Return True if this user needs more than a password to sign in."""
    return SecondFactor.objects.filter(user=user).exists()


def codes_left(user: User) -> int:
    """Return the number of unused recovery codes."""
    return RecoveryCode.objects.filter(user=user, used_at__isnull=True).count()


def comes_by_provider(user: User) -> bool:
    """Return True if this user signs in by an identity provider, and so has neither password nor factor here."""
    return Identity.objects.filter(user=user).exists()


def enrol_wanted(user: User) -> bool:
    """Return True if this user has to set up a second factor before anything else."""
    return settings.FABRIC_SECOND_FACTOR == REQUIRED and not has_factor(user) and not comes_by_provider(user)


def owners_first(user: User) -> bool:
    """Return True if this user has to wait for an owner to set up a factor first. Only an owner resets a lost
    factor.
    """
    if not enrol_wanted(user):
        return False
    rows = Member.objects.filter(removed_at__isnull=True, service=False, user__is_active=True).select_related("user")
    owners = [row.user for row in rows if Role.OWNER in held_in(row.roles)]
    return user not in owners and not any(has_factor(one) or comes_by_provider(one) for one in owners)


def totp_secret() -> str:
    """Return a fresh secret of an app, in base 32."""
    return pyotp.random_base32()


@sensitive_variables("secret")
def totp_uri(user: User, secret: str) -> str:
    """Return the address that an app reads from a QR code."""
    return pyotp.TOTP(secret).provisioning_uri(name=user.get_username(), issuer_name=ISSUER)


@sensitive_variables("secret", "code")
def totp_add(*, actor: Actor, user: User, secret: str, code: str, name: str = "") -> list[str]:
    """Make an app a second factor, after a code proved its secret; return recovery codes for the first factor.

    Raises Refused: forbidden, invalid (code), conflict (there are too many).
    """
    factor_may_change(actor, user)
    step = _find_step(secret, code, after=0)
    if step is None:
        message = "this code does not fit: type the one that the app shows now, and see that your clocks agree"
        raise Refused(message, code="invalid", field="code")
    made = SecondFactor(kind=TOTP, name=_factor_name(name, APP), user=user, counter=step)
    made.secret = here.secret_box().seal(secret, *TOTP_SECRET.list_bindings(made))
    return factor_keep(actor, user, made)


def factor_may_change(actor: Actor, user: User) -> None:
    """Raise Refused forbidden unless the actor is ``user`` with a fresh sign-in of its own, and without an identity
    provider.
    """
    if actor.kind != "person" or actor.via or user.get_username() != actor.name:
        message = "people change their own second factors, signed in; a token cannot"
        raise Refused(message, code="forbidden", field="actor")
    if comes_by_provider(user):
        message = f"{actor.name} signs in by the provider of identities: a second factor is set up there"
        raise Refused(message, code="forbidden", field="actor")
    fresh_wanted(actor, "change second factors")


def factor_keep(actor: Actor, user: User, factor: SecondFactor) -> list[str]:
    """Store a new factor, and return recovery codes if it is the first one. Raises Refused conflict."""
    with transaction.atomic():
        first = not has_factor(user)
        if SecondFactor.objects.filter(user=user).count() >= FACTORS_MAX:
            message = f"{FACTORS_MAX} second factors are all there can be: remove one first"
            raise Refused(message, code="conflict", field="name")
        factor.user, factor.made_at = user, _now()
        factor.save(force_insert=True)
        audit_record(actor=actor, act=Act.FACTOR_ADDED, subject=actor.name, factor=factor.kind)
        return recovery_codes_make(actor=actor, user=user) if first else []


def factor_remove(*, actor: Actor, user: User, factor_id: str) -> None:
    """Remove one of one's own factors; with the last one the recovery codes go. Raises Refused: forbidden,
    not_found, conflict (one is required).
    """
    factor_may_change(actor, user)
    with transaction.atomic():
        rows = SecondFactor.objects.filter(user=user)
        if not rows.filter(id=factor_id[:64]).exists():
            message = "there is no such second factor (any more): load the page again"
            raise Refused(message, code="not_found", field="factor")
        if settings.FABRIC_SECOND_FACTOR == REQUIRED and rows.count() == 1:
            message = "a second factor is demanded here, and this is your last one: add another first"
            raise Refused(message, code="conflict", field="factor")
        kind = rows.get(id=factor_id[:64]).kind
        rows.filter(id=factor_id[:64]).delete()
        if not rows.exists():
            RecoveryCode.objects.filter(user=user).delete()
        audit_record(actor=actor, act=Act.FACTOR_REMOVED, subject=actor.name, factor=kind)


def factors_reset(*, actor: Actor, name: str) -> list[str]:
    """Remove all second factors of a member who lost theirs, end their sign-ins and return the marks. Raises
    Refused: forbidden, not_found, conflict.
    """
    right_wanted(actor, Right.MEMBERS, "take second factors away")
    fresh_wanted(actor, "take second factors away")
    rows = Member.objects.filter(workspace_id=actor.workspace_id, name=name, removed_at__isnull=True, service=False)
    row = rows.select_related("user").first()
    if row is None:
        message = f"there is no person {name[:80]!r} in this workspace; `{program()} member list` shows them"
        raise Refused(message, code="not_found", field="name")
    if name == actor.name and not actor.via and has_factor(row.user) and actor.kind == "person":
        message = "your own second factors you remove one by one; who lost them all asks another owner, or the machine"
        raise Refused(message, code="conflict", field="name")
    return factors_take(actor, row.user)


def factors_take(actor: Actor, user: User) -> list[str]:
    """Remove all second factors of any user, for an owner's page and the command line. Returns the marks of the
    ended sign-ins.
    """
    with transaction.atomic():
        taken = SecondFactor.objects.filter(user=user).count()
        SecondFactor.objects.filter(user=user).delete()
        RecoveryCode.objects.filter(user=user).delete()
        audit_record(actor=actor, act=Act.FACTOR_REMOVED, subject=user.get_username(), how_many=taken)
        return sign_ins_end_all(actor, user)


def recovery_codes_make(*, actor: Actor, user: User) -> list[str]:
    """Replace all recovery codes by fresh ones and return them. Only hashes are stored. Raises Refused forbidden,
    conflict (no factor).
    """
    factor_may_change(actor, user)
    if not has_factor(user):
        message = "recovery codes replace a second factor, and you have none: set one up first"
        raise Refused(message, code="conflict", field="codes")
    codes = ["".join(secrets.choice(CODE_LETTERS) for _ in range(CODE_CHARS)) for _ in range(CODES)]
    with transaction.atomic():
        RecoveryCode.objects.filter(user=user).delete()
        RecoveryCode.objects.bulk_create([RecoveryCode(user=user, code_hash=_hash(user, one)) for one in codes])
        audit_record(actor=actor, act=Act.RECOVERY_CODES_MADE, subject=actor.name)
    return [f"{one[:4]}-{one[4:8]}-{one[8:]}" for one in codes]


@sensitive_variables("code", "written")
def code_use(user: User, code: str) -> str:
    """Use a typed code, each code once, and return its kind: ``totp`` or ``recovery``; empty: invalid."""
    written = "".join(sign for sign in code.lower() if sign.isalnum())
    if written.isdecimal() and len(written) < CODE_CHARS:
        return TOTP if _totp_use(user, written) else ""
    used = RecoveryCode.objects.filter(user=user, code_hash=_hash(user, written), used_at__isnull=True)
    return "recovery" if used.update(used_at=_now()) == 1 else ""


@sensitive_variables("code", "secret")
def _totp_use(user: User, code: str) -> bool:
    for row in SecondFactor.objects.filter(user=user, kind=TOTP):
        try:
            secret = here.secret_box().open(bytes(row.secret), *TOTP_SECRET.list_bindings(row))
        except SecretUnsealable:
            log.warning(
                "the secret of an authenticator app of %s does not open: its key is not in the key ring", user.pk
            )
            continue
        step = _find_step(secret, code, after=row.counter)
        if step is None:
            continue
        # The update decides: a code counts once (RFC 6238 5.2).
        fresh = SecondFactor.objects.filter(id=row.id, counter__lt=step)
        if fresh.update(counter=step, used_at=_now()) == 1:
            return True
    return False


@sensitive_variables("secret", "code", "made")
def _find_step(secret: str, code: str, *, after: int) -> int | None:
    """Return the step of this code, later than ``after``; None: it belongs to no present step."""
    made = pyotp.TOTP(secret)
    now = _now() // 1_000_000 // STEP_S
    typed = "".join(code.split()).encode("utf-8", "surrogatepass")
    steps = range(now - SKEW_STEPS, now + SKEW_STEPS + 1)
    found = [step for step in steps if hmac.compare_digest(made.generate_otp(step).encode(), typed)]
    return next((step for step in found if step > after), None)


def _factor_name(name: str, otherwise: str) -> str:
    return name.strip()[:NAME_MAX] or otherwise


def _hash(user: User, code: str) -> str:
    """Return a keyed hash, so that a reader of the table cannot try codes either."""
    return salted_hmac("fabric.recovery_codes", f"{user.pk}:{code}", algorithm="sha256").hexdigest()


def _now() -> int:
    return time.time_ns() // 1_000
