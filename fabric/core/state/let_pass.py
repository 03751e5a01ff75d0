"""Records the permissions of people in one run: calls that go on after a loop, and accepted unsafe outputs.

A person accepts an unsafe output: exactly the bytes that were shown, with exactly the problems that were shown
(docs/specification/reviews.md). A rewritten output, or another problem found in these bytes at a later gate, needs
another review. A child's end reports the acceptance to the parent (``child_answered.released``): the parent finds equal
problems in equal bytes, and the one decision is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from fabric.core.rules.loops import ONE_CALL
from fabric.core.state.failure import Failure
from fabric.core.values.fingerprint import content_ref, encode
from fabric.core.values.frozen import replace, value
from fabric.core.values.taxonomy import Cause, Trip
from fabric.core.values.units import JSON

ASKS = "escalate"
FINDS = frozenset({"loop_detector", "progress"})
Call = tuple[str, str]
"""Tool and fingerprint of its arguments."""
NEXT_RUNG: Final = "next"
"""Expiry of a review about whether a call may go on: the ladder's next rung (``ReviewOpened.on_expiry``)."""
OBSERVED = frozenset({"reaction_decided", "step_opened"})


@value()
class LetPass:
    """The calls of one step's place that are under review, and those that were allowed."""

    asked: tuple[Call, ...] = ()
    calls: tuple[Call, ...] = ()


NOTHING = LetPass()


def list_calls(trips: Iterable[Any]) -> tuple[Call, ...]:
    """Return the calls that trips are about, as their evidence names them: those that an approval allows. A trip
    over ever new calls is about none.
    """
    found: list[Call] = []
    for trip in trips:
        details = trip.evidence.details
        if trip.mechanism in FINDS:
            named = details.get("calls") or ([details] if "args_hash" in details else [])
            found += [(one["tool"], one["args_hash"]) for one in named]
    return tuple(dict.fromkeys(found))


def poll_problem(trip: Any, only_reads: Callable[[str], bool]) -> str:
    """Return why no person could allow the call of a trip as a poll; "" if a person could. ``only_reads``: says
    whether a tool changes nothing.
    """
    details = trip.evidence.details
    if trip.cause is not Cause.LOOP_DETECTED or details.get("detector") not in ONE_CALL:
        return "there is no call that a person could allow"
    tool = str(details["tool"])
    return "" if only_reads(tool) else f"{tool} changes something, so it is no poll"


def calls_allowed(before: LetPass, fact: Any) -> LetPass:
    """Return the calls that are allowed after one of the facts ``OBSERVED``."""
    if fact.kind == "reaction_decided":
        asked = list_calls((fact.cause, *fact.causes)) if fact.reaction == ASKS else ()
        return before if asked == before.asked else replace(before, asked=asked)
    if not before.asked:
        return before
    return LetPass(calls=tuple(dict.fromkeys((*before.calls, *before.asked))) if fact.approved else before.calls)


ROLE = "safety"
"""Role that may approve the output, whatever role the decision table's cell names."""


def shown_form(said: Sequence[JSON], payload: JSON) -> JSON:
    """Return the form of an output that a person sees: its agent's answer, where the payload only refers to it."""
    return said[0] if said else payload


def key(payload: JSON, problems: Sequence[str]) -> str:
    """Return the key of a payload with its problems, 128 bits in hex. Any change of a byte gives another key."""
    return content_ref(encode({"payload": _as_written(payload), "problems": list(problems)}))


def _as_written(payload: JSON) -> JSON:
    """Return a child's outcome as its author wrote it: without the empty ``gaps`` that only the parent adds."""
    if isinstance(payload, dict) and payload.get("gaps") == []:
        return {name: held for name, held in payload.items() if name != "gaps"}
    return payload


def failure_key(failure: Failure, trip: Trip) -> str:
    """Return the key of the output that an approval of a failure would accept; "": none was held back."""
    problems = trip.evidence.details.get("problems")
    held = failure.payload is not None and trip.cause is Cause.POLICY_DENIED
    return key(failure.payload, problems) if held and isinstance(problems, list) else ""
