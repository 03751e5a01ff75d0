"""What a model says that misbehaves: one function of the turn for each way, and the well-behaved agent that they all fall back on.

A turn that a misbehaviour has no place in (a loop where no tool is on offer, a plan where a critique is wanted) is answered as by the well-behaved one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from fabric.core.payloads import AGENT_OUTPUT
from simulator.endpoint import steps
from simulator.endpoint.scenario import Saying
from simulator.endpoint.scripts import agents
from simulator.endpoint.steps import Step
from simulator.endpoint.turns import Turn, calls, is_handing_on, says

FLOOD = 200
"""Calls in one answer, and briefs in one plan."""
SPIKE = (900, 50_000)
"""Tokens in and out that an answer says it took."""
FAKE_KEY = "AKIANOTAREALKEYATALL"
"""Has the shape of a cloud provider's access key and is none; the rule ``credentials`` of the guardrails finds it."""
NOWHERE = "no-such-document.md"
UNFIT = "a\0b\ud800c\U0001f600"
"""A NUL, half of a pair and, as it should be, a whole character from beyond the basic plane."""
ENDINGS = ("please", "now", "again", "once", "soon", "today", "quickly", "here", "there", "kindly")
NEEDS_MORE = "I need more information before I can decide."
FLAKY = (*("healthy",) * 6, "limited", "unavailable", "dropped")

_agents = agents()


def healthy(turn: Turn) -> Step:
    """The cooperative script for this product's agents. For anybody else: one call of the first tool on offer, then an answer that says what it told."""
    if turn.output in AGENT_OUTPUT:
        return _agents(turn.received)
    own = [tool for tool in turn.tools if not is_handing_on(tool)]
    if own and not turn.result and not isinstance(turn.body.get("tool_choice"), Mapping):
        return calls(turn, [turn.question[:200] or "status"], own[0])
    if turn.result:
        return says(turn, f"The tool says: {turn.result[:2_000]}")
    return says(turn, f"This was asked: {turn.question[:2_000] or 'nothing'}")


def kernel(script: str, **options: Any) -> Saying:
    """A script of the kernel, for whoever asks."""
    reply = agents({"script": script, **options})
    return lambda turn: reply(turn.received)


def always(step: Step) -> Saying:
    """The same for every request."""
    return lambda turn: step


def with_tools(say: Saying) -> Saying:
    """As it says where tools are on offer."""
    return lambda turn: say(turn) if turn.tools else healthy(turn)


def where(*outputs: str) -> Callable[[Saying], Saying]:
    """As it says where one of these outputs is asked for, or nobody says which."""
    return lambda say: lambda turn: say(turn) if turn.output in ("", *outputs) else healthy(turn)


def cycle(period: int) -> Saying:
    """Calls in turn: of so many tools, where there are as many on offer, and with so many arguments."""

    def say(turn: Turn) -> Step:
        phase = turn.number % period
        return calls(turn, [f"part {phase + 1} of {period}"], turn.tools[phase % len(turn.tools)])

    return with_tools(say)


@with_tools
def paraphrased(turn: Turn) -> Step:
    """The same question, a word of it another each time."""
    ending = ENDINGS[turn.number % len(ENDINGS)]
    return calls(turn, [f"find one more old record about these famous lighthouse keepers {ending}"])


@with_tools
def changing(turn: Turn) -> Step:
    """The same call, with a remark on what it brought the last time."""
    seen = f"Now it says: {turn.result[:200]} I look again." if turn.result else "I look."
    return calls(turn, ["the state of things"], text=seen)


@with_tools
def unknown_tool(turn: Turn) -> Step:
    """A call of a tool that was not offered."""
    return steps.answer("", [steps.call("teleport", {"to": "the answer"}, f"call-{turn.number + 1}-1")])


@with_tools
def bad_arguments(turn: Turn) -> Step:
    """A call whose arguments break off."""
    name = str(turn.tools[0]["name"])
    return steps.answer("", [steps.call(name, '{"name": "notes.md', f"call-{turn.number + 1}-1")])


@with_tools
def flood(turn: Turn) -> Step:
    """Very many calls at once; once they are answered, it is good."""
    return healthy(turn) if turn.result else calls(turn, [f"part {number + 1}" for number in range(FLOOD)])


def cost_spike(turn: Turn) -> Step:
    """Another call each time, or an answer, that is billed for very many tokens."""
    if turn.tools:
        return calls(turn, [f"part {turn.number + 1}"], usage=SPIKE)
    return _billed(healthy(turn))


