"""Failures that do not go away: for each row of the decision table a model that fails the same way as often as it is asked.

Everything else about the run is in order, so what is decided is that row's, and nobody else's. The agents that do their work are the scripted ones
(``simulator/kernel/scripted``). Where the failure strikes and what it needs of the fabric stands beside each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fabric.core.flow import Stage
from fabric.core.inputs import CallFailed, ModelReplied, ToolCall, ToolFinished
from fabric.core.spec import FabricSpec
from fabric.core.spec_conversation import is_conversation
from fabric.core.taxonomy import Cause, FailureType
from fabric.runtime.call_ports import ModelRequest, ToolRequest
from simulator.drills.baseline import SECONDS, Ask, Disturbing, Serve
from simulator.drills.equipping import reader
from simulator.drills.handing import way
from simulator.drills.observed import decided
from simulator.kernel import scripted
from simulator.kernel.agents import FRUITLESS, TWIN, Reply, fruitless_query
from simulator.kernel.schema_values import arguments, value
from simulator.kernel.swarm import DOCUMENTS
from simulator.kernel.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where failures strike in a fabric: names of agents, empty where there is none, and the cap that an overrun passes, micro-dollars."""

    worker: str
    armed: str
    """The first worker that has a tool which only reads..."""
    tool: str
    """...and that tool."""
    branch: str
    """The first branch or turn of that worker, where the topology fixes it; empty: whichever it is given."""
    aggregator: str
    finalizer: str
    cap_usd_micros: int
    cites: bool
    """Whether citations are looked at."""
    briefed: tuple[str, ...] = ()
    """Who is briefed by every plan that fits: all who take part, where workers take turns."""
    pair: Mapping[str, str] = field(default_factory=dict)
    """Whom each hands on to so that two have the request in turn..."""
    three: Mapping[str, str] = field(default_factory=dict)
    """...or three have; empty: none can."""


def places(spec: FabricSpec) -> Places:
    """Those of a fabric."""
    topology = spec.topology
    armed, tool = reader(spec)
    return Places(
        worker=(topology.hands() or topology.workers)[0],
        armed=armed,
        tool=tool,
        branch=_branch(spec, armed),
        aggregator=topology.aggregator or "",
        finalizer=topology.finalizer or "",
        cap_usd_micros=spec.policy.budget.run_usd_micros,
        cites=spec.gates.citations != "off",
        briefed=topology.workers if is_conversation(topology) else (),
        pair=way(spec, 2),
        three=way(spec, 3),
    )


def _branch(spec: FabricSpec, worker: str) -> str:
    if is_conversation(spec.topology):
        return "fan_out.0."  # Whoever speaks first.
    return next((f"fan_out.{n}." for n, name in enumerate(spec.topology.order()) if name == worker), "")


Answer = Callable[["Places", ModelRequest], ModelReplied | CallFailed]


@dataclass(frozen=True, slots=True)
class Sustained:
    """One failure, for as long as it is looked for."""

    strikes: Callable[[Places, ModelRequest], bool]
    """Whether this request meets it."""
    fails: Answer
    """What is answered then."""
    stopped: Answer | None = None
    """What an agent says that has no tools any more to go on with; None: its work, as ever."""

    def answer(self, where: Places, request: ModelRequest) -> ModelReplied | CallFailed:
        """What is said to a request: the failure, or the scripted agent's work."""
        if self.strikes(where, request):
            return self.fails(where, request)
        if self.stopped is not None and request.agent == where.armed and not request.tools:
            return self.stopped(where, request)
        return scripted.answer(request).result

    def _with_what_it_has(self, where: Places, request: ModelRequest) -> ModelReplied | CallFailed | None:
        """What a step says after the failure, where its tools have found nothing so far although there is something; None: its work."""
        heard = request.agent == where.armed and any(message.role == "tool" for message in request.messages)
        return self.stopped(where, request) if heard and self.stopped is not None else None

    def disturbing(self, spec: FabricSpec, recovers_after: int | None = None) -> Disturbing:
        """The failure in a virtual world of that fabric; gone after so many decisions. Whatever it asks of a tool, there is nothing."""
        where = places(spec)

        def disturb(world: World, ask: Ask, serve: Serve) -> tuple[Ask, Serve]:
            def lasts() -> bool:
                return recovers_after is None or decided(world) < recovers_after

            def answers(request: ModelRequest) -> Reply:
                if lasts():
                    return Reply(SECONDS, self.answer(where, request))
                said = self._with_what_it_has(where, request)
                return ask(request) if said is None else Reply(SECONDS, said)

            def serves(request: ToolRequest) -> Reply:
                return nothing(request) if finds_nothing(request) else serve(request)

            return answers, serves

        return disturb


THE_SAME = "the same"
"""What a loop asks a tool for."""


def finds_nothing(request: ToolRequest) -> bool:
    """Whether a failing agent asks for nothing in particular: whatever the tool is, there is nothing on that."""
    return any(isinstance(said, str) and said.startswith((THE_SAME, FRUITLESS)) for said in request.args.values())


