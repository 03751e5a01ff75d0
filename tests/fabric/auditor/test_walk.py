"""Decisions derived again (docs/specification/README.md): the second walk agrees with every run, and says where a journal is wrong."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import get_type_hints

import pytest

from fabric.auditor import Ledger, compare_tiers, derive_all, note, numbers
from fabric.auditor.comparison import judge_retry
from fabric.auditor.ledger import TAKES, DecisionCase
from fabric.auditor.walk import OPEN, comes_back
from fabric.core import events as ev
from fabric.core.events.envelope import KINDS, Event
from fabric.core.ladders import ladder
from fabric.core.mechanisms import ORDER, deadline, failure_signature, find_state, observe
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.decision_table import DEFAULT_TABLE, DIRECT, Reaction
from fabric.core.spec.retry_layers import ladders
from fabric.core.state.context import compile_spec
from fabric.core.state.run import Run
from fabric.core.values import frozen as values
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import CLASSIFY, Cause, FailureType, Tier
from tests.fabric.core.fabrics import PRICES, lone, spec
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import asks, call, fails, gives, summary
from tests.fabric.core.topologies.graph.test_failures import BUDGET
from tests.fabric.core.topologies.graph.test_retry_targets import SAYS, targeted

LOOPS = {
    "worker": [asks(call(q="same")), asks(call(q="same")), asks(call(q="same")), summary()],
    "look": gives({"n": 1}),
}


def looped(tier=Tier.INTERACTIVE):
    return ran(spec(), LOOPS, tier=tier)


def ledger_of(tier=Tier.INTERACTIVE):
    return Ledger(Run("run-1", tier=tier))


def take(ledger, *facts):
    for fact in facts:
        note(ledger, Event(ledger.run.seq + 1, 0, fact))


def hear(ledger):
    """A person answers a review of another failure."""
    word = Event(ledger.run.seq + 1, 0, ev.ReviewDecided(review_id="e", verb="approve", actor="ada"))
    note(ledger, word, values.replace(ledger.run, guards=observe(ledger.run.guards, word)))


def changed(world, **fields):
    """The run's events with one field of its first decision recorded otherwise."""
    done = False
    events = []
    for event in world.events:
        wrong = isinstance(event.fact, ev.ReactionDecided) and not done
        done = done or wrong
        events.append(dataclasses.replace(event, fact=dataclasses.replace(event.fact, **fields)) if wrong else event)
    assert done
    return events


def derived(world, events=None):
    return derive_all(
        events or world.events, world.tier, lambda topology, version, policy: world.compiled.select_topology(topology)
    )


def test_the_ledger_knows_only_kinds_that_there_are():
    assert set(TAKES) <= set(KINDS)


def test_what_a_mechanism_may_refuse_by_what_runs_share_is_left_to_the_journal():
    """Every rung whose engine's judge asks the guard is open; a person, an end and a replan hang on the run alone."""
    asks_guard = {reaction for reaction, applies in ladder.APPLIES.items() if may_refuse_by_a_mechanism(applies)}
    assert asks_guard <= OPEN
    assert asks_guard | {Reaction.INJECT} == OPEN


def may_refuse_by_a_mechanism(applies):
    return get_type_hints(applies)["return"] is not str


@pytest.mark.parametrize("tier", Tier)
def test_a_loop_is_derived_in_each_tier(tier):
    found = derived(looped(tier))
    assert found
    assert {one.verdict for one in found} == {"equal"}
    # docs/specification/decision-table.md, row infinite tool loop.
    first = {Tier.INTERACTIVE: "inject", Tier.BATCH: "inject", Tier.HIGH_STAKES: "escalate"}
    assert found[0].fact.reaction == first[tier]


@pytest.mark.parametrize(
    ("field", "value", "differs"),
    [
        ("rung", 1, "rung"),
        ("reaction", "abort", "reaction"),
        ("spent", 1, "spent"),
        ("bound", 2, "bound"),
        ("scope", "stage:plan", "scope"),
        ("failure_type", FailureType.PROVIDER, "row"),
        ("tier", Tier.BATCH, "tier"),
        ("accompanies", ("block",), "with it"),
    ],
)
def test_a_field_that_is_recorded_wrongly_is_named(field, value, differs):
    world = looped()
    found = derived(world, changed(world, **{field: value}))[0]
    assert found.verdict == "different"
    assert differs in {one.field for one in found.differences}


