"""The invariants have teeth: each bug that a command can plant is found by the one that is about it, and is gone again afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest

from fabric.core.graph.retry_targets import has_targets
from fabric.core.spec.policies.decision_table import Reaction
from fabric.core.spec.topologies.graph import GraphTopology
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import Tier
from simulator.faults.catalogue import Rates
from simulator.rules.facts.journals import CHECKS
from simulator.rules.runs.bugs import PLANTS
from simulator.swarm.fabrics import publish
from simulator.swarm.setups import Setup, draw
from simulator.world.campaign import SeedReport, campaign, simulate, simulate_setup

SEEDS = 3_000
FOUND_BY = {
    "no_fence": {"one_writer_per_fence", "journal_folds", "chain"},
    "no_unique_input": {"input_consumed_once"},
    "terminal_not_absorbing": {"terminal_absorbs"},
    "retry_moves_deadline": {"deadlines_move_by_facts_alone"},
    "old_epoch_accepted": {"answers_what_is_out", "settled_once"},
    "child_cancel_not_sent": {"told_to_stop"},
    "caps_of_its_own": {"caps_hold_over_the_tree"},
    "dearest_call_forgotten": {"dear_models_are_reserved_so"},
    "refused_answer_at_reservation": {"refused_answers_are_booked"},
    "spends_at_any_rate": {"nothing_goes_out_too_fast"},
    "rate_counts_everything": {"a_rate_that_tripped_was_too_fast"},
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
    "compensate_fifo": {"newest_first", "dealt_with"},
    "compensate_unexecuted": {"newest_first"},
    "stuck_skipped_silently": {"dealt_with"},
    "key_with_round": {"way_back_before_effect"},
    "children_share_keys": {"way_back_before_effect"},
    "changed_and_tried_again": {"none_that_changed_the_world_is_tried_again"},
    "change_not_said": {"says_whether_it_changed_the_world"},
    # Answers that stream in.
    "writes_begin_early": {"only_what_reads_begins_early"},
    # Questions of servers.
    "questions_without_end": {"answers_go_out_once"},
    "unanswered_goes_out": {"answers_go_out_once"},
    "answers_another_question": {"answers_go_out_once"},
    "asked_attempt_comes_again": {"answers_go_out_once"},
    # Who answers.
    "roles_unchecked": {"answers_by_right"},
    "roles_believed": {"answers_by_right", "no_own_approval"},
    "own_approval_counts": {"no_own_approval"},
    "own_edit_counts": {"no_own_approval"},
    "one_of_two_is_enough": {"no_own_approval"},
    "orders_are_followed": {"no_result_gives_orders"},
    # Memories.
    "memory_not_restored": {"memory_restored", "memory_is_what_was_written"},
    "memory_written_late": {"memory_is_what_was_written"},
    "run_memory_forgets": {"memory_reads_what_was_written"},
    # Circuit breakers.
    "open_breaker_passes": {"breaker_is_heeded"},
    "permit_for_all": {"breaker_is_heeded"},
    "one_probe_more": {"breaker_is_heeded"},
    "retry_after_unheard": {"breaker_is_heeded"},
    "named_breaker_for_all": {"breaker_stands_where_it_says"},
    "named_breaker_for_none": {"breaker_stands_where_it_says"},
    # Failover.
    "fallback_unapproved": {"fallbacks_are_allowed", "decision_derives"},
    "fallback_for_anything": {"fallbacks_are_allowed", "decision_derives"},
    "fallback_silently": {"no_silent_fallback"},
    "fallback_into_open": {"fallbacks_are_allowed", "decision_derives"},
    # Conversations.
    "writes_forgotten": {"speaker_follows_from_the_graph"},
    "outside_forgotten": {"speaker_follows_from_the_graph"},
    "turns_unbounded": {"speaker_follows_from_the_graph"},
    "hops_unbounded": {"hops_are_in_bounds"},
    "tools_for_all": {"conversations_are_their_members_alone"},
    "anything_crosses": {"what_begins_anew_does"},
    "first_level_alone": {"speaker_follows_from_the_graph"},
    "everything_heard": {"what_begins_anew_does"},
    # Debates, procedures, teams.
    "side_speaks_twice": {"turns_in_order"},
    "round_missed": {"turns_in_order"},
    "votes_uncounted": {"votes_are_counted"},
    "artifacts_left_out": {"turns_in_order"},
    "team_without_cap": {"teams_are_those_of_their_leads"},
    # The attempts of a call, and one that a person has made again.
    "attempts_forget_time": {"attempts_share_a_time"},
    "kept_step_forgets": {"what_was_done_stands"},
    # Retry layers.
    "node_wait_skipped": {"nodes_wait"},
    "node_retries_not_counted": {"node_retries_in_bounds", "decision_derives"},
    "nothing_is_a_part": {"nothing_is_no_part"},
    # What a decision says of itself.
    "wrong_rung": {"decision_derives"},
    "fallback_for_nothing": {"decision_derives"},
    "farthest_fallback": {"decision_derives"},
    # Judges and released outputs.
    "passes_unheard": {"judged_before_it_passes"},
    "no_is_yes": {"judged_before_it_passes"},
    "released_by_finding": {"unsafe_only_as_released"},
    "unsafe_arguments_pass": {"unsafe_arguments_stay"},
    "let_pass_unasked": {"released_below"},
    # Shared budgets.
    "grant_without_cap_check": {"caps_are_kept"},
    "reaper_refunds_unknown": {"unknown_is_worst"},
    "closed_grant_reserved": {"budgets_add_up", "grants_are_not_overdrawn"},
    "reservation_left_out": {"journal_and_budgets_agree"},
    "unknown_settled_free": {"unknown_is_worst"},
    "retry_skips_shared_buckets": {"retries_take_shared_tokens"},
    "retry_token_for_nothing": {"buckets_are_kept", "retries_take_shared_tokens", "decision_derives"},
    "credit_without_pause": {"credit_once_a_second"},
    "grant_spent_twice": {"grants_are_not_overdrawn"},
}


def _caps(setup: Setup) -> bool:
    budget = setup.fabric.compiled.spec.policy.budget
    return budget.fabric_hour_usd_micros is not None or budget.session_usd_micros is not None


def _dies(setup: Setup) -> bool:
    return any(setup.rates[name] for name in ("crash", "sudden_death", "retired"))


def _servers_ask(setup: Setup) -> bool:
    return setup.rates["server_asks"] > 0


def _falls_back(setup: Setup) -> bool:
    """Return True if a cell that a run meets names another model, and there is one."""
    spec = setup.fabric.compiled.spec
    tiers = {plan.tier for plan in setup.runs} - {Tier.HIGH_STAKES}
    cells = [row[tier] for row in spec.decision_table.values() for tier in tiers & set(row)]
    named = any(rung.reaction is Reaction.FALLBACK_MODEL for cell in cells for rung in cell.rungs)
    return named and any(model.fallbacks for model in spec.models)


def _changes_something(setup: Setup) -> bool:
    return any(tool.effect == "mutating" for tool in setup.fabric.compiled.spec.all_tools)


def _remembers(setup: Setup) -> bool:
    return any(memory.scope == "fabric" for memory in setup.fabric.compiled.spec.memories)


def _asked_an_oracle(setup: Setup) -> bool:
    oracle = setup.fabric.compiled.spec.gates.oracle
    return bool(setup.rates["judge_objects"]) and any(check.tool or check.http for check in oracle or ())


def _layered(setup: Setup) -> bool:
    return setup.fabric.compiled.spec.policy.retry_layers.layered


def _accepts_gaps(setup: Setup) -> bool:
    return setup.fabric.compiled.spec.policy.retry_layers.node(Stage.FAN_OUT).allow_partial


def _probed(setup: Setup) -> bool:
    return len(setup.runs) > 1 and bool(setup.fabric.compiled.spec.policy.breakers)


def _tries_teams_again(setup: Setup) -> bool:
    spec = setup.fabric.compiled.spec
    return spec.topology.kind == "hierarchical" and _changes_something(setup) and "unsafe_output" in spec.decision_table


def _conversing(setup: Setup) -> bool:
    return bool(setup.fabric.compiled.spec.conversation_tools)


def _talking_team(setup: Setup) -> bool:
    return setup.fabric.compiled.spec.topology.kind == "hierarchical" and _conversing(setup)


def _restarts(setup: Setup) -> bool:
    topology = setup.fabric.compiled.spec.topology
    return isinstance(topology, GraphTopology) and any(rule.restart for rule in topology.transitions)


def _leads_back(setup: Setup) -> bool:
    topology = setup.fabric.compiled.spec.topology
    return isinstance(topology, GraphTopology) and has_targets(topology) and len(topology.workers) > 1


def _of_kind(kind: str) -> Callable[[Setup], bool]:
    return lambda setup: setup.fabric.compiled.spec.topology.kind == kind


WHERE: Mapping[str, Callable[[Setup], bool]] = {
    "old_epoch_accepted": lambda setup: setup.rates["late_result"] > 0,
    "dearest_call_forgotten": lambda setup: setup.rates["dear_answer"] > 0,
    "refused_answer_at_reservation": lambda setup: setup.rates["unusable_answer"] > 0,
    "suspects_together": lambda setup: len(setup.runs) > 1 and _dies(setup),
    "refusal_settles_doubt": _changes_something,
    "changed_and_tried_again": _tries_teams_again,
    **dict.fromkeys(("unanswered_goes_out", "answers_another_question", "asked_attempt_comes_again"), _servers_ask),
    "memory_written_late": _remembers,
    "permit_for_all": _probed,
    "one_probe_more": _probed,
    "fallback_for_anything": _falls_back,
    "writes_forgotten": _conversing,
    "outside_forgotten": _conversing,
    "turns_unbounded": _conversing,
    "hops_unbounded": _conversing,
    "tools_for_all": _talking_team,
    "unsafe_arguments_pass": lambda setup: "arguments" in setup.fabric.compiled.evaluators.guardrails,
    "anything_crosses": _restarts,
    "first_level_alone": _leads_back,
    "everything_heard": _restarts,
    "side_speaks_twice": _of_kind("debate"),
    "round_missed": _of_kind("debate"),
    "votes_uncounted": _of_kind("debate"),
    "artifacts_left_out": _of_kind("sop"),
    "team_without_cap": _of_kind("hierarchical"),
    "node_wait_skipped": _layered,
    "node_retries_not_counted": _layered,
    "nothing_is_a_part": _accepts_gaps,
    "no_is_yes": _asked_an_oracle,
    "reaper_refunds_unknown": lambda setup: _caps(setup) and _dies(setup),
    "closed_grant_reserved": _caps,
    "credit_without_pause": _caps,
}
"""Plants of rules that few worlds can meet at all, by what such a world has: only those are simulated. The others are looked for in every world."""


FROM = {
    "no_fence": 47,
    "terminal_not_absorbing": 10,
    "old_epoch_accepted": 589,
    "caps_of_its_own": 83,
    "dearest_call_forgotten": 139,
    "refused_answer_at_reservation": 137,
    "spends_at_any_rate": 33,
    "rate_counts_everything": 33,
    "withdrawn_stays": 72,
    "orphan_not_reclaimed": 58,
    "progress_counts_takeover": 85,
    "quarantine_never": 42,
    "suspects_together": 1_289,
    "newer_input_discarded": 15,
    "pause_issues": 109,
    "terminate_cancels": 31,
    "expiry_over_answer": 310,
    "loops_pass": 36,
    "errors_pass": 17,
    "refusal_settles_doubt": 618,
    "compensation_missed": 33,
    "stuck_skipped_silently": 14,
    "changed_and_tried_again": 1_020,
    "change_not_said": 64,
    "writes_begin_early": 14,
    "unanswered_goes_out": 36,
    "answers_another_question": 36,
    "asked_attempt_comes_again": 36,
    "roles_unchecked": 255,
    "roles_believed": 15,
    "own_approval_counts": 141,
    "own_edit_counts": 2_539,
    "one_of_two_is_enough": 47,
    "orders_are_followed": 2_047,
    "memory_not_restored": 36,
    "memory_written_late": 154,
    "run_memory_forgets": 604,
    "open_breaker_passes": 24,
    "permit_for_all": 101,
    "one_probe_more": 101,
    "retry_after_unheard": 2_599,
    "fallback_for_anything": 83,
    "fallback_into_open": 1_357,
    "writes_forgotten": 48,
    "outside_forgotten": 227,
    "turns_unbounded": 94,
    "hops_unbounded": 2_911,
    "tools_for_all": 77,
    "anything_crosses": 152,
    "first_level_alone": 1_862,
    "everything_heard": 68,
    "round_missed": 12,
    "votes_uncounted": 325,
    "artifacts_left_out": 91,
    "node_retries_not_counted": 217,
    "nothing_is_a_part": 639,
    "farthest_fallback": 490,
    "no_is_yes": 828,
    "released_by_finding": 29,
    "unsafe_arguments_pass": 579,
    "reaper_refunds_unknown": 448,
    "closed_grant_reserved": 3_505,
    "credit_without_pause": 1_640,
}
"""Where the search begins for what does not come up at once: shortly before the first world that finds it, so that the test need not simulate them all."""


def _seeds(plant: str, wanted: Callable[[Setup], bool]) -> Iterator[int]:
    first = FROM.get(plant, 0)
    return (seed for seed in range(first, first + SEEDS) if wanted(draw(seed)))


def _never_told(setup: Setup) -> Setup:
    """Answers of a service are lost, it does not say what it did, and people let the call be made again, which then never reaches it."""
    never = {"effect_lost_answer": 0.4, "effect_not_done": 0.3, "effect_never_sent": 0.5, "reconcile_fails": 1.0}
    return replace(setup, rates=Rates(never), verb="approve")


def _late(setup: Setup) -> Setup:
    """Keep what is sent in the hands of a process that stands still."""
    return replace(setup, rates=Rates({"effect_not_done": 0.6}))


def _always_asked(setup: Setup) -> Setup:
    """Every tool's server asks with each attempt, and a person fills in each form."""
    return replace(setup, rates=Rates({"server_asks": 1.0}), verb="approve")


