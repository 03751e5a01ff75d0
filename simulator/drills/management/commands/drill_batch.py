"""`manage.py drill_batch`: what a worker starts to have a batch of drills done beside itself. Nobody has to call it."""

from __future__ import annotations

import os
import threading
from typing import Any

from django.core.management.base import CommandParser

from fabric.management.base import OK, FabricCommand

NICE = 10
"""Real runs come first on a machine that is busy."""


class Command(FabricCommand):
    """Drills what of a batch waits, in virtual time."""

    help = "Drill what of a batch waits. Workers call it; `drill` is for people."

    def add_arguments(self, parser: CommandParser) -> None:
        """Which, and for whom."""
        parser.add_argument("batch", help="the batch's id")
        parser.add_argument("--holder", required=True, help="the name by which drills say who drives them")

    def act(self, options: dict[str, Any]) -> int:
        """Drills them. It ends with the process that started it, whose end of the pipe closes with it."""
        from simulator.drills.batches import batch_drill

        os.nice(NICE)
        threading.Thread(target=_end_with_the_other, name="pipe-watch", daemon=True).start()
        batch_drill(options["batch"], options["holder"])
        return OK


def _end_with_the_other() -> None:
    # Not sys.stdin: a thread that waits in its buffer would take the interpreter's own end down.
    while os.read(0, 1):
        pass
    os._exit(1)
