"""Sealing all stored secrets anew under the key that the key ring has first."""

from __future__ import annotations

from dataclasses import dataclass

from fabric.adapters.sealed_fields import SEALED, SealedField
from fabric.adapters.secret_box import Unsealable, key_id
from fabric.services import here


@dataclass(frozen=True, slots=True)
class Rekeyed:
    """What became of the stored values."""

    resealed: int = 0
    newest: int = 0
    """Sealed under the first key already."""
    unopened: int = 0
    """Their key is not in the ring, or their row was changed: they have to be set again."""


def values_resealed() -> Rekeyed:
    """Seals every value anew that opens under an older key. Ended half-way, the next one goes on with the rest.

    A value that somebody replaces meanwhile stays theirs: a value is written only where the old one still stands. Workers open both.
    """
    resealed = newest = unopened = 0
    for field in SEALED:
        for row_id in list(field.rows().order_by("pk").values_list("pk", flat=True)):
            came_to = _resealed(field, row_id)
            resealed += came_to == "resealed"
            newest += came_to == "newest"
            unopened += came_to == "unopened"
    return Rekeyed(resealed, newest, unopened)


def values_older() -> bool:
    """Whether a value that opens is sealed under an older key: an earlier sealing anew came to no end."""
    box = here.secret_box()
    return any(
        not box.newest(sealed) and box.opens(sealed, *field.about(row))
        for field in SEALED
        for row in field.rows()
        if (sealed := bytes(getattr(row, field.name)))
    )


def keys_in_use() -> frozenset[bytes]:
    """The ids of the keys that stored values name."""
    return frozenset(
        key_id(bytes(sealed)) for field in SEALED for sealed in field.rows().values_list(field.name, flat=True)
    )


def _resealed(field: SealedField, row_id: str) -> str:
    """What became of one value; empty: its row has gone, or it was replaced meanwhile, and that one is sealed under the first key."""
    row = field.rows().filter(pk=row_id).first()
    if row is None:
        return ""
    box, old, about = here.secret_box(), bytes(getattr(row, field.name)), field.about(row)
    try:
        secret = box.open(old, *about)
    except Unsealable:
        return "unopened"
    if box.newest(old):
        return "newest"
    there = field.rows().filter(pk=row_id, **{field.name: old})
    return "resealed" if there.update(**{field.name: box.seal(secret, *about)}) else ""