def test_a_decision_under_another_table_is_not_derived():
    world = looped()
    assert derived(world, changed(world, table="0" * 32))[0].verdict == "other_table"


def test_an_event_that_does_not_follow_from_those_before_it_is_refused():
    world = looped()
    rootless = [event for event in world.events if event.fact.kind != "stage_entered"]
    with pytest.raises(ValueError, match=r"\w+ does not follow from the events before it"):
        derived(world, rootless)


def test_a_rung_that_is_passed_over_without_a_word_is_named():
    """Retries of a call whose provider fails for good: the fallback model cannot be there, and the journal has to say so."""
    world = ran(spec(), {"worker": fails(Cause.SERVER_ERROR)})
    silent = [event for event in world.events if event.fact.kind != "rung_skipped"]
    assert {one.verdict for one in derived(world)} == {"equal"}
    assert "passed over" in {d.field for one in derived(world, silent) for d in one.differences}


def test_a_graver_trip_wins():
    """docs/specification/README.md, one reaction at a time: a budget that refuses aborts, a loop would only be told about."""
    world = looped()
    at = next(n for n, event in enumerate(world.events) if isinstance(event.fact, ev.ReactionDecided))
    loop = world.events[at].fact.cause
    broke = ev.TripRecord(mechanism="budget", cause=Cause.BUDGET_GATE, message="no money")
    found = derived(world, changed(world, causes=(broke,)))[0]
    assert ("cause", "budget: budget_gate") in {(one.field, one.derived) for one in found.differences}
    assert loop.mechanism == "loop_detector"


def led_back(**model):
    """A run whose call no budget has room for, so that its turn leads back to a retry target."""
    more = {"models": [{"name": "small", "provider": "scripted", **model}, {"name": "thrifty", "provider": "scripted"}]}
    fabric = FabricSpec.model_validate({**targeted(**BUDGET).model_dump(mode="json"), **more})
    world = ran(fabric, SAYS, tier=Tier.BATCH)
    [decided] = world.of(ev.ReactionDecided)
    assert (decided.reaction, decided.cause.mechanism) == ("go_back", "budget")
    return world, decided.cause


@pytest.mark.parametrize(
    ("mechanism", "cause"), [("cost_velocity", Cause.COST_VELOCITY), ("run_caps", Cause.PAYLOAD_CAP)]
)
def test_a_trip_that_leads_back_as_well_loses_to_the_mechanism_that_stands_earlier(mechanism, cause):
    """docs/specification/README.md, guard order. What else the cell has for it is graver, so that it would win with that."""
    world, _ = led_back()
    other = ev.TripRecord(mechanism=mechanism, cause=cause, message="as well")
    assert [one.differences for one in derived(world, changed(world, causes=(other,)))] == [()]


def test_a_later_trip_that_is_told_to_have_led_back_before_an_earlier_one_is_found():
    """The graph leads back from both, so that the mechanism that stands earlier has the decision."""
    world, first = led_back(cheaper="thrifty")
    later = ev.TripRecord(mechanism="cost_velocity", cause=Cause.COST_VELOCITY, message="as well")
    [found] = derived(world, changed(world, cause=later, causes=(first,)))
    assert ("cause", "budget: budget_gate") in {(one.field, one.derived) for one in found.differences}


@pytest.mark.parametrize("tier", Tier)
def test_what_the_others_would_have_done_is_in_the_table(tier):
    """The first failure of its kind meets a rung of the other tiers' cells, or their direct reaction."""
    for cause in Cause:
        told_of_the_others(cause, tier)


def told_of_the_others(cause, tier):
    fact = ev.ReactionDecided(
        failure_type=None, tier=tier, table="", rung=0, reaction="abort", scope="stage:plan", spent=0, bound=None,
        cause=ev.TripRecord(mechanism="provider", cause=cause, message="m"),
    )  # fmt: skip
    said = compare_tiers(DecisionCase(ledger_of(tier), compile_spec(spec(), prices=PRICES), fact, 0))
    assert [one.tier for one in said] == [other for other in Tier if other != tier], cause
    row = CLASSIFY[cause].goes_to
    for one in said:
        if isinstance(row, FailureType):
            assert one.rungs == ladders(DEFAULT_TABLE).find_ladder(row, one.tier, Stage.PLAN).rungs, cause
            assert one.rungs[one.rung].reaction is one.reaction, cause
        else:
            assert one.reaction is DIRECT[row, one.tier], cause


