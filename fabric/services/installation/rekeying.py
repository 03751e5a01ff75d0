"""Seals all stored secrets anew under the first key of the key ring."""

from __future__ import annotations

from dataclasses import dataclass

from fabric.secrets.secret_box import SEALED, SealedField, SecretUnsealable, key_id
from fabric.services.installation import facts as here


@dataclass(frozen=True, slots=True)
class RekeyResult:
    """Result of sealing the stored values anew."""

    resealed: int = 0
    newest: int = 0
    """Values that the first key had sealed already."""
    unopened: int = 0
    """Values whose key is not in the ring, or whose row was changed: they have to be set again."""


def values_resealed() -> RekeyResult:
    """Seal every value anew that opens under an older key. A later call continues after an interruption.

    A value that a user replaces meanwhile stays theirs: a value is written only where the old one is unchanged.
    Workers open both.
    """
    resealed = newest = unopened = 0
    for field in SEALED:
        for row_id in list(field.rows().order_by("pk").values_list("pk", flat=True)):
            came_to = _reseal_value(field, row_id)
            resealed += came_to == "resealed"
            newest += came_to == "newest"
            unopened += came_to == "unopened"
    return RekeyResult(resealed, newest, unopened)


def values_older() -> bool:
    """Return True if a readable value is sealed under an older key: an earlier sealing anew was interrupted."""
    box = here.secret_box()
    return any(
        not box.newest(sealed) and box.opens(sealed, *field.list_bindings(row))
        for field in SEALED
        for row in field.rows()
        if (sealed := bytes(getattr(row, field.name)))
    )


def keys_in_use() -> frozenset[bytes]:
    """Return the ids of the keys that stored values name."""
    return frozenset(
        key_id(bytes(sealed)) for field in SEALED for sealed in field.rows().values_list(field.name, flat=True)
    )


def _reseal_value(field: SealedField, row_id: str) -> str:
    """Seal one value anew and return the outcome. Empty: its row is gone, or was replaced meanwhile and is sealed under
    the first key.
    """
    row = field.rows().filter(pk=row_id).first()
    if row is None:
        return ""
    box, old, about = here.secret_box(), bytes(getattr(row, field.name)), field.list_bindings(row)
    try:
        secret = box.open(old, *about)
    except SecretUnsealable:
        return "unopened"
    if box.newest(old):
        return "newest"
    there = field.rows().filter(pk=row_id, **{field.name: old})
    return "resealed" if there.update(**{field.name: box.seal(secret, *about)}) else ""
