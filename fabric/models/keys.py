"""Row identities: how they are made and how they are stored."""

from __future__ import annotations

import secrets
import time
from typing import Any
from uuid import UUID

from django.db import models


def new_id() -> str:
    """A UUIDv7 as text (RFC 9562 5.7): 48 bits of milliseconds, then chance, so that rows made together lie together."""
    value = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(UUID(int=value))


class KeyField(models.TextField):
    """Text that identifies a row. On PostgreSQL it is compared byte by byte, and gets no second index for LIKE."""

    description = "Text that identifies a row"

    def db_type(self, connection: Any) -> str | None:
        """The column's type. Django adds a pattern index to unique columns whose type is called ``text`` or ``varchar``."""
        if connection.vendor == "postgresql":
            return 'character varying COLLATE "C"'
        return super().db_type(connection)

    def get_placeholder(self, value: Any, compiler: Any, connection: Any) -> str:
        """As any other; that there is one keeps Django from inserting several rows as an array of the column's type, which has no array of that name."""
        return "%s"