def _led_back_twice(setup: Setup) -> Setup:
    """Turns fail often. Every failure leads back to a worker that has one turn, and behind it to another one."""
    spec = setup.fabric.compiled.spec
    first, other = spec.topology.workers[:2]
    ways = {"retry_targets": {}, "retry_target": first, "fallback_retry_target": other, "max_visits": {first: 1}}
    spec = spec.model_copy(update={"topology": spec.topology.model_copy(update=ways)})
    often = Rates({"unavailable": 0.9, "hang_up": 0.5, "bad_key": 0.3})
    return replace(setup, fabric=publish(spec, setup.fabric.revision_id), rates=often)


OWN: Mapping[str, Callable[[Setup], Setup]] = {
    "first_level_alone": _led_back_twice,
    "refusal_settles_doubt": _never_told,
    "memory_written_late": _late,
    "questions_without_end": _always_asked,
}
"""Plants of rules that take several faults in a row, which no seed is likely to draw: the drawn fabrics and runs, with those faults and no others."""


def _found(plant: str, wanted: Callable[[Setup], bool]) -> SeedReport:
    """The first world that finds a planted bug, among those that are wanted."""
    own = OWN.get(plant)
    seeds = _seeds(plant, wanted)
    reports = campaign(seeds, plant)
    if own is not None:
        reports = (simulate_setup(own(draw(seed)), plant) for seed in seeds)
    found = next((report for report in reports if report.violations), None)
    assert found is not None, f"not found in {SEEDS} seeds"
    return found


