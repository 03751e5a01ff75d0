"""A session's cap of tokens, beside its cap of money: the same gate, the same words (docs/specification/budgets.md)."""

import pytest

from fabric.core import events as ev
from fabric.core.spec.policies.budgets import NamedCap
from fabric.core.values.cost import Price
from fabric.core.values.taxonomy import Cause, Tier
from tests.fabric.core.fabrics import lone
from tests.fabric.core.harness import World, ran
from tests.fabric.core.scripts import fails, summary
from tests.fabric.core.tills import Till

TOKENS_1 = "session_tokens:fabric-1:s"
OF_TOKENS = {"run_tokens": 100_000, "session_tokens": 200_000}


def in_session(till, script=None, free=False, **budget_):
    prices = {"small": Price(0, 0) if free else Price(1_000_000, 2_000_000)}
    fabric = lone(budget={**OF_TOKENS, **budget_})
    return World(fabric, script or {}, till=till, claim={"session_key": "s"}, prices=prices).start().go()


@pytest.mark.parametrize("free", [True, False])
def test_each_call_is_reserved_of_its_sessions_tokens_and_settled_at_those_it_took(free):
    till = Till(caps={TOKENS_1: 200_000})
    ended = in_session(till, free=free)
    (issued,) = ended.of(ev.CallIssued)
    assert [(use.scope, use.usd_micros) for use in issued.grants] == [(TOKENS_1, issued.reserved_tokens)]
    (answered,) = ended.of(ev.ModelAnswered)
    assert till.spent == {TOKENS_1: answered.input_tokens + answered.output_tokens}


def test_money_and_tokens_of_a_session_are_each_settled_in_their_own_amount():
    money = "session:fabric-1:s"
    till = Till(caps={money: 10_000_000, TOKENS_1: 200_000})
    script = {"worker": [fails(Cause.TIMEOUT, billed=True), fails(Cause.SERVER_ERROR), summary()]}
    ended = in_session(till, script, session_usd_micros=10_000_000)
    first = ended.of(ev.CallIssued)[0]
    answered = ended.of(ev.ModelAnswered)[0]
    assert till.spent == {
        money: first.reserved_usd_micros + answered.cost_usd_micros,
        TOKENS_1: first.reserved_tokens + answered.input_tokens + answered.output_tokens,
    }


def test_a_call_that_its_sessions_tokens_have_no_room_for_is_refused_in_the_same_words_and_takes_the_cost_row():
    till = Till(caps={TOKENS_1: 50})
    ended = in_session(till)
    (decided,) = ended.of(ev.ReactionDecided)
    seen = decided.cause.evidence
    assert (decided.failure_type, seen.scope, seen.unit) == ("cost_overrun", "session_tokens", "tokens")
    worst = seen.details["worst_case"]
    said = f"the session's tokens: the next call may take {worst:,} tokens, but 50 tokens of 50 tokens is left"
    assert decided.cause.message.startswith(said)
    assert ended.of(ev.CallIssued) == []
    assert ended.end.state == "aborted"


def test_a_run_without_a_session_is_its_own_and_held_by_its_own_cap():
    till = Till()
    ended = World(lone(budget=OF_TOKENS), {}, till=till).start().go()
    assert till.asked == []
    assert ended.end.state == "completed"


@pytest.mark.parametrize("given", [{"session_tokens": 10}, {"session_tokens": 10, "run_tokens": 11}])
def test_a_sessions_tokens_go_with_no_more_tokens_of_a_run(given):
    with pytest.raises(ValueError, match="session_tokens needs run_tokens, and no less than it"):
        lone(budget=given)


def test_a_session_may_have_exactly_the_tokens_of_a_run():
    assert lone(budget={"session_tokens": 10, "run_tokens": 10}).policy.budget.session_tokens == 10


@pytest.mark.parametrize(("cap", "raised"), [(300, True), (301, False)])
def test_an_approval_raises_a_runs_tokens_up_to_those_of_its_session(cap, raised):
    ended = ran(lone(budget={"run_tokens": 100, "session_tokens": 300}), tier=Tier.HIGH_STAKES)
    ended.decide(caps=(NamedCap("run", "tokens", cap),)).go()
    assert bool(ended.of(ev.BudgetRaised)) is raised
    said = f"the new cap of the run, {cap} tokens, is above the 300 tokens that its session may use"
    assert [fact.reason for fact in ended.of(ev.InputIgnored)] == ([] if raised else [said])
