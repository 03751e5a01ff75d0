"""Faults of tools, services, workers, database, broker, clocks and people, at chosen moments: the run ends as it should, and no promise is broken."""

from __future__ import annotations

from typing import Any, Literal, get_args

import pytest

from fabric.core.events.envelope import split_rows
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import US
from simulator.faults import catalogue as faults
from simulator.faults.catalogue import STRUCK, build_parameters, fault_named
from simulator.faults.fault import Asked, Crash, Occurrences, Strike
from simulator.scenarios.play.player import observe
from simulator.scenarios.spec.collection import find_shipped, library
from simulator.scenarios.spec.probes import Observed
from simulator.scenarios.spec.scenario import Disturbance
from simulator.scenarios.strikes import world as tool_strikes
from simulator.scenarios.strikes.injection import Injection
from simulator.scenarios.strikes.world import MOMENTS
from simulator.swarm import fabrics as published
from simulator.swarm import setups as swarm
from simulator.world.world import World
from tests.simulator.drills.drilled import drilled
from tests.simulator.world import quiet_worlds

FAST, BATCH, HIGH = Tier.INTERACTIVE, Tier.BATCH, Tier.HIGH_STAKES


def booking(*names: str) -> FabricSpec:
    """A fabric whose first worker calls these tools in turn, a booking unless said, and whose third tool takes a booking back."""
    names = names or ("book",)
    tools = [
        {"name": "lookup"},
        {"name": "book", "effect": "mutating", "compensation": "unbook", "reconcile": "find"},
        {"name": "unbook", "effect": "idempotent"},
        {"name": "find"},
        {"name": "wire", "effect": "irreversible"},
    ]
    tree = drilled(tools=tools).model_dump(mode="json")
    tree["agents"] = [{**one, "tools": list(names) if one["name"] == "one" else []} for one in tree["agents"]]
    calls = [[{"tool": name, "args": {"query": "a room"}}] for name in names]
    tree["models"][0]["options"] = {"agents": {"one": {"calls": calls}}}
    return FabricSpec.model_validate(tree)


class Befallen:
    """One world with disturbances, at its end."""

    def __init__(
        self,
        *disturbances: tuple[str, dict[str, Any]],
        spec: FabricSpec | None = None,
        tier: Tier = FAST,
        processes: int = 2,
        verb: Literal["approve", "reject"] = "reject",
    ) -> None:
        spec = spec or drilled()
        self.injection = Injection(
            [Disturbance(fault_named(name), build_parameters(STRUCK[name], given)) for name, given in disturbances],
            spec,
        )
        self.world = World(setup(spec, tier, processes, verb), ask=quiet_worlds.cooperative)
        self.world.ask, self.world.serve = self.injection.disturb(self.world, self.world.ask, self.world.serve)
        self.world.run()
        assert self.world.watch.violations == []

    @property
    def seen(self) -> Observed:
        return observe(self.world, self.injection)


def setup(spec: FabricSpec, tier: Tier, processes: int, verb: Literal["approve", "reject"]) -> swarm.Setup:
    return swarm.Setup(
        seed=1,
        fabric=published.publish(spec, "revision"),
        rates=faults.NONE,
        runs=(swarm.RunPlan(0.0, tier, True, "What does the report say?", 1),),
        processes=processes,
        fault_phase_s=400_000.0,
        answers_within=0.01,
        verb=verb,
    )


def test_every_fault_of_the_world_has_its_code():
    by_strike = {strike: {name for name, one in STRUCK.items() if one.strike == strike} for strike in get_args(Strike)}
    assert set(tool_strikes.EFFECTS) == by_strike["tool"]
    assert set(MOMENTS) == by_strike["moment"]
    chances, reviews = (
        {issubclass(STRUCK[name].parameters, wanted) for name in by_strike[strike]}
        for strike, wanted in (("chance", Crash | Occurrences), ("review", Asked))
    )
    assert (chances, reviews) == ({True}, {True})


def test_a_world_without_disturbances_is_the_same_as_one_without_an_injection():
    plain = World(setup(drilled(), FAST, 2, "reject"), ask=quiet_worlds.cooperative)
    plain.run()
    assert Befallen().world.digest() == plain.digest()


# -- tools and services ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tool_error", "tool_slow", "tool_failed", "tool_hang", "tool_instructs"])
def test_one_tool_call_that_goes_wrong_is_got_over(name):
    found = Befallen((name, {"times": 1}), spec=booking("lookup"))
    assert found.injection.struck[name] == 1
    assert found.seen.state == "completed"
    assert found.seen.tool_calls > 0


def test_a_slow_tool_takes_its_time():
    quick, slow = Befallen(spec=booking("lookup")), Befallen(("tool_slow", {"delay_s": 7.0}), spec=booking("lookup"))
    assert 7.0 <= slow.seen.duration_s - quick.seen.duration_s < 8.0


