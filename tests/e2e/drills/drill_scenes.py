"""The drills' pages: cells and drills in every state that there is, put where a page shows them; nothing has to be drilled for that."""

from __future__ import annotations

from collections.abc import Iterator

from tests.e2e.installation import Installation
from tests.e2e.scenes import Scene

DRILLED = """
import json
from fabric.worker.process.duties import database_us
from fabric.services.actors import owner_actor
from simulator.drills.models.tables import Drill, Status
from simulator.drills.services.drills import drill_ask
FABRIC = "small-model"
CHAINS = {
    "pass": ("completed", "retry > retry > surface > failed", "retry > retry > surface > failed", ""),
    "deviated": ("completed", "retry > fallback_model > surface > failed", "retry > surface > failed", "rung 2 was passed over: no model stands in"),
    "unknown": ("completed", "inject > terminate > completed", "nothing decided > completed", "no agent of this fabric has a tool"),
    "error": ("failed", "", "", "the undisturbed run does not complete: its gate asks for a citation"),
    "": ("interrupted", "", "", "the process that drove it ended before it did"),
}
asked = drill_ask(actor=owner_actor(), fabric=FABRIC, cells="all", seed=20261118)
states = ["pass"] * 16 + ["deviated", "unknown", "error", "", "stale", "stale", "pass", "pass"]
for drill, state in zip(asked.drills, states, strict=True):
    verdict = "pass" if state == "stale" else state
    status, expected, observed, why = CHAINS[verdict]
    came = {"status": status, "verdict": verdict, "expected": expected, "observed": observed, "why": why, "ended_at": database_us()}
    if state == "stale":
        came["covers"] = "before"
    Drill.objects.filter(id=drill).update(started_at=database_us(), **came)
equipped = json.dumps({"equipped": ["a planner", "a tool that reads"], "seconds": 0.2})
Drill.objects.filter(verdict="deviated").update(body=equipped)
"""


def drilled(home: Installation) -> Iterator[Scene]:
    """The coverage with cells in every state, and a drill of each verdict."""
    home.manage("django", "shell", "--verbosity", "0", "-c", DRILLED)
    yield Scene("drills-mixed", "/drills/coverage?fabric=small-model")
    yield Scene("drills-no-such-fabric", "/drills/coverage?fabric=nosuch", status=404)
    for verdict, found in home.stored("SELECT verdict, min(id) FROM drills_drill GROUP BY verdict ORDER BY verdict"):
        yield Scene(f"drill-{verdict or 'interrupted'}", f"/drills/{found}")


ASKED_LIVE = """
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.services.actors import owner_actor
from simulator.drills.services.drills import drill_ask
from simulator.drills.tasks import wake
row = [(FailureType.PROVIDER, tier) for tier in Tier]
drill_ask(actor=owner_actor(), fabric="small-model", cells=row, mode="live", seed=20261118, wake=wake)
"""


LIVE = "/drills/coverage?fabric=small-model&mode=live"
NEVER_LIVE = (
    Scene("drills-live-never", LIVE),
    Scene("drills-live-ask-all", f"{LIVE}&ask=all"),
    Scene("drills-live-ask-one", f"{LIVE}&ask=cost_overrun:batch"),
    Scene("drills-live-ask-nothing", f"{LIVE}&ask=nothing", status=422),
)
"""Live drills before there are any, and what is said before they begin."""


def lived(home: Installation) -> Iterator[Scene]:
    """Live drills while they go on, and some that have ended, by this installation's own worker."""
    for arguments in (("plan_malformed", "interactive"), ("unsafe_output", "batch")):
        home.manage(
            "drill", "run", "small-model", "--live", "--here", "--failure", arguments[0], "--tier", arguments[1]
        )
    home.manage("django", "shell", "--verbosity", "0", "-c", ASKED_LIVE)
    yield Scene("drills-live-running", LIVE)
    row = "SELECT min(id) FROM drills_drill WHERE mode = 'live' AND "
    for name, which in (("pass", "verdict = 'pass'"), ("waiting", "status IN ('queued', 'running')")):
        for (found,) in home.stored(row + which):
            yield Scene(f"drill-live-{name}", f"/drills/{found}")
