"""Events that count as progress: a step that no later owner of the run has to repeat.

A run that is claimed again and again without progress kills its owners (docs/specification/durability.md). A
takeover's own events, the interrupted call and the one issued in its place, do not count: otherwise a call that kills
its worker would count as progress each time. A consumed input counts, since it comes once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fabric.core.events.envelope import list_kinds
from fabric.runtime.ports.journal import Batch

_STEPS = (
    "input_requested",
    "run_started",
    "usual_rates_pinned",
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
    "review_opened",
    "review_approved",
    "review_edited",
    "review_decided",
    "review_withdrawn",
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
    "speaker_chosen",
    "person_said",
    "context_written",
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
    "input_given",
    "child_let_go",
    "ownership_taken",
    "policy_taken_up",
    "attempt_interrupted",
    "call_issued",
    "call_streamed",
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
    "turn_overdue",
    "deadlines_suspended",
    "deadlines_reissued",
    "review_reminded",
    "late_result_ignored",
    "mutation_intended",
    "reconciliation_issued",
    "reconciliation_failed",
    "compensation_issued",
    "compensation_interrupted",
)

PROGRESS: Final[Mapping[str, bool]] = dict.fromkeys(_STEPS, True) | dict.fromkeys(_NONE, False)
"""Every kind of event; True if it is progress."""


def progresses(batch: Batch) -> bool:
    """Return True if the batch journals a step that need not be repeated. Then the count of claims starts anew."""
    kinds = (kind for row in batch.rows for kind in list_kinds(row.kind, row.header))
    return any(PROGRESS.get(kind, False) for kind in kinds)
