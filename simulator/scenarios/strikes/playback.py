"""Plays what was recorded: calls end as they ended, people answer and act as they did.

A call that was not recorded goes to the world's own models and tools.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from fabric.core.calls.proposed import find_plan
from fabric.core.events.envelope import split_rows
from fabric.core.events.inputs import (
    CallFailed,
    CancelRequested,
    InboxInput,
    ModelReplied,
    PauseRequested,
    PersonSpoke,
    ResumeRequested,
    TerminateRequested,
    ToolCall,
    ToolFinished,
)
from fabric.core.graph.state import Writes
from fabric.core.spec.policies.budgets import NamedCap
from fabric.core.texts.text import parse_json_object
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause, Trip
from fabric.runtime.ports.batch_parts import ReviewChange
from fabric.runtime.ports.calls import ModelRequest, ToolRequest
from simulator.agents.streams import add_streamed_parts
from simulator.cast.agents import Reply
from simulator.cast.people import REVIEWERS
from simulator.scenarios.baseline.work import CHANGING, Ask, Serve
from simulator.scenarios.spec.recorded import (
    MARKS,
    RECORDED,
    Recorded,
    RecordedAct,
    RecordedCall,
    RecordedModel,
    RecordedPerson,
    RecordedTool,
)
from simulator.world.outside import PersonAnswer

if TYPE_CHECKING:
    from simulator.world.world import World

LOOK_S, LOOKS_MAX = 0.05, 2_000
"""Virtual seconds between two looks for the place of an act, and their number; then it comes anyway."""
Script = Callable[[str, ReviewChange], tuple[PersonAnswer, ...] | None]
CallKey = tuple[str, str, int]
"""Child, command and attempt."""


class Playback:
    """The recording of one world. ``struck`` counts what was replayed."""

    def __init__(self, recorded: Sequence[Recorded], struck: Counter[str]) -> None:
        self._struck = struck
        self._models = {_key(one): one for one in recorded if isinstance(one, RecordedModel)}
        self._tools = {_key(one): one for one in recorded if isinstance(one, RecordedTool)}
        self._acts = [one for one in recorded if isinstance(one, RecordedAct)]
        self._people: dict[tuple[str, int], list[RecordedPerson]] = {}
        for one in recorded:
            if isinstance(one, RecordedPerson):
                self._people.setdefault((one.child, one.review), []).append(one)
        self._seen: Counter[str] = Counter()
        """Reviews by run."""

    def begin(self, world: World, ask: Ask, serve: Serve) -> tuple[Ask, Serve]:
        """Let a world that has not run yet replay the recording. Return its models and tools."""
        scripted = world.outside.script
        if self._people:
            world.outside.script = self._people_of(world, scripted)
        run_id = world.setup.names.run_id(world.setup.seed, "run", 0)
        for number, act in enumerate(self._acts):
            world.later(act.at_s, self._act, world, run_id, act, number)

        def ask_model(request: ModelRequest) -> Reply:
            one = self._models.get((find_child(world, request.run_id), request.command_id, request.attempt))
            if one is None:
                return ask(request)
            self._struck[RECORDED] += 1
            return replay_model(one, request)

        def serve_tool(request: ToolRequest) -> Reply:
            one = self._tools.get((find_child(world, request.run_id), request.command_id, request.attempt))
            if one is None:
                return serve(request)
            self._struck[RECORDED] += 1
            return replay_tool(one, request, serve)

        return ask_model, serve_tool

    def _people_of(self, world: World, scripted: Script) -> Script:
        def script(run_id: str, change: ReviewChange) -> tuple[PersonAnswer, ...] | None:
            self._seen[run_id] += 1
            given = self._people.get((find_child(world, run_id), self._seen[run_id]))
            if given is None:
                return scripted(run_id, change)
            self._struck[RECORDED] += 1
            return tuple(build_answer(one) for one in given if not one.silent)

        return script

    def _act(self, world: World, run_id: str, act: RecordedAct, number: int, looks: int = 0) -> None:
        rows = split_rows(world.store.rows(run_id))
        if looks < LOOKS_MAX and sum(row.kind in MARKS for row in rows) < act.after_events:
            world.later(LOOK_S, self._act, world, run_id, act, number, looks + 1)
            return
        self._struck[RECORDED] += 1
        world.outside.insert(run_id, build_act(act, f"recorded:{number}"))


def find_child(world: World, run_id: str) -> str:
    """Return the commands that lead to a child run, joined by ``>``; empty for a run that is none."""
    lineage = world.watch.run(run_id).family.lineage
    if lineage is None:
        return ""
    above = find_child(world, lineage.parent_run_id)
    return f"{above}>{lineage.parent_command}" if above else lineage.parent_command


def _key(one: RecordedCall) -> CallKey:
    return one.child, one.call, one.attempt


# -- calls -----------------------------------------------------------------------------------------------------------


def _fail(one: RecordedCall, request: ModelRequest | ToolRequest, outcome: Outcome) -> CallFailed:
    trip = msgspec.json.decode(one.refused_by, type=Trip) if one.refused_by else None
    return CallFailed(
        command_id=request.command_id,
        attempt=request.attempt,
        cause=one.cause or Cause.TIMEOUT,
        message=one.message,
        status=one.status,
        retry_after_s=one.retry_after_s,
        billed=one.billed,
        outcome=Outcome.REJECTED if trip is not None else outcome,
        trip=trip,
        breaker_wait_s=one.breaker_wait_s,
        partial=one.partial,
        input_tokens=one.input_tokens,
        output_tokens=one.output_tokens,
        cost_usd_micros=one.cost_usd_micros,
        never_sent=trip is not None,
    )


def replay_model(one: RecordedModel, request: ModelRequest) -> Reply:
    """Return the recorded end of a model call."""
    if one.cause is not None or one.silent:
        return Reply(one.after_s, _fail(one, request, Outcome.UNKNOWN), silent=one.silent, billed=one.billed)
    text = _words(one, request)
    planned = request.plans and (given := parse_json_object(text)[0]) is not None and find_plan(given) is not None
    calls = () if planned or not one.calls else tuple(map(_call, json.loads(one.calls)))
    result = ModelReplied(
        command_id=request.command_id,
        attempt=request.attempt,
        text=text,
        calls=calls,
        input_tokens=one.input_tokens,
        output_tokens=one.output_tokens,
        cost_usd_micros=one.cost_usd_micros,
        finish=one.finish,
        model=request.model.name,
    )
    return add_streamed_parts(request, Reply(one.after_s, result))


def _words(one: RecordedModel, request: ModelRequest) -> str:
    """Return the text of an answer. A typed one is written as its agent answers: in words, or as JSON."""
    if not one.output or one.text:
        return one.text
    output = json.loads(one.output)
    return str(output.get("text", "")) if request.wants_words else one.output


def _call(given: dict[str, Any]) -> ToolCall:
    call_id = given.get("server_id") or given.get("call_id", "")
    return ToolCall(call_id=call_id, tool=given["tool"], args=given.get("args"), raw_args=given.get("raw_args", ""))


def replay_tool(one: RecordedTool, request: ToolRequest, serve: Serve) -> Reply:
    """Return the recorded end of a tool call. Of a change the world's service learns, if it happened."""
    changed = one.happened and request.tool.effect in CHANGING and not one.refused_by
    if changed:
        serve(request)
    if one.cause is not None or one.silent:
        outcome = one.outcome or Outcome.UNKNOWN
        return Reply(one.after_s, _fail(one, request, outcome), silent=one.silent, billed=one.billed)
    done = ToolFinished(
        command_id=request.command_id,
        attempt=request.attempt,
        result=json.loads(one.result) if one.result else None,
        error=one.error,
        code=one.code,
        outcome=one.outcome,
        writes=msgspec.json.decode(one.writes, type=Writes) if one.writes else None,
    )
    return Reply(one.after_s, done)