def test_only_the_named_tool_is_struck():
    found = Befallen(("tool_error", {"tool": "find"}), spec=booking("lookup"))
    assert (found.seen.struck, found.seen.tool_calls) == (0, 1)


def booked(found: Befallen) -> int:
    return len(found.world.service.done)


def test_a_booking_whose_answer_is_lost_is_asked_after_and_not_made_again():
    found = Befallen(("effect_lost_answer", {}), spec=booking())
    assert found.seen.struck == 1
    assert booked(found) == 1
    assert found.seen.tool_calls == 2, "the booking and the question what became of it"
    assert found.seen.state == "completed"


@pytest.mark.parametrize(("tier", "state"), [(FAST, "completed"), (BATCH, "completed"), (Tier.HIGH_STAKES, "aborted")])
def test_nothing_is_booked_on_the_word_of_a_result(tier, state):
    """In high-stakes a person is asked, who says no."""
    assert booked(Befallen(spec=booking("lookup", "book"), tier=tier)) == 1
    found = Befallen(("tool_instructs", {"tool": "lookup"}), spec=booking("lookup", "book"), tier=tier)
    assert (found.seen.struck, booked(found), found.seen.state) == (1, 0, state)


def test_a_refused_booking_is_not_made():
    found = Befallen(("effect_refused", {"times": None}), spec=booking())
    assert found.seen.struck >= 1
    assert booked(found) == 0


def test_a_booking_that_cannot_be_undone_at_once_is_undone_later():
    found = Befallen(
        ("filtered", {"role": "finalizer"}), ("compensation_fails", {"times": 2}), spec=booking(), tier=BATCH
    )
    assert found.injection.struck["compensation_fails"] == 2
    assert booked(found) == len(found.world.service.cancelled) == 1


# -- database and broker ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["commit_lost", "commit_landed", "store_away", "input_doubled"])
@pytest.mark.parametrize("at", [1, 3])
def test_what_befalls_the_database_once_leaves_no_trace_in_the_answer(name, at):
    if name == "input_doubled" and at > 1:
        at = 1  # There is one input.
    found = Befallen((name, {"from_occurrence": at, "times": 1}))
    assert found.seen.struck == 1
    assert (found.seen.chain, found.seen.model_calls) == ("nothing decided > completed", 8)


@pytest.mark.parametrize("name", ["nudge_lost", "nudge_doubled"])
def test_lost_and_doubled_messages_change_nothing_but_the_time(name):
    found = Befallen((name, {}))
    assert found.seen.struck > 0
    assert (found.seen.chain, found.seen.model_calls) == ("nothing decided > completed", 8)


def test_a_doubled_message_makes_a_worker_look_twice():
    assert Befallen(("nudge_doubled", {})).world.steps > Befallen().world.steps


def test_a_database_that_is_away_for_three_writes_is_waited_for():
    found = Befallen(("store_away", {"times": 3}))
    assert found.seen.struck == 3
    assert found.seen.duration_s > Befallen().seen.duration_s


# -- workers and clocks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_effect", range(1, 14))
def test_a_worker_may_die_at_any_effect(at_effect):
    found = Befallen(("crash", {"at_effect": at_effect}))
    assert found.injection.struck["crash"] == 1
    assert found.seen.chain == "nothing decided > completed"


def test_a_worker_dies_at_the_effect_that_is_named_and_at_the_next_ones():
    places = [
        {name for name in Befallen(("crash", {"at_effect": n})).world.sometimes if name.startswith("crash_at_")}
        for n in range(1, 6)
    ]
    assert places[0] == {"crash_at_claim"}
    assert len(set().union(*places)) > 2
    assert Befallen(("crash", {"at_effect": 3, "times": 2})).injection.struck["crash"] == 2


def test_a_worker_that_dies_at_an_instant_is_followed_by_another():
    found = Befallen(("slow", {"delay_s": 5.0}), ("sudden_death", {"at_s": 2.0}))
    assert found.injection.struck["sudden_death"] == 1
    assert found.world.sometimes["taken_over"] == 1
    assert found.seen.state == "completed"


def test_a_zombie_s_writes_do_not_count():
    found = Befallen(("slow", {"delay_s": 5.0}), ("zombie", {"at_s": 2.0, "still_s": 40.0}))
    assert found.injection.struck["zombie"] == 1
    assert found.world.sometimes["taken_over"] == 1
    assert found.seen.state == "completed"


