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
from fabric.runtime.call_ports import ModelRequest
from simulator.kernel import scripted
from simulator.kernel.agents import FRUITLESS, TWIN, Reply

Ask = Callable[[ModelRequest], Reply]
SECONDS = 0.5
"""How long each answer takes, virtual seconds."""


@dataclass(frozen=True, slots=True)
class Sustained:
    """One failure, for as long as it is looked for. ``strikes``: whether this request meets it; ``fails``: what is answered then."""

    strikes: Callable[[FabricSpec, ModelRequest], bool]
    fails: Callable[[FabricSpec, ModelRequest], ModelReplied | CallFailed]

    def ask(self, spec: FabricSpec) -> Ask:
        """The model of this failure in that fabric."""

        def answer(request: ModelRequest) -> Reply:
            if self.strikes(spec, request):
                return Reply(SECONDS, self.fails(spec, request))
            return Reply(SECONDS, scripted.answer(request).result)

        return answer


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


def _by(role: str) -> Callable[[FabricSpec, ModelRequest], bool]:
    def strikes(spec: FabricSpec, request: ModelRequest) -> bool:
        return bool(request.agent == getattr(spec.topology, role))

    return strikes


def _first_worker_with_tools(spec: FabricSpec, request: ModelRequest) -> bool:
    armed = next((name for name in spec.topology.workers if spec.agent(name).tools), None)
    return request.agent == armed and bool(request.tools)


def _plans(spec: FabricSpec, request: ModelRequest) -> bool:
    return request.output == "plan"


def _same_call(spec: FabricSpec, request: ModelRequest) -> ModelReplied:
    turn = sum(message.role == "assistant" for message in request.messages)
    return _says(request, "", ToolCall(call_id=f"c{turn}", tool=request.tools[0].name, args={"query": "the same"}))


def _other_words(spec: FabricSpec, request: ModelRequest) -> ModelReplied:
    """Another question in each turn; the tool says each time that there is nothing."""
    turn = sum(message.role == "assistant" for message in request.messages)
    args = {"query": f"{FRUITLESS} {turn}"}
    return _says(request, "", ToolCall(call_id=f"c{turn}", tool=request.tools[0].name, args=args))


def _twins(spec: FabricSpec, request: ModelRequest) -> ModelReplied:
    brief = {"agent": spec.topology.workers[0], "title": "Part", "instructions": TWIN}
    return _says(request, {"goal": "Answer it.", "briefs": [brief, brief], "exit_criteria": ["It is answered."]})


def _for_nobody(spec: FabricSpec, request: ModelRequest) -> ModelReplied:
    brief = {"agent": "nobody", "title": "Part", "instructions": "Say what bears on it."}
    return _says(request, {"goal": "Answer it.", "briefs": [brief], "exit_criteria": ["It is answered."]})


def _all_of_the_money(spec: FabricSpec, request: ModelRequest) -> ModelReplied:
    """An answer that costs what the whole run may, by its bill."""
    done = scripted.answer(request).result
    assert isinstance(done, ModelReplied)
    return _says(request, done.text, cost_usd_micros=spec.policy.budget.run_usd_micros)


def _unavailable(spec: FabricSpec, request: ModelRequest) -> CallFailed:
    return _fails(request, Cause.SERVER_ERROR, 503)


def _withheld(spec: FabricSpec, request: ModelRequest) -> CallFailed:
    return _fails(request, Cause.CONTENT_FILTER, 400)


def _cites_nothing(spec: FabricSpec, request: ModelRequest) -> ModelReplied:
    return _says(request, {"text": "It is so.", "citations": ["missing.md"]})


SUSTAINED: Mapping[FailureType, Sustained] = {
    FailureType.TOOL_LOOP: Sustained(_first_worker_with_tools, _same_call),
    FailureType.DEADLOCK: Sustained(_plans, _twins),
    FailureType.COST_OVERRUN: Sustained(_by("aggregator"), _all_of_the_money),
    FailureType.PROVIDER: Sustained(_by("finalizer"), _unavailable),
    FailureType.SCHEMA_GROUNDING: Sustained(_by("finalizer"), _cites_nothing),
    FailureType.PLAN_MALFORMED: Sustained(_plans, _for_nobody),
    FailureType.NO_PROGRESS: Sustained(_first_worker_with_tools, _other_words),
    FailureType.UNSAFE_OUTPUT: Sustained(_by("finalizer"), _withheld),
}
"""A failure for each row. Total over the failure types, by test."""