def test_every_plant_is_looked_for():
    assert set(PLANTS) == set(FOUND_BY) >= {*WHERE, *OWN}
    assert len(PLANTS) >= 15


@pytest.mark.parametrize("plant", FOUND_BY)
def test_a_planted_bug_is_found(plant):
    found = _found(plant, WHERE.get(plant, lambda setup: True))
    assert found.violations[0].invariant in FOUND_BY[plant]
    own = OWN.get(plant)
    clean = simulate(found.seed) if own is None else simulate_setup(own(draw(found.seed)))
    assert clean.violations == ()


@pytest.mark.parametrize(
    ("plant", "first", "invariant"),
    [
        ("errors_pass", "decision_derives", "errors_in_bounds"),
        ("fallback_unapproved", "decision_derives", "fallbacks_are_allowed"),
        ("children_share_keys", "way_back_before_effect", "keys_are_unique"),
    ],
)
def test_what_another_one_finds_first_its_own_invariant_finds_too(plant, first, invariant, monkeypatch):
    for kind, checks in CHECKS.items():
        monkeypatch.setitem(CHECKS, kind, [check for check in checks if check.__name__ != first])
    assert _found(plant, WHERE.get(plant, lambda setup: True)).violations[0].invariant == invariant


@pytest.mark.parametrize("preset", ["flow", "fabro", "ag2"])
def test_the_rule_of_each_preset_is_missed_when_it_is_taken_out(preset):
    found = _found("loops_pass", lambda setup: setup.fabric.compiled.spec.policy.loop_detector.preset == preset)
    assert found.violations[0].invariant == "loops_in_bounds"
