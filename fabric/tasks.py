"""Celery entry points. A message is only a wake-up: lose, repeat or delay it and nothing changes but latency."""

from __future__ import annotations

from typing import Any

from celery import shared_task, signals

from fabric.composition import engine as wiring
from fabric.composition import worker


@shared_task(name=wiring.DRIVE_RUN, ignore_result=True)
def drive_run(run_id: str) -> None:
    """Offers a run to this process's engine and returns. The host claims it if it has room; the row is the truth."""
    engine = worker.WORKER.engine
    if engine is not None:
        engine.offer(run_id)


@signals.celeryd_after_setup.connect
def start_engine(**_: Any) -> None:
    """Each worker process has one host. Before the worker connects to its broker: runs come from the database, and
    wait for no broker.
    """
    worker.WORKER.start()


@signals.worker_shutdown.connect
def stop_engine(**_: Any) -> None:
    """Calls in flight get their grace; everything is given back."""
    worker.WORKER.stop()
