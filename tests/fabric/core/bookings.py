"""A booking desk for tests: a service that keeps a ledger, does each key once, and goes wrong or goes down on demand; and a fabric that books there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fabric.core.events.commands import Command
from fabric.core.events.inputs import CallFailed, ToolFinished
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON
from tests.fabric.core.fabrics import spec
from tests.fabric.core.harness import World
from tests.fabric.core.scripts import HANGS, Answer, asks, call, fails, summary


@dataclass
class Entry:
    """A request at the desk: ``book``, ``cancel`` or ``ask``; the booking's key; whether it changed anything."""

    what: str
    key: str
    applied: bool


@dataclass
class Desk:
    """The desk's side. A name in a set is a booking by its number, from 1, in the order in which they were first sent."""

    rejected: set[int] = field(default_factory=set)
    """400: not done."""
    lost: set[int] = field(default_factory=set)
    """Done, and the first answer is lost."""
    silent: set[int] = field(default_factory=set)
    """Not done, and no answer to the first request."""
    failing: dict[int, int] = field(default_factory=dict)
    """How many attempts to cancel a booking fail."""
    down_before: set[int] = field(default_factory=set)
    """The caller dies before the n-th cancellation is sent."""
    down_after: set[int] = field(default_factory=set)
    """The caller dies after the n-th cancellation was done."""
    unread: set[int] = field(default_factory=set)
    """Cancelled, and what is answered cannot be read."""
    ledger: list[Entry] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    booked: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    down: bool = False
    cancels: int = 0
    world: World | None = None

    def script(self) -> dict[str, Callable[[Command], Answer]]:
        return {"book": self._book, "cancel": self._cancel, "find": self._find, "pay": self._book}

    def _book(self, command: Any) -> Answer:
        key = command.idempotency_key
        first = key not in self.numbers
        number = self.numbers.setdefault(key, len(self.numbers) + 1)
        if number in self.rejected:
            self.ledger.append(Entry("book", key, applied=False))
            return _answer(None, error="400: there is no such room")
        if number in self.silent and first:
            return HANGS
        applied = key not in self.booked
        self.ledger.append(Entry("book", key, applied))
        if applied:
            self.booked.append(key)
        return HANGS if number in self.lost and first else _answer({"id": f"b-{number}"})

    def _cancel(self, command: Any) -> Answer:
        assert self.world is not None
        args = self.world.executed[-1][1]
        assert set(args) == {"key", "args", "result"}
        key, self.cancels = args["key"], self.cancels + 1
        number = self.numbers.get(key, 0)
        if self.failing.get(number, 0) > 0:
            self.failing[number] -= 1
            return fails(Cause.SERVER_ERROR, "503")
        if self.cancels in self.down_before:
            self.down = True
            return HANGS
        applied = key in self.booked and key not in self.cancelled
        self.ledger.append(Entry("cancel", key, applied))
        if applied:
            self.cancelled.append(key)
        if number in self.unread:
            return _answer(None, error="its JSON ends too early", outcome=Outcome.ANSWERED)
        if self.cancels in self.down_after:
            self.down = True
            return HANGS
        return _answer({"status": "cancelled"})

    def _find(self, command: Any) -> Answer:
        assert self.world is not None
        key = self.world.executed[-1][1]["key"]
        self.ledger.append(Entry("ask", key, applied=False))
        found = {"id": f"b-{self.numbers[key]}"} if key in self.booked else None
        return _answer({"executed": key in self.booked, "result": found})

    def entries(self, what: str) -> list[str]:
        """The keys of what reached the desk and changed something, in order."""
        return [entry.key for entry in self.ledger if entry.what == what and entry.applied]


def _answer(result: JSON, error: str = "", **fields: Any) -> Answer:
    return Answer(
        lambda c: ToolFinished(command_id=c.command_id, attempt=c.attempt, result=result, error=error, **fields),
        after_s=0.1,
    )


def never_sent() -> Answer:
    """An attempt that ended before anything was sent."""
    return Answer(
        lambda c: CallFailed(
            command_id=c.command_id,
            attempt=c.attempt,
            cause=Cause.NETWORK,
            message="nothing answers",
            outcome=Outcome.REJECTED,
        )
    )


def in_turn(*answers: Any) -> Callable[[Command], Answer]:
    """One after the other, each an answer or what gives one."""
    left = list(answers)

    def given(command: Command) -> Answer:
        answer = left.pop(0)
        found: Answer = answer if isinstance(answer, Answer) else answer(command)
        return found

    return given


def say_no() -> Answer:
    """A refusal."""
    return _answer(None, error="409: refused")


def travel(*, book: JSON = None, pay: JSON = None, workers: int = 1, **fields: Any) -> FabricSpec:
    """One worker that may book, with the way back, and pay, which has none. No agent plans."""
    found = spec(roles=(), workers=workers, tools=("book", "pay"), **fields)
    tools = [
        {"name": "book", "effect": "mutating", "compensation": "cancel", "timeout_s": 5, **(book or {})},
        {"name": "pay", "effect": "irreversible", "timeout_s": 5, **(pay or {})},
        {"name": "cancel", "effect": "idempotent", "timeout_s": 5},
        {"name": "find", "effect": "read_only", "timeout_s": 5},
    ]
    tree = found.model_dump(mode="json", by_alias=True)
    return FabricSpec.model_validate({**tree, "tools": tools})


def booking(number: int, tool: str = "book") -> Any:
    """A proposed call, the same for the same number."""
    return call(tool, f"call-{number}", room=number)


def one_by_one(count: int, last: Answer | None = None) -> list[Answer]:
    """A worker that books ``count`` rooms, one a turn, and then says its ``last``."""
    return [*(asks(booking(n + 1)) for n in range(count)), last or summary()]


def at_the_desk(fabric: FabricSpec, desk: Desk, worker: Any, **fields: Any) -> World:
    """A started run of that worker against the desk."""
    world = World(fabric, {"worker": worker, **desk.script()}, **fields)
    desk.world = world
    return world.start()


def go(world: World, desk: Desk) -> World:
    """To rest; each time the desk says that its caller dies, it does, and another process goes on."""
    for _ in range(5_000):
        if desk.down:
            desk.down = False
            world.crash()
        before = (world.now, len(world.rows), len(world.performed))
        world.go(steps=1)
        if (world.now, len(world.rows), len(world.performed)) == before and not desk.down:
            return world
    raise AssertionError("the run does not come to rest")
