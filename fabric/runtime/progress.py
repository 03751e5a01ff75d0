"""Which events are progress: a step that was taken and will not be taken again, whoever owns the run next.

A run that is claimed again and again without one is what kills its owners (docs/design.md 5). What a takeover itself writes, the call that
was interrupted and the one that is issued in its place, is none: a call that takes its worker with it would be called progress each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_STEPS = (
    "run_started",
    "stage_entered",
    "stage_left",
    "replanned",
    "run_ending",
    "run_ended",
    "rung_skipped",
    "reaction_decided",
    "message_injected",
    "tools_stripped",
    "step_failed",
    "escalation_opened",
    "escalation_decided",
    "escalation_withdrawn",
    "cancel_accepted",
    "model_answered",
    "tool_answered",
    "call_refused",
    "output_accepted",
    "handed_off",
    "attempt_failed",
    "input_ignored",
)
_NONE = (
    "ownership_taken",
    "attempt_interrupted",
    "call_issued",
    "call_aborted",
    "call_deduplicated",
    "retry_scheduled",
    "step_opened",
    "deadlines_suspended",
    "deadlines_reissued",
    "escalation_reminded",
    "late_result_ignored",
)

PROGRESS: Final[Mapping[str, bool]] = dict.fromkeys(_STEPS, True) | dict.fromkeys(_NONE, False)
"""Every kind of event, and whether it is progress."""
