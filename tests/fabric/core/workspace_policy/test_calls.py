"""The rules at the call: a fabric that was published before the policy runs under it, whatever its author says."""

from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Tier
from tests.fabric.core.fabrics import lone
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import asks, call, gives, summary
from tests.fabric.core.workspace_policy.broken import CASES, Case

CALLS: dict[str, Any] = {"worker": [asks(call(q="x")), summary()], "look": gives({"ok": True})}


def sent(world):
    return [fact.target for fact in world.of(ev.CallIssued) if fact.call == "tool"]


def asked(case: Case):
    """A person is asked before the call."""
    world = ran(case.breaks, CALLS, policy=case.read)
    assert world.review.fact.item == "pre_action"
    assert sent(world) == []
    return world


def _irreversible(case):
    world = asked(case)
    assert world.review.fact.reason == (
        "worker wants to call look, which the workspace's policy declares irreversible (http:pay.example.com/*)"
    )
    world.decide("approve").go()
    assert (sent(world), world.end.state) == (["look"], RunState.COMPLETED)


def _denied(case):
    world = ran(case.breaks, CALLS, policy=case.read)
    assert [(fact.tool, fact.cause) for fact in world.of(ev.CallRefused)] == [("look", Cause.WORKSPACE_POLICY)]
    assert sent(world) == []


def _waivers(case):
    asked(case)


def _four_eyes(case):
    world = asked(case)
    assert world.review.fact.approvals == 2
    world.decide("approve", actor="bob").go()
    assert sent(world) == []
    world.decide("approve", actor="carol").go()
    assert sent(world) == ["look"]


def _caps(case):
    world = ran(case.breaks, CALLS, policy=case.read, tier=Tier.HIGH_STAKES)
    assert world.of(ev.ReactionDecided)[0].cause.evidence.limit == 400
    world.decide(cap_usd_micros=1_000_000).go()
    assert [fact.reason for fact in world.of(ev.InputIgnored)] == [
        "the new cap of $1.00 is above the $0.0004 that the workspace's policy lets a run spend: an owner raises that"
    ]


def _limits(case):
    many = {"worker": [asks(call(q=f"{n}")) for n in range(9)], "look": gives({"ok": True})}
    assert len(ran(case.breaks, many, policy=case.read).of(ev.ModelAnswered)) == 3  # Two turns, and the last answer.


def _protections(case):
    same = {"worker": [asks(call(q="x"))], "look": gives({"ok": True})}
    found = ran(case.breaks, same, policy=case.read).of(ev.CallRefused)
    assert found[0].cause is Cause.LOOP_DETECTED


AT_THE_CALL = {
    "irreversible": _irreversible,
    "tools": _denied,
    "hosts": _denied,
    "waivers": _waivers,
    "four_eyes": _four_eyes,
    "caps": _caps,
    "limits": _limits,
    "protections": _protections,
}


def test_every_rule_is_held_at_the_call():
    assert set(AT_THE_CALL) == set(CASES)


@pytest.mark.parametrize("field", AT_THE_CALL)
def test_a_run_of_an_older_revision_is_held_to_the_rule(field):
    AT_THE_CALL[field](CASES[field])


@pytest.mark.parametrize("field", ["irreversible", "tools", "hosts", "waivers"])
def test_without_the_policy_the_same_run_calls(field):
    assert sent(ran(CASES[field].breaks, CALLS)) == ["look"]


def test_a_model_at_another_host_is_not_asked():
    found = lone()
    away = found.model_copy(
        update={"models": (found.models[0].model_copy(update={"base_url": "https://x.example/v1"}),)}
    )
    world = ran(away, policy=CASES["hosts"].read)
    assert world.of(ev.CallIssued) == []
    assert world.of(ev.ReactionDecided)[0].cause.cause is Cause.WORKSPACE_POLICY


@pytest.mark.parametrize("tier", Tier)
def test_the_journal_names_the_revision_that_was_published(tier):
    case = CASES["four_eyes"]
    assert ran(case.breaks, CALLS, policy=case.read, tier=tier).compiled.revision == case.breaks.digest()
