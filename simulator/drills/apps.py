"""The drills app: the table of drills, and commands that run the engine in its virtual world, measure it, or stand in for what it talks to."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from django.apps import AppConfig

if TYPE_CHECKING:
    from fabric.models import Workspace


class DrillsConfig(AppConfig):
    """Its table; its commands are in ``management``."""

    name = "simulator.drills"
    label = "drills"

    def ready(self) -> None:
        """Has the runs of drills go by their workspace's retention."""
        from fabric.services.retention import BESIDE

        if _expire not in BESIDE:
            BESIDE.append(_expire)


def _expire(workspace: "Workspace", until: int, *, dry_run: bool) -> Iterable[tuple[str, int, int]]:
    from simulator.drills.pruning import runs_expire

    return runs_expire(workspace, until, dry_run=dry_run)
