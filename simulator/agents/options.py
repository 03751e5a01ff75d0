"""Reads a scripted agent's options in ``ModelSpec.options``: its identity, failures, and tool calls by turn."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from fabric.core.events.inputs import CallFailed
from fabric.core.texts.text import parse_json_object
from fabric.core.values.fingerprint import encode
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON
from fabric.runtime.ports.calls import ModelRequest


def map_options(request: ModelRequest) -> Mapping[str, JSON]:
    """Return the model's options as this agent has them."""
    options = request.model.options
    own = options.get("agents", {}).get(request.agent)
    return {**options, **own} if own else options


def list_calls(
    options: Mapping[str, JSON], turn: int, offered: Sequence[str], asked: str = ""
) -> list[tuple[str, JSON]]:
    """Return the calls ``(tool, arguments)`` that ``calls`` names for a turn, numbered from 0.

    Calls of tools that are not offered are left out, and those with ``if_asked`` if the request has none of its
    words.
    """
    turns = options.get("calls", ())
    named = turns[turn] if turn < len(turns) else ()
    heard = asked.lower()
    return [
        (one["tool"], one.get("args", {}))
        for one in named
        if one["tool"] in offered and any(word in heard for word in one.get("if_asked", ("",)))
    ]


def list_effects(request: ModelRequest) -> list[str]:
    """Return a sentence for each outside effect: results with ``id`` and ``status``, and scripted calls of memories."""
    found = []
    scripted = bool(map_options(request).get("calls"))
    for message in request.messages:
        value = parse_json_object(message.text, strict=True)[0] if message.role == "tool" else None
        if value and isinstance(value.get("id"), str) and isinstance(value.get("status"), str):
            what = str(value.get("kind") or message.tool)
            found.append(f"{what[:1].upper()}{what[1:]} {value['id']} is {value['status']}.")
        elif value and scripted and "memory" in value:
            found += _recalled_words(value)
    return found


def _recalled_words(told: Mapping[str, JSON]) -> list[str]:
    """Return a memory's answer as a sentence; none for its list of keys."""
    if "data" in told:
        by = told["origin"]
        who = f"{by['agent']} of run {by['run'][:8]}" if "run" in by else str(by.get("person"))
        return [
            f"Remembered under {told['key']}, by {who} (version {told['version']}): {encode(told['data']).decode()}."
        ]
    if told.get("found") is False:
        return [f"Nothing is remembered under {told['key']} yet."]
    return [f"Noted under {told['key']} as version {told['version']}."] if told.get("written") else []


_said = re.compile(r"\A[a-z][a-z0-9_-]* said:\n(.+)\Z", re.DOTALL)


def earlier_outputs(request: ModelRequest) -> list[str]:
    """Return the outputs of earlier turns, where workers take turns, the newest last."""
    users = (message.text for message in request.messages if message.role == "user")
    return [found.group(1) for text in users if (found := _said.match(text))]


def failure(request: ModelRequest, fail: JSON) -> CallFailed | None:
    """Return the failure that ``fail`` demands; None for none, or no more."""
    if not fail or request.attempt > int(fail.get("times", 1_000_000)):
        return None
    cause = Cause(fail.get("cause", "server_error"))
    wait = fail.get("retry_after_s")
    return CallFailed(
        command_id=request.command_id,
        attempt=request.attempt,
        cause=cause,
        message=f"the scripted model fails by script: {cause}",
        status=fail.get("status"),
        retry_after_s=None if wait is None else float(wait),
    )


def judgement(options: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return a judge's verdict: accepted, unless there are ``findings``; with ``score`` if it is given."""
    findings = [str(one) for one in options.get("findings", ())]
    score = options.get("score")
    evidence = ["It was read from its beginning to its end."]
    return {"accept": not findings, "score": score, "findings": findings, "evidence": evidence}


def failed_attempt(request: ModelRequest, cause: Cause, message: str) -> CallFailed:
    """Return an attempt that ends without an answer."""
    return CallFailed(command_id=request.command_id, attempt=request.attempt, cause=cause, message=message)
