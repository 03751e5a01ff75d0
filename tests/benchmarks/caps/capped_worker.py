"""One worker process of ``capped``: hosts runs of flow5 under a cap of their fabric's hour until it is told to stop."""

from __future__ import annotations

import signal
import threading
from dataclasses import dataclass

from fabric.runtime.ports.journal import JournalStore
from fabric.stores.postgresql.journal import PostgresqlStore
from fabric.stores.sqlite.journal import SqliteStore

LEASE_S, BEAT_S, SWEEP_S = 2.0, 0.5, 0.2
"""Short, so that a killed worker's runs go on soon."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The orders of a worker."""

    db: str
    address: str
    cap_usd_micros: int
    name: str


def journal(db: str, address: str) -> JournalStore:
    """The journal store of that database."""
    return PostgresqlStore(address) if db == "postgresql" else SqliteStore(address)


def main(plan: Plan) -> None:
    """The process; SIGTERM stops it."""
    import django

    django.setup()  # The benchmark's modules name tables, though none is asked by them here.
    from fabric.runtime.hosting.ownership import Revision
    from fabric.stores.writer import JournalWriter
    from fabric.tools.runner import ToolRunner
    from fabric.worker.host import HostConfig, Ports, RunHost
    from fabric.worker.nudges.listener import NullNudge
    from fabric.worker.process.clock import SYSTEM_CLOCK
    from tests.benchmarks.caps import capped
    from tests.benchmarks.caps.spends_worker import stores
    from tests.benchmarks.throughput import flow5

    store = journal(plan.db, plan.address)
    grants, buckets = stores(plan.db, plan.address)
    revision = Revision(capped.compile_capped(plan.cap_usd_micros), {})
    ports = Ports(
        store=store,
        writer=JournalWriter(store, NullNudge()),
        models=flow5.InstantModels(),
        tools=ToolRunner(),
        clock=SYSTEM_CLOCK,
        revision=lambda _: revision,
        grants=grants,
        buckets=buckets,
    )
    host = RunHost(ports, plan.name, HostConfig(max_owned=32, lease_s=LEASE_S, beat_s=BEAT_S, sweep_s=SWEEP_S))
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    host.start()
    asked.wait()
    host.stop(10.0)
