"""Invariants of the reasons that people read, as in ``invariants.py``."""

from __future__ import annotations

from typing import Any

from fabric.core.envelope import Event
from fabric.core.reasons import why_no_sentence
from fabric.core.run import Run
from simulator.kernel.seen import Seen, on

PERSONS = ("cancel", "terminated", "reject")
"""Ends whose reason is a person's own words."""


@on("run_ended", "escalation_opened", "tools_stripped")
def reasons_are_sentences(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A person understands why a run ended, was stopped or asks, without knowing the engine."""
    if getattr(fact, "reaction", "") in PERSONS:
        return ""
    why = why_no_sentence(fact.reason)
    return f"the reason holds {why}: {fact.reason}" if why else ""


@on("reaction_decided")
def causes_are_sentences(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """So is the message of each trip that was decided about."""
    why = why_no_sentence(fact.cause.message)
    return f"the cause holds {why}: {fact.cause.message}" if why else ""
