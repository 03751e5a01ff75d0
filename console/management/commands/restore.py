"""`manage.py restore FILE [--keep-access]`: makes a new installation from a backup."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from console.installation import backups
from console.installation.database_version import database, describe_other_version, refuse_other_version
from console.launch.processes import data_directory as datadir
from console.launch.processes.errors import StartRefused
from console.management.commands.prepare import direct_connection, migrate
from fabric.core.audit.lines import Act
from fabric.management.base import OK, OTHER_END, FabricCommand
from fabric.program.name import program
from fabric.services.actors import owner_actor
from fabric.services.acts import audit_record
from fabric.services.installation.revocation import RevocationCounts, access_revoke_all


class Command(FabricCommand):
    """Restores a backup."""

    help = (
        "Make this installation, which has to be empty, from a file that `backup` wrote: database, keys where it has some, tables brought up to date, "
        "every sign-in, token, open invitation and sign-in link ended, and the audit trail verified. Starts nothing. Exit code 1: the audit trail is not whole."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the source, and the option that keeps access."""
        parser.add_argument("file", type=Path, metavar="FILE", help="what `backup` wrote")
        parser.add_argument(
            "--keep-access",
            action="store_true",
            help="leave sign-ins, tokens and invitations as they were when the backup was taken, what was revoked since included",
        )
        parser.add_argument("--json", action="store_true", help="end with one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Restore the backup, revoke access, and verify the audit trail."""
        source = options["file"].expanduser().absolute()
        if not source.is_file():
            raise StartRefused(f"{source} is not there: name a file that `backup` wrote.")
        with datadir.hold(settings.FABRIC_DATA, ""):
            with backups.open_backup(source) as (tar, manifest):
                refuse_unfit(manifest)
                with tempfile.TemporaryDirectory(dir=settings.FABRIC_DATA, prefix="restoring-") as folder:
                    parts = backups.extract(tar, manifest, Path(folder), source)
                    refuse_other_keys(parts)
                    copy = parts.pop(backups.DATABASE)
                    for name, path in parts.items():
                        path.replace(settings.FABRIC_DATA / name.removeprefix(backups.KEYS))
                    backups.load(copy)
            try:
                revoked = self._open_anew(source.name, manifest, keep_access=options["keep_access"])
            except BaseException:
                self.tell("It was restored only in part: start nothing, empty the database, and restore again.")
                raise
        whole = self._verify(json=options["json"])
        self._say(manifest, revoked, whole, options)
        return OK if whole else OTHER_END

    def _open_anew(self, name: str, manifest: backups.Manifest, *, keep_access: bool) -> RevocationCounts | None:
        """Bring the tables to this version, and revoke all access unless it is kept."""
        refuse_other_version()
        migrate()
        actor = owner_actor()
        audit_record(actor=actor, act=Act.BACKUP_RESTORED, subject=name, made_at=manifest.made_at)
        return None if keep_access else access_revoke_all(actor=actor)

    def _verify(self, *, json: bool) -> bool:
        """Verify the audit trail in a process of its own, which reads the keys from the backup."""
        environ = {**os.environ, "FABRIC_DATA": str(settings.FABRIC_DATA)}
        command = [*settings.FABRIC_COMMAND, "admin", "verify"]
        done = subprocess.run(command, env=environ, check=False, capture_output=True, text=True)
        for line in [] if json else [*done.stdout.splitlines(), *done.stderr.splitlines()]:
            self.stdout.write(line)
        if json and done.returncode:
            self.tell(*done.stdout.splitlines()[-5:], *done.stderr.splitlines()[-5:])
        return done.returncode == 0

    def _say(
        self, manifest: backups.Manifest, revoked: RevocationCounts | None, whole: bool, options: dict[str, Any]
    ) -> None:
        keys = list(manifest.keys)
        if options["json"]:
            ended = asdict(revoked) if revoked else None
            self.put({"made_at": manifest.made_at, "keys": keys, "revoked": ended, "verified": whole})
            return
        self.stdout.write(f"Restored from a backup of {manifest.made_at}, into {database()}.")
        if not keys:
            self.stdout.write(
                "It brought no keys: put key.ring, secret.key and audit.key of that installation into the data directory, or set their variables; "
                "without them stored secrets do not open, and verify_audit wants the old public key (--key)."
            )
        if revoked is None:
            self.stdout.write(
                "Sign-ins, tokens and invitations are as they were then: look at them on the page of members."
            )
        else:
            self.stdout.write(
                f"Ended: the sign-ins of {revoked.people:,} people, {revoked.tokens:,} tokens, {revoked.invitations:,} invitations, "
                f"{revoked.links:,} sign-in links. `{program()} bootstrap` makes a sign-in link for the owner."
            )


def refuse_other_keys(parts: Mapping[str, Path]) -> None:
    """Raise Refused if the data directory has another key than the backup: another installation may need it.

    The key for sessions is exempt, because every process makes one.
    """
    for name, path in parts.items():
        there = settings.FABRIC_DATA / name.removeprefix(backups.KEYS)
        if (
            name not in (backups.DATABASE, f"{backups.KEYS}secret.key")
            and there.exists()
            and there.read_bytes() != path.read_bytes()
        ):
            raise StartRefused(
                f"{there} is a key that is not the backup's, and would be lost: restore into another data directory, or move that file away."
            )


def refuse_unfit(manifest: backups.Manifest) -> None:
    """Raise Refused for an installation that is not empty, and for a backup that does not fit it."""
    if connection.vendor != manifest.engine:
        raise StartRefused(
            f"The backup is of {manifest.engine}, and this installation is on {connection.vendor}: set DATABASE_URL to a database of that kind."
        )
    if connection.vendor == "postgresql":
        direct_connection().close()  # Raises Refused for a wrong address.
    if not backups.is_empty():
        raise StartRefused(
            f"This installation is not empty ({database()} has tables): restore into a new database or data directory."
        )
    known = set(MigrationLoader(None).disk_migrations or ())
    ours = {app for app, _ in known}
    applied = [(app, name) for app, _, name in (one.partition(".") for one in manifest.migrations) if app in ours]
    if said := describe_other_version("The backup", applied, known, "choose another backup"):
        raise StartRefused(said)
