"""Answers of models and tools that say more than most do."""

from __future__ import annotations

from typing import Any

from fabric.core.forms import InputRequest
from fabric.core.frozen import replace
from fabric.core.inputs import ModelReplied, ToolFinished
from fabric.core.saga import Outcome
from fabric.core.token_parts import TokenParts
from fabric.runtime.call_ports import ToolRequest
from simulator.kernel import people


def with_own_parts(reply: ModelReplied) -> ModelReplied:
    """The answer with all that an endpoint may give beside it."""
    parts = TokenParts(cached=min(5, reply.input_tokens), reasoning=1)
    own, calls = {"thought": "It is so."}, tuple(replace(call, own={"signature": "s"}) for call in reply.calls)
    return replace(reply, own=own, calls=calls, parts=parts, usage_problem="the endpoint counts fewer tokens than came")


def asking(request: ToolRequest) -> ToolFinished:
    """Returns the answer of a server that asks a person first: another question with each attempt."""
    asked = InputRequest(server="world", message=f"Sure? ({request.attempt})", schema=people.FORM)
    ids: dict[str, Any] = {"command_id": request.command_id, "attempt": request.attempt}
    outcome = Outcome.REJECTED if request.idempotency_key < "8" else Outcome.UNKNOWN
    return ToolFinished(**ids, result=None, error="it asks a person", outcome=outcome, requested=asked)
