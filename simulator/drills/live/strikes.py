"""Records the strikes of live scenarios' faults, which workers report and the judge counts."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

from django.db import DatabaseError, connection

from fabric.runtime.ports.calls import ModelRequest
from fabric.worker.process.duties import database_us
from simulator.drills.models.tables import Strike

log = logging.getLogger(__name__)


async def strike_tell(request: ModelRequest, fault: str) -> None:
    """Record that a fault has struck a call. A database error is ignored: the fault then counts as never struck."""
    await asyncio.to_thread(_store_strike, request, fault)


def _store_strike(request: ModelRequest, fault: str) -> None:
    try:
        Strike.objects.create(
            drill_id=request.model.options["drill"],
            run_id=request.run_id,
            fault=fault,
            command_id=request.command_id,
            attempt=request.attempt,
            at=database_us(),
        )
    except DatabaseError as error:
        log.warning(
            "that %s struck call %s of run %s was not written down: %s",
            fault,
            request.command_id,
            request.run_id,
            error,
        )
    finally:
        connection.close()  # No request ever ends on this thread: a connection that was cut would stay so.


def list_struck(drill_id: str) -> dict[str, int]:
    """Return the number of strikes of each fault of a drill."""
    return dict(Counter(Strike.objects.filter(drill_id=drill_id).values_list("fault", flat=True)))
