"""Caps of one run: N pass, the N+1st is a typed failure, and a run that meets one still comes to its end."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.mechanisms import run_caps
from fabric.core.mechanisms.contract import Proposal, View
from fabric.core.spec.policies.limits import Limits
from fabric.core.state.run import Pending, Run
from fabric.core.values.taxonomy import CLASSIFY, PASS, Cause, FailureType, Trip
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.harness import World, ran
from tests.fabric.core.mechanisms.facts import issued
from tests.fabric.core.scripts import asks, call, gives, say, summary

THREE = [asks(*[call(q=word) for word in ("apples", "bridges", "candles")]), summary()]
REASONS = {Cause.PENDING_CAP: lambda: ran(lone(limits={"pending_calls": 2}), {"worker": THREE})}
CAPS = Limits(run_events=100, run_payload_bytes=1_000, pending_calls=3)


def check(run: Run, *, kind: Any = "tool", **fields: Any):
    proposal = Proposal(kind=kind, stage="fan_out", **fields)  # type: ignore[arg-type]
    return run_caps.check(CAPS, run_caps.State(), proposal, View(0, run, spec()))


def pending(many: int) -> dict[str, Pending]:
    return {str(n): Pending(issued(command_id=str(n)), 0) for n in range(many)}


@pytest.mark.parametrize(
    ("last", "first", "cause", "limit", "observed", "unit"),
    [
        (Run("r", seq=89), Run("r", seq=90), Cause.EVENT_CAP, 90, 91, "events"),
        (
            Run("r", content_bytes=999),
            Run("r", content_bytes=1_000),
            Cause.PAYLOAD_CAP,
            1_000,
            1_001,
            "payload bytes",
        ),
        (Run("r", pending=pending(2)), Run("r", pending=pending(3)), Cause.PENDING_CAP, 3, 4, "calls pending"),
    ],
)
def test_n_pass_and_the_next_trips(last, first, cause, limit, observed, unit):
    for kind in ("model", "tool"):
        assert check(last, kind=kind) is PASS
        verdict = check(first, kind=kind)
        assert isinstance(verdict, Trip)
        seen = verdict.evidence
        assert (verdict.cause, seen.limit, seen.observed, seen.unit) == (cause, limit, observed, unit)
        assert f"at most {limit:,} {unit}, and this would be {observed:,}" in verdict.message


def test_a_call_that_changes_the_world_has_its_way_back_journaled_before_it():
    for effect in ("mutating", "irreversible"):
        assert check(Run("r", seq=88), effect=effect) is PASS
        assert isinstance(check(Run("r", seq=89), effect=effect), Trip)
    assert check(Run("r", seq=89), effect="idempotent") is PASS


def test_a_retry_is_no_call_more_but_counts_its_events():
    assert check(Run("r", pending=pending(3)), kind="retry") is PASS
    assert check(Run("r", pending=pending(3)), kind="tool", attempt=2) is PASS
    assert check(Run("r", seq=90), kind="retry") is not PASS


@pytest.mark.parametrize("cause", [Cause.EVENT_CAP, Cause.PAYLOAD_CAP, Cause.PENDING_CAP])
def test_a_cap_is_a_cost_overrun(cause):
    assert CLASSIFY[cause].goes_to is FailureType.COST_OVERRUN
    assert not CLASSIFY[cause].retried


def test_the_defaults_are_the_documents():
    limits = Limits()
    assert (limits.run_events, limits.run_payload_bytes) == (20_000, 50_000_000)
    assert (limits.content_bytes, limits.pending_calls) == (1_000_000, 1_024)
    assert run_caps.events_for_work(limits) == 18_000


# -- in a run ----------------------------------------------------------------------------------------------------------


def capped(**limits: int):
    given = spec()
    policy = given.policy.model_copy(update={"limits": given.policy.limits.model_copy(update=limits)})
    return given.model_copy(update={"policy": policy})


def test_a_run_that_meets_the_event_cap_ends_with_its_reason():
    world = ran(capped(run_events=30), {"worker": [asks(call(q=f"question {n}")) for n in range(30)]})
    decided = world.of(ev.ReactionDecided)[0]
    assert decided.cause.cause is Cause.EVENT_CAP
    assert decided.failure_type is FailureType.COST_OVERRUN
    last = max(event.seq for event in world.events if isinstance(event.fact, ev.CallIssued))
    assert last <= 27
    assert world.run.terminal
    assert world.run.seq <= 40


def test_a_run_that_meets_the_payload_cap_ends_with_its_reason():
    world = ran(
        capped(run_payload_bytes=2_000),
        {
            "worker": [asks(call(q=f"question {n}")) for n in range(30)],
            "look": [gives(f"found {n}") for n in range(30)],
        },
    )
    assert world.of(ev.ReactionDecided)[0].cause.cause is Cause.PAYLOAD_CAP
    assert world.run.terminal


def test_what_a_run_holds_is_the_sum_of_its_contents():
    world = ran(spec())
    assert world.run.content_bytes == sum(event.content_bytes for event in world.events) > 0


# -- one content -------------------------------------------------------------------------------------------------------


def without_answer(world: World) -> list[ev.AttemptFailed]:
    found: list[ev.AttemptFailed] = world.of(ev.AttemptFailed)
    return found


def test_a_model_answer_over_the_cap_is_an_attempt_without_an_answer():
    fits, over = (f'{{"text": "{"x" * (size - 12)}"}}' for size in (400, 401))
    assert (len(fits), len(over)) == (400, 401)
    assert without_answer(ran(capped(content_bytes=400), {"worker": say(fits)})) == []
    bad = ran(capped(content_bytes=400), {"worker": say(over)})
    failed = without_answer(bad)[0]
    assert failed.cause is Cause.PAYLOAD_CAP
    assert failed.message == "the answer has 401 bytes, and at most 400 are kept of one"
    assert bad.of(ev.ReactionDecided)[0].failure_type is FailureType.COST_OVERRUN
    assert bad.run.terminal
    assert all(b"x" * 380 not in (row.payload or b"") for row in bad.rows)


def test_an_answer_is_measured_in_bytes_with_the_calls_it_proposes():
    wide = ran(capped(content_bytes=400), {"worker": summary("\u00e9" * 200)})
    assert without_answer(wide)[0].cause is Cause.PAYLOAD_CAP
    asking = ran(capped(content_bytes=400), {"worker": asks(call(q="q" * 400))})
    assert without_answer(asking)[0].cause is Cause.PAYLOAD_CAP


def test_a_tool_that_gives_back_fifty_megabytes_leaves_no_trace_of_them():
    world = ran(spec(), {"worker": [asks(), summary()], "look": gives("y" * 50_000_000)})
    failed = without_answer(world)[0]
    assert failed.cause is Cause.PAYLOAD_CAP
    assert failed.message == "the answer has 50,000,002 bytes, and at most 1,000,000 are kept of one"
    assert world.run.terminal
    assert sum(len(row.header) + len(row.payload or b"") for row in world.rows) < 100_000
