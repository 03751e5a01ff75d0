"""How long turns may take, how long a conversation lives, and what is read of it."""

from __future__ import annotations

import pytest

from fabric.core.conversations.expectations import (
    ConversationClock,
    Violation,
    due_at,
    is_expired,
    violations,
)
from fabric.core.graph.conditions import RoundRobin
from fabric.core.graph.conversation import ConversationView, ViewMessage, default_view, fold, open_conversation
from fabric.core.graph.retry_targets import is_barred, routed_by_edge
from fabric.core.graph.spec import TurnWithin
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Cause, Tier
from tests.fabric.core.graph.graphs import graph, packet

S = 1_000_000
ON = graph(default_target=RoundRobin(), ttl_s=1_000)
BEGAN = open_conversation(ON)
PACE = ConversationClock(opened_at=0, turn_at=100 * S)


def fires(now, fired=frozenset(), state=BEGAN):
    found, after = violations(ON, state, PACE, now, fired)
    return [(one.on_violation, one.seconds) for one in found], after


# -- turns -------------------------------------------------------------------------------------------------------------


def test_it_fires_at_its_threshold_and_not_before():
    assert fires(220 * S - 1) == ([], frozenset())
    assert fires(220 * S)[0] == [("warn", 120)]
    assert fires(700 * S)[0] == [("warn", 120), ("auto_close", 600)]


def test_it_fires_once_a_violation():
    first, fired = fires(220 * S)
    assert first == [("warn", 120)]
    assert fires(699 * S, fired) == ([], fired)
    later, fired = fires(700 * S, fired)
    assert later == [("auto_close", 600)]
    assert fires(10_000 * S, fired) == ([], fired)


def test_a_new_turn_begins_anew_and_keeps_nothing_of_the_old_one():
    fired = fires(220 * S)[1]
    after = fold(ON, BEGAN, packet("alice")).state
    found, fired = violations(ON, after, PACE, 220 * S, fired)
    assert [(one.speaker, one.turn) for one in found] == [("bob", 1)]
    assert fired == {(1, 0)}


def test_a_violation_says_who_and_how_long():
    found, _ = violations(ON, BEGAN, PACE, 230 * S + 500_000, frozenset())
    assert found == [Violation(0, 0, "alice", "warn", 120, 130.5)]
    assert found[0].close_reason == "expectation_violated:turn_within"


def test_nothing_is_expected_of_a_closed_conversation():
    closed = replace(BEGAN, expected=None, close_reason="done")
    assert fires(10_000 * S, state=closed) == ([], frozenset())
    assert not is_expired(ON, closed, PACE, 10_000 * S)
    assert due_at(ON, closed, PACE, frozenset()) is None


# -- the time to live --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("now", "over"), [(1_000 * S - 1, False), (1_000 * S, True)])
def test_it_lives_as_long_as_it_may(now, over):
    assert is_expired(ON, BEGAN, PACE, now) is over
    assert not is_expired(graph(), BEGAN, PACE, now)


def test_the_next_instant_to_look_is_told():
    """At that instant something fires, and a moment before nothing does."""
    fired, instants = frozenset(), []
    while (at := due_at(ON, BEGAN, PACE, fired)) is not None and not is_expired(ON, BEGAN, PACE, at):
        assert fires(at - 1, fired)[0] == []
        found, fired = fires(at, fired)
        assert found
        instants.append(at)
    assert (instants, at) == ([220 * S, 700 * S], 1_000 * S)


def test_a_threshold_between_two_instants_is_rounded_up():
    on = graph(expectations=(TurnWithin(seconds=0.0000015),))
    at = due_at(on, BEGAN, PACE, frozenset())
    assert at == 100 * S + 2
    assert [len(violations(on, BEGAN, PACE, now, frozenset())[0]) for now in (at - 1, at)] == [0, 1]


# -- what is read ------------------------------------------------------------------------------------------------------


def said(*speakers):
    return [ViewMessage(speaker, f"m{n}") for n, speaker in enumerate(speakers)]


@pytest.mark.parametrize(
    ("count", "summary"),
    [(0, ""), (6, ""), (7, "Earlier: 1 message (alice 1)."), (11, "Earlier: 5 messages (alice 2, bob 2, carol 1).")],
)
def test_the_last_two_of_each_are_read_and_the_rest_summed_up(count, summary):
    messages = said(*(["alice", "bob", "carol"] * 5)[:count])
    assert default_view(messages, 3) == ConversationView(summary, tuple(messages[-6:]))


def test_a_summary_is_bounded_whatever_was_said():
    messages = said(*(f"p{n % 40}" for n in range(4_000)))
    found = default_view(messages, 40).summary
    assert found.startswith("Earlier: 3920 messages (p0 98, ")
    assert found.endswith("p15 98, 24 others 2352).")


# -- which failures are routed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cause", Cause)
def test_every_cause_is_routed_or_not(cause):
    """In high-stakes what is policy's, a budget's or a limit's is the table's; a cancel is in no tier a way to go on."""
    assert (
        routed_by_edge(cause, Tier.BATCH) is routed_by_edge(cause, Tier.INTERACTIVE) is (cause is not Cause.USER_CANCEL)
    )
    assert routed_by_edge(cause, Tier.HIGH_STAKES) is (cause is not Cause.USER_CANCEL and not is_barred(cause))


def test_what_is_barred():
    free = {cause for cause in Cause if not is_barred(cause)}
    assert {Cause.TIMEOUT, Cause.AUTH, Cause.SCHEMA_INVALID, Cause.LOOP_DETECTED, Cause.NO_PROGRESS} < free
    assert {Cause.POLICY_DENIED, Cause.CONTENT_FILTER, Cause.QUOTA, Cause.RUN_DEADLINE, Cause.HOP_LIMIT} & free == set()