def test_the_others_are_asked_at_the_same_count():
    """docs/specification/decision-table.md: interactive tells a loop once, asks a person and then stops the agent; batch tells it once, asks and then replans."""
    world = ran(spec(), {**LOOPS, "worker": asks(call(q="same"))}).wait(25 * 3_600)
    decisions = [one for one in derived(world) if one.fact.cause.cause is Cause.LOOP_DETECTED]
    batch = [next(o.reaction for o in one.others if o.tier is Tier.BATCH) for one in decisions]
    assert batch[:3] == [Reaction.INJECT, Reaction.ESCALATE, Reaction.REPLAN]


# -- what came back --------------------------------------------------------------------------------------------------


def erring(*turns, tier=Tier.INTERACTIVE):
    """Each answer of the agent asks for as many pages as a turn says, none of which is there."""
    pages = [asks(*[call(q=f"page {turn}.{n}") for n in range(many)]) for turn, many in enumerate(turns)]
    fabric = lone(limits={"corrections_per_step": 20})
    return ran(fabric, {"worker": [*pages, summary()], "look": gives(error="no such page: 7")}, tier=tier)


def silent(world):
    """The run's events, of which the first tool's answer says nothing that counts."""
    said = next(event for event in world.events if event.fact.kind == "tool_answered")
    changed = dataclasses.replace(said, fact=dataclasses.replace(said.fact, failure=""))
    return [changed if event is said else event for event in world.events]


def fields(found):
    return [[one.field for one in derived.differences] for derived in found]


def test_an_error_that_a_tool_gives_its_model_counts():
    """docs/specification/README.md, failure signature: the third of one kind is the direct reaction at once."""
    world = erring(1, 1, 1)
    assert [one.verdict for one in derived(world)] == ["equal"]
    assert fields(derived(world, silent(world))) == [["came back"]]


def test_the_errors_of_one_answer_count_once():
    world = erring(5, 5, 5)
    assert [one.verdict for one in derived(world)] == ["equal"]
    ledger = ledger_of()
    for event in silent(world):
        note(ledger, event)
    counts = find_state(ledger.run.guards, failure_signature).counts
    assert list(counts.values()) == [3], "one of the first five says nothing, and the other four count once"


def test_a_persons_word_lets_one_more_pass_and_an_expiry_does_not():
    world = erring(1, 1, 1, 1, 1, tier=Tier.HIGH_STAKES)
    world.decide("approve").go()
    assert [one.verdict for one in derived(world)] == ["equal", "equal"]
    facts = [event.fact for event in world.events]
    fourth = [n for n, fact in enumerate(facts) if fact.kind == "tool_answered"][3]
    for answered, came in (("person", {}), ("system", {"fan_out.0.e0.r1": 4})):
        ledger = ledger_of(Tier.HIGH_STAKES)
        for event in world.events[: fourth + 1]:
            word = event.fact.kind == "review_decided"
            fact = dataclasses.replace(event.fact, system=answered == "system") if word else event.fact
            note(ledger, dataclasses.replace(event, fact=fact))
        assert ledger.returned == came


@pytest.mark.parametrize(("spoken", "again"), [(False, True), (True, False)])
def test_a_failure_that_was_decided_about_comes_back_unless_a_person_has_spoken_since(spoken, again):
    world = ran(lone(), {"worker": fails(Cause.AUTH, "401")})
    fact = next(fact for fact in world.facts if fact.kind == "reaction_decided")
    ledger = ledger_of()

    def again_too_often(fact):
        return comes_back(DecisionCase(ledger, world.compiled, fact, 0))

    first, second, third, fourth = (dataclasses.replace(fact, command_id=f"{fact.step_id}.t{n}") for n in range(4))
    for one in (first, second):
        assert again_too_often(one) is False
        take(ledger, one)
        take(ledger, one)  # A try of the same call.
    if spoken:
        hear(ledger)
    assert again_too_often(third) is again
    take(ledger, third)
    assert again_too_often(fourth) is True, "a word lets one pass, and takes nothing off"


# -- the numbers that a rung was judged on ---------------------------------------------------------------------------


def refused(mechanism, **more):
    """A run whose retry was refused by a mechanism, and the place of that refusal in its journal."""
    world = ran(spec(**more), {"worker": fails(Cause.SERVER_ERROR)})
    for at, event in enumerate(world.events):
        if event.fact.kind == "rung_skipped" and event.fact.trip is not None and event.fact.trip.mechanism == mechanism:
            return world, at
    raise AssertionError([event.fact for event in world.events if event.fact.kind == "rung_skipped"])


