"""`manage.py drill_batch`: executes a batch of drills. A worker starts it as a process; people need not call it."""

from __future__ import annotations

import os
import threading
from typing import Any

from django.core.management.base import CommandParser

from fabric.management.base import OK, FabricCommand

NICE = 10
"""Niceness of the process: real runs come first on a busy machine."""


class Command(FabricCommand):
    """Drills the waiting cells of a batch, in simulated time."""

    help = "Drill what of a batch waits. Workers call it; `drill` is for people."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the batch and the holder."""
        parser.add_argument("batch", help="the batch's id")
        parser.add_argument("--holder", required=True, help="the name by which drills say who drives them")

    def act(self, options: dict[str, Any]) -> int:
        """Drill them. It ends with the process that started it, whose end of the pipe then closes."""
        from simulator.drills.batches.batch import batch_drill

        os.nice(NICE)
        threading.Thread(target=_end_with_the_other, name="pipe-watch", daemon=True).start()
        batch_drill(options["batch"], options["holder"])
        return OK


def _end_with_the_other() -> None:
    # Not sys.stdin: a thread that waits in its buffer would take the interpreter's own end down.
    while os.read(0, 1):
        pass
    os._exit(1)
