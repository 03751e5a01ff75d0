"""Row identities: their creation and their columns."""

from __future__ import annotations

import secrets
import time
from typing import Any
from uuid import UUID

from django.db import models


def new_id() -> str:
    """Return a UUIDv7 as text (RFC 9562 5.7): 48 bits of milliseconds, then random bits. So rows made together lie
    together.
    """
    value = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(UUID(int=value))


class KeyField(models.TextField):
    """Text that identifies a row. PostgreSQL compares it byte by byte, without a second index for LIKE."""

    description = "Text that identifies a row"

    def db_type(self, connection: Any) -> str | None:
        """Return the column's type. Django adds a pattern index to unique columns whose type is called ``text`` or
        ``varchar``.
        """
        if connection.vendor == "postgresql":
            return 'character varying COLLATE "C"'
        return super().db_type(connection)

    def get_placeholder(self, value: Any, compiler: Any, connection: Any) -> str:
        """Return the usual placeholder. Its presence keeps Django from inserting several rows as an array of the
        column's type, which does not exist.
        """
        return "%s"
