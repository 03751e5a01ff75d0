"""The progress hash: unchanged for 3 supervisor or 6 agent turns (semantics.md 2, row semantic no-progress)."""

from __future__ import annotations

import itertools

import pytest

from fabric.core import events as ev
from fabric.core.flow import RunState
from fabric.core.taxonomy import Cause, FailureType, Tier
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import asks, call, fails, gives, planned, scored, summary


def questions():
    """A model that asks for something else each time, for ever."""
    numbers = itertools.count()
    return lambda command: asks(call(q=f"question {next(numbers)}"))


def changing():
    numbers = itertools.count()
    return lambda command: gives(f"row {next(numbers)}")


def requests_until_trip(world) -> int:
    first = next(n for n, fact in enumerate(world.facts) if isinstance(fact, ev.ReactionDecided))
    assert world.facts[first].cause.cause is Cause.NO_PROGRESS
    return sum(isinstance(fact, ev.ModelAnswered) for fact in world.facts[:first])


def test_six_turns_that_come_to_the_same_are_too_many():
    world = ran(lone(), {"worker": questions(), "look": gives("nothing found")})
    assert requests_until_trip(world) == 6
    assert len(world.executed) == 6
    decided = world.of(ev.ReactionDecided)[0]
    assert (decided.failure_type, decided.reaction) == (FailureType.NO_PROGRESS, "terminate")
    assert decided.cause.message == (
        "agent worker called look in 6 turns in a row, and each came to the same result (limit 6)"
    )
    assert (decided.cause.evidence.limit, decided.cause.evidence.unit) == (6, "turns")


def test_results_are_masked():
    seconds = itertools.count(10)
    look = lambda command: gives(f"nothing by 2026-01-01T10:00:{next(seconds)}Z")  # noqa: E731
    assert requests_until_trip(ran(lone(), {"worker": questions(), "look": look})) == 6


def test_three_turns_of_the_planner_are_too_many():
    fabric = spec(roles=("planner",), agents={"planner": {"tools": ["look"]}})
    world = ran(fabric, {"planner": [*[asks(call(q=f"question {n}")) for n in range(3)], planned()]})
    assert requests_until_trip(world) == 3
    assert "supervisor planner called" in world.of(ev.ReactionDecided)[0].cause.message
    assert (world.end.state, world.end.truncated) == (RunState.STOPPED, True)


@pytest.mark.parametrize("what", ["other results", "an answer in time", "polling", "changes"])
def test_what_is_progress(what):
    tool = {"polling": {"polling": True}, "changes": {"effect": "idempotent"}}.get(what, {})
    turns = 5 if what == "an answer in time" else 8
    script = {"worker": [*[asks(call(q=f"question {n}")) for n in range(turns)], summary()]}
    script["look"] = changing() if what == "other results" else gives("not yet")
    world = ran(lone(tool=tool), script)
    assert (world.end.state, world.reactions) == (RunState.COMPLETED, [])


def test_what_another_branch_brings_is_progress_of_the_run():
    lines = {0: [asks(call(q=f"question {n}")).after(1.0) for n in range(9)] + [summary()]}

    def worker(command):
        branch = int(command.command_id.split(".")[1])
        if branch:
            return summary().after(4.5)
        return lines[0].pop(0)

    world = ran(spec(roles=(), workers=2), {"worker": worker, "look": gives("nothing found")})
    assert (world.end.state, world.reactions) == (RunState.COMPLETED, [])


def test_retries_are_no_turns():
    answers = []
    for n in range(5):
        answers += [fails(Cause.SERVER_ERROR), asks(call(q=f"question {n}"))]
    world = ran(lone(retry={"bucket": 10}), {"worker": [*answers, summary()], "look": gives("nothing found")})
    assert (world.end.state, set(world.reactions)) == (RunState.COMPLETED, {"retry"})


def test_the_numbers_are_the_policys():
    world = ran(lone(progress={"agent_turns": 2}), {"worker": questions(), "look": gives("nothing found")})
    assert requests_until_trip(world) == 2


# -- in each tier ------------------------------------------------------------------------------------------------------


def stuck(tier: Tier, **script):
    given = {"worker": questions(), "look": gives("nothing found"), "critic": scored(0.9), **script}
    return ran(spec(), given, tier=tier)


def test_interactive_terminates_and_keeps_what_it_has():
    answers = [*[asks(call(q=f"question {n}")) for n in range(6)], summary("What I have.")]
    world = stuck(Tier.INTERACTIVE, worker=answers)
    assert world.reactions == ["terminate"]
    assert (world.end.state, world.end.truncated, world.end.recovered) == (RunState.STOPPED, True, False)


def test_interactive_surfaces_where_the_last_word_is_no_answer():
    world = stuck(Tier.INTERACTIVE)
    assert world.reactions == ["terminate", "surface", "surface"]
    assert world.end.state is RunState.FAILED


def test_batch_replans_once_and_escalates_then():
    world = stuck(Tier.BATCH)
    assert world.reactions == ["replan", "escalate"]
    world.decide("reject").go()
    assert (world.end.state, world.end.reaction) == (RunState.ABORTED, "reject")


def test_high_stakes_escalates_and_an_approval_runs_it_once_more():
    answers = [*[asks(call(q=f"question {n}")) for n in range(6)], summary()]
    world = stuck(Tier.HIGH_STAKES, worker=answers)
    assert world.reactions == ["escalate"]
    world.decide("approve").go()
    assert (world.end.state, world.end.recovered) == (RunState.COMPLETED, True)
