"""One worker process of ``capped``: hosts runs of flow5 under a cap of their fabric's hour until it is told to stop."""

from __future__ import annotations

import signal
import threading
from dataclasses import dataclass

from fabric.adapters.journal_postgresql import PostgresqlStore
from fabric.adapters.journal_sqlite import SqliteStore
from fabric.runtime.ports import JournalStore

LEASE_S, BEAT_S, SWEEP_S = 2.0, 0.5, 0.2
"""Short, so that a killed worker's runs go on soon."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a worker is told."""

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
    from fabric.adapters.clock import SYSTEM_CLOCK
    from fabric.adapters.host import HostConfig, Ports, RunHost
    from fabric.adapters.nudge import NullNudge
    from fabric.adapters.owned import Revision
    from fabric.adapters.tools.registry import ToolRunner
    from fabric.adapters.writer import JournalWriter
    from simulator.bench import capped, flow5
    from simulator.bench.spends_worker import stores

    store = journal(plan.db, plan.address)
    grants, buckets = stores(plan.db, plan.address)
    revision = Revision(capped.compiled(plan.cap_usd_micros), {})
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
