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
    """The advice, in a sentence or two; empty: nothing went wrong, a person ended it, or no decision names a cause."""
    if run.state not in ADVISED:
        return ""
    if run.state is RunState.ABORTED and _is_rejected(run):
        return ""
    trips = [fact.cause for fact in _last_facts(run, "reaction_decided", LOOKS)]
    named = [trip for trip in trips if trip.message[:SAID] in run.reason] or trips[:1]
    # A fan-in that lacks results says why in the words of what failed in it.
    finest = [trip for trip in named if trip.cause is not Cause.PARTIAL_FAN_IN] or named
    return WHAT_TO_DO[finest[0].cause] if finest else ""


def _is_rejected(run: RunView) -> bool:
    """True: a person rejected it. Where nobody answered in time, the system did, and the cause still wants advice."""
    return any(fact.verb == "reject" and not fact.system for fact in _last_facts(run, "escalation_decided", 1))


def _last_facts(run: RunView, kind: str, count: int) -> list[Any]:
    """The newest first. A row that this version cannot read is passed over."""
    rows = Event.objects.filter(run_id=run.id, kind=kind).order_by("-seq")[:count]
    facts: list[Any] = []
    for row in rows.values_list("seq", "kind", "version", "header"):
        try:
            facts.append(from_row(*row[:3], bytes(row[3])).fact)
        except (UnknownEvent, ValueError):
            continue
    return facts
