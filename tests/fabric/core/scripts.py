"""Scripted models and tools answer, in a word or two."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from fabric.core.events.commands import Command
from fabric.core.events.inputs import CallFailed, ModelReplied, Result, ToolCall, ToolFinished
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON
from tests.fabric.core.fabrics import plan


@dataclass(frozen=True)
class Answer:
    """A scripted model's or tool's answer to one command. ``after_s`` None: it never comes back before its deadline."""

    make: Callable[[Command], Result] | None
    after_s: float = 1.0
    told: tuple[tuple[float, ToolCall], ...] = ()
    """Calls that are whole before the answer is, and after how many seconds each."""

    def after(self, seconds: float) -> Answer:
        return replace(self, after_s=seconds)


def say(text: str = "", *calls: ToolCall, **fields: Any) -> Answer:
    given = {"input_tokens": 50, "output_tokens": 20, **fields}
    return Answer(lambda c: ModelReplied(command_id=c.command_id, attempt=c.attempt, text=text, calls=calls, **given))


def streams(ends: Answer, *told: tuple[float, ToolCall]) -> Answer:
    """The same end, before which calls come in one by one."""
    return replace(ends, told=told)


def summary(text: str = "Found it.", *, citations: tuple[str, ...] = (), **fields: Any) -> Answer:
    return say(json.dumps({"text": text, "citations": citations}), **fields)


def planned(branches: int = 1, **fields: JSON) -> Answer:
    return say(json.dumps(plan(branches, **fields)))


def scored(score: float) -> Answer:
    return say(json.dumps({"score": score, "reasons": ["Because."]}))


_ids = count()


def call(tool: str = "look", call_id: str | None = None, **args: JSON) -> ToolCall:
    name = call_id if call_id is not None else f"{tool}-{next(_ids)}"
    return ToolCall(call_id=name, tool=tool, args=args)


def asks(*calls: ToolCall, text: str = "") -> Answer:
    """A model's answer that proposes calls."""
    return say(text, *(calls or (call(q="x"),)))


def broken(tool: str = "look", raw: str = '{"q": ') -> Answer:
    """A call whose arguments are no JSON object."""
    return say("", ToolCall(call_id=f"{tool}-{next(_ids)}", tool=tool, args=None, raw_args=raw))


def gives(result: JSON = "a result", error: str = "", code: str = "") -> Answer:
    """A tool's result."""
    return Answer(
        lambda c: ToolFinished(command_id=c.command_id, attempt=c.attempt, result=result, error=error, code=code), 0.1
    )


def fails(cause: Cause = Cause.RATE_LIMIT, message: str = "it failed", **fields: Any) -> Answer:
    """An attempt that ends without an answer."""
    return Answer(
        lambda c: CallFailed(command_id=c.command_id, attempt=c.attempt, cause=cause, message=message, **fields)
    )


HANGS = Answer(None)
"""Nothing comes back; the port gives up at the call's deadline, as a port must."""

Script = Answer | Iterable[Answer] | Callable[[Command], Answer]
GOOD: Mapping[str, Script] = {
    "planner": planned(),
    "worker": summary(),
    "aggregator": summary("All of it."),
    "critic": scored(0.9),
    "finalizer": summary("The answer."),
}
