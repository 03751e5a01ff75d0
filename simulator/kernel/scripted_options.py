"""What ``ModelSpec.options`` tell a scripted agent apart from its script: who it is, when it fails, which tools it calls turn by turn."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fabric.core.fingerprint import encode
from fabric.core.inputs import CallFailed
from fabric.core.taxonomy import Cause
from fabric.core.text import parse_json_object
from fabric.runtime.call_ports import ModelRequest

JSON = Any


def options_of(request: ModelRequest) -> Mapping[str, JSON]:
    """The model's options as this agent has them."""
    options = request.model.options
    own = options.get("agents", {}).get(request.agent)
    return {**options, **own} if own else options


def calls_of(options: Mapping[str, JSON], turn: int, offered: Sequence[str], asked: str = "") -> list[tuple[str, JSON]]:
    """The calls ``(tool, arguments)`` that ``calls`` names for a turn, from 0. Those of tools that are not offered are left out, and so are those with
    ``if_asked`` where what was asked has none of its words.
    """
    turns = options.get("calls", ())
    named = turns[turn] if turn < len(turns) else ()
    heard = asked.lower()
    return [
        (one["tool"], one.get("args", {}))
        for one in named
        if one["tool"] in offered and any(word in heard for word in one.get("if_asked", ("",)))
    ]


def done(request: ModelRequest) -> list[str]:
    """What the tools did outside, a sentence each: every result that has an ``id`` and a ``status``, and what a memory was asked by script."""
    found = []
    scripted = bool(options_of(request).get("calls"))
    for message in request.messages:
        value = parse_json_object(message.text, strict=True)[0] if message.role == "tool" else None
        if value and isinstance(value.get("id"), str) and isinstance(value.get("status"), str):
            what = str(value.get("kind") or message.tool)
            found.append(f"{what[:1].upper()}{what[1:]} {value['id']} is {value['status']}.")
        elif value and scripted and "memory" in value:
            found += _recalled(value)
    return found


def _recalled(told: Mapping[str, JSON]) -> list[str]:
    """A memory's answer as a sentence; none for its list of keys."""
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


def heard(request: ModelRequest) -> list[str]:
    """What others said in the turns before, where workers take turns, the newest last."""
    users = (message.text for message in request.messages if message.role == "user")
    return [found.group(1) for text in users if (found := _said.match(text))]


def failure(request: ModelRequest, fail: JSON) -> CallFailed | None:
    """The failure that ``fail`` asks for; None: none, or no more."""
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
    """What a judge says: accepted, unless ``findings`` says what is wrong; ``score`` where it is given."""
    findings = [str(one) for one in options.get("findings", ())]
    score = options.get("score")
    evidence = ["It was read from its beginning to its end."]
    return {"accept": not findings, "score": score, "findings": findings, "evidence": evidence}


def failed(request: ModelRequest, cause: Cause, message: str) -> CallFailed:
    """An attempt that ends without an answer."""
    return CallFailed(command_id=request.command_id, attempt=request.attempt, cause=cause, message=message)
