"""One worker process of ``bench backlog``: hosts runs of flow5 as in production, and says which it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.benchmarks.caps.capped_worker import journal


@dataclass(frozen=True, slots=True)
class Orders:
    """The database and the name of a worker, and the signals that it shares with the measuring process."""

    db: str
    address: str
    name: str
    ready: Any
    """Semaphore that each worker releases once it could begin."""
    begin: Any
    """Event at which all begin."""
    ended: Any
    """Queue that gets the worker's name for each run that it ended."""
    over: Any
    """Event at which all stop."""


def main(orders: Orders) -> None:
    """Claim and host runs until all are over."""
    import django

    django.setup()  # The benchmark's modules name tables, though none is read by them here.
    from fabric.runtime.hosting.ownership import Revision
    from fabric.worker.host import HostConfig, RunHost
    from fabric.worker.process.tuning import tune_process
    from tests.benchmarks.throughput.flow5 import build_ports
    from tests.benchmarks.throughput.spec import compile_flow5

    store = journal(orders.db, orders.address)
    ports = build_ports(store, Revision(compile_flow5(), {}))
    host = RunHost(ports, orders.name, HostConfig(), lambda _: orders.ended.put(orders.name))
    tune_process()
    orders.ready.release()
    orders.begin.wait()
    host.start()
    orders.over.wait()
    host.stop(10.0)
