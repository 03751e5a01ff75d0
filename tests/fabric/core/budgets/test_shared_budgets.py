"""Budgets and retry tokens that runs share, asked for by the core: what is reserved, what a refusal leads to, what waits meanwhile."""

import pytest

from fabric.auditor import models
from fabric.core import events as ev
from fabric.core.budgets.grants import (
    FABRIC,
    SESSION,
    SESSION_TOKENS,
    WORKSPACE,
    Lacking,
    Need,
    Refusal,
    Shares,
    TokenWant,
    Want,
)
from fabric.core.budgets.key_caps import KEY_DAY, KEY_MONTH
from fabric.core.decision import guard
from fabric.core.events.inputs import CancelRequested, TimeReached
from fabric.core.evolve import fold
from fabric.core.mechanisms import budget
from fabric.core.mechanisms.contract import View
from fabric.core.spec.fabric import FabricSpec
from fabric.core.state.run import Run
from fabric.core.values.cost import Price
from fabric.core.values.taxonomy import Cause, Tier
from fabric.runtime.arrivals import UndecidedInputs
from fabric.runtime.happenings import Denied, Granted
from fabric.runtime.spending.shares import SETTLES
from tests.fabric.core.fabrics import lone, proposal, spec, tree
from tests.fabric.core.harness import World
from tests.fabric.core.ladders.test_ladder import cell
from tests.fabric.core.scripts import fails, planned, summary
from tests.fabric.core.tills import T_ASKED, Till

HOUR = {"fabric_hour_usd_micros": 1_000_000}
FABRIC_1 = "fabric:fabric-1"


def world(fabric, till, script=None, **changed):
    return World(fabric, script or {}, till=till, **changed)


# -- money -----------------------------------------------------------------------------------------------------------


def test_every_scope_has_words_and_whatever_the_ledger_settles_is_settled_in_the_grants():
    assert set(budget.SHARED) == {FABRIC, SESSION, SESSION_TOKENS, WORKSPACE, KEY_DAY, KEY_MONTH}
    assert set(budget.SHARED) == models.SHARED, "a decision about another model is derived by the same scopes"
    begins = {"call_issued", "lineage_pinned", "cap_raised", "budget_raised", "policy_taken_up"}
    of_children = {"child_spawned", "child_answered"}  # Each child settles its own calls.
    blindly = {
        "run_ended"
    }  # Settles what only a run that was never folded leaves open (``runtime/quarantine/verdicts.py``).
    assert set(SETTLES) == budget.OBSERVES - begins - of_children - blindly


def test_a_run_without_shared_caps_asks_for_nothing():
    till = Till()
    ended = world(spec(), till).start().go()
    assert ended.end.state == "completed"
    assert till.asked == []
    assert all(not batch.reserved and not batch.settled for batch in ended.written)


def test_each_call_is_reserved_at_its_worst_case_and_settled_at_its_cost():
    till = Till(caps={FABRIC_1: 1_000_000})
    ended = world(spec(budget=HOUR), till).start().go()
    assert ended.end.state == "completed"
    calls = [fact for fact in ended.of(ev.CallIssued) if fact.call == "model"]
    assert [sum(use.usd_micros for use in fact.grants) for fact in calls] == [
        fact.reserved_usd_micros for fact in calls
    ]
    assert {use.scope for fact in calls for use in fact.grants} == {FABRIC_1}
    costs = {(fact.command_id, fact.attempt): fact.cost_usd_micros for fact in ended.of(ev.ModelAnswered)}
    assert till.settled == {key: (cost, "answered") for key, cost in costs.items()}
    assert till.spent[FABRIC_1] == sum(costs.values()) == ended.run.guards["budget"].spent_usd_micros


def test_a_call_under_three_scopes_is_reserved_in_each():
    caps = {FABRIC_1: 1_000_000, "session:fabric-1:s": 1_000_000, "workspace:workspace-1": 1_000_000}
    till = Till(caps=caps)
    fabric = lone(budget=HOUR | {"session_usd_micros": 1_000_000, "run_usd_micros": 1_000_000})
    ended = world(fabric, till, claim={"session_key": "s", "capped": True}).start().go()
    assert [use.scope for use in ended.of(ev.CallIssued)[0].grants] == list(caps)
    assert len(set(till.spent.values())) == 1
    assert till.spent.keys() == caps.keys()


