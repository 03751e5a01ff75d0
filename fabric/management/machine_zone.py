"""Reads typed instants, and finds the time zone of days and hours: the named one, else the machine's."""

from __future__ import annotations

import time
from datetime import UTC, tzinfo
from pathlib import Path

from fabric.selectors.errors import Refused
from fabric.selectors.runs.query.values import Bounds, instants, read_zone, require_zone

LOCALTIME = Path("/etc/localtime")
"""Link to the machine's zone in a folder ``zoneinfo``. Django sets the process itself to UTC."""


def choose_zone(name: str = "") -> tzinfo:
    """Return a time zone by its name; without one the machine's, or UTC if it has none. Raises Refused invalid."""
    if name:
        return require_zone(name)
    _, found, of_machine = str(LOCALTIME.resolve()).partition("/zoneinfo/")
    return (read_zone(of_machine) if found else None) or UTC


PAST_TIMES = "2026-11-01, 2026-11-01T10:00, -7d, today or yesterday (UTC)"


def read_instant(text: str, option: str, examples: str = PAST_TIMES) -> int:
    """Return the beginning of an instant typed in UTC, microseconds since the epoch. Raises Refused invalid.
    ``option``: the option's name, for the sentence, which also gives the ``examples``.
    """
    found: Bounds | None = instants(text.strip(), time.time_ns() // 1_000)
    if found is None or found.low is None:
        message = f"--{option} {text.strip()[:40]!r} is no time; write {examples}"
        raise Refused(message, code="invalid", field=option)
    return found.low
