"""Many slow calls at once on one worker process: a call in flight is a coroutine, never a thread."""

from __future__ import annotations

import json
import time
from typing import Any

from simulator.installation.workers import Site, wait_until
from tests.chaos.rows import start_runs, states
from tests.chaos.site import folder_of, watched_site

PROVIDER = "tests.chaos.processes.providers.WatchingProvider"


def run(db: str, runs: int, delay_s: float, *, alone: bool = True) -> dict[str, Any]:
    """One run ``alone``, then ``runs`` at once; how many calls were in flight, on how many threads, and the wall time beside one run's."""
    with watched_site(db, provider=PROVIDER, workers=1) as made:
        options = {"delay_s": delay_s}
        alone_s = _wall_s(made, 1, options) if alone else None
        together_s = _wall_s(made, runs, options)
        peak = json.loads((folder_of(made) / "peak.json").read_text())
        replayed = made.manage("admin", "replay", "--all", "--json")
        ended = sorted(set(states(made).values()))
        return {
            "db": db,
            "runs": runs,
            "states": ended,
            "in_flight_peak": peak["in_flight"],
            "threads": peak["threads"],
            "alone_s": alone_s and round(alone_s, 2),
            "together_s": round(together_s, 2),
            "ratio": alone_s and round(together_s / alone_s, 2),
            "replayed": replayed,
        }


def _wall_s(made: Site, runs: int, options: dict[str, Any]) -> float:
    begun = time.perf_counter()
    start_runs(made, runs, options)
    wait_until(lambda: all(state == "completed" for state in states(made).values()), made, 600.0)
    return time.perf_counter() - begun
