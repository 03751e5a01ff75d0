"""`manage.py revoke_access --yes`: revokes all sign-ins, tokens and invitations at once."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser

from console.launch.processes.errors import StartRefused
from fabric.management.base import OK, FabricCommand
from fabric.services.actors import owner_actor
from fabric.services.installation.revocation import access_revoke_all


class Command(FabricCommand):
    """Revokes all sign-ins, tokens and invitations."""

    help = (
        "End every sign-in, API token, open invitation and sign-in link of this installation. Roles, passwords and memberships stay. "
        "For a database that was restored without `restore`, and for keys or backups in wrong hands."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the option that confirms the act."""
        parser.add_argument(
            "--yes", action="store_true", help="it is meant: programs stop working until they have new tokens"
        )
        parser.add_argument("--json", action="store_true", help="one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Revoke all access, and print the numbers."""
        if not options["yes"]:
            raise StartRefused("Programs stop until they have new tokens, and all members sign in again: say --yes.")
        ended = access_revoke_all(actor=owner_actor())
        if options["json"]:
            self.put(asdict(ended))
            return OK
        self.stdout.write(
            f"Ended: the sign-ins of {ended.people:,} people, {ended.tokens:,} tokens, {ended.invitations:,} invitations, {ended.links:,} sign-in links."
        )
        return OK
