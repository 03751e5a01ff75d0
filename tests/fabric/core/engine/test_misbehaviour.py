"""The rows of misbehaviour.md that an engine with its defaults answers for: how often a model that misbehaves is asked, what is executed,
what the run says about it. Tier interactive, one worker under a fixed plan, so that every request is the misbehaving agent's."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.mechanisms import budget, find_state
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Tier
from tests.fabric.core.fabrics import lone
from tests.fabric.core.harness import ran
from tests.fabric.core.mechanisms.windows import SAME_CALLS
from tests.fabric.core.scripts import HANGS, Answer, asks, broken, call, fails, gives, say, summary

UNHEARD_S = 25 * 3_600
"""Longer than any review waits."""


def counting():
    """A tool whose result is another one each time."""
    numbers = iter(range(1_000))
    return lambda command: gives(f"row {next(numbers)} of many")


def alternating(*names: str):
    """A model that asks for one thing after the other, for ever."""
    turn = iter(range(1_000))
    return lambda command: asks(call(q=names[next(turn) % len(names)]))


def blocked_after(world) -> int:
    """The request whose answer was first refused by the loop detector."""
    first = next(fact for fact in world.of(ev.CallRefused) if fact.mechanism == "loop_detector")
    turns = [f for f in world.facts if isinstance(f, ev.ModelAnswered) or f is first]
    return turns.index(first)


def stopped_after(world) -> int:
    """The request after whose answer the tools were taken away: what follows is the last word alone."""
    return next(n for n, request in enumerate(world.requests) if not request.tools)


def test_the_same_call_for_ever():
    world = ran(lone(), {"worker": lambda command: asks(call(q="x"))})
    assert (world.reactions, len(world.requests), len(world.executed)) == (["inject", "escalate"], 4, 2)
    world.wait(UNHEARD_S)
    assert (blocked_after(world), stopped_after(world)) == (3, 4)
    assert len(world.executed) == 2
    assert len(world.requests) == 5, "four, and the last word without tools"
    assert (world.end.state, world.end.reaction) == (RunState.FAILED, "surface")
    assert f'agent worker asked for look({{"q":"x"}}) {SAME_CALLS}' in world.end.reason


def test_the_same_call_for_ever_with_an_answer_at_last_keeps_the_work():
    script = {"worker": [*[asks(call(q="x"))] * 4, summary("What I found.")]}
    world = ran(lone(), script).wait(UNHEARD_S)
    assert (world.end.state, world.end.truncated) == (RunState.STOPPED, True)
    assert world.outcome["text"] == "What I found."
    assert (
        world.end.reason
        == f'agent worker asked for look({{"q":"x"}}) {SAME_CALLS}, and no one decided in time; worker then answered with the 2 results that it had'
    )


def test_the_same_call_with_changing_results():
    world = ran(lone(), {"worker": lambda command: asks(call(q="x")), "look": counting()})
    assert (world.reactions, len(world.requests)) == (["inject", "escalate"], 6)
    world.wait(UNHEARD_S)
    assert blocked_after(world) == 5
    assert len(world.executed) == 4
    assert 'agent worker asked for look({"q":"x"}) 5 times in a row (limit 5)' in world.end.reason


def test_a_b_a_b():
    world = ran(lone(), {"worker": alternating("a", "b")})
    assert len(world.requests) == 5
    world.wait(UNHEARD_S)
    assert blocked_after(world) == 4
    assert len(world.requests) == 6
    assert len(world.executed) == 3
    cycle = world.of(ev.ReactionDecided)[0].cause
    assert "agent worker went round look -> look 2 times, and the results were the same (limit 2)" in cycle.message
    assert cycle.evidence.details["cycle"] == ["look", "look"]
    assert "asked for look" in world.end.reason


def test_legal_polling_is_left_alone():
    waits = [gives("not yet")] * 7 + [gives("done")]
    fabric = lone(tool={"polling": True})
    world = ran(fabric, {"worker": [*[asks(call(q="job")) for _ in range(8)], summary("Done.")], "look": waits})
    assert (world.end.state, world.reactions) == (RunState.COMPLETED, [])
    assert (len(world.requests), len(world.executed)) == (9, 8)


def test_a_storm_of_429():
    world = ran(lone(), {"worker": fails(Cause.RATE_LIMIT, "429 Too Many Requests", retry_after_s=5)})
    assert 3 < len(world.requests) <= 10, (
        "it waits as it is told, as long as its stage has the time, and longer each time"
    )
    asked = [event.at for event in world.events if event.fact.kind == "call_issued"]
    failed = [event.at for event in world.events if event.fact.kind == "attempt_failed"]
    assert all(later - earlier >= 5_000_000 for earlier, later in zip(failed, asked[1:], strict=False))
    assert "429" in world.end.reason


def test_four_429s_and_then_healthy():
    world = ran(lone(), {"worker": [*[fails()] * 4, asks(), summary()]}, tier=Tier.BATCH)
    assert world.end.state is RunState.COMPLETED
    assert (len(world.requests), len(world.executed)) == (6, 1)


def test_503_after_three_good_calls_keeps_the_work():
    good = [asks(call(q=name)) for name in "abc"]
    world = ran(lone(), {"worker": [*good, fails(Cause.SERVER_ERROR), summary()]})
    assert world.end.state is RunState.COMPLETED
    assert (len(world.executed), len(world.requests)) == (3, 5)


def test_a_hang_has_a_typed_end_within_the_call_deadlines():
    world = ran(lone(), {"worker": HANGS})
    assert world.end.state in (RunState.FAILED, RunState.ABORTED)
    assert world.elapsed_s <= 120
    assert {fact.cause for fact in world.of(ev.AttemptFailed)} == {Cause.TIMEOUT}


OFF_SCHEMA: dict[str, tuple[Answer, str]] = {
    "broken tool JSON": (broken(raw='{"q": '), "the arguments are not a JSON object"),
    "unknown tool": (asks(call("delete_all")), "there is no tool 'delete_all'; offered are: look"),
    "off-schema output": (say('{"citations": 7}'), "text is missing"),
    "HTML": (say("<html><h1>502</h1></html>"), "no JSON object"),
    "empty answer": (say(""), "the answer is empty"),
}


@pytest.mark.parametrize("what", OFF_SCHEMA)
def test_what_cannot_be_used_is_asked_for_at_most_four_times(what):
    answer, said = OFF_SCHEMA[what]
    world = ran(lone(), {"worker": answer})
    assert len(world.requests) == 4
    assert world.executed == []
    assert (world.end.state, world.end.reaction) == (RunState.FAILED, "surface")
    assert "did not give a usable answer in 4 turns" in world.end.reason
    assert said in world.end.reason
    assert any(said in message.text for message in world.requests[-1].messages)


@pytest.mark.parametrize("what", OFF_SCHEMA)
def test_a_single_slip_recovers_in_one_more_request(what):
    world = ran(lone(), {"worker": [OFF_SCHEMA[what][0], summary()]})
    assert (world.end.state, len(world.requests), world.reactions) == (RunState.COMPLETED, 2, [])


def test_the_reason_names_the_tool_whose_call_was_broken():
    reason = ran(lone(), {"worker": broken(raw='{"q": ')}).end.reason
    assert reason.endswith("in 4 turns: look: the arguments are not a JSON object")


def test_the_raw_text_of_broken_tool_json_is_kept():
    world = ran(lone(), {"worker": broken(raw='{"q": ')})
    assert {content["calls"][0]["raw_args"] for content in world.content_of(ev.ModelAnswered)} == {'{"q": '}


def test_50k_tokens_an_answer_never_passes_the_cap():
    fabric = lone(budget={"run_usd_micros": 250_000}, agents={"worker": {"max_output_tokens": 50_000}})
    greedy = lambda command: say("", call(q=command.command_id), input_tokens=900, output_tokens=50_000)  # noqa: E731
    world = ran(fabric, {"worker": greedy})
    spent = world.run.guards[budget.NAME].spent_usd_micros
    assert spent <= 250_000
    assert len(world.requests) == 2
    assert (world.end.state, world.end.reaction) == (RunState.ABORTED, "abort")
    assert world.end.reason.startswith("run budget: the next call may take $0.1")


def test_200_tool_calls_in_one_answer():
    world = ran(lone(), {"worker": [asks(*[call(q=str(n)) for n in range(200)]), summary()]})
    assert (len(world.executed), world.end.state) == (16, RunState.COMPLETED)
    assert len([m for m in world.requests[1].messages if m.role == "tool"]) == 200


def test_well_behaved():
    world = ran(lone(), {"worker": [asks(), summary()]})
    assert (len(world.requests), world.end.state, world.reactions) == (2, RunState.COMPLETED, [])


@pytest.mark.parametrize("tier", list(Tier))
@pytest.mark.parametrize("script", ["loop", "storm", "junk", "hang"])
def test_every_run_comes_to_a_truthful_end_in_every_tier(tier, script):
    worker = {"loop": alternating("x"), "storm": fails(), "junk": say("no"), "hang": HANGS}[script]
    world = ran(lone(), {"worker": worker}, tier=tier)
    for _ in range(3):
        if world.run.reviews:
            world.decide("approve").go()
    assert world.run.terminal
    assert world.end.state is not RunState.COMPLETED
    assert len(world.end.reason) > 5
    # A person who approves a loop lets it go on: what ends it then is the limit on turns, in high-stakes in each of two rounds.
    let_go_on = script == "loop"
    assert len(world.requests) <= (3 + 2 * 25 if let_go_on else 16)


@pytest.mark.parametrize("tier", Tier)
@pytest.mark.parametrize(
    ("calls", "tokens", "apart_s", "spent"),
    [(7, (20_000, 50_000), 0.1, 840_000), (9, (10_000, 10_000), 10.0, 270_000)],
    ids=["84 cents of a dollar at once", "27 cents of a dollar in a minute and a half"],
)
def test_a_healthy_run_that_spends_within_its_cap_is_left_alone(tier, calls, tokens, apart_s, spent):
    """The controls ``spender`` and ``spender_slow``: a dollar for a run, and each tier's own deadlines."""
    dear = [
        say("", call(q=f"part {n}"), input_tokens=tokens[0], output_tokens=tokens[1]).after(apart_s)
        for n in range(calls)
    ]
    deadlines = {tier: {"call_s": 120, "stage_s": 120, "run_s": 300}} if tier is Tier.INTERACTIVE else {}
    fabric = lone(budget={"run_usd_micros": 1_000_000}, deadlines=deadlines)
    world = ran(fabric, {"worker": [*dear, summary()], "look": counting()}, tier=tier)
    assert (world.end.state, world.reactions, world.of(ev.ReviewOpened)) == (RunState.COMPLETED, [], [])
    least = find_state(world.run.guards, budget).spent_usd_micros
    assert spent <= least < spent + 10_000