def spender(many: int, usage: tuple[int, int]) -> Saying:
    """So many different calls that are billed for so many tokens in and out; then it does its work."""

    def say(turn: Turn) -> Step:
        if turn.tools and turn.number < many:
            return calls(turn, [f"part {turn.number + 1}"], usage=usage)
        return healthy(turn)

    return say


def _billed(step: Step) -> Step:
    completion = json.loads(step.body)
    completion["usage"] = dict(zip(("prompt_tokens", "completion_tokens"), SPIKE, strict=True))
    completion["usage"]["total_tokens"] = sum(SPIKE)
    return replace(step, body=json.dumps(completion).encode())


def spawning(turn: Turn) -> Step:
    """Gives the work on to one more agent, or plans for very many."""
    words = ["Start another agent that does the same as you do, and wait for it."]
    if turn.hands_on:
        return calls(turn, words, turn.hands_on)
    if turn.output == "plan":
        return _plan("worker", FLOOD)
    return calls(turn, words) if turn.tools and not turn.output else healthy(turn)


def ping_pong(peers: int) -> Saying:
    """Hands over by the first tool that does; each side of two agents has the other's. Where the tool names whom it hands over to, so many of them have it in turn."""

    def say(turn: Turn) -> Step:
        tool = turn.hands_on
        if tool is None:
            return cycle(peers)(turn) if not turn.output else healthy(turn)
        words = "This is more in your line than in mine. Please look at it once more."
        return calls(turn, [words], _onward(tool, turn.received.agent, peers))

    return say


def _onward(tool: Mapping[str, Any], who: str, peers: int) -> Mapping[str, Any]:
    """The tool with the one name left to hand over to whose turn it is, where it lists those who take part."""
    parameters: Mapping[str, Any] = tool.get("parameters") or {}
    fields: Mapping[str, Any] = parameters.get("properties") or {}
    for name, listed in fields.items():
        there = (listed.get("enum") if isinstance(listed, Mapping) else None) or []
        if who in there and len(there) > 1:
            ring = there[:peers]
            to = ring[(ring.index(who) + 1) % len(ring)] if who in ring else ring[0]
            return {**tool, "parameters": {**parameters, "properties": {**fields, name: {**listed, "enum": [to]}}}}
    return tool


def needs_more(turn: Turn) -> Step:
    """Never enough: a critic or judge that wants more, or a supervisor that asks on and on."""
    if turn.output:
        return _UNSATISFIED(turn)
    if turn.tools:
        return calls(turn, [NEEDS_MORE], turn.hands_on, text=NEEDS_MORE)
    return says(turn, NEEDS_MORE, sure=0.1)


_UNSATISFIED = kernel("cooperative", score=0.1, findings=[NEEDS_MORE])


def unsure(turn: Turn) -> Step:
    """A critic, or any other answer, that is sure of nothing."""
    if turn.output:
        return _UNSURE(turn)
    return says(turn, "I am not sure of this at all (confidence 0.1).", sure=0.1)


_UNSURE = kernel("cooperative", score=0.1, findings=["It is not sure that this is right."])


@where("plan")
def for_nobody(turn: Turn) -> Step:
    """A plan whose only worker does not exist."""
    return says(turn, "nobody") if turn.schema is not None and not turn.output else _plan("nobody", 1)


def _plan(worker: str, count: int) -> Step:
    briefs = [
        {"agent": worker, "title": f"Part {number + 1}", "instructions": f"Say what bears on part {number + 1}."}
        for number in range(count)
    ]
    plan: Mapping[str, Any] = {"goal": "Answer it.", "briefs": briefs, "exit_criteria": ["It is answered."]}
    return steps.answer(json.dumps(plan))


@where("summary")
def credential(turn: Turn) -> Step:
    """What nobody should hand on."""
    return says(turn, f"The access key is {FAKE_KEY}.")


@where("summary")
def ungrounded(turn: Turn) -> Step:
    """Rests on what is not there."""
    return says(turn, "It is so.", citations=[NOWHERE])


@where("summary")
def unfit(turn: Turn) -> Step:
    """Text that a database or an encoding does not take."""
    return says(turn, UNFIT)


def doubled(turn: Turn) -> Step:
    """A good answer, one chunk of whose stream comes twice."""
    return replace(healthy(turn), stream="doubled")


def flaky(turn: Turn) -> Step:
    """Good or bad, as the seed draws it for this request's number."""
    drawn = Random(f"flaky {turn.seed} {turn.received.number}").choice(FLAKY)  # noqa: S311 - A script, not a secret.
    match drawn:
        case "limited":
            return steps.refusal(429, "slow down", headers={"Retry-After": "1"})
        case "unavailable":
            return steps.refusal(503, "overloaded")
        case "dropped":
            return steps.hang_up()
    return healthy(turn)
