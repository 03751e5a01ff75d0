"""Translates Fabro's attributes: kinds of nodes, durations, parts of a policy. Lists those that decide nothing about the next node (S1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from pydantic import ValidationError

from fabric.core.policy import FailureSignature, Limits, StallWatchdog
from fabric.core.retry_policy import RetryLayers, WorkerRetries
from fabric.core.wrong_values import describe_wrong_value
from fabric.services.graph_import.dot_reader import Node

JSON = Any
TURNS_MAX = 100_000
"""Most turns that a graph may allow, and most visits of one of its workers."""


class Kind(StrEnum):
    """The kinds of nodes."""

    START = "start"
    EXIT = "exit"
    AGENT = "agent"
    PERSON = "person"
    BRANCH = "branch"
    COMMAND = "command"
    PARALLEL = "parallel"
    WAIT = "wait"
    WORKFLOW = "workflow"


SHAPES: Mapping[str, Kind] = {
    "Mdiamond": Kind.START,
    "Msquare": Kind.EXIT,
    "hexagon": Kind.PERSON,
    "diamond": Kind.BRANCH,
    "parallelogram": Kind.COMMAND,
    "component": Kind.PARALLEL,
    "tripleoctagon": Kind.PARALLEL,
    "insulator": Kind.WAIT,
    "house": Kind.WORKFLOW,
}
"""Kinds by shape; every other shape is an agent's."""
TYPES: Mapping[str, Kind] = {
    "start": Kind.START,
    "exit": Kind.EXIT,
    "human": Kind.PERSON,
    "wait.human": Kind.PERSON,
    "conditional": Kind.BRANCH,
    "command": Kind.COMMAND,
    "tool": Kind.COMMAND,
    "parallel": Kind.PARALLEL,
    "parallel.fan_in": Kind.PARALLEL,
    "wait": Kind.WAIT,
    "stack.manager_loop": Kind.WORKFLOW,
}
"""Kinds by ``type``, which goes before the shape."""
NOT_HERE: Mapping[Kind, str] = {
    Kind.PARALLEL: "does several things at once, and in a graph one worker speaks at a time; write it as a fan-out of a supervisor",
    Kind.WAIT: "waits, and nobody waits here; let a schedule start the run, or a tool ask again",
    Kind.WORKFLOW: "runs another workflow; import that one, and make it a team of a hierarchical fabric",
}
"""Kinds that a graph here has no worker for, each with what to do."""


def kind_of(node: Node) -> Kind:
    """The kind of a node, by its type, its shape or its name."""
    given = {name: one.value for name, one in node.attributes.items()}
    if given.get("type") in TYPES:
        return TYPES[given["type"]]
    if given.get("shape") in SHAPES:
        return SHAPES[given["shape"]]
    return {"start": Kind.START, "exit": Kind.EXIT, "end": Kind.EXIT}.get(node.id.lower(), Kind.AGENT)


UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def seconds_of(text: str) -> float:
    """A duration in seconds: ``250ms``, ``1800s``, ``30m``, ``2h``, ``1d``, or a bare number of seconds. ValueError for anything else."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*", text)
    if found is None:
        raise ValueError(f"{text!r} is no duration; write one as 1800s, 30m or 2h")
    return float(found[1]) * UNITS[found[2] or "s"]


def count_of(text: str) -> int:
    """A whole number from 0 on. ValueError for anything else."""
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise ValueError(f"{text!r} is no whole number from 0 on")
    return int(text)


class Part(NamedTuple):
    """Where in a policy an attribute of the graph goes."""

    group: str
    field: str
    model: type[Any]
    besides: Mapping[str, JSON] = {}
    also: str = ""
    """A second field that it says the same of."""
    zero: bool = True
    """False: 0 says that there is no bound, as leaving the field out does here."""


_RETRIES = Part("retry_layers", "max_retries", RetryLayers, {"preset": "fabro"})
POLICY: Mapping[str, Part] = {
    "max_node_visits": Part("limits", "max_node_visits", Limits, {"visits_preset": "fabro"}, zero=False),
    "stall_timeout": Part("stall_watchdog", "after_s", StallWatchdog),
    "default_max_retry": _RETRIES,
    "default_max_retries": _RETRIES,
    "loop_restart_signature_limit": Part("failure_signature", "limit", FailureSignature, also="restart_limit"),
}
"""Attributes of the graph with a counterpart in ``policy`` (S1)."""


def policy_of(part: Part, text: str) -> dict[str, JSON]:
    """The fields that an attribute gives. ValueError with one sentence where it says none."""
    value: Any = seconds_of(text) if part.field == "after_s" else count_of(text)
    if value == 0 and not part.zero:
        return {}
    fields = {name: value for name in (part.field, part.also) if name}
    try:
        read = part.model.model_validate({**fields, **part.besides})
    except ValidationError as error:
        raise ValueError(describe_wrong_value(error.errors()[0])) from None
    return {name: getattr(read, name) for name in fields} | dict(part.besides)


def retries_of(name: str, text: str) -> JSON:
    """The retries that a node's attribute asks for. ValueError, one sentence, for an attribute that cannot be read."""
    value: JSON = count_of(text) if name == "max_retries" else text == "true" if name == "allow_partial" else text
    try:
        WorkerRetries.model_validate({name: value})
    except ValidationError as error:
        raise ValueError(describe_wrong_value(error.errors()[0])) from None
    return value


_FAILURES = "says what follows a failure; write edges on outcome=failed"
GRAPH_LOST: Mapping[str, str] = {"on_failure": _FAILURES}
NODE_LOST: Mapping[str, tuple[tuple[str, ...], str]] = {
    "auto_status": (("true",), "makes every failure a success, and a failure stays one here"),
    "on_failure": (("succeed", "partially_succeed", "exit"), _FAILURES),
    "on_retries_exhausted": (("partially_succeed",), "write allow_partial=true, which says the same"),
    "selection": (("random",), "draws who is next, and nobody draws here"),
}
"""Attributes of nodes that decide, each with the values with which it does."""
NODE_LEFT: Mapping[str, str] = {
    "timeout": "a node has no time of its own here; policy.deadlines bounds calls, stages and the run"
}
"""Attributes of nodes whose author has to say the same elsewhere."""
DEFAULT_CHOICE = "human.default_choice"
NO_DEFAULT = 'takes silence for an answer, and nobody\'s is one here; write an edge with condition="outcome=failed"'