def test_a_worker_s_clock_lies_off_as_is_said():
    found = Befallen(("clock_skew", {"worker": 1, "skew_s": 1.0}), ("clock_skew", {"worker": 2, "skew_s": -0.5}))
    assert (found.world.skew_us("worker-1"), found.world.skew_us("worker-2")) == (US, -US // 2)
    assert found.seen.chain == "nothing decided > completed"


# -- people ----------------------------------------------------------------------------------------------------------

DOWN = ("unavailable", {"role": "finalizer"})


def decisions(found: Befallen) -> list[str]:
    """Return what people's answers came to, in order."""
    [run] = found.world.watch.runs()
    kinds = ("review_decided", "review_expired", "decision_refused", "decision_ignored")
    return [row.kind for row in split_rows(found.world.store.rows(run.id)) if row.kind in kinds or "review" in row.kind]


def test_a_person_who_says_no_ends_it():
    found = Befallen(DOWN, ("person_rejects", {"after_s": 3.0}), tier=HIGH, verb="approve")
    assert found.injection.struck["person_rejects"] == 1
    assert (found.seen.state, found.seen.reviews) == ("aborted", 1)


def test_another_person_would_have_been_asked_again():
    found = Befallen(DOWN, tier=HIGH, verb="approve")
    assert found.seen.reviews == 2


def test_a_late_answer_does_not_count():
    late = Befallen(DOWN, ("person_late", {"after_due_s": 60.0}), tier=HIGH, verb="approve")
    silent = Befallen(DOWN, ("person_silent", {}), tier=HIGH, verb="approve")
    assert late.injection.struck["person_late"] == silent.injection.struck["person_silent"] == 1
    assert late.seen.chain == silent.seen.chain == "retry > retry > escalate > aborted"
    assert decisions(late)[:2] == decisions(silent)[:2]
    assert silent.seen.duration_s > 60


def test_a_double_click_counts_once():
    once, twice = (Befallen(DOWN, *more, tier=HIGH) for more in ((), (("person_double_click", {}),)))
    assert twice.injection.struck["person_double_click"] == 1
    assert (twice.seen.chain, twice.seen.reviews) == (once.seen.chain, once.seen.reviews)
    assert (sent(once), sent(twice)) == (1, 2)


def sent(found: Befallen) -> int:
    """How many decisions were sent to the run."""
    [run] = found.world.watch.runs()
    return sum(input_id.startswith("decision:") for input_id in found.world.watch._seen[run.id].given)


def test_a_changed_action_is_done_as_it_was_changed():
    found = Befallen(("person_edits", {}), spec=booking("wire"), verb="reject")
    assert found.injection.struck["person_edits"] == 1
    assert booked(found) == 1, "it was rejected otherwise"
    assert booked(Befallen(spec=booking("wire"), verb="reject")) == 0


def test_in_high_stakes_a_second_person_approves_the_change():
    found = Befallen(("person_edits", {}), spec=booking("wire"), tier=HIGH, verb="reject")
    assert (found.injection.struck["person_edits"], sent(found)) == (1, 2)
    assert booked(found) == 1, "the second person rejected it"


def test_only_some_of_the_reviews_are_answered_so():
    found = Befallen(DOWN, ("person_rejects", {"from_review": 2}), tier=HIGH, verb="approve")
    assert found.injection.struck["person_rejects"] == 1
    assert (found.seen.state, found.seen.reviews) == ("aborted", 2)


# -- what is seen of it ----------------------------------------------------------------------------------------------


def test_what_a_run_came_to_is_told_by_its_probes():
    seen = Befallen(("unavailable", {"role": "finalizer", "times": 1})).seen
    assert (seen.state, seen.chain, seen.reviews, seen.replans) == ("completed", "retry > completed", 0, 0)
    assert (seen.model_calls, seen.tool_calls, seen.struck, seen.violations) == (9, 0, 1, 0)
    assert seen.answer.startswith("One's part: What does the report say?")
    assert seen.cost_usd_micros > 0
    assert 0 < seen.duration_s < 60


def test_a_run_without_an_answer_says_nothing():
    seen = Befallen(("bad_plan", {})).seen
    assert (seen.state, seen.answer, seen.citations) == ("aborted", "", [])


NEEDS = {"tool": "lookup", "service": "book", "person": "wire"}
"""What the first worker has to do for a fault of a port to strike."""
OF_THE_WORLD = [name for name, scenario in library().items() if scenario.only_virtual()]


@pytest.mark.parametrize("name", OF_THE_WORLD)
def test_a_shipped_scenario_of_the_world_strikes_and_ends_as_it_says(name):
    scenario = find_shipped(name)
    given = [(one.fault.name, one.parameters.model_dump(exclude_unset=True)) for one in scenario.disturbances()]
    needs = {NEEDS[one.fault.port] for one in scenario.disturbances() if one.fault.port in NEEDS}
    for tier in scenario.tiers:
        spec = booking(*needs) if needs and (scenario.failure is None or "service" in name) else None
        found = Befallen(
            *given, spec=spec or (booking() if name == "undoing-fails" else None), tier=tier, verb="approve"
        )
        assert all(found.injection.struck[fault] for fault, _ in given), found.injection.struck
        [run] = found.world.watch.runs()
        decided = [row.header for row in split_rows(found.world.store.rows(run.id)) if row.kind == "reaction_decided"]
        if scenario.failure is not None:
            assert f'"failure_type":"{scenario.failure}"'.encode() in decided[0]
        else:
            assert found.seen.state == "completed", (tier, found.seen.chain)
