"""`manage.py rekey [--forget]`: adds a new key for stored secrets, and seals all of them anew under it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from fabric.core.audit.lines import Act
from fabric.management.base import OK, OTHER_END, FabricCommand
from fabric.secrets.key_ring import alone, key_added, keys_forgotten, read_ring
from fabric.services.actors import owner_actor
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.installation.rekeying import keys_in_use, values_older, values_resealed


class Command(FabricCommand):
    """Changes the key ring."""

    help = (
        "Make a new key for the stored secrets and seal all of them anew under it, beside running workers. Ended half-way, the "
        "next one goes on and makes no further key. Keys that were in use before stay in the ring, for backups; --forget drops "
        "those that nothing is sealed under. Of FABRIC_KEY_RING no key is made or dropped: what is stored is sealed anew under "
        "its first one. Exit code 1 when something does not open: it has to be set again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options."""
        parser.add_argument(
            "--forget", action="store_true", help="make no key; drop those that nothing is sealed under"
        )
        parser.add_argument("--json", action="store_true", help="nothing but a line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Seal anew and report the number."""
        data, given = Path(settings.FABRIC_DATA), settings.FABRIC_KEY_RING
        if given and options["forget"]:
            raise Refused("the key ring is FABRIC_KEY_RING: take the old key out of it yourself", code="invalid")
        with alone(data):
            made = not (given or options["forget"] or values_older())
            if made:
                key_added(data)
            found = values_resealed()
            forgotten = keys_forgotten(data, keys_in_use()) if options["forget"] else 0
        ring = read_ring(data, given)
        counts = {"made": made, **asdict(found), "forgotten": forgotten, "keys": len(ring)}
        report = {"key": ring[0].id.hex(), **counts}
        audit_record(actor=owner_actor(), act=Act.SECRETS_SEALED_ANEW, subject=report["key"], **counts)
        if options["json"]:
            self.put(report)
        else:
            self._write_report(report)
        return OTHER_END if found.unopened else OK

    def _write_report(self, report: dict[str, Any]) -> None:
        if report["made"]:
            self.stdout.write(f"A new key {report['key']} was made.")
        self.stdout.write(
            f"Sealed anew under key {report['key']}: {report['resealed']:,}; under it before: {report['newest']:,}; "
            f"not opened, to be set again: {report['unopened']:,}."
        )
        if report["forgotten"]:
            self.stdout.write(f"Keys forgotten: {report['forgotten']}.")
        self.stdout.write(f"The key ring has {report['keys']} {'key' if report['keys'] == 1 else 'keys'}.")
