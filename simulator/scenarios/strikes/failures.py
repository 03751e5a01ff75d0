"""Makes a model fail in one way for each row of the decision table, by a fault of the catalogue.

All else about the run is in order, so the decision is that row's. The scripted agents (``simulator/agents``) do the
other work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fabric.core.events.inputs import CallFailed, ModelReplied, ToolFinished
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import FailureType
from fabric.runtime.ports.calls import ModelRequest, ToolRequest
from simulator.agents import script as scripted
from simulator.cast.agents import FRUITLESS, Reply
from simulator.faults.catalogue import STRUCK, build_parameters
from simulator.scenarios.baseline.work import SECONDS, Ask, Disturbing, Serve, count_decisions
from simulator.scenarios.strikes.answers import EFFECTS, PERIOD, Struck
from simulator.scenarios.strikes.places import Places, build_places, reply_with
from simulator.swarm.setups import DOCUMENTS
from simulator.world.world import World


@dataclass(frozen=True, slots=True)
class Sustained:
    """One failure, for as long as it is looked for."""

    strikes: Callable[[Places, ModelRequest], bool]
    """Returns True for a request that meets the failure."""
    fault: str
    """The fault of the catalogue that strikes it."""
    uncited: str = ""
    """The fault in its place, where no gate looks at citations. Empty: the same one."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    stopped: Callable[[Places, ModelRequest], ModelReplied] | None = None
    """Returns the answer of an agent that has lost its tools. None: it does its work."""

    def fails(self, where: Places, request: ModelRequest) -> ModelReplied | CallFailed:
        """Return the failing answer."""
        name = self.fault if where.cites or not self.uncited else self.uncited
        given = build_parameters(STRUCK[name], self.parameters)
        struck = Struck(
            where=where,
            request=request,
            parameters=given,
            undisturbed=lambda: Reply(SECONDS, scripted.answer(request).result),
            left_s=0.0,
        )
        found = EFFECTS[name](struck).result
        assert not isinstance(found, ToolFinished)
        return found

    def answer(self, where: Places, request: ModelRequest) -> ModelReplied | CallFailed:
        """Return the failure for a request that meets it, else the scripted agent's answer."""
        if self.strikes(where, request):
            return self.fails(where, request)
        if self.stopped is not None and request.agent == where.armed and not request.tools:
            return self.stopped(where, request)
        return scripted.answer(request).result

    def _with_what_it_has(self, where: Places, request: ModelRequest) -> ModelReplied | CallFailed | None:
        """Return the step's answer after the failure, where its tools have found nothing so far.

        None: it does its work.
        """
        heard = request.agent == where.armed and any(message.role == "tool" for message in request.messages)
        return self.stopped(where, request) if heard and self.stopped is not None else None

    def build_disturbing(self, spec: FabricSpec, recovers_after: int | None = None) -> Disturbing:
        """Return the failure for a virtual world of that fabric.

        It ends after so many decisions. Its tools find nothing.
        """
        where = build_places(spec)

        def disturb(world: World, ask: Ask, serve: Serve) -> tuple[Ask, Serve]:
            def lasts() -> bool:
                return recovers_after is None or count_decisions(world) < recovers_after

            def answers(request: ModelRequest) -> Reply:
                if lasts():
                    return Reply(SECONDS, self.answer(where, request))
                said = self._with_what_it_has(where, request)
                return ask(request) if said is None else Reply(SECONDS, said)

            def serves(request: ToolRequest) -> Reply:
                return find_nothing(request) if asks_for_nothing(request) else serve(request)

            return answers, serves

        return disturb


def asks_for_nothing(request: ToolRequest) -> bool:
    """Return True if a failing agent asks a tool for nothing in particular."""
    return any(isinstance(said, str) and said.startswith((PERIOD[0], FRUITLESS)) for said in request.args.values())


def find_nothing(request: ToolRequest) -> Reply:
    """Return a tool result that says there is nothing."""
    said = ToolFinished(
        command_id=request.command_id, attempt=request.attempt, result={"text": "There is nothing on that."}
    )
    return Reply(SECONDS, said)


def _match_stage(stage: Stage) -> Callable[[Places, ModelRequest], bool]:
    """Return a test for calls of the agent that works in that stage for all.

    It looks at the run itself, not at teams: an agent may have several roles.
    """
    role = {Stage.FAN_IN: "aggregator", Stage.FINALIZE: "finalizer"}[stage]

    def strikes(where: Places, request: ModelRequest) -> bool:
        there = request.agent == getattr(where, role) and request.command_id.startswith(f"{stage}.")
        return there and not request.child

    return strikes


def _is_armed(where: Places, request: ModelRequest) -> bool:
    offered = any(offer.name == where.tool for offer in request.tools)
    return request.agent == where.armed and offered and request.command_id.startswith(where.branch)


def _plans(where: Places, request: ModelRequest) -> bool:
    return request.output == "plan" and not request.child


def _with_what_it_has(where: Places, request: ModelRequest) -> ModelReplied:
    """Answer with a sentence out of a document: no gate asks more of one of several results."""
    document = DOCUMENTS[0]
    said = f"{document.name} says: {document.text.partition('. ')[0]}. [{document.name}]"
    return reply_with(request, said if request.wants_words else {"text": said, "citations": [document.name]})


SUSTAINED: Mapping[FailureType, Sustained] = {
    FailureType.TOOL_LOOP: Sustained(_is_armed, "tool_loop", stopped=_with_what_it_has),
    FailureType.DEADLOCK: Sustained(_plans, "twin_briefs"),
    FailureType.COST_OVERRUN: Sustained(_match_stage(Stage.FAN_IN), "cost_spike_price", parameters={"cap_share": 1.01}),
    FailureType.PROVIDER: Sustained(_match_stage(Stage.FINALIZE), "unavailable"),
    FailureType.SCHEMA_GROUNDING: Sustained(_match_stage(Stage.FINALIZE), "ungrounded", uncited="empty"),
    FailureType.PLAN_MALFORMED: Sustained(_plans, "bad_plan"),
    FailureType.NO_PROGRESS: Sustained(_is_armed, "fruitless_search", stopped=_with_what_it_has),
    FailureType.UNSAFE_OUTPUT: Sustained(_match_stage(Stage.FINALIZE), "filtered"),
}
"""A failure for each row. Total over the failure types, by test."""
