"""An answer given in one process, its run resumed in another (performance.md P9): a real Celery worker, a broker of its own, and the service that a page
and a command call. See ``peers.our_answers`` for what is timed.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

from simulator.installation.workers import WORKER, WORKER_MORE
from tests.benchmarks.redis_database import REDIS, empty_redis
from tests.benchmarks.throughput.chord import behind_broker

SERVER = os.environ.get("TEST_REDIS_URL", REDIS)
TIMES = 30
WARM = 5
"""Answers before those that are timed: a worker compiles a fabric once."""
SENDER = "tests.benchmarks.peers.our_answers"
REFUSING = "instant=tests.benchmarks.idle.RefusingModels"


def measure(times: int = TIMES) -> dict[str, Any]:
    """Milliseconds from the commit of an answer to the first event after it, in the installation of this process, which must be on PostgreSQL."""
    with tempfile.TemporaryDirectory(prefix="fabric-across-") as folder, empty_redis(SERVER) as url:
        environment = {**os.environ, "CELERY_BROKER_URL": url, "FABRIC_PROVIDERS": REFUSING}
        command = [*(WORKER + WORKER_MORE).split(), "-n", "across@%h"]
        with behind_broker("across", url, command, [SENDER], environment, Path(folder)) as dispatched:
            dispatched.callers.ready()
            dispatched.taken()
            dispatched.callers.go(WARM, 1)
            _, found = dispatched.callers.go(times, 1)
    found.sort()
    return {
        "across_times": times,
        "across_p50_ms": round(statistics.median(found), 2),
        "across_p99_ms": round(found[int(0.99 * (len(found) - 1))], 2),
        "across_max_ms": round(found[-1], 2),
    }
