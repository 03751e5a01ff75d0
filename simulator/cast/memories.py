"""Memories in the virtual world, whose calls may lose their answers or arrive late, and the agents' calls of them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from fabric.core.events.inputs import CallFailed, ToolCall
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.memories import Verb
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON
from fabric.runtime.ports.calls import ToolRequest
from fabric.runtime.ports.memories import MemoryAnswer, answer, tool_answer
from simulator.cast.services import Served
from simulator.clockwork.clock import SeenWorld

KEYS = ("red", "green", "blue")
Strikes = Callable[[str], bool]


class Remembering:
    """Executes calls of memories' tools on their store."""

    def __init__(self, world: SeenWorld, rng: Random) -> None:
        self._world, self._rng = world, rng

    def run(self, request: ToolRequest, strikes: Strikes) -> Served:
        """Execute one attempt."""
        assert request.memory is not None
        verb = request.memory.verb
        fails = {Verb.RESTORE: "compensation_fails", Verb.CHECK: "reconcile_fails"}.get(verb, "effect_never_sent")
        if strikes(fails):
            outcome = Outcome.REJECTED if fails == "effect_never_sent" else Outcome.UNKNOWN
            return Served(_away(request, outcome))
        if verb in (Verb.WRITE, Verb.DELETE) and strikes("effect_not_done"):
            # A paused process has it: it arrives when no call waits for it any more, or never.
            if self._rng.random() < 0.7:
                left = max(1, request.deadline_at - self._world.clock.now())
                at = self._world.clock.now() + int(
                    left * self._rng.choice((0.5, 1.2, 2.0, 5.0)) * (0.8 + 0.4 * self._rng.random())
                )
                self._world.schedule.call_at(at, self._arrive, request)
            return Served(_away(request, Outcome.UNKNOWN), silent=True)
        return Served(self._build_answer(request), silent=strikes("effect_lost_answer"))

    def _arrive(self, request: ToolRequest) -> None:
        self._world.sometimes["memory_arrived_late"] += 1
        self._build_answer(request)

    def _build_answer(self, request: ToolRequest) -> Any:
        assert request.memory is not None
        key, until = request.idempotency_key, request.deadline_at
        said: MemoryAnswer = answer(self._world.memories, request.memory, request.args, key=key, deadline_at=until)
        self._world.trace("memory", request.tool.name, key, said.error, said.result)
        return tool_answer(request.command_id, request.attempt, said)


def _away(request: ToolRequest, outcome: Outcome) -> CallFailed:
    return CallFailed(
        command_id=request.command_id,
        attempt=request.attempt,
        cause=Cause.NETWORK,
        message="the memory does not answer",
        outcome=outcome,
    )


def memory_call(spec: FabricSpec, call: ToolCall) -> ToolCall:
    """Convert a query to a call of a memory: key, value for a write, and sometimes the expected version."""
    found = spec.memory_of(call.tool)
    query = call.args.get("query") if isinstance(call.args, dict) else None
    if found is None or not isinstance(query, str):
        return call
    number = sum(query.encode())
    args: JSON = {"key": KEYS[number % len(KEYS)]}
    if found[1] is Verb.WRITE:
        args["value"] = query
    if found[1] is not Verb.READ and number % 5 == 0:
        args["version"] = number % 3
    return ToolCall(call_id=call.call_id, tool=call.tool, args=args)


def draw_memory_calls(spec: FabricSpec, tools: list[str], turn: int, rng: Random) -> tuple[ToolCall, ...]:
    """Return one or two calls of memories, as queries; none if the agent has no memory."""
    names = [name for name in tools if spec.memory_of(name) is not None]
    asked = [(rng.choice(names), rng.randrange(9)) for _ in range(rng.choice((1, 2)))] if names else []
    return tuple(
        ToolCall(call_id=f"m{turn}-{n}", tool=name, args={"query": f"part {what}"})
        for n, (name, what) in enumerate(asked)
    )


def draw_memories(rng: Random) -> list[JSON]:
    """Return the memories of a fabric of the swarm; most have none."""
    if rng.random() < 0.75:
        return []
    return [
        {"name": scope, "scope": scope, "keys": rng.choice((1, 2, 100)), "carry_over": rng.random() < 0.25}
        for scope in rng.choice((("fabric",), ("fabric",), ("run", "fabric"), ("run",)))
    ]