def falsified(events, at, **evidence):
    fact = events[at].fact
    trip = dataclasses.replace(fact.trip, evidence=dataclasses.replace(fact.trip.evidence, **evidence))
    wrong = dataclasses.replace(events[at], fact=dataclasses.replace(fact, trip=trip))
    return [*events[:at], wrong, *events[at + 1 :]]


EMPTY = {"retry": {"bucket": 1, "earn": 0.0}}
SHORT = {"deadlines": {"interactive": {"call_s": 10.0, "stage_s": 12.0, "run_s": 60.0}}, "retry": {"base_s": 40.0, "cap_s": 60.0}}  # fmt: skip


@pytest.mark.parametrize(("mechanism", "given"), [("retry_budget", EMPTY), ("deadline", SHORT)])
def test_a_refusal_with_numbers_is_judged_again_and_not_taken_as_recorded(mechanism, given):
    world, at = refused(mechanism, **given)
    found = derived(world)
    assert {one.verdict for one in found} == {"equal"}
    rung = world.events[at].fact.rung
    assert [derived_ for one in found for number, _, derived_ in one.skipped if number == rung][-1] is True


@pytest.mark.parametrize(
    ("mechanism", "given", "evidence"),
    [
        ("retry_budget", EMPTY, {"observed": 1.0}),
        ("retry_budget", EMPTY, {"observed": 0.5}),
        ("retry_budget", EMPTY, {"limit": 9}),
        ("deadline", SHORT, {"observed": 15.0}),
        ("deadline", SHORT, {"limit": 30.0}),
        ("deadline", SHORT, {"details": {"deadline_at": 1}}),
        ("deadline", SHORT, {"observed": None}),
    ],
)
def test_a_number_that_was_recorded_falsely_is_found(mechanism, given, evidence):
    world, at = refused(mechanism, **given)
    found = derived(world, falsified(world.events, at, **evidence))
    assert "passed over" in {d.field for one in found for d in one.differences}


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"tokens_left": 1}, "tokens left"), ({"not_before": 1 << 60}, "time for it")],
)
def test_a_retry_that_was_recorded_falsely_is_found(changes, field):
    world = ran(spec(), {"worker": fails(Cause.SERVER_ERROR)})
    at = next(n for n, event in enumerate(world.events) if event.fact.kind == "retry_scheduled")
    wrong = dataclasses.replace(world.events[at], fact=dataclasses.replace(world.events[at].fact, **changes))
    found = derived(world, [*world.events[:at], wrong, *world.events[at + 1 :]])
    assert field in {d.field for one in found for d in one.differences}
    assert {one.verdict for one in derived(world)} == {"equal"}


def test_a_retry_without_a_token_is_found():
    """The run had retried in this stage, so that its empty bucket gives nothing on credit."""
    ledger = ledger_of()
    ledger.numbers = numbers.Numbers(run_at=1 << 60, level=0, retries=Counter({"fan_out": 1}))
    fact = ev.RetryScheduled(
        command_id="fan_out.0.e0.r0.t1", attempt=2, not_before=0, delay_s=0.0, source="backoff", tokens_left=-1_000
    )
    assert judge_retry(ledger, spec(**EMPTY), fact)["a token"] == ("given", "refused")
    ledger.numbers.retries.clear()
    assert judge_retry(ledger, spec(**EMPTY), fact)["a token"] == ("given", "given")


def test_the_numbers_are_those_of_mechanisms_that_there_are():
    assert set(numbers.REFUSES) <= {module.NAME for module in ORDER}
    assert numbers.needed_s(spec().policy, Tier.BATCH) == deadline.margin_s(
        spec().policy.deadlines_of(Tier.BATCH).call_s
    )


def test_a_person_lets_a_failure_pass_as_often_as_rounds_go():
    world = ran(lone(), {"worker": fails(Cause.AUTH, "401")})
    fact = next(fact for fact in world.facts if fact.kind == "reaction_decided")
    ledger = ledger_of()

    def again_too_often(fact):
        return comes_back(DecisionCase(ledger, world.compiled, fact, 0))

    found = []
    for _ in range(6):
        hear(ledger)
        found.append(again_too_often(fact))
        take(ledger, fact)
    assert found == [False] * 4 + [True] * 2
    assert again_too_often(dataclasses.replace(fact, command_id=f"{fact.step_id}.t9")) is True
