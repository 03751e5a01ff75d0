"""The invariants have teeth: each bug that a command can plant is found by the one that is about it, and is gone again afterwards."""

from __future__ import annotations

from functools import partial

import pytest

from simulator.kernel.campaign import campaign, simulate
from simulator.kernel.plants import PLANTS
from simulator.kernel.swarm import draw

SEEDS = 2_000
FOUND_BY = {
    "no_fence": {"one_writer_per_fence", "journal_folds", "chain"},
    "no_unique_input": {"input_consumed_once"},
    "terminal_not_absorbing": {"terminal_absorbs"},
    "retry_moves_deadline": {"deadlines_move_by_facts_alone"},
    "old_epoch_accepted": {"answers_what_is_out", "settled_once"},
    "child_cancel_not_sent": {"told_to_stop"},
    "caps_of_its_own": {"caps_hold_over_the_tree"},
    "withdrawn_stays": {"withdrawn_is_not_taken"},
    "orphan_not_reclaimed": {"liveness"},
    "progress_counts_takeover": {"claims_counted"},
    "quarantine_never": {"put_away_in_time"},
    "suspects_together": {"suspects_apart"},
    "newer_input_discarded": {"nothing_given_is_lost"},
    "stale_snapshot": {"snapshot_is_the_fold"},
    "pause_issues": {"paused_issues_nothing"},
    "terminate_cancels": {"terminated_ends_at_once"},
    "expiry_over_answer": {"no_expiry_over_an_answer"},
    # What comes back.
    "loops_pass": {"loops_in_bounds"},
    "errors_pass": {"errors_in_bounds"},
    # Sagas.
    "refusal_settles_doubt": {"settled_while_in_doubt"},
    "compensation_twice": {"newest_first"},
    "compensation_missed": {"nothing_left_to_undo", "said_what_stays"},
    "mutation_resent": {"never_sent_again_blindly"},
    "compensate_fifo": {"newest_first"},
    "compensate_unexecuted": {"newest_first"},
    "stuck_skipped_silently": {"dealt_with"},
    "key_with_round": {"way_back_before_effect"},
    # Memories.
    "memory_not_restored": {"memory_restored", "memory_is_what_was_written"},
    "run_memory_forgets": {"memory_reads_what_was_written"},
    # Circuit breakers.
    "open_breaker_passes": {"breaker_is_heeded"},
    "permit_for_all": {"breaker_is_heeded"},
    # Failover.
    "swap_unapproved": {"swaps_are_allowed"},
    "swap_for_anything": {"swaps_are_allowed"},
    "swap_silently": {"no_silent_swap"},
    # What a decision says of itself.
    "wrong_rung": {"decision_derives"},
    # Judges and released outputs.
    "passes_unheard": {"judged_before_it_passes"},
    "no_is_yes": {"judged_before_it_passes"},
    "released_by_finding": {"unsafe_only_as_released"},
    # Shared budgets.
    "grant_without_cap_check": {"caps_are_kept"},
    "reaper_refunds_unknown": {"unknown_is_worst"},
    "closed_grant_reserved": {"budgets_add_up", "grants_are_not_overdrawn"},
    "reservation_left_out": {"journal_and_budgets_agree"},
    "unknown_settled_free": {"unknown_is_worst"},
    "retry_asks_nobody": {"retries_take_shared_tokens"},
    "retry_token_for_nothing": {"buckets_are_kept", "retries_take_shared_tokens"},
    "credit_without_pause": {"credit_once_a_second"},
    "grant_spent_twice": {"grants_are_not_overdrawn"},
}


def test_every_plant_is_looked_for():
    assert set(PLANTS) == set(FOUND_BY)
    assert len(PLANTS) >= 15


@pytest.mark.parametrize("plant", FOUND_BY)
def test_a_planted_bug_is_found(plant):
    found = next((report for report in campaign(range(SEEDS), plant) if report.violations), None)
    assert found is not None, f"not found in {SEEDS} seeds"
    assert found.violations[0].invariant in FOUND_BY[plant]
    assert simulate(found.seed).violations == ()


@pytest.mark.parametrize("preset", ["flow", "fabro", "ag2"])
def test_the_rule_of_each_preset_is_missed_when_it_is_taken_out(preset):
    seeds = (seed for seed in range(SEEDS) if draw(seed).fabric.compiled.spec.policy.loop_detector.preset == preset)
    found = next((report for report in map(partial(simulate, plant="loops_pass"), seeds) if report.violations), None)
    assert found is not None, f"not found in {SEEDS} seeds"
    assert found.violations[0].invariant == "loops_in_bounds"
