"""Finds the time zone in which a command reads days and hours: the named one, else the machine's."""

from __future__ import annotations

from datetime import UTC, tzinfo
from pathlib import Path

from fabric.selectors.runs.query.values import read_zone
from fabric.services.errors import Refused

LOCALTIME = Path("/etc/localtime")
"""Link to the machine's zone in a folder ``zoneinfo``. Django sets the process itself to UTC."""


def choose_zone(name: str = "") -> tzinfo:
    """Return a time zone by its name; without one the machine's, or UTC if it has none. Raises Refused invalid."""
    if name:
        zone = read_zone(name)
        if zone is None:
            message = f"there is no time zone {name[:60]!r}; write a name such as Europe/Berlin, or UTC"
            raise Refused(message, code="invalid", field="zone")
        return zone
    _, found, of_machine = str(LOCALTIME.resolve()).partition("/zoneinfo/")
    return (read_zone(of_machine) if found else None) or UTC
