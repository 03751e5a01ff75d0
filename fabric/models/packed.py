"""A column of bytes that lies packed in its table."""

from __future__ import annotations

from typing import Any

from django.db import models

from fabric.packing.rows import pack, unpack


class PackedField(models.BinaryField):
    """Bytes that are packed when they are stored and unpacked when they are read. What is stored unpacked is read too.

    SQL by hand meets the packed bytes: ``fabric.packing.rows``.
    """

    description = "Packed bytes"

    def from_db_value(self, value: bytes | memoryview | None, expression: Any, connection: Any) -> bytes | None:
        """What was packed."""
        return None if value is None else unpack(bytes(value))

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        """What is stored."""
        packed = None if value is None else pack(bytes(value))
        return super().get_db_prep_value(packed, connection, prepared)
