"""Celery entry points. Messages are only wake-ups: if one is lost, repeated or late, drills begin a few seconds
later.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from celery import current_app, shared_task, signals

from fabric.worker.nudges.broker import BrokerNudge
from fabric.worker.nudges.listener import NullNudge
from simulator.drills import conductor

CONDUCT = "drills.conduct"


@shared_task(name=CONDUCT, ignore_result=True)
def conduct() -> None:
    """Let this process look for drills now, and return."""
    conductor.wake()


@signals.celeryd_after_setup.connect
def begin_conducting(**_: Any) -> None:
    """Start looking for drills in each worker process; one of them at a time conducts."""
    conductor.begin()


@signals.worker_shutdown.connect
def end_conducting(**_: Any) -> None:
    """Interrupt the current drill; other processes take the waiting ones."""
    conductor.end()


@lru_cache(maxsize=1)
def _broker() -> BrokerNudge:
    return BrokerNudge(NullNudge(), lambda _: current_app.send_task(CONDUCT, ignore_result=True, retry=False))


def wake() -> None:
    """Wake a worker for waiting drills. Never raises."""
    _broker().wake("")
