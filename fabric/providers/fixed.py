"""Answers as the provider ``fixed``, without a model. Its agent makes the one call that the fabric writes, and the
result is its answer.

An error of the call is the agent's failure. So a person or a tool takes a turn in a conversation: nothing is sent,
nothing is spent. ``options.agents.NAME`` has ``tool`` and ``args``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from fabric.core.events.inputs import CallFailed, ModelReplied, ToolCall
from fabric.core.texts.text import parse_json_object
from fabric.core.values.taxonomy import Cause
from fabric.runtime.ports.calls import ChatMessage, ModelRequest

CALL_ID = "fixed"


class Fixed:
    """A ``ModelPort`` without a model."""

    async def ask(self, request: ModelRequest) -> ModelReplied | CallFailed:
        """Return the agent's call; once its result came back, its answer. Configuration errors and the call's own
        error are failures.
        """
        came = [message for message in request.messages if message.role == "tool"]
        if came:
            return _build_answer(request, came[-1])
        written = request.model.options.get("agents")
        named = written.get(request.agent) if isinstance(written, Mapping) else None
        mine = named if isinstance(named, Mapping) else {}
        tool = mine.get("tool")
        if tool not in [one.name for one in request.tools]:
            there = f"{tool!r} is no tool of it" if tool else "none is written"
            said = f"model {request.model.name!r} makes one call for agent {request.agent!r}, and {there}; write options.agents.{request.agent}.tool"
            return _build_failure(request, Cause.BAD_CONFIGURATION, said)
        return _build_reply(request, calls=(ToolCall(call_id=CALL_ID, tool=tool, args=dict(mine.get("args") or {})),))


def _build_answer(request: ModelRequest, message: ChatMessage) -> ModelReplied | CallFailed:
    """Return the call's result as the answer."""
    value, _ = parse_json_object(message.text, strict=True)
    error = (value or {}).get("error")
    if isinstance(error, Mapping) and "message" in error:
        return _build_failure(request, Cause.TOOL_CONSTRAINT, f"{message.tool}: {error['message']}")
    text = str((value or {}).get("answer") or message.text).strip() or "done"
    if request.output_schema is None:
        return _build_reply(request, text=text)
    return _build_reply(request, text=json.dumps({"text": text, "citations": []}, ensure_ascii=False))


def _build_reply(request: ModelRequest, text: str = "", calls: tuple[ToolCall, ...] = ()) -> ModelReplied:
    return ModelReplied(
        command_id=request.command_id, attempt=request.attempt, text=text, calls=calls, model=request.model.name
    )


def _build_failure(request: ModelRequest, cause: Cause, message: str) -> CallFailed:
    return CallFailed(command_id=request.command_id, attempt=request.attempt, cause=cause, message=message)