def test_calls_of_one_decision_are_not_reserved_twice_from_one_grant():
    till = Till(caps={FABRIC_1: 1_000_000})
    ended = world(lone(workers=3, budget=HOUR), till).start().go()
    uses = [use.grant_id for fact in ended.of(ev.CallIssued) for use in fact.grants]
    assert len(uses) == len(set(uses)) == 3


def test_what_a_failed_attempt_may_have_cost_is_charged_at_its_worst():
    till = Till(caps={FABRIC_1: 1_000_000})
    script = {"worker": [fails(Cause.TIMEOUT, billed=True), fails(Cause.SERVER_ERROR), summary()]}
    ended = world(lone(budget=HOUR, retry={"base_s": 0.1}), till, script).start().go()
    first, second, third = (till.settled[fact.command_id, fact.attempt] for fact in ended.of(ev.CallIssued))
    assert (first, second, third[1]) == ((None, "unknown"), (0, "answered"), "answered")


def test_a_takeover_charges_the_lost_attempt_at_its_worst():
    till = Till(caps={FABRIC_1: 1_000_000})
    lost = world(lone(budget=HOUR), till).start().go(until_s=0.5)
    assert lost.run.pending
    lost.crash().go()
    assert next(iter(till.settled.values())) == (None, "unknown")
    assert lost.end.state == "completed"


# -- a refusal -------------------------------------------------------------------------------------------------------


def refused(caps=50, **more):
    till = Till(caps={FABRIC_1: caps})
    return world(lone(budget=HOUR, **more), till).start().go(), till


@pytest.mark.parametrize(
    ("tier", "table", "state"),
    [
        ("interactive", {"rungs": [{"reaction": "surface"}]}, "failed"),
        ("interactive", {"rungs": [{"reaction": "abort"}]}, "aborted"),
        ("interactive", {"rungs": [{"reaction": "escalate"}]}, "waiting"),
    ],
)
def test_the_tables_cell_decides_what_follows_a_refusal(tier, table, state):
    ended, till = refused(table={"cost_overrun": {tier: table}})
    decision = ended.of(ev.ReactionDecided)[0]
    assert decision.reaction == table["rungs"][0]["reaction"]
    assert decision.cause.cause is Cause.BUDGET_GATE
    if state == "waiting":
        assert ended.review.fact.item == "failure"
    else:
        assert ended.end.state == state
    assert till.spent == {}


def test_the_evidence_of_a_refusal_says_where_the_budget_stood():
    ended, till = refused()
    trip = ended.of(ev.ReactionDecided)[0].cause
    seen = trip.evidence
    worst = till.asked[0].usd_micros
    assert (seen.scope, seen.limit, seen.observed, seen.unit, seen.window) == ("fabric", 50, worst, "usd_micros", "1 h")
    assert seen.details["budget"] == FABRIC_1
    assert (seen.details["spent"], seen.details["granted"]) == (0, 0)
    assert seen.details["asked_at"] == 1_800_000_000_000_042
    assert "the fabric's budget for an hour: the next call may take $" in trip.message
    assert "of $0.00005 is left" in trip.message


def test_a_refused_scope_is_asked_once_and_does_not_spin():
    ended, till = refused()
    assert len(till.asked) == 1
    assert ended.run.terminal


def test_an_approval_asks_again():
    ended, till = refused(table={"cost_overrun": {"interactive": {"rungs": [{"reaction": "escalate"}]}}})
    till.caps[FABRIC_1] = 1_000_000
    ended.decide().go()
    assert ended.end.state == "completed"
    assert len(till.asked) == 2


def test_what_is_refused_anyway_is_not_asked_for():
    till = Till(caps={FABRIC_1: 1_000_000})
    ended = world(lone(budget=HOUR | {"call_usd_micros": 1}), till).start().go()
    assert ended.run.terminal
    assert till.asked == []


def test_what_another_mechanism_refuses_is_not_asked_for():
    view = View(0, Run("run"), spec(), Shares((FABRIC_1,)))  # Its deadline has passed.
    wanted = proposal(kind="model", target="small", worst_usd_micros=5)
    assert [trip.mechanism for trip in guard.judge(wanted, view, spec().policy)] == ["deadline"]


