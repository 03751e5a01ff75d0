"""A person approves a failed call: that call is made again, and what its step did before stands."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Tier
from tests.fabric.core.fabrics import lone
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import asks, call, fails, gives, say, summary
from tests.fabric.core.stages.test_forks import forked

DOWN = fails(Cause.SERVER_ERROR)
THREE = [asks(call(q="a")), asks(call(q="b")), asks(call(q="c"))]
MUTATES = {"tool": {"effect": "mutating", "compensation": "undo"}}


def late(tier, down, **fields):
    """Three good calls, and then an endpoint that fails until a person is asked, and answers after that."""
    world = ran(lone(**fields), {"worker": [*THREE, *[DOWN] * down, summary("Done.")]}, tier=tier)
    assert world.run.reviews
    return world


@pytest.mark.parametrize(("tier", "down"), [(Tier.BATCH, 6), (Tier.HIGH_STAKES, 3)])
def test_approving_a_failed_call_makes_that_call_again_and_no_tool(tier, down):
    world = late(tier, down)
    asked = len(world.requests)
    assert world.content_of(ev.ReviewOpened)[0]["approve"].startswith(
        "the failed call is made again, and its earlier changes stay (3 tool calls): resumes at fan_out"
    )
    world.decide("approve").go()
    assert world.end.state is RunState.COMPLETED
    assert (len(world.requests) - asked, len(world.executed)) == (1, 3)
    opened = world.of(ev.StepOpened)[-1]
    assert (opened.keeps, opened.approved) == (True, True)
    assert [fact.turn for fact in world.of(ev.CallIssued) if fact.call == "model"][-1] == 4, "it costs no turn"
    history = [message.role for message in world.requests[-1].messages]
    assert (history.count("assistant"), history.count("tool")) == (3, 3)


def test_a_persons_words_come_behind_what_was_done():
    world = late(Tier.HIGH_STAKES, 3).decide("approve", message="Be brief.").go()
    assert world.content_of(ev.MessageInjected)[-1] == {"text": "Be brief."}
    assert "Be brief." in world.requests[-1].messages[-1].text
    assert len(world.executed) == 3


def test_an_approved_call_that_fails_again_is_asked_about_once_more_and_then_ends():
    world = ran(lone(), {"worker": [*THREE, DOWN]}, tier=Tier.HIGH_STAKES)
    world.decide("approve").go()
    assert world.run.reviews
    world.decide("approve").go()
    assert world.end.state is RunState.ABORTED
    assert len(world.executed) == 3


def test_a_tools_call_that_failed_is_made_again_and_its_siblings_stand():
    script = {
        "worker": [asks(call(q="a")), asks(call(q="b")), summary("Done.")],
        "look": [gives("one"), *[DOWN] * 3, gives("two")],
    }
    world = ran(lone(), script, tier=Tier.HIGH_STAKES).decide("approve").go()
    assert world.end.state is RunState.COMPLETED
    assert (len(world.requests), len(world.executed)) == (3, 5)


def test_any_other_failure_begins_its_step_anew():
    script = {"worker": [asks(call(q="a")), *[say("no")] * 4, summary("Better.")]}
    world = ran(lone(), script, tier=Tier.HIGH_STAKES).decide("approve").go()
    assert not world.of(ev.StepOpened)[-1].keeps
    assert len(world.requests[-1].messages) == 3


def test_a_call_that_fails_before_anything_was_done_begins_anew():
    world = ran(lone(), {"worker": [*[DOWN] * 3, summary()]}, tier=Tier.HIGH_STAKES).decide("approve").go()
    assert not world.of(ev.StepOpened)[-1].keeps
    assert world.end.state is RunState.COMPLETED


def test_a_fork_after_a_failed_call_makes_that_call_and_no_tool_again():
    """In interactive no person is asked: the run has failed, and a fork goes on from its last event."""
    failed = ran(lone(), {"worker": [*THREE, *[DOWN] * 3]})
    assert failed.end.state is RunState.FAILED
    fork = forked(failed, len(failed.events), {"worker": [summary("Done.")]}).go()
    assert fork.end.state is RunState.COMPLETED
    assert (len(fork.requests), len(fork.executed)) == (1, 0)
    history = [message.role for message in fork.requests[0].messages]
    assert (history.count("assistant"), history.count("tool")) == (3, 3)
    assert [fact.turn for fact in fork.of(ev.CallIssued)] == [4]
    again = forked(fork, 8, {"worker": [summary("Done.")]}).go()
    assert again.end.state is RunState.COMPLETED, "a fork of a fork"


def test_a_fork_begins_a_branch_anew_that_failed_of_what_it_did():
    off = ran(lone(), {"worker": [asks(call(q="a")), *[say("no")] * 4]})
    assert off.end.state is RunState.FAILED
    fork = forked(off, len(off.events), {"worker": [summary("Done.")]}).go()
    assert len(fork.requests[0].messages) == 2


def test_a_fork_begins_a_branch_anew_that_changed_the_world():
    """The engine undoes its work where its run failed, so nothing may stand there as done."""
    failed = ran(
        lone(tool={"effect": "irreversible", "approval": "waived", "deviation": "a test"}),
        {"worker": [*THREE, *[DOWN] * 3]},
    )
    assert failed.executed
    fork = forked(failed, len(failed.events), {"worker": [summary("Done.")]}).go()
    assert len(fork.requests[0].messages) == 2
