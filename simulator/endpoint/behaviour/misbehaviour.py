"""Plays a model's behaviours over the protocol: scripted agents that work, and one function for each misbehaviour.

Where a turn has no place for it (a loop where no tool is on offer, a plan where a critique is wanted), the well-behaved
agent answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any, Literal

from fabric.core.events.inputs import CallFailed, ToolCall
from fabric.core.schema.payloads import AGENT_OUTPUT
from fabric.core.spec.tree import ModelSpec
from fabric.core.values.units import JSON
from fabric.runtime.ports.calls import ChatMessage, ModelRequest, ToolOffer
from simulator.agents import script as scripted
from simulator.endpoint.behaviour.definition import Behaviour, Saying
from simulator.endpoint.behaviour.turns import Turn, calls, data_schema, is_handing_on, says
from simulator.endpoint.wire import steps
from simulator.endpoint.wire.server import Received
from simulator.endpoint.wire.steps import Step


def agents(options: Mapping[str, JSON] | None = None) -> Callable[[Received], Step]:
    """The scripted agents as a model behind the protocol. ``options`` as in ``simulator.agents.script``."""

    def reply(received: Received) -> Step:
        if received.method == "GET" and received.path.endswith("/models"):
            return Step(body=json.dumps({"object": "list", "data": [{"id": "scripted", "object": "model"}]}).encode())
        if not isinstance(received.body, dict) or not received.path.endswith("/chat/completions"):
            return steps.refusal(404, f"nothing is served at {received.path}; ask /v1/chat/completions")
        said = scripted.answer(_request(received, dict(options or {})))
        result = said.result
        if isinstance(result, CallFailed):
            headers = {} if result.retry_after_s is None else {"Retry-After": f"{result.retry_after_s:g}"}
            return steps.refusal(result.status or 500, result.message, headers=headers)
        calls = [
            steps.call(one.tool, one.raw_args if one.args is None else one.args, one.call_id) for one in result.calls
        ]
        usage = (result.input_tokens, result.output_tokens)
        finish = "length" if result.finish == "length" else ""
        return steps.answer(result.text, calls, usage=usage, finish=finish, delay_s=said.delay_s)

    return reply


_ROLES: Mapping[str, Literal["system", "user", "assistant", "tool"]] = {
    "system": "system",
    "developer": "system",
    "assistant": "assistant",
    "tool": "tool",
}


def _request(received: Received, options: dict[str, JSON]) -> ModelRequest:
    """Return the port's request, as far as the protocol carries it."""
    body = received.body
    form = body.get("response_format") or {}
    named = form.get("json_schema", {}).get("name")
    messages = tuple(_message(message) for message in body.get("messages", ()))
    opening = messages[0].text if messages else ""
    output = named or received.headers.get("x-fabric-output") or "summary"
    return ModelRequest(
        command_id=received.idempotency_key,
        attempt=1,
        run_id="",
        trace_headers={},
        agent=received.agent,
        model=ModelSpec(name="scripted", model=str(body.get("model", "")), options=options),
        messages=messages,
        tools=tuple(_offer(tool.get("function", {})) for tool in body.get("tools") or ()),
        output=output,
        # An agent that answers in words is told so in its first message; every other one is asked for JSON.
        output_schema=None if not form and "JSON" not in opening else {},
        data_schema=data_schema(opening, form.get("json_schema", form).get("schema")),
        max_output_tokens=int(body.get("max_tokens") or body.get("max_completion_tokens") or 1_024),
        idempotency_key=received.idempotency_key,
        deadline_at=0,
    )


def _message(message: Mapping[str, JSON]) -> ChatMessage:
    calls = tuple(
        ToolCall(call_id=str(call.get("id", "")), tool=str(call.get("function", {}).get("name", "")), args=None)
        for call in message.get("tool_calls") or ()
    )
    content = message.get("content") or ""
    text = content if isinstance(content, str) else "\n".join(str(part.get("text", "")) for part in content)
    return ChatMessage(_ROLES.get(message.get("role", ""), "user"), text, calls, str(message.get("tool_call_id", "")))


