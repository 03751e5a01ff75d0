"""What older versions of the program wrote, brought to the form that this one reads.

An event's or input's shape never changes under its version: old rows are read for good, and a program that is older must not drop a field
that it does not know. So a changed shape is a new version, and so is an added field with a default. Its row in ``UPCAST`` (``UPCAST_INPUT``)
makes the old form into the new one. Its row in ``SINCE`` (``SINCE_INPUT``) has the ``flow.FORMAT`` that was raised for it.
``tests/fabric/core/test_upcasters.py`` holds the shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

JSON = Any
Upcast = Callable[[JSON], JSON]
"""The form of the next version. It may change what it is given."""


def same(given: JSON) -> JSON:
    """For a version that only has more to choose from: what was written before it is written so still."""
    return given


def name_results(given: JSON) -> JSON:
    """For a version whose checks say what came of them, where they said only whether they had passed."""
    for check in (given["d"].get("gate") or {}).get("checks", ()):
        check["result"] = "passed" if check.pop("passed") else "failed"
    return given


UPCAST: Mapping[tuple[str, int], Upcast] = {
    ("attempt_failed", 1): same,
    ("call_issued", 1): same,
    ("call_refused", 1): same,
    ("escalation_opened", 1): same,
    ("escalation_opened", 2): same,
    ("reaction_decided", 1): same,
    ("stage_entered", 1): same,
    ("stage_left", 1): same,
    ("step_failed", 1): same,
    ("retry_scheduled", 1): same,
    ("stage_entered", 2): same,
    ("stage_left", 2): same,
    ("call_refused", 2): same,
    ("attempt_failed", 2): same,
    ("reaction_decided", 2): same,
    ("step_failed", 2): same,
    ("mutation_settled", 1): same,
    ("reconciliation_failed", 1): same,
    ("compensation_failed", 1): same,
    ("child_answered", 1): same,
    ("replanned", 1): same,
    ("tool_answered", 1): same,
    ("rung_skipped", 1): same,
    ("lineage_pinned", 1): same,
    ("child_spawned", 1): same,
    ("escalation_opened", 3): same,
    ("reaction_decided", 3): same,
    ("step_failed", 3): same,
    ("rung_skipped", 2): same,
    ("model_changed", 1): same,
    ("attempt_failed", 3): same,
    ("escalation_opened", 4): same,
    ("escalation_opened", 5): same,
    ("escalation_decided", 1): same,
    ("run_forked", 1): same,
    ("run_forked", 2): same,
    ("alert_raised", 1): same,
    ("alert_raised", 2): same,
    ("attempt_failed", 4): same,
    ("call_refused", 3): same,
    ("call_refused", 4): same,
    ("child_answered", 2): same,
    ("compensation_failed", 2): same,
    ("compensation_failed", 3): same,
    ("escalation_opened", 6): same,
    ("escalation_opened", 7): same,
    ("model_changed", 2): same,
    ("mutation_settled", 2): same,
    ("mutation_settled", 3): same,
    ("reaction_decided", 4): same,
    ("reconciliation_failed", 2): same,
    ("reconciliation_failed", 3): same,
    ("rung_skipped", 3): same,
    ("rung_skipped", 4): same,
    ("stage_entered", 3): same,
    ("stage_left", 3): same,
    ("step_failed", 4): same,
    ("step_failed", 5): same,
    ("model_answered", 1): same,
    ("tool_answered", 2): same,
    ("tool_answered", 3): same,
    ("input_requested", 1): same,
    ("output_accepted", 1): same,
    ("call_edited", 1): same,
    ("call_deduplicated", 1): same,
    ("lineage_pinned", 2): same,
    ("tools_stripped", 1): same,
    ("run_ending", 1): same,
    ("run_ended", 1): same,
    ("child_answered", 4): same,
    ("run_forked", 3): same,
    ("child_spawned", 2): same,
    ("child_answered", 3): same,
    ("model_answered", 2): same,
    ("model_answered", 3): same,
    ("attempt_failed", 6): same,
    ("call_streamed", 1): same,
    ("attempt_failed", 5): same,
    ("model_changed", 3): same,
    ("model_changed", 4): same,
    ("reaction_decided", 5): same,
    ("stage_entered", 4): name_results,
    ("stage_left", 4): name_results,
    ("retry_scheduled", 2): same,
    ("step_opened", 1): same,
    ("escalation_decided", 2): same,
    ("run_started", 1): same,
}
"""By event kind and version: a header (``e`` the envelope, ``d`` the fact) of that version to one of the next. Total by test."""
UPCAST_INPUT: Mapping[tuple[str, int], Upcast] = {
    ("decision_made", 1): same,
    ("decision_made", 2): same,
    ("decision_made", 3): same,
    ("decision_made", 4): same,
    ("decision_made", 5): same,
    ("child_ended", 1): same,
    ("child_requested", 1): same,
    ("child_requested", 2): same,
    ("fork_requested", 1): same,
    ("fork_requested", 2): same,
    ("child_ended", 2): same,
    ("child_requested", 3): same,
    ("child_ended", 3): same,
    ("child_ended", 4): same,
    ("fork_requested", 3): same,
    ("run_requested", 1): same,
    ("child_requested", 4): same,
}
"""By input kind and version: an inbox row's body likewise. Total by test."""
SINCE: Mapping[str, int] = {
    "attempt_failed": 12,
    "call_issued": 2,
    "call_refused": 12,
    "escalation_opened": 12,
    "output_edited": 8,
    "guidance_given": 8,
    "escalation_approved": 8,
    "escalation_edited": 8,
    "escalation_decided": 12,
    "reaction_decided": 12,
    "stage_entered": 12,
    "stage_left": 12,
    "step_failed": 12,
    "retry_scheduled": 12,
    "terminate_accepted": 2,
    "run_paused": 2,
    "run_resumed": 2,
    "tools_stripped": 12,
    "run_ending": 12,
    "run_ended": 12,
    "run_forked": 12,
    "content_kept": 2,
    "output_kept": 2,
    "policy_taken_up": 12,
    "run_quarantined": 2,
    "run_released_from_quarantine": 2,
    "mutation_intended": 2,
    "mutation_settled": 12,
    "reconciliation_issued": 2,
    "reconciliation_failed": 12,
    "reconciliation_ended": 2,
    "unwinding_started": 2,
    "compensation_issued": 2,
    "compensation_answered": 2,
    "compensation_failed": 12,
    "compensation_interrupted": 2,
    "compensation_stuck": 2,
    "compensation_resumed": 2,
    "compensation_by_hand": 2,
    "compensation_skipped": 2,
    "compensation_abandoned": 2,
    "unwinding_finished": 2,
    "unwinding_omitted": 2,
    "lineage_pinned": 10,
    "child_spawned": 10,
    "mutation_inherited": 10,
    "child_waiting": 2,
    "child_quarantined": 2,
    "child_freed": 2,
    "child_answered": 12,
    "child_let_go": 2,
    "mutation_taken_over": 2,
    "replanned": 3,
    "rung_skipped": 12,
    "call_edited": 9,
    "call_deduplicated": 9,
    "model_answered": 12,
    "call_streamed": 11,
    "call_resolved": 9,
    "call_skipped": 9,
    "turn_opened": 9,
    "call_responded": 2,
    "input_requested": 12,
    "input_given": 11,
    "tool_answered": 12,
    "output_accepted": 9,
    "speaker_chosen": 9,
    "turn_overdue": 9,
    "person_said": 9,
    "context_written": 12,
    "alert_raised": 12,
    "model_changed": 12,
    "node_retry_scheduled": 4,
    "step_opened": 12,
    "cap_raised": 3,
    "usual_rates_pinned": 12,
    "run_started": 12,
    "budget_raised": 4,
}
"""The first format that reads an event kind in its present version; 1 for those that are not named."""
SINCE_INPUT: Mapping[str, int] = {
    "decision_made": 12,
    "fork_requested": 12,
    "terminate_requested": 2,
    "pause_requested": 2,
    "resume_requested": 2,
    "person_spoke": 9,
    "context_given": 12,
    "run_requested": 12,
    "child_requested": 12,
    "child_waits": 2,
    "child_stuck": 2,
    "child_ended": 12,
}
"""The same for inputs."""


def upcast(given: JSON, kind: str, version: int, known: int, table: Mapping[tuple[str, int], Upcast] = UPCAST) -> JSON:
    """``given``, written as ``version``, as version ``known`` has it: one step of the table after the other. KeyError for a missing step."""
    for step in range(version, known):
        given = table[kind, step](given)
    return given
