"""Answers that stream in and are refused as a whole, and calls in them that a person is asked about (docs/specification/agent-step.md)."""

import pytest

from fabric.core import events as ev
from fabric.core.values.flow import RunState
from tests.fabric.core.fabrics import lone
from tests.fabric.core.harness import World, ran
from tests.fabric.core.scripts import gives, say, streams, summary
from tests.fabric.core.steps.test_streamed_calls import ONE, OTHER, TWO, whole, with_effect


@pytest.mark.parametrize("look_s", [0.2, 9.0], ids=["came before", "comes after"])
def test_an_answer_that_is_refused_as_a_whole_takes_no_call_that_began_with_it(look_s):
    cut = streams(say("I look", ONE, finish="length").after(3), (0.5, ONE))
    world = ran(lone(tools=TWO), {"worker": [cut, summary()], "look": gives({"id": 7}).after(look_s)})
    assert world.end.state is RunState.COMPLETED
    assert [fact.verdict for fact in world.of(ev.ModelAnswered)] == ["rejected", "output"]
    assert world.executed == [("look", {"q": "x"})]
    assert '"id":7' not in str(world.requests[1].messages).replace(" ", "")


@pytest.mark.parametrize(
    ("rule", "begins"), [("args.q == 'x'", False), ("args.q == 'y'", True), ("args.p == 1", False)]
)
def test_a_call_that_a_person_is_asked_about_waits_for_the_whole_answer(rule, begins):
    world = World(with_effect("read_only", approve_when=rule), {"worker": whole(ONE, OTHER)}).start().go(until_s=5)
    assert bool(world.of(ev.CallStreamed)) is begins
    assert not world.of(ev.ReviewOpened)
