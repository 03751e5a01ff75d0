"""The drills app: the tables of drills, and commands that run, measure and simulate the engine."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from django.apps import AppConfig

if TYPE_CHECKING:
    from fabric.models import Workspace


class DrillsConfig(AppConfig):
    """Configuration of the app of drills."""

    name = "simulator.drills"
    label = "drills"

    def ready(self) -> None:
        """Register the runs of drills for their workspace's retention."""
        from fabric.services.installation.retention import BESIDE

        if _expire not in BESIDE:
            BESIDE.append(_expire)


def _expire(workspace: "Workspace", until: int, *, dry_run: bool) -> Iterable[tuple[str, int, int]]:
    from simulator.drills.runs.retention import runs_expire

    return runs_expire(workspace, until, dry_run=dry_run)
