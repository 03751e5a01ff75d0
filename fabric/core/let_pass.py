"""Calls that a person let go on: a loop or a standstill was found in them, the person was asked, and approved. They count as polls from then on, in that
step's place for the rest of its epoch: the same tool with the same arguments, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from fabric.core.frozen import replace, value
from fabric.core.loop_rules import ONE_CALL
from fabric.core.taxonomy import Cause

ASKS = "escalate"
FINDS = frozenset({"loop_detector", "progress"})
Call = tuple[str, str]
"""Tool and fingerprint of its arguments."""
NEXT_RUNG: Final = "next"
"""What silence means where a person is asked whether a call may go on: the ladder's next rung (``EscalationOpened.on_expiry``)."""
OBSERVED = frozenset({"reaction_decided", "step_opened"})


@value()
class LetPass:
    """Of one step's place: what a person is asked about, and what was let pass."""

    asked: tuple[Call, ...] = ()
    calls: tuple[Call, ...] = ()


NOTHING = LetPass()


def about(trips: Iterable[Any]) -> tuple[Call, ...]:
    """The calls that trips are about, as their evidence names them: those that an approval lets pass. Other questions each time are about no call."""
    found: list[Call] = []
    for trip in trips:
        details = trip.evidence.details
        if trip.mechanism in FINDS:
            named = details.get("calls") or ([details] if "args_hash" in details else [])
            found += [(one["tool"], one["args_hash"]) for one in named]
    return tuple(dict.fromkeys(found))


def polled(trip: Any, only_reads: Callable[[str], bool]) -> str:
    """Returns why no person could let the call of a trip go on as a poll; empty: somebody could. ``only_reads``: says whether a tool changes nothing."""
    details = trip.evidence.details
    if trip.cause is not Cause.LOOP_DETECTED or details.get("detector") not in ONE_CALL:
        return "there is no call that a person could let go on"
    tool = str(details["tool"])
    return "" if only_reads(tool) else f"{tool} changes something, so it is no poll"


def heard(before: LetPass, fact: Any) -> LetPass:
    """Returns the calls that are let pass after one of the facts ``OBSERVED``."""
    if fact.kind == "reaction_decided":
        asked = about((fact.cause, *fact.causes)) if fact.reaction == ASKS else ()
        return before if asked == before.asked else replace(before, asked=asked)
    if not before.asked:
        return before
    return LetPass(calls=tuple(dict.fromkeys((*before.calls, *before.asked))) if fact.approved else before.calls)
