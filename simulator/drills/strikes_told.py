"""Faults of live scenarios that struck: told by workers as they strike, counted by who judges."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

from django.db import DatabaseError, connection

from fabric.adapters.duties import database_us
from fabric.runtime.call_ports import ModelRequest
from simulator.drills.models import Strike

log = logging.getLogger(__name__)


async def strike_tell(request: ModelRequest, fault: str) -> None:
    """Writes down that a fault has struck a call. The call goes on whatever the database says: what is missing shows as a fault that never struck."""
    await asyncio.to_thread(_told, request, fault)


def _told(request: ModelRequest, fault: str) -> None:
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


def struck_of(drill_id: str) -> dict[str, int]:
    """How often each fault of a drill has struck."""
    return dict(Counter(Strike.objects.filter(drill_id=drill_id).values_list("fault", flat=True)))
