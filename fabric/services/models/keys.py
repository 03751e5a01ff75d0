"""Keys of model endpoints: stored, replaced and deleted. A stored key goes only to its one host."""

from __future__ import annotations

import time

from django.db import IntegrityError, transaction
from django.views.decorators.debug import sensitive_variables

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.models import ProviderKey, new_id
from fabric.program.name import program
from fabric.providers.exchange.keys import origin_text
from fabric.providers.exchange.wire import origin
from fabric.secrets.key_ring import KeyUnusable
from fabric.secrets.known_secrets import CHARS_MIN
from fabric.secrets.secret_box import PROVIDER_KEY
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.installation import facts as here
from fabric.services.models.catalogue import HTTP, KeyTold, key_told
from fabric.services.rights import fresh_wanted, right_wanted

CHARS_MAX = 500
URL_CHARS_MAX = 500
TRIES = 3
SHOWN = 4
"""Characters at a key's end by which people tell keys apart."""


@sensitive_variables("key", "secret", "sealed")
def key_set(*, actor: Actor, provider: str, host: str, key: str) -> KeyTold:
    """Store a key for a provider's host, in place of any present one. Workers use it within seconds.

    ``host``: the endpoint's URL; the key goes to its scheme, host and port, whatever the path.
    Raises Refused: forbidden, invalid.
    """
    right_wanted(actor, Right.KEYS, "store keys of model endpoints")
    fresh_wanted(actor, "store keys of model endpoints", by_token=True)
    where = _host(provider, host)
    secret = _secret(key)
    values = {
        "last_four": secret[-SHOWN:],
        "added_at": time.time_ns() // 1_000,
        "added_by": actor.name,
        "used_at": None,
        "tested_at": None,
        "tested_ok": False,
        "tested_said": "",
    }
    place = {"workspace_id": actor.workspace_id, "provider": provider, "host": where}
    with transaction.atomic():
        replaced = _put(place, values, secret)
        audit_record(
            actor=actor,
            act=Act.MODEL_KEY_STORED,
            subject=where,
            provider=provider,
            last_four=values["last_four"],
            replaced=replaced,
        )
        return key_told(ProviderKey.objects.get(**place))


def key_delete(*, actor: Actor, provider: str, host: str) -> KeyTold:
    """Delete the key of a provider's host, and return its description. Raises Refused: forbidden, not_found."""
    right_wanted(actor, Right.KEYS, "delete keys of model endpoints")
    fresh_wanted(actor, "delete keys of model endpoints", by_token=True)
    found = origin(host.strip())
    where = origin_text(found) if found else host.strip()
    with transaction.atomic():
        row = ProviderKey.objects.filter(workspace_id=actor.workspace_id, provider=provider, host=where).first()
        if row is None or not ProviderKey.objects.filter(id=row.id).delete()[0]:
            message = f"no key is stored for {where[:120]!r} with provider {provider[:40]!r}"
            raise Refused(f"{message}; `{program()} model list` lists them", code="not_found", field="host")
        audit_record(actor=actor, act=Act.MODEL_KEY_DELETED, subject=where, provider=provider, last_four=row.last_four)
        return key_told(row)


@sensitive_variables("secret")
def _put(place: dict[str, str], values: dict[str, object], secret: str) -> bool:
    """Write the row, sealed for its own id; return True if it replaced another key. Raises Refused."""
    for _ in range(TRIES):
        row = ProviderKey.objects.filter(**place).first()
        made = row or ProviderKey(id=new_id(), **place)
        try:
            sealed = here.secret_box().seal(secret, *PROVIDER_KEY.list_bindings(made))
        except KeyUnusable as error:
            raise Refused(f"the key cannot be stored: {error}", code="unavailable") from error
        if row is not None:
            if ProviderKey.objects.filter(id=row.id, **place).update(sealed=sealed, **values):
                return True
            continue  # Another request deleted it meanwhile.
        try:
            with transaction.atomic():
                ProviderKey.objects.create(id=made.id, **place, sealed=sealed, **values)
            return False
        except IntegrityError:
            continue  # Another request's key came first: this one replaces it.
    raise Refused("others are storing and deleting this key at the same moment: try again", code="conflict")


def _host(provider: str, host: str) -> str:
    if provider not in HTTP:
        message = f"provider {provider[:40]!r} takes no key; there are: {', '.join(HTTP)}"
        raise Refused(message, code="invalid", field="provider")
    url = host.strip()
    where = origin(url) if len(url) <= URL_CHARS_MAX else None
    if where is None:
        wrong = f"{url[:120]!r} is no URL of an endpoint" if url else "the endpoint's URL is missing"
        message = f"{wrong}: give it in the field host, as in https://api.example.org/v1"
        raise Refused(message, code="invalid", field="host")
    own = here.environment().get(provider)
    if own is None or origin(own.url) != where:
        problem = here.installation().gate.problem(url)
        if problem:
            raise Refused(f"host: {problem}", code="invalid", field="host")
    return origin_text(where)


@sensitive_variables("key", "secret")
def _secret(key: str) -> str:
    """Return the key without characters copied around it. A refusal never shows it."""
    secret = key.strip()
    if not secret:
        raise Refused("key is empty: give the endpoint's key", code="invalid", field="key")
    if not (secret.isascii() and secret.isprintable()) or " " in secret:
        message = "key holds a space or a character that no key has: copy the key again, and nothing else"
        raise Refused(message, code="invalid", field="key")
    if not CHARS_MIN <= len(secret) <= CHARS_MAX:
        message = f"key has {len(secret)} characters: one that is stored has {CHARS_MIN} to {CHARS_MAX}"
        raise Refused(message, code="invalid", field="key")
    return secret
