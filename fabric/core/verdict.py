"""What a mechanism answers: ``Pass`` or ``Trip``. A trip names a failure with evidence; it never chooses the reaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from fabric.core.frozen import value
from fabric.core.taxonomy import Cause

Details = dict[str, str | int | float | Sequence[str | dict[str, str]]]
"""What a trip says besides its numbers: words, numbers, and lists of words or of small records."""


@value()
class Evidence:
    """The numbers behind a trip, enough to derive it again from the journal alone (semantics.md, general rules)."""

    limit: int | float | None = None
    observed: int | float | None = None
    unit: str = ""
    scope: str = ""
    window: str = ""
    details: Details = field(default_factory=dict)
    """What was observed: the cycle, the spend, the remaining time. Names and hashes, never contents."""


@value()
class Trip:
    """A mechanism refused. ``message`` is for a person, ``advice`` is what the model is told about its blocked call."""

    mechanism: str
    cause: Cause
    evidence: Evidence
    message: str
    advice: str = ""


@value()
class Pass:
    """Nothing to object."""


PASS = Pass()
Verdict = Pass | Trip
