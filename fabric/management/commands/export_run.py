"""`manage.py run export RUN --to DIR`: writes a run as files that can be verified without this program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from fabric.composition import engine as wiring
from fabric.management.base import OK, FabricCommand
from fabric.selectors.whole_ids import whole_run_id
from fabric.services.actors import owner_actor
from fabric.services.runs.export import run_export


class Command(FabricCommand):
    """Exports one run."""

    help = (
        "Write a run's events, revision, decisions, chain and a signed checkpoint into a new directory, with a verify.py "
        "that needs nothing but Python: `python3 DIR/verify.py`."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the run and the target."""
        parser.add_argument("run", metavar="RUN", help="its id, or a part that begins or ends it")
        parser.add_argument(
            "--to", type=Path, required=True, metavar="DIR", help="a directory that is not there yet, or is empty"
        )

    def act(self, options: dict[str, Any]) -> int:
        """Write the bundle, and show how to verify it."""
        actor, signer = owner_actor(), wiring.signer()
        run_id = whole_run_id(actor, options["run"])
        folder = run_export(
            actor=actor,
            run_id=run_id,
            to=options["to"],
            signer=signer,
            checkpoints=settings.FABRIC_CHECKPOINTS,
        )
        self.stdout.write(f"Run {run_id} is in {folder}. Verify it anywhere with")
        self.stdout.write(f"python3 {folder / 'verify.py'} --key {signer.public}")
        return OK
