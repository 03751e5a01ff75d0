"""Reads the stored keys of model endpoints from the database. Its threads are ended by no request, so they keep no
connection of Django's.
"""

from __future__ import annotations

import time

from django.db import connection

from fabric.models import ProviderKey
from fabric.providers.exchange.keys import StoredKey, Where
from fabric.secrets.known_secrets import KNOWN
from fabric.secrets.secret_box import PROVIDER_KEY, SecretBox, SecretUnsealable


def stored_keys(box: SecretBox) -> dict[Where, StoredKey]:
    """Return all of them, opened; one that does not open has no secret. From then on this process masks them."""
    try:
        rows = list(ProviderKey.objects.all())
    finally:
        connection.close()
    found = {(row.workspace_id, row.provider, row.host): StoredKey(row.id, _open_key(box, row)) for row in rows}
    KNOWN.learn("stored keys", [key.secret for key in found.values()])
    return found


def note_used(key_id: str) -> None:
    """Record that a key was used now."""
    try:
        ProviderKey.objects.filter(id=key_id).update(used_at=time.time_ns() // 1_000)
    finally:
        connection.close()


def _open_key(box: SecretBox, row: ProviderKey) -> str:
    try:
        return box.open(bytes(row.sealed), *PROVIDER_KEY.list_bindings(row))
    except SecretUnsealable:
        return ""
