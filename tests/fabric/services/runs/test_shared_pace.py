"""Runs of one fabric that spend its hour too fast together, through the real engine: the one that crosses is stopped, with the numbers in its events."""

from __future__ import annotations

from fabric.selectors.runs.lookup import run_events
from fabric.services.fabrics.revisions import fabric_publish
from tests.fabric.services.world import SMALL, ran

HOUR = 40_000
HASTY = SMALL.replace("name: small", "name: hasty").replace(
    "run_usd_micros: 1000000", f"run_usd_micros: 1000000, fabric_hour_usd_micros: {HOUR}"
)


def test_the_run_that_crosses_the_line_is_stopped_and_says_by_how_much(actor):
    name = fabric_publish(actor=actor, source=HASTY).name
    for _ in range(12):
        run = ran(actor, name)
        if run.state != "completed":
            break
    facts = [(row.kind, row.fact) for row in run_events(actor, run.id, limit=500)]
    assert run.state == "aborted"
    failed = [fact for kind, fact in facts if kind == "attempt_failed"]
    (decided,) = [fact for kind, fact in facts if kind == "reaction_decided"]
    assert [one["cause"] for one in failed] == ["cost_velocity"]
    assert (failed[0]["charged_usd_micros"], decided["reaction"]) == (0, "abort")
    seen = decided["cause"]["evidence"]
    assert (seen["scope"], seen["unit"], seen["window"], seen["limit"]) == (
        "fabric",
        "usd_micros",
        "60 s",
        3 * HOUR // 60,
    )
    assert seen["observed"] > seen["limit"]
    assert seen["details"]["calls"] >= 5
    assert seen["details"]["left"] * 60 <= seen["observed"] * 600
    assert seen["details"]["generation"] == 0
