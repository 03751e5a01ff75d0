"""Runs that remember, for tests: a fabric whose worker writes to a memory, and the store in memory that answers it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fabric.core import events as ev
from fabric.core.conversations.memory import Origin
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.units import JSON
from fabric.runtime.ports.memories import MemoryCall, answer, tool_answer
from simulator.stores.memory.memories import MemoryMemories
from tests.fabric.core.fabrics import tree
from tests.fabric.core.harness import World
from tests.fabric.core.scripts import HANGS, Answer, asks, call, summary

FABRIC = "fabric-1"
WRITE, READ, DELETE = "memory_write_notes", "memory_read_notes", "memory_delete_notes"


def remembering(scope: str, *, memory: JSON = None, roles: tuple[str, ...] = (), **fields: Any) -> FabricSpec:
    """One worker that may write, read and delete notes. No agent plans unless a test asks for one."""
    found = tree(roles=roles, tools=(), **fields)
    found["agents"][0]["tools"] = [WRITE, READ, DELETE]
    found["memories"] = [{"name": "notes", "scope": scope, **(memory or {})}]
    return FabricSpec.model_validate(found)


def write(key: str, value: JSON, call_id: str | None = None, **more: JSON) -> Any:
    return call(WRITE, call_id or f"write-{key}-{value}", key=key, value=value, **more)


def read(key: str, call_id: str | None = None) -> Any:
    return call(READ, call_id or f"read-{key}", key=key)


def delete(key: str) -> Any:
    return call(DELETE, f"delete-{key}", key=key)


@dataclass
class Clock:
    world: World | None = None

    def now(self) -> int:
        assert self.world is not None
        return self.world.now


@dataclass
class Shelf:
    """The fabric's memory beside a run: its store, and what went wrong on the way."""

    lost: set[str] = field(default_factory=set)
    """Tools whose first answer is lost: it was done."""
    silent: set[str] = field(default_factory=set)
    """Tools whose first request never arrives."""
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.store = MemoryMemories(self.clock)
        self.asked: list[str] = []

    def answer(self, command: Any) -> Answer:
        world = self.clock.world
        assert world is not None
        first = command.tool not in self.asked
        self.asked.append(command.tool)
        if first and command.tool in self.silent:
            return HANGS
        found = world.spec.memory_of(command.tool)
        assert found is not None
        origin = Origin(run_id=world.run.id, step_id=command.step_id, agent=command.agent)
        about = MemoryCall(memory=found[0], verb=found[1], fabric_id=FABRIC, origin=origin)
        args = world.executed[-1][1]
        said = answer(self.store, about, args, key=command.idempotency_key, deadline_at=command.deadline_at)
        if first and command.tool in self.lost:
            return HANGS
        return Answer(lambda c: tool_answer(c.command_id, c.attempt, said), after_s=0.1)

    def stands(self) -> dict[str, tuple[int, JSON]]:
        world = self.clock.world
        assert world is not None
        held = self.store.entries(FABRIC, world.spec.memories[0])
        return {one.key: (one.version, one.value) for one in held}


def started(fabric: FabricSpec, worker: Any, shelf: Shelf | None = None, **fields: Any) -> tuple[World, Shelf]:
    """A started run of that worker, with what its fabric remembers."""
    shelf = shelf or Shelf()
    script = {tool.name: shelf.answer for tool in fabric.all_tools}
    world = World(fabric, {"worker": worker, **script, **fields.pop("script", {})}, **fields)
    shelf.clock.world = world
    return world.start(), shelf


def turns(*calls: Any, last: Answer | None = None) -> list[Answer]:
    """One call a turn, then an end."""
    return [*(asks(one) for one in calls), last or summary()]


def told(world: World, call_id: str) -> JSON:
    """Return what a call's model was told."""
    events = [e for e in world.events if isinstance(e.fact, ev.ToolAnswered) and e.fact.call_id == call_id]
    return world.contents(events[-1].content_ref)
