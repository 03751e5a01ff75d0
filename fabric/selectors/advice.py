"""Advises on a run that was stopped or that asks a person, by the cause of its reason (``core.reasons``)."""

from __future__ import annotations

from typing import Any

from fabric.core.envelope import UnknownEvent, from_row
from fabric.core.flow import RunState
from fabric.core.reasons import WHAT_TO_DO
from fabric.core.taxonomy import Cause
from fabric.models import Event
from fabric.selectors.runs import RunView

SAID = 80
"""Characters of a sentence that a row keeps in any case."""
LOOKS = 8
"""So many of its last decisions are looked through."""
ADVISED = frozenset({RunState.STOPPED, RunState.FAILED, RunState.ABORTED, RunState.WAITING})


def advice_of(run: RunView) -> str:
    """The advice, in a sentence or two; empty: nothing went wrong, or no decision names a cause."""
    if run.state not in ADVISED:
        return ""
    rows = Event.objects.filter(run_id=run.id, kind="reaction_decided").order_by("-seq")[:LOOKS]
    trips = []
    for seq, kind, version, header in rows.values_list("seq", "kind", "version", "header"):
        try:
            fact: Any = from_row(seq, kind, version, bytes(header)).fact
        except (UnknownEvent, ValueError):
            continue
        trips.append(fact.cause)
    named = [trip for trip in trips if trip.message[:SAID] in run.reason] or trips[:1]
    # A fan-in that lacks results says why in the words of what failed in it.
    finest = [trip for trip in named if trip.cause is not Cause.PARTIAL_FAN_IN] or named
    return WHAT_TO_DO[finest[0].cause] if finest else ""
