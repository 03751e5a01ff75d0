"""A host over a server that restarts: what is in memory counts for nothing until its COMMIT has returned, and no call goes out twice for it."""

from __future__ import annotations

from collections import Counter

import psycopg
import pytest

from fabric.runtime.hosting.polling import HostConfig
from fabric.stores.postgresql.journal import PostgresqlStore
from tests.benchmarks.throughput.answers import WORKERS
from tests.fabric.stores.writer.test_under_fire import fast, immediately
from tests.fabric.worker.host.scenes import Agents as Intending
from tests.fabric.worker.host.scenes import Site

RUNS = 125
OUT = RUNS * WORKERS
"""500 calls that are out while the server restarts."""
REAL = {name: getattr(HostConfig(), name) for name in ("lease_s", "beat_s", "sweep_s")}


class NoJournal:
    """They do not look whether a call's intent stands: the server may be away."""

    def journal(self, run_id):
        return []


class Agents(Intending):
    """They hold back every call of a worker, once."""

    def __init__(self):
        super().__init__(NoJournal())
        self.held = set()
        self.holds = self._first

    def _first(self, request):
        key = (request.run_id, request.command_id)
        first = request.agent == "worker" and key not in self.held
        self.held.add(key)
        return first


@pytest.fixture
def site(own):
    made = Site(PostgresqlStore(own.url()))
    yield made
    made.close()
    made.store.close()
    with psycopg.connect(own.url(), autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("TRUNCATE fabric_event, fabric_inbox, fabric_run, fabric_incarnation")


@pytest.mark.postgresql
@pytest.mark.parametrize("restart", [immediately, fast])
def test_calls_that_are_out_at_a_restart_are_not_repeated(own, site, restart):
    agents = Agents()
    host = site.host(agents, **REAL)
    runs = [site.create() for _ in range(RUNS)]
    host.offer()
    parked = [agents.next() for _ in range(OUT)]
    restart(own)
    for one in parked[: OUT // 2]:  # Half of the answers come together, the rest in the middle of what they set off.
        one.answer()
    restart(own)
    for one in parked[OUT // 2 :]:
        one.answer()
    site.until_released(*runs)
    assert {site.outcome(run_id) for run_id in runs} == {"completed"}
    asked = Counter(one.key[:2] for one in agents.ledger)
    repeated = sum(times - 1 for times in asked.values())
    print(f"{OUT} calls out, {repeated} of {len(asked)} repeated")
    assert repeated < OUT / 100
