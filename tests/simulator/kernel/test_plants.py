"""The invariants have teeth: each bug that a command can plant is found by the one that is about it, and is gone again afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from fabric.core.decision_table import Reaction
from fabric.core.taxonomy import Tier
from simulator.kernel.campaign import SeedReport, campaign, simulate
from simulator.kernel.plants import PLANTS
from simulator.kernel.seen import CHECKS
from simulator.kernel.swarm import Setup, draw

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
    "errors_pass": {"errors_in_bounds", "decision_derives"},
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
    "swap_unapproved": {"swaps_are_allowed", "decision_derives"},
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


def _caps(setup: Setup) -> bool:
    budget = setup.fabric.compiled.spec.policy.budget
    return budget.fabric_hour_usd_micros is not None or budget.session_usd_micros is not None


def _dies(setup: Setup) -> bool:
    return any(setup.rates[name] for name in ("crash", "sudden_death", "retired"))


def _swaps(setup: Setup) -> bool:
    """Whether a cell that a run meets names another model, and there is one."""
    spec = setup.fabric.compiled.spec
    tiers = {plan.tier for plan in setup.runs} - {Tier.HIGH_STAKES}
    cells = [row[tier] for row in spec.decision_table.values() for tier in tiers & set(row)]
    named = any(rung.reaction is Reaction.FALLBACK_MODEL for cell in cells for rung in cell.rungs)
    return named and any(model.fallbacks for model in spec.models)


def _leaves_doubt(setup: Setup) -> bool:
    lost = setup.rates["effect_lost_answer"] or setup.rates["effect_not_done"]
    return bool(lost) and any(tool.effect == "mutating" for tool in setup.fabric.compiled.spec.all_tools)


def _asked_an_oracle(setup: Setup) -> bool:
    oracle = setup.fabric.compiled.spec.gates.oracle
    return bool(setup.rates["objects"]) and any(check.tool or check.http for check in oracle or ())


WHERE: Mapping[str, Callable[[Setup], bool]] = {
    "old_epoch_accepted": lambda setup: setup.rates["late_result"] > 0,
    "suspects_together": lambda setup: len(setup.runs) > 1 and _dies(setup),
    "refusal_settles_doubt": _leaves_doubt,
    "permit_for_all": lambda setup: len(setup.runs) > 1 and bool(setup.fabric.compiled.spec.policy.breakers),
    "swap_for_anything": _swaps,
    "no_is_yes": _asked_an_oracle,
    "reaper_refunds_unknown": lambda setup: _caps(setup) and _dies(setup),
    "closed_grant_reserved": lambda setup: _caps(setup) and _dies(setup),
    "credit_without_pause": _caps,
}
"""Plants of rules that few worlds can meet at all, by what such a world has: only those are simulated. The others are looked for in every world."""


def _seeds(wanted: Callable[[Setup], bool]) -> Iterator[int]:
    return (seed for seed in range(SEEDS) if wanted(draw(seed)))


def _found(plant: str, wanted: Callable[[Setup], bool]) -> SeedReport:
    """The first world that finds a planted bug, among those that are wanted."""
    found = next((report for report in campaign(_seeds(wanted), plant) if report.violations), None)
    assert found is not None, f"not found in {SEEDS} seeds"
    return found


def test_every_plant_is_looked_for():
    assert set(PLANTS) == set(FOUND_BY) >= set(WHERE)
    assert len(PLANTS) >= 15


@pytest.mark.parametrize("plant", FOUND_BY)
def test_a_planted_bug_is_found(plant):
    found = _found(plant, WHERE.get(plant, lambda setup: True))
    assert found.violations[0].invariant in FOUND_BY[plant]
    assert simulate(found.seed).violations == ()


@pytest.mark.parametrize(
    ("plant", "invariant"), [("errors_pass", "errors_in_bounds"), ("swap_unapproved", "swaps_are_allowed")]
)
def test_what_a_derived_decision_finds_first_its_own_invariant_finds_too(plant, invariant, monkeypatch):
    for kind, checks in CHECKS.items():
        monkeypatch.setitem(CHECKS, kind, [check for check in checks if check.__name__ != "decision_derives"])
    assert _found(plant, WHERE.get(plant, lambda setup: True)).violations[0].invariant == invariant


@pytest.mark.parametrize("preset", ["flow", "fabro", "ag2"])
def test_the_rule_of_each_preset_is_missed_when_it_is_taken_out(preset):
    found = _found("loops_pass", lambda setup: setup.fabric.compiled.spec.policy.loop_detector.preset == preset)
    assert found.violations[0].invariant == "loops_in_bounds"