# -- people ----------------------------------------------------------------------------------------------------------


def build_answer(one: RecordedPerson) -> PersonAnswer:
    """Return a person's answer, with all that it says."""
    caps = [NamedCap(each["scope"], each["unit"], each["cap"]) for each in json.loads(one.caps or "[]")]
    says: dict[str, Any] = {
        "message": one.message,
        "edited": json.loads(one.edited) if one.edited else None,
        "cap_usd_micros": one.cap_usd_micros,
        "caps": tuple(caps),
        "model": one.model,
        "tool": one.tool,
    }
    return PersonAnswer(one.after_s, one.verb, actor=REVIEWERS[one.other], says=says)


ACTOR = "operator"


def build_act(act: RecordedAct, input_id: str) -> InboxInput:
    """Return the input of a person's act."""
    if act.act == "say":
        return PersonSpoke(input_id=input_id, actor=ACTOR, text=act.text)
    if act.act == "resume":
        return ResumeRequested(input_id=input_id, actor=ACTOR)
    given: dict[str, type[CancelRequested | TerminateRequested | PauseRequested]] = {
        "cancel": CancelRequested,
        "terminate": TerminateRequested,
        "pause": PauseRequested,
    }
    return given[act.act](input_id=input_id, actor=ACTOR, reason=act.text)
