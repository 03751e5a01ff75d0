"""The stored keys of model endpoints, out of the database. For threads that no request ever ends: Django's connection is not kept."""

from __future__ import annotations

import time

from django.db import connection

from fabric.adapters.known_secrets import KNOWN
from fabric.adapters.providers.keys import StoredKey, Where
from fabric.adapters.sealed_fields import PROVIDER_KEY
from fabric.adapters.secret_box import SecretBox, Unsealable
from fabric.models import ProviderKey

US = 1_000_000


def stored_keys(box: SecretBox) -> dict[Where, StoredKey]:
    """All of them, opened; one that does not open has no secret. From then on this process masks them."""
    try:
        rows = list(ProviderKey.objects.all())
    finally:
        connection.close()
    found = {(row.workspace_id, row.provider, row.host): StoredKey(row.id, _opened(box, row)) for row in rows}
    KNOWN.learn("stored keys", [key.secret for key in found.values()])
    return found


def note_used(key_id: str) -> None:
    """Writes down that a key was used now."""
    try:
        ProviderKey.objects.filter(id=key_id).update(used_at=time.time_ns() // 1_000)
    finally:
        connection.close()


def _opened(box: SecretBox, row: ProviderKey) -> str:
    try:
        return box.open(bytes(row.sealed), *PROVIDER_KEY.about(row))
    except Unsealable:
        return ""
