"""Runs of drills: driven in simulated time and kept, on the pages of runs and in their list."""

from __future__ import annotations

from collections.abc import Iterator

from tests.e2e.installation import Installation
from tests.e2e.scenes import Scene

KEPT = """
from fabric.services.actors import owner_actor
from simulator.drills.batches.batch import batch_drill
from simulator.drills.models.tables import Drill
from simulator.drills.services.drills import drill_ask
Drill.objects.filter(status__in=("queued", "running")).update(status="aborted")
batch_drill(drill_ask(actor=owner_actor(), fabric="small-model", cells="all", seed=20261118).batch, "scenes")
"""


NONE = (Scene("drill-runs-none", "/runs/drills"),)
"""Before anything was drilled."""


def drill_runs(home: Installation) -> Iterator[Scene]:
    """The list of them, and the pages of the runs of one drill."""
    home.manage("django", "shell", "--verbosity", "0", "-c", KEPT)
    yield Scene("drill-runs", "/runs/drills?fabric=small-model")
    kept = "SELECT run_id FROM drills_drill WHERE failure = 'provider_failure' AND tier = 'batch' AND run_id <> '' ORDER BY id DESC LIMIT 1"
    ((run_id,),) = home.stored(kept)
    yield Scene("drill-run", f"/runs/{run_id}")
    yield Scene("drill-run-event", f"/runs/{run_id}/events/5")
    yield Scene("drill-run-refused", f"/runs/{run_id}/cancel", status=409)
