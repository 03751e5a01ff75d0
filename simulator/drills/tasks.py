"""Celery entry points. A message is only a wake-up: lose, repeat or delay it and drills begin a few seconds later."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from celery import current_app, shared_task, signals

from fabric.adapters.nudge import NullNudge
from fabric.adapters.nudge_broker import BrokerNudge
from simulator.drills import conductor

CONDUCT = "drills.conduct"


@shared_task(name=CONDUCT, ignore_result=True)
def conduct() -> None:
    """Has this process look for drills now, and returns."""
    conductor.wake()


@signals.celeryd_after_setup.connect
def begin_conducting(**_: Any) -> None:
    """Each worker process looks for drills; one of them at a time has them done."""
    conductor.begin()


@signals.worker_shutdown.connect
def end_conducting(**_: Any) -> None:
    """The drill that is under way is interrupted; what waits is another's."""
    conductor.end()


@lru_cache(maxsize=1)
def _broker() -> BrokerNudge:
    return BrokerNudge(NullNudge(), lambda _: current_app.send_task(CONDUCT, ignore_result=True, retry=False))


def wake() -> None:
    """Tells a worker that there is something to drill. Never raises."""
    _broker().wake("")
