"""Failures that do not go away: for each row of the decision table a model that fails the same way as often as it is asked.

Everything else about the run is in order, so what is decided is that row's, and nobody else's. The agents that do their work are the scripted ones
(``simulator/kernel/scripted``). Where the failure strikes and what it needs of the fabric stands beside each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fabric.core.inputs import CallFailed, ModelReplied, ToolCall
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import Cause, FailureType
from fabric.runtime.call_ports import ModelRequest, ToolOffer
from simulator.kernel import scripted
from simulator.kernel.agents import FRUITLESS, TWIN, Reply

Ask = Callable[[ModelRequest], Reply]
SECONDS = 0.5
"""How long each answer takes, virtual seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where failures strike in a fabric: names of agents, empty where there is none, and the cap that an overrun passes, micro-dollars."""

    worker: str
    armed: str
    """The first worker that has tools."""
    aggregator: str
    finalizer: str
    cap_usd_micros: int


def places(spec: FabricSpec) -> Places:
    """Those of a fabric."""
    topology = spec.topology
    return Places(
        worker=topology.workers[0],
        armed=next((name for name in topology.workers if spec.agent(name).tools), ""),
        aggregator=topology.aggregator or "",
        finalizer=topology.finalizer or "",
        cap_usd_micros=spec.policy.budget.run_usd_micros,
    )


@dataclass(frozen=True, slots=True)
class Sustained:
    """One failure, for as long as it is looked for. ``strikes``: whether this request meets it; ``fails``: what is answered then."""

    strikes: Callable[[Places, ModelRequest], bool]
    fails: Callable[[Places, ModelRequest], ModelReplied | CallFailed]

    def answer(self, where: Places, request: ModelRequest) -> ModelReplied | CallFailed:
        """What is said to a request: the failure, or the scripted agent's work."""
        return self.fails(where, request) if self.strikes(where, request) else scripted.answer(request).result

    def ask(self, spec: FabricSpec) -> Ask:
        """The model of this failure in a virtual world of that fabric."""
        where = places(spec)
        return lambda request: Reply(SECONDS, self.answer(where, request))


def _says(request: ModelRequest, said: Any, *calls: ToolCall, cost_usd_micros: int | None = None) -> ModelReplied:
    return ModelReplied(
        command_id=request.command_id,
        attempt=request.attempt,
        text=said if isinstance(said, str) else json.dumps(said),
        calls=calls,
        cost_usd_micros=cost_usd_micros,
    )


def _fails(request: ModelRequest, cause: Cause, status: int) -> CallFailed:
    message = f"the endpoint answered {status}"
    return CallFailed(
        command_id=request.command_id, attempt=request.attempt, cause=cause, message=message, status=status
    )


def _by(role: str) -> Callable[[Places, ModelRequest], bool]:
    return lambda where, request: bool(request.agent == getattr(where, role))


def _armed(where: Places, request: ModelRequest) -> bool:
    return request.agent == where.armed and bool(request.tools)


def _plans(where: Places, request: ModelRequest) -> bool:
    return request.output == "plan"


def _call(request: ModelRequest, words: str) -> ModelReplied:
    """A call of the first tool on offer with these words in it."""
    turn = sum(message.role == "assistant" for message in request.messages)
    offer = request.tools[0]
    return _says(request, "", ToolCall(call_id=f"c{turn}", tool=offer.name, args=_arguments(offer, words)))


FITS: Mapping[str, Any] = {"integer": 1, "number": 1, "boolean": False, "array": [], "object": {}}


def _arguments(offer: ToolOffer, words: str) -> dict[str, Any]:
    """What the tool requires, the words wherever it takes text."""
    properties: Mapping[str, Any] = offer.parameters.get("properties", {})
    return {
        name: properties.get(name, {}).get("enum", [FITS.get(properties.get(name, {}).get("type"), words)])[0]
        for name in offer.parameters.get("required", properties)
    }


def _same_call(where: Places, request: ModelRequest) -> ModelReplied:
    return _call(request, "the same")


def _other_words(where: Places, request: ModelRequest) -> ModelReplied:
    """Another question in each turn; the tool says each time that there is nothing."""
    return _call(request, f"{FRUITLESS} {sum(message.role == 'assistant' for message in request.messages)}")


def _twins(where: Places, request: ModelRequest) -> ModelReplied:
    brief = {"agent": where.worker, "title": "Part", "instructions": TWIN}
    return _says(request, {"goal": "Answer it.", "briefs": [brief, brief], "exit_criteria": ["It is answered."]})


def _for_nobody(where: Places, request: ModelRequest) -> ModelReplied:
    brief = {"agent": "nobody", "title": "Part", "instructions": "Say what bears on it."}
    return _says(request, {"goal": "Answer it.", "briefs": [brief], "exit_criteria": ["It is answered."]})


def _all_of_the_money(where: Places, request: ModelRequest) -> ModelReplied:
    """An answer that costs what the whole run may, by its bill."""
    done = scripted.answer(request).result
    assert isinstance(done, ModelReplied)
    return _says(request, done.text, cost_usd_micros=where.cap_usd_micros)


def _unavailable(where: Places, request: ModelRequest) -> CallFailed:
    return _fails(request, Cause.SERVER_ERROR, 503)


def _withheld(where: Places, request: ModelRequest) -> CallFailed:
    return _fails(request, Cause.CONTENT_FILTER, 400)


def _cites_nothing(where: Places, request: ModelRequest) -> ModelReplied:
    return _says(request, {"text": "It is so.", "citations": ["missing.md"]})


SUSTAINED: Mapping[FailureType, Sustained] = {
    FailureType.TOOL_LOOP: Sustained(_armed, _same_call),
    FailureType.DEADLOCK: Sustained(_plans, _twins),
    FailureType.COST_OVERRUN: Sustained(_by("aggregator"), _all_of_the_money),
    FailureType.PROVIDER: Sustained(_by("finalizer"), _unavailable),
    FailureType.SCHEMA_GROUNDING: Sustained(_by("finalizer"), _cites_nothing),
    FailureType.PLAN_MALFORMED: Sustained(_plans, _for_nobody),
    FailureType.NO_PROGRESS: Sustained(_armed, _other_words),
    FailureType.UNSAFE_OUTPUT: Sustained(_by("finalizer"), _withheld),
}
"""A failure for each row. Total over the failure types, by test."""
