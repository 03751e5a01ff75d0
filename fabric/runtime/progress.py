"""Which events are progress: a step that was taken and will not be taken again, whoever owns the run next.

A run that is claimed again and again without one is what kills its owners (docs/design.md 5). What a takeover itself writes, the call that
was interrupted and the one that is issued in its place, is none: a call that takes its worker with it would be called progress each time.
An input that is taken is one: it comes once.
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
    "run_quarantined",
    "run_released_from_quarantine",
    "rung_skipped",
    "reaction_decided",
    "alert_raised",
    "model_changed",
    "cap_raised",
    "budget_raised",
    "message_injected",
    "tools_stripped",
    "step_failed",
    "escalation_opened",
    "escalation_approved",
    "escalation_edited",
    "escalation_decided",
    "escalation_withdrawn",
    "output_edited",
    "guidance_given",
    "cancel_accepted",
    "terminate_accepted",
    "run_paused",
    "run_resumed",
    "run_forked",
    "content_kept",
    "output_kept",
    "model_answered",
    "tool_answered",
    "call_refused",
    "output_accepted",
    "handed_off",
    "attempt_failed",
    "input_ignored",
    "mutation_settled",
    "reconciliation_ended",
    "unwinding_started",
    "compensation_answered",
    "compensation_failed",
    "compensation_stuck",
    "compensation_resumed",
    "compensation_by_hand",
    "compensation_skipped",
    "compensation_abandoned",
    "unwinding_finished",
    "unwinding_omitted",
    "lineage_pinned",
    "child_spawned",
    "child_answered",
    "child_waiting",
    "child_quarantined",
    "child_freed",
    "mutation_taken_over",
)
_NONE = (
    "child_let_go",
    "ownership_taken",
    "attempt_interrupted",
    "call_issued",
    "call_aborted",
    "call_deduplicated",
    "call_edited",
    "call_resolved",
    "call_skipped",
    "call_responded",
    "retry_scheduled",
    "node_retry_scheduled",
    "step_opened",
    "turn_opened",
    "deadlines_suspended",
    "deadlines_reissued",
    "escalation_reminded",
    "late_result_ignored",
    "mutation_intended",
    "reconciliation_issued",
    "reconciliation_failed",
    "compensation_issued",
    "compensation_interrupted",
)

PROGRESS: Final[Mapping[str, bool]] = dict.fromkeys(_STEPS, True) | dict.fromkeys(_NONE, False)
"""Every kind of event, and whether it is progress."""
