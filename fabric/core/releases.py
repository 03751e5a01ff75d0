"""A person lets an unsafe output pass: exactly the bytes that were shown, with exactly what was said against them (semantics.md 4 "Human waits").

Whatever is written anew, and whatever else is found in the same bytes at a later gate, is asked about anew. What a child's person let pass goes up with its end
(``child_answered.released``): its parent finds the same in the same bytes, and the one decision holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fabric.core.failure import Failure
from fabric.core.fingerprint import content_ref, encode
from fabric.core.taxonomy import Cause
from fabric.core.verdict import Trip

JSON = Any
ROLE = "safety"
"""Who may approve it, whatever the cell says of who is asked."""


def shown(said: Sequence[JSON], payload: JSON) -> JSON:
    """What a person is shown of an output: what its agent said, where the payload only refers to it."""
    return said[0] if said else payload


def key(payload: JSON, problems: Sequence[str]) -> str:
    """The release of a payload with what was found in it: 128 bits in hex over their bytes, which nothing makes alike that is written otherwise."""
    return content_ref(encode({"payload": _said(payload), "problems": list(problems)}))


def _said(payload: JSON) -> JSON:
    """A child's outcome as whoever wrote it said it: that nothing is missing of it stands there in its parent alone."""
    if isinstance(payload, dict) and payload.get("gaps") == []:
        return {name: held for name, held in payload.items() if name != "gaps"}
    return payload


def of_failure(failure: Failure, trip: Trip) -> str:
    """What an approval of a failure would let pass; empty: no output was held back."""
    problems = trip.evidence.details.get("problems")
    held = failure.payload is not None and trip.cause is Cause.POLICY_DENIED
    return key(failure.payload, problems) if held and isinstance(problems, list) else ""
