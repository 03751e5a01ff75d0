"""`manage.py bootstrap`: prepares the first start. May be run at any time, and makes a new login link each time."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from fabric.management.base import OK, FabricCommand, providers
from fabric.services.actors import find_actor, login_link_create, owner_ensure, workspace_default
from fabric.services.fabrics.templates import samples_publish


class Command(FabricCommand):
    """Makes the default workspace, its owner, the sample fabrics and a login link."""

    help = "Make the default workspace, its owner and the sample fabrics where they are missing, and print a one-time login link."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add ``--json`` only."""
        parser.add_argument("--json", action="store_true", help="one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Create the missing parts."""
        workspace, owner = workspace_default(), owner_ensure()
        samples = samples_publish(actor=find_actor(owner), providers=providers())
        path = f"/login/link#{login_link_create(owner)}"
        url = f"{settings.FABRIC_PUBLIC_URL}{path}"
        if options["json"]:
            made = {"workspace": workspace, "owner": owner.username, "login": path, "url": url}
            self.put(made | {"published": samples.names, "left_out": samples.left_out})
            return OK
        if samples.names:
            self.stdout.write(f"Sample fabrics: {', '.join(samples.names)}.")
        for name, reason in samples.left_out.items():
            self.stdout.write(f"The sample {name} is left out: {reason}.")
        self.stdout.write(f"Log in once, within an hour: {url}")
        return OK
