"""A column of packed bytes."""

from __future__ import annotations

from typing import Any

from django.db import models

from fabric.packing.rows import pack, unpack


class PackedField(models.BinaryField):
    """Bytes that are packed when they are stored and unpacked when they are read. Unpacked bytes can be read too.

    SQL by hand sees the packed bytes: ``fabric.packing.rows``.
    """

    description = "Packed bytes"

    def from_db_value(self, value: bytes | memoryview | None, expression: Any, connection: Any) -> bytes | None:
        """Return the unpacked value."""
        return None if value is None else unpack(bytes(value))

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        """Return the packed value."""
        packed = None if value is None else pack(bytes(value))
        return super().get_db_prep_value(packed, connection, prepared)