def nothing(request: ToolRequest) -> Reply:
    """That there is nothing."""
    said = ToolFinished(
        command_id=request.command_id, attempt=request.attempt, result={"text": "There is nothing on that."}
    )
    return Reply(SECONDS, said)


def _says(request: ModelRequest, said: Any, *calls: ToolCall, cost_usd_micros: int | None = None) -> ModelReplied:
    if request.data_schema is not None and isinstance(said, dict) and "citations" in said:
        said = {**said, "data": value(request.data_schema, said["text"])}
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


def _in(stage: Stage) -> Callable[[Places, ModelRequest], bool]:
    """By whoever works in that stage for all, in the run itself: an agent may have several roles, and some in teams."""
    role = {Stage.FAN_IN: "aggregator", Stage.FINALIZE: "finalizer"}[stage]

    def strikes(where: Places, request: ModelRequest) -> bool:
        there = request.agent == getattr(where, role) and request.command_id.startswith(f"{stage}.")
        return there and not request.child

    return strikes


def _armed(where: Places, request: ModelRequest) -> bool:
    offered = any(offer.name == where.tool for offer in request.tools)
    return request.agent == where.armed and offered and request.command_id.startswith(where.branch)


def _plans(where: Places, request: ModelRequest) -> bool:
    return request.output == "plan" and not request.child


def _call(where: Places, request: ModelRequest, words: str) -> ModelReplied:
    """A call of the tool that only reads, with these words in it."""
    turn = sum(message.role == "assistant" for message in request.messages)
    offer = next(offer for offer in request.tools if offer.name == where.tool)
    return _says(request, "", ToolCall(call_id=f"c{turn}", tool=offer.name, args=arguments(offer.parameters, words)))


def _same_call(where: Places, request: ModelRequest) -> ModelReplied:
    return _call(where, request, THE_SAME)


def _other_words(where: Places, request: ModelRequest) -> ModelReplied:
    """Another question in each turn; the tool says each time that there is nothing."""
    return _call(where, request, fruitless_query(sum(message.role == "assistant" for message in request.messages)))


def _with_what_it_has(where: Places, request: ModelRequest) -> ModelReplied:
    """A sentence out of a document: no gate asks more of one of several results."""
    document = DOCUMENTS[0]
    said = f"{document.name} says: {document.text.partition('. ')[0]}. [{document.name}]"
    return _says(request, said if request.wants_words else {"text": said, "citations": [document.name]})


def _twins(where: Places, request: ModelRequest) -> ModelReplied:
    brief = {"agent": where.worker, "title": "Part", "instructions": TWIN}
    others = [{**brief, "agent": name} for name in where.briefed if name != where.worker]
    plan = {"goal": "Answer it.", "briefs": [brief, brief, *others], "exit_criteria": ["It is answered."]}
    return _says(request, plan)


def _for_nobody(where: Places, request: ModelRequest) -> ModelReplied:
    brief = {"agent": "nobody", "title": "Part", "instructions": "Say what bears on it."}
    return _says(request, {"goal": "Answer it.", "briefs": [brief], "exit_criteria": ["It is answered."]})


def _all_of_the_money(where: Places, request: ModelRequest) -> ModelReplied:
    """An answer that costs what the whole run may, by its bill."""
    done = scripted.answer(request).result
    assert isinstance(done, ModelReplied)
    return _says(request, done.text, cost_usd_micros=where.cap_usd_micros + 1)


def _unavailable(where: Places, request: ModelRequest) -> CallFailed:
    return _fails(request, Cause.SERVER_ERROR, 503)


def _withheld(where: Places, request: ModelRequest) -> CallFailed:
    return _fails(request, Cause.CONTENT_FILTER, 400)


def _cites_nothing(where: Places, request: ModelRequest) -> ModelReplied:
    """A document that nobody attached; where citations are looked at by nobody, words of no shape that was asked for."""
    if request.wants_words:
        return _says(request, "It is so. [missing.md]" if where.cites else " ")
    said = {"text": "It is so.", "citations": ["missing.md"]} if where.cites else {"answer": 42}
    return _says(request, said)


SUSTAINED: Mapping[FailureType, Sustained] = {
    FailureType.TOOL_LOOP: Sustained(_armed, _same_call, _with_what_it_has),
    FailureType.DEADLOCK: Sustained(_plans, _twins),
    FailureType.COST_OVERRUN: Sustained(_in(Stage.FAN_IN), _all_of_the_money),
    FailureType.PROVIDER: Sustained(_in(Stage.FINALIZE), _unavailable),
    FailureType.SCHEMA_GROUNDING: Sustained(_in(Stage.FINALIZE), _cites_nothing),
    FailureType.PLAN_MALFORMED: Sustained(_plans, _for_nobody),
    FailureType.NO_PROGRESS: Sustained(_armed, _other_words, _with_what_it_has),
    FailureType.UNSAFE_OUTPUT: Sustained(_in(Stage.FINALIZE), _withheld),
}
"""A failure for each row. Total over the failure types, by test."""
