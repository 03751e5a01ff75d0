"""Reasons for which a branch is stopped although it did not fail, as they are journaled, with words for people."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core.values.taxonomy import Cause

UNMET = "the fan-in policy cannot be met any more"
MET = "the quorum is met"
LOST = "the debate cannot continue without the lost agent"
STOPPED: Mapping[str, str] = {
    UNMET: "its sister failed",
    MET: "the quorum is met",
    LOST: "another agent of the debate failed",
}


def stopped_words(cause: str, message: str) -> str:
    """Return why a step was stopped that did not fail itself. Empty: it failed."""
    return STOPPED.get(message, "") if cause == Cause.PARTIAL_FAN_IN else ""