def test_a_mechanism_that_is_not_asked_hides_no_want_of_another():
    view = View(0, Run("run"), spec(), Shares((FABRIC_1,)))  # Its deadline has passed.
    wanted = proposal(kind="model", target="small", worst_usd_micros=5)
    with pytest.raises(Lacking):
        guard.judge(wanted, view, spec().policy, without="deadline")


def test_what_was_answered_holds_for_its_input_alone():
    waiting = UndecidedInputs()
    waiting.add([(TimeReached(), ""), (TimeReached(), "row")])
    want = Want(FABRIC_1, 5)
    waiting.wait_for(Need((want,)))
    assert waiting.take_answer(want, Refusal(FABRIC_1, 0, 0, 0, True, 0))
    assert waiting.shares.answers
    assert (waiting.take(), waiting.shares.answers, waiting.take()) == ("", {}, "row")


def test_a_refusal_can_be_derived_again_from_what_was_journaled():
    ended, _ = refused()
    assert fold(Run("run-1", tier=ended.tier, seed=ended.seed), ended.events) == ended.run


# -- what waits ------------------------------------------------------------------------------------------------------


def waiting(**changed):
    """A run whose first call waits for an answer."""
    till = Till(caps={FABRIC_1: 1_000_000}, silent=True)
    held = world(lone(budget=HOUR), till, **changed).start()
    held._claim()
    return held, till


def test_nothing_is_decided_while_something_is_wanted_and_a_batch_consumes_what_was_decided():
    held, till = waiting()
    assert [type(want) for want in till.asked] == [Want]
    assert held.kinds == []
    held.put(CancelRequested(input_id="cancel", actor="alice"))
    assert held.written == []
    till.left[f"{FABRIC_1}#0"] = till.asked[0].usd_micros
    held._step(Granted(till.asked[0]))
    assert held.written[0].consumed == ("start", "cancel")
    held.go()
    assert held.end.state == "cancelled"


def test_an_answer_to_what_is_not_wanted_any_more_is_passed_over():
    held, till = waiting()
    strange = Want(FABRIC_1, 7)
    held._step(Granted(strange))
    assert held.written == []
    held._step(Denied(strange, Refusal(FABRIC_1, 0, 0, 0, True, 0)))
    assert held.written == []


def test_draining_takes_in_what_came_and_issues_nothing():
    held, till = waiting()
    held.drain()
    assert held.kinds[0] == "run_started"
    assert "call_issued" not in held.kinds
    assert held.driver is None
    till.silent = False
    held.take_up().go()
    assert held.end.state == "completed"


def test_a_want_without_an_answer_is_left_to_the_next_owner():
    held, till = waiting()
    held.cut()
    assert held.driver is None
    till.silent = False
    held.take_up().go()
    assert held.end.state == "completed"


def test_commits_go_on_while_something_is_wanted():
    """Decisions before the want are out, and their commands go out with their commit."""
    till = Till(caps={FABRIC_1: 1_000_000})
    script = {"planner": planned(2), "worker": [summary().after(1), summary().after(5)]}
    held = world(spec(budget=HOUR), till, script).start().go(until_s=1.5)
    assert len(held.run.pending) == 2
    till.silent = True
    held.go()
    assert isinstance(till.asked[-1], Want)
    assert [fact.command_id for fact in held.of(ev.ModelAnswered)][-1].startswith("fan_out.")


# -- retry tokens ----------------------------------------------------------------------------------------------------

RETRIES = {"base_s": 0.1}


def retrying(tokens, fabric=None):
    till = Till(tokens=tokens)
    script = {"worker": [fails(Cause.SERVER_ERROR), fails(Cause.SERVER_ERROR), summary()]}
    return world(fabric or lone(retry=RETRIES), till, script).start().go(), till


def test_a_retry_takes_a_token_of_each_bucket_that_runs_share():
    ended, till = retrying(tokens=5)
    assert ended.end.state == "completed"
    command = ended.of(ev.CallIssued)[0].command_id
    sizes = (("fabric:fabric-1", 10), ("provider:scripted", 10))
    assert till.asked == [TokenWant(f"{command}#2", sizes, True), TokenWant(f"{command}#3", sizes, False)]
    assert till.tokens == 3


