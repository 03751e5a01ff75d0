"""Memories in the virtual world: calls of them reach their store, lose their answers or arrive late, as the seed says; and how agents call them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from fabric.core.inputs import CallFailed, ToolCall
from fabric.core.saga import Outcome
from fabric.core.spec import FabricSpec
from fabric.core.spec_memories import Verb
from fabric.core.taxonomy import Cause
from fabric.runtime.call_ports import ToolRequest
from fabric.runtime.memory_port import Answered, answer, finished
from simulator.kernel.services import Served

if TYPE_CHECKING:
    from simulator.kernel.world import World

JSON = Any
KEYS = ("red", "green", "blue")
Strikes = Callable[[str], bool]


class Remembering:
    """The way from a call of a memory's tool to its store and back."""

    def __init__(self, world: World, rng: Random) -> None:
        self._world, self._rng = world, rng

    def run(self, request: ToolRequest, strikes: Strikes) -> Served:
        """One attempt."""
        assert request.memory is not None
        verb = request.memory.verb
        fails = {Verb.RESTORE: "compensation_fails", Verb.CHECK: "reconcile_fails"}.get(verb, "effect_never_sent")
        if strikes(fails):
            outcome = Outcome.REJECTED if fails == "effect_never_sent" else Outcome.UNKNOWN
            return Served(_away(request, outcome))
        if verb in (Verb.WRITE, Verb.DELETE) and strikes("effect_not_done"):
            # It is under way, in the hands of a process that stands still: it arrives when nobody waits for it any more, or never.
            if self._rng.random() < 0.7:
                left = max(1, request.deadline_at - self._world.clock.now())
                at = self._world.clock.now() + int(
                    left * self._rng.choice((0.5, 1.2, 2.0, 5.0)) * (0.8 + 0.4 * self._rng.random())
                )
                self._world.schedule.at(at, self._arrive, request)
            return Served(_away(request, Outcome.UNKNOWN), silent=True)
        return Served(self._said(request), silent=strikes("effect_lost_answer"))

    def _arrive(self, request: ToolRequest) -> None:
        self._world.sometimes["memory_arrived_late"] += 1
        self._said(request)

    def _said(self, request: ToolRequest) -> Any:
        assert request.memory is not None
        key, until = request.idempotency_key, request.deadline_at
        said: Answered = answer(self._world.memories, request.memory, request.args, key=key, deadline_at=until)
        self._world.trace("memory", request.tool.name, key, said.error, said.result)
        return finished(request.command_id, request.attempt, said)


def _away(request: ToolRequest, outcome: Outcome) -> CallFailed:
    return CallFailed(
        command_id=request.command_id,
        attempt=request.attempt,
        cause=Cause.NETWORK,
        message="the memory does not answer",
        outcome=outcome,
    )


def asked_of_memory(spec: FabricSpec, call: ToolCall) -> ToolCall:
    """A query as a call of a memory asks it: which key, and for a write what; some name the version that they expect."""
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


def recalling(spec: FabricSpec, tools: list[str], turn: int, rng: Random) -> tuple[ToolCall, ...]:
    """One call or two of memories, as queries; none where the agent is offered none."""
    names = [name for name in tools if spec.memory_of(name) is not None]
    asked = [(rng.choice(names), rng.randrange(9)) for _ in range(rng.choice((1, 2)))] if names else []
    return tuple(
        ToolCall(call_id=f"m{turn}-{n}", tool=name, args={"query": f"part {what}"})
        for n, (name, what) in enumerate(asked)
    )


def drawn(rng: Random) -> list[JSON]:
    """The memories of a fabric of the swarm: in most none."""
    if rng.random() < 0.75:
        return []
    return [
        {"name": scope, "scope": scope, "keys": rng.choice((1, 2, 100)), "carry_over": rng.random() < 0.25}
        for scope in rng.choice((("fabric",), ("fabric",), ("run", "fabric"), ("run",)))
    ]
