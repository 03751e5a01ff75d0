"""Passkeys (WebAuthn): registers and verifies them. A passkey needs a finger, a face or a PIN itself, so it is both
factors at once.

The browser signs a challenge of five minutes, which is in the form, signed, and counts once. The authenticator's
maker is not checked.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from hashlib import sha256
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import User
from django.core import signing

from fabric.core.people.actor import Actor
from fabric.models import SecondFactor
from fabric.models.people.sign_ins import PASSKEY
from fabric.services.errors import Refused
from fabric.services.people.sign_in.second_factors import NAME_MAX, factor_keep, factor_may_change
from fabric.services.people.sign_in.single_use import use_once

if TYPE_CHECKING:
    from fido2.server import Fido2Server
    from fido2.webauthn import AuthenticationResponse

CHALLENGE_S = 300
RESPONSE_CHARS_MAX = 20_000
NO_PASSKEY = "the browser showed no passkey that is known here, or too late: try again, or sign in by your password"
_SALT = "fabric.passkeys"


def passkey_host() -> str:
    """Return the host of passkeys; empty: this installation has an address without a name, for which there are none."""
    host = urlsplit(settings.FABRIC_PUBLIC_URL).hostname or ""
    try:
        known = ip_address(host)
    except ValueError:
        return host
    return "localhost" if known.is_loopback else ""


def passkey_new(user: User) -> tuple[str, str]:
    """Return the options from which a browser makes a passkey, as JSON, and the state that its answer must carry."""
    from fido2.webauthn import (
        AttestedCredentialData,
        PublicKeyCredentialUserEntity,
        ResidentKeyRequirement,
        UserVerificationRequirement,
    )

    known = [AttestedCredentialData(bytes(row.secret)) for row in _rows(user)]
    who = PublicKeyCredentialUserEntity(id=_handle(user), name=user.get_username(), display_name=user.get_username())
    options, state = _server().register_begin(
        who,
        known,
        resident_key_requirement=ResidentKeyRequirement.REQUIRED,
        user_verification=UserVerificationRequirement.REQUIRED,
    )
    return json.dumps(dict(options)["publicKey"]), _sign_state(state, f"new:{user.pk}")


def passkey_add(*, actor: Actor, user: User, state: str, answer: str, name: str = "") -> list[str]:
    """Store a passkey of the browser, and return recovery codes if it is the first factor. Raises Refused:
    forbidden, invalid, conflict.
    """
    factor_may_change(actor, user)
    opened, response = _open_challenge(state, f"new:{user.pk}"), _read(answer)
    try:
        made = _server().register_complete(opened, response).credential_data
        assert made is not None
    except (ValueError, KeyError, TypeError, AttributeError, AssertionError) as error:
        message = "the browser's passkey cannot be taken: load the page again, then make it once more"
        raise Refused(message, code="invalid", field="passkey") from error
    digest = sha256(made.credential_id).hexdigest()
    if SecondFactor.objects.filter(credential=digest).exists():
        raise Refused("this passkey is there already", code="conflict", field="passkey")
    called = name.strip()[:NAME_MAX] or "passkey"
    return factor_keep(
        actor, user, SecondFactor(kind=PASSKEY, name=called, credential=digest, secret=bytes(made), counter=0)
    )


def passkey_asked() -> tuple[str, str]:
    """Return a browser's options to look for a passkey of any user, as JSON, and the state for its answer."""
    from fido2.webauthn import UserVerificationRequirement

    options, state = _server().authenticate_begin(user_verification=UserVerificationRequirement.REQUIRED)
    return json.dumps(dict(options)["publicKey"]), _sign_state(state, "asked")


def passkey_use(*, state: str, answer: str) -> User:
    """Return the user whose passkey answered. Raises Refused invalid."""
    from fido2.webauthn import AttestedCredentialData, AuthenticationResponse

    refusal = Refused(NO_PASSKEY, code="invalid", field="passkey")
    opened, response = _open_challenge(state, "asked"), _read(answer)
    try:
        shown = AuthenticationResponse.from_dict(response)
        row = _find_passkey(shown)
        if row is None or row.user.pk != _find_user(shown):
            raise refusal
        _server().authenticate_complete(opened, [AttestedCredentialData(bytes(row.secret))], response)
        counted = int(shown.response.authenticator_data.counter)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise refusal from error
    # A counter that does not rise is of a copy (WebAuthn 6.1.1); passkeys that are synchronised have none, and say 0.
    fresh = SecondFactor.objects.filter(id=row.id)
    fresh = fresh.filter(counter__lt=counted) if counted or row.counter else fresh
    if fresh.update(counter=counted, used_at=time.time_ns() // 1_000) != 1:
        raise refusal
    return row.user


def _server() -> Fido2Server:
    host = passkey_host()
    if not host:
        message = "passkeys need a host name, and this installation has none: set FABRIC_PUBLIC_URL to one"
        raise Refused(message, code="conflict", field="passkey")
    from fido2.server import Fido2Server
    from fido2.webauthn import PublicKeyCredentialRpEntity

    rp = PublicKeyCredentialRpEntity(id=host, name="Fabric Flow")
    return Fido2Server(rp, verify_origin=lambda origin: origin in settings.FABRIC_ORIGINS)


def _rows(user: User) -> list[SecondFactor]:
    return list(SecondFactor.objects.filter(user=user, kind=PASSKEY))


def _handle(user: User) -> bytes:
    return str(user.pk).encode()


def _find_passkey(shown: AuthenticationResponse) -> SecondFactor | None:
    digest = sha256(shown.raw_id).hexdigest()
    return SecondFactor.objects.filter(credential=digest, user__is_active=True).select_related("user").first()


def _find_user(shown: AuthenticationResponse) -> int:
    handle = shown.response.user_handle
    return int(handle.decode()) if handle else -1


def _sign_state(state: Mapping[str, Any], purpose: str) -> str:
    return signing.dumps({"challenge": state["challenge"], "for": purpose}, salt=_SALT)


def _open_challenge(state: str, purpose: str) -> dict[str, Any]:
    """Return the state of a fresh, unanswered challenge. Raises Refused invalid."""
    from fido2.webauthn import UserVerificationRequirement

    refusal = Refused(NO_PASSKEY, code="invalid", field="passkey")
    try:
        found = signing.loads(state[:1_000], salt=_SALT, max_age=CHALLENGE_S)
    except signing.BadSignature as error:
        raise refusal from error
    if found["for"] != purpose or not use_once(f"challenge:{found['challenge']}", for_s=CHALLENGE_S):
        raise refusal
    return {"challenge": found["challenge"], "user_verification": UserVerificationRequirement.REQUIRED}


def _read(answer: str) -> dict[str, Any]:
    try:
        found = json.loads(answer[:RESPONSE_CHARS_MAX])
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Refused(NO_PASSKEY, code="invalid", field="passkey")
    return found