def test_without_a_token_the_next_rung_follows():
    ended, till = retrying(tokens=1)
    assert [fact.attempt for fact in ended.of(ev.CallIssued)] == [1, 2]
    skipped = [fact.reason for fact in ended.of(ev.RungSkipped) if fact.reaction == "retry"]
    assert skipped[0] == "retry_budget_empty: the fabric's retry budget, which its runs share, is empty"
    assert ended.run.terminal


NEAR = {"name": "other", "provider": "scripted"}
PRICES = {"small": Price(1_000_000, 2_000_000), "other": Price(2_000_000, 4_000_000)}


def test_a_model_of_the_same_endpoint_that_a_person_has_to_name_takes_no_token():
    """In high-stakes each failure and each review looks at the bucket, and none takes of it: what others may need is not gone for that."""
    given = tree(
        roles=(), retry=RETRIES, table=cell("provider_failure", ("fallback_model", 1), "escalate", tier="high_stakes")
    )
    given["models"] = [{**given["models"][0], "fallbacks": ["other"]}, NEAR]
    till = Till(tokens=5)
    fabric, down = FabricSpec.model_validate(given), {"worker": fails(Cause.SERVER_ERROR)}
    asked = world(fabric, till, down, tier=Tier.HIGH_STAKES, prices=PRICES).start().go()
    assert (asked.review.fact.model, till.asked, till.tokens) == ("other", [], 5)


def test_only_a_fabric_that_says_so_asks_no_person():
    alone = lone(retry={"base_s": 0.1, "shared": False, "deviation": "A drill of its own."})
    ended, till = retrying(tokens=0, fabric=alone)
    assert (ended.end.state, till.asked) == ("completed", [])
    assert [fact.buckets for fact in ended.of(ev.RetryScheduled)] == [(), ()]


def test_a_retry_says_where_each_bucket_stood_after_it():
    ended, till = retrying(tokens=None)
    retries = ended.of(ev.RetryScheduled)
    # Ten tokens, a first attempt has earned its tenth into a full bucket: 9 and 8 are left (docs/specification/budgets.md).
    names = ("fabric:fabric-1", "provider:scripted")
    for fact, level in zip(retries, (9_000, 8_000), strict=True):
        assert [(one.bucket, one.level) for one in fact.buckets] == [(name, level) for name in names]
        assert fact.asked_at > 0


def test_a_denial_is_journaled_with_the_bucket_that_was_empty():
    ended, till = retrying(tokens=1)
    skipped = next(fact for fact in ended.of(ev.RungSkipped) if fact.reaction == "retry")
    assert (skipped.trip.mechanism, skipped.trip.cause) == ("retry_budget", Cause.RETRY_BUDGET_EMPTY)
    evidence = skipped.trip.evidence
    assert (evidence.limit, evidence.observed, evidence.unit, evidence.scope) == (10, 0, "retry tokens", "fabric")
    assert evidence.details == {"bucket": "fabric:fabric-1", "asked_at": T_ASKED}


def test_runs_of_one_fabric_that_ask_one_desk_stay_within_its_bucket():
    """Retries of all runs are at most twice the bucket and a tenth of the first attempts; each run alone had a bucket of its own left."""
    till, down = Till(), {"worker": fails(Cause.SERVER_ERROR)}
    fabric, retries, firsts, denied = lone(retry={"base_s": 0.1}), 0, 0, 0
    for _ in range(40):
        ended = world(fabric, till, down).start().go()
        retries += len(ended.of(ev.RetryScheduled))
        firsts += sum(fact.attempt == 1 for fact in ended.of(ev.CallIssued))
        denied += sum(fact.reaction == "retry" for fact in ended.of(ev.RungSkipped))
    assert denied > 20
    assert 10 <= retries <= 20 + 0.1 * firsts


# -- shares ----------------------------------------------------------------------------------------------------------


def test_what_was_refused_holds_for_as_much_and_for_more():
    shares = Shares((FABRIC_1,))
    held = Till(caps={FABRIC_1: 10})
    shares.held = held
    answer = held.answer(Want(FABRIC_1, 20))
    assert isinstance(answer, Denied)
    shares.answers[answer.want] = answer.refusal
    assert shares.refusal(20) is shares.refusal(21) is answer.refusal
    with pytest.raises(Lacking, match="a decision needs"):
        shares.refusal(19)
