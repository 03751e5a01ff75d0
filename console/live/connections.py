"""Manages the database connection of a polling thread."""

from __future__ import annotations

from django.db import connection


def keep_connection() -> None:
    """Keep this thread's connection for its next look, or return it to the pool; one that failed is closed."""
    if connection.vendor == "sqlite":
        connection.close_at = None
    connection.close_if_unusable_or_obsolete()