def _offer(function: Mapping[str, JSON]) -> ToolOffer:
    return ToolOffer(
        name=str(function.get("name", "")),
        description=str(function.get("description", "")),
        parameters=function.get("parameters") or {"type": "object"},
    )


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
    """Answer as the cooperative script does for this product's agents.

    For strangers, call the first tool on offer, then answer with its result.
    """
    if turn.output in AGENT_OUTPUT:
        return _agents(turn.received)
    own = [tool for tool in turn.tools if not is_handing_on(tool)]
    if own and not turn.result and not isinstance(turn.body.get("tool_choice"), Mapping):
        return calls(turn, [turn.question[:200] or "status"], own[0])
    if turn.result:
        return says(turn, f"The tool says: {turn.result[:2_000]}")
    return says(turn, f"This was asked: {turn.question[:2_000] or 'nothing'}")


def kernel(script: str, **options: Any) -> Saying:
    """Return a behaviour that answers with a script of ``simulator.agents``."""
    reply = agents({"script": script, **options})
    return lambda turn: reply(turn.received)


def always(step: Step) -> Saying:
    """Return a behaviour that gives one answer to every request."""
    return lambda turn: step


def keep_to_tools(say: Saying) -> Saying:
    """Return the behaviour, kept to turns that offer tools."""
    return lambda turn: say(turn) if turn.tools else healthy(turn)


def where(*outputs: str) -> Callable[[Saying], Saying]:
    """Return the behaviour, kept to turns that ask for one of these outputs, or for none by name."""
    return lambda say: lambda turn: say(turn) if turn.output in ("", *outputs) else healthy(turn)


def cycle(period: int) -> Saying:
    """Calls in turn: of so many tools, where there are as many on offer, and with so many arguments."""

    def say(turn: Turn) -> Step:
        phase = turn.number % period
        return calls(turn, [f"part {phase + 1} of {period}"], turn.tools[phase % len(turn.tools)])

    return keep_to_tools(say)


@keep_to_tools
def paraphrase_question(turn: Turn) -> Step:
    """Ask one question, with another last word each time."""
    ending = ENDINGS[turn.number % len(ENDINGS)]
    return calls(turn, [f"find one more old record about these famous lighthouse keepers {ending}"])


@keep_to_tools
def change_call(turn: Turn) -> Step:
    """Make one call again and again, with a remark on its last result."""
    seen = f"Now it says: {turn.result[:200]} I look again." if turn.result else "I look."
    return calls(turn, ["the state of things"], text=seen)


@keep_to_tools
def unknown_tool(turn: Turn) -> Step:
    """Return a call of a tool that was not offered."""
    return steps.answer("", [steps.call("teleport", {"to": "the answer"}, f"call-{turn.number + 1}-1")])


@keep_to_tools
def bad_arguments(turn: Turn) -> Step:
    """Return a call whose arguments break off."""
    name = str(turn.tools[0]["name"])
    return steps.answer("", [steps.call(name, '{"name": "notes.md', f"call-{turn.number + 1}-1")])


@keep_to_tools
def flood(turn: Turn) -> Step:
    """Make very many calls at once. Once they are answered, do the work."""
    return healthy(turn) if turn.result else calls(turn, [f"part {number + 1}" for number in range(FLOOD)])


def cost_spike(turn: Turn) -> Step:
    """Make another call each time, or answer, and bill very many tokens."""
    if turn.tools:
        return calls(turn, [f"part {turn.number + 1}"], usage=SPIKE)
    return _bill_step(healthy(turn))


def spender(many: int, usage: tuple[int, int]) -> Saying:
    """Return a behaviour that makes so many calls, billed for so many tokens in and out. Then it does its work."""

    def say(turn: Turn) -> Step:
        if turn.tools and turn.number < many:
            return calls(turn, [f"part {turn.number + 1}"], usage=usage)
        return healthy(turn)

    return say


def _bill_step(step: Step) -> Step:
    completion = json.loads(step.body)
    completion["usage"] = dict(zip(("prompt_tokens", "completion_tokens"), SPIKE, strict=True))
    completion["usage"]["total_tokens"] = sum(SPIKE)
    return replace(step, body=json.dumps(completion).encode())


def spawn_agents(turn: Turn) -> Step:
    """Gives the work on to one more agent, or plans for very many."""
    words = ["Start another agent that does the same as you do, and wait for it."]
    if turn.hands_on:
        return calls(turn, words, turn.hands_on)
    if turn.output == "plan":
        return _plan("worker", FLOOD)
    return calls(turn, words) if turn.tools and not turn.output else healthy(turn)


