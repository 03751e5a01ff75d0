"""`manage.py backup FILE [--with-keys]`: writes this installation into one file, while it runs."""

from __future__ import annotations

import sqlite3
import tempfile
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser
from django.db import connection

from console.installation import backups
from console.launch.processes.errors import StartRefused
from fabric.core.audit.lines import Act
from fabric.management.base import OK, FabricCommand
from fabric.services.actors import owner_actor
from fabric.services.acts import audit_record


class Command(FabricCommand):
    """Writes a backup."""

    help = (
        "Write the whole database, attachments included, and a manifest into one file, which only its owner may read. Nothing has to stop for it. "
        "--with-keys adds the key files of the data directory: a person with the file can then open the stored provider keys and sign the audit trail."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the target and the option for keys."""
        parser.add_argument("file", type=Path, metavar="FILE", help="a file that is not there yet")
        parser.add_argument("--with-keys", action="store_true", help="add secret.key, key.ring and audit.key")
        parser.add_argument("--json", action="store_true", help="end with one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Take the backup, and print its contents."""
        target = options["file"].expanduser().absolute()
        if target.exists():
            raise StartRefused(f"{target} is there already: name a file that is not, nothing is overwritten.")
        keys = backups.key_files(settings.FABRIC_DATA) if options["with_keys"] else ()
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".backup-") as folder:
            copy = Path(folder) / backups.DATABASE
            try:
                backups.dump(copy)
            except sqlite3.Error as error:
                raise StartRefused(
                    f"The database could not be copied ({error}): see whether it and {target.parent} can be used."
                ) from None
            sources = {backups.DATABASE: copy} | {backups.KEYS + path.name: path for path in keys}
            manifest = backups.Manifest(
                version=version(),
                made_at=datetime.now(UTC).isoformat(timespec="seconds"),
                engine=connection.vendor,
                server=backups.server(),
                migrations=backups.migrations(),
                parts=tuple(backups.measure(path, name) for name, path in sources.items()),
            )
            backups.write(target, manifest, sources)
        audit_record(actor=owner_actor(), act=Act.BACKUP_TAKEN, subject=target.name, keys=bool(keys))
        self._say(target, manifest, options)
        return OK

    def _say(self, target: Path, manifest: backups.Manifest, options: dict[str, Any]) -> None:
        size, keys = target.stat().st_size, list(manifest.keys)
        if options["json"]:
            self.put({"file": str(target), "bytes": size, "keys": keys, "made_at": manifest.made_at})
            return
        self.stdout.write(f"{target}: {size:,} bytes, {manifest.engine} {manifest.server}.")
        if keys:
            self.stdout.write(f"It holds {' and '.join(keys)}: keep it as you keep those.")
        else:
            self.stdout.write("It holds no keys: keep those of this installation elsewhere, or add --with-keys.")


def version() -> str:
    """Return the installed version, or a word for a checkout."""
    try:
        return metadata.version("fabric-flow")
    except metadata.PackageNotFoundError:
        return "checkout"