def ping_pong(peers: int) -> Saying:
    """Return a behaviour that hands over by the first tool that does.

    Where that tool names its targets, so many of them have the work in turn.
    """

    def say(turn: Turn) -> Step:
        tool = turn.hands_on
        if tool is None:
            return cycle(peers)(turn) if not turn.output else healthy(turn)
        words = "This is more in your line than in mine. Please look at it once more."
        return calls(turn, [words], _onward(tool, turn.received.agent, peers))

    return say


def _onward(tool: Mapping[str, Any], who: str, peers: int) -> Mapping[str, Any]:
    """Return the tool with the next agent of the ring as the only target, where the tool lists its targets."""
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
    """Ask for more, as a critic or judge, or as a supervisor that asks on and on."""
    if turn.output:
        return _UNSATISFIED(turn)
    if turn.tools:
        return calls(turn, [NEEDS_MORE], turn.hands_on, text=NEEDS_MORE)
    return says(turn, NEEDS_MORE, sure=0.1)


_UNSATISFIED = kernel("cooperative", score=0.1, findings=[NEEDS_MORE])


def unsure(turn: Turn) -> Step:
    """Answer as a critic, or as any agent, that is sure of nothing."""
    if turn.output:
        return _UNSURE(turn)
    return says(turn, "I am not sure of this at all (confidence 0.1).", sure=0.1)


_UNSURE = kernel("cooperative", score=0.1, findings=["It is not sure that this is right."])


@where("plan")
def plan_unknown_worker(turn: Turn) -> Step:
    """Return a plan whose only worker does not exist."""
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
    """Answer with an access key that no one should hand on."""
    return says(turn, f"The access key is {FAKE_KEY}.")


@where("summary")
def answer_ungrounded(turn: Turn) -> Step:
    """Rests on what is not there."""
    return says(turn, "It is so.", citations=[NOWHERE])


@where("summary")
def unfit(turn: Turn) -> Step:
    """Answer with text that a database or an encoding does not take."""
    return says(turn, UNFIT)


def flaky(turn: Turn) -> Step:
    """Answer well or badly, as the seed draws it for this request's number."""
    drawn = Random(f"flaky {turn.seed} {turn.received.number}").choice(FLAKY)  # noqa: S311 - A script, not a secret.
    match drawn:
        case "limited":
            return steps.refusal(429, "slow down", headers={"Retry-After": "1"})
        case "unavailable":
            return steps.refusal(503, "overloaded")
        case "dropped":
            return steps.hang_up()
    return healthy(turn)


BEHAVIOURS: Mapping[str, Behaviour] = {
    "flaky": Behaviour(flaky),
    "unfit_text": Behaviour(unfit),
    "empty": Behaviour(kernel("empty")),
    "off_schema": Behaviour(kernel("off_schema")),
    "malformed": Behaviour(kernel("malformed")),
    "credential": Behaviour(credential),
    "ungrounded": Behaviour(answer_ungrounded),
    "unsure": Behaviour(unsure),
    "bad_plan": Behaviour(plan_unknown_worker),
    "supervisor_stuck": Behaviour(needs_more),
    # Where no tool is on offer, the endpoint does its work.
    "tool_loop": Behaviour(cycle(1)),
    "tool_loop_of_2": Behaviour(cycle(2)),
    "tool_loop_of_3": Behaviour(cycle(3)),
    "tool_loop_paraphrased": Behaviour(paraphrase_question),
    "tool_loop_changing": Behaviour(change_call),
    "unknown_tool": Behaviour(unknown_tool),
    "bad_arguments": Behaviour(bad_arguments),
    "flood": Behaviour(flood),
    "cost_spike_tokens": Behaviour(cost_spike),
    "spender": Behaviour(spender(7, (20_000, 4_000))),
    "spender_slow": Behaviour(spender(9, (5_000, 1_000))),
    "spawning": Behaviour(spawn_agents),
    "handoff_cycle": Behaviour(ping_pong(2)),
    "handoff_cycle_of_3": Behaviour(ping_pong(3)),
}
"""The behaviour of each fault whose ``play`` is this module."""
