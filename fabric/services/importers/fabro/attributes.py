"""Translates Fabro's attributes (S1): kinds of nodes, durations, parts of a policy.

Notes list the parts of a file that were lost with their meaning or changed, that have no meaning here, or that do not
affect the next node.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from pydantic import ValidationError

from fabric.core.spec.policies.limits import FailureSignature, Limits, StallWatchdog
from fabric.core.spec.policies.retries import RetryLayers, WorkerRetries
from fabric.core.texts.wrong_values import describe_wrong_value
from fabric.core.values.units import JSON
from fabric.services.importers.fabro.dot import DotNode

TURNS_MAX = 100_000
"""Largest number of turns in a graph, and of visits of one worker."""


class NodeKind(StrEnum):
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


SHAPES: Mapping[str, NodeKind] = {
    "Mdiamond": NodeKind.START,
    "Msquare": NodeKind.EXIT,
    "hexagon": NodeKind.PERSON,
    "diamond": NodeKind.BRANCH,
    "parallelogram": NodeKind.COMMAND,
    "component": NodeKind.PARALLEL,
    "tripleoctagon": NodeKind.PARALLEL,
    "insulator": NodeKind.WAIT,
    "house": NodeKind.WORKFLOW,
}
"""Kinds by shape; every other shape is an agent's."""
TYPES: Mapping[str, NodeKind] = {
    "start": NodeKind.START,
    "exit": NodeKind.EXIT,
    "human": NodeKind.PERSON,
    "wait.human": NodeKind.PERSON,
    "conditional": NodeKind.BRANCH,
    "command": NodeKind.COMMAND,
    "tool": NodeKind.COMMAND,
    "parallel": NodeKind.PARALLEL,
    "parallel.fan_in": NodeKind.PARALLEL,
    "wait": NodeKind.WAIT,
    "stack.manager_loop": NodeKind.WORKFLOW,
}
"""Kinds by ``type``, which goes before the shape."""
NOT_HERE: Mapping[NodeKind, str] = {
    NodeKind.PARALLEL: "does several things at once, and in a graph one worker speaks at a time; write it as a fan-out of a supervisor",
    NodeKind.WAIT: "waits, which a fabric cannot; let a schedule start the run, or a tool ask again",
    NodeKind.WORKFLOW: "runs another workflow; import that one, and make it a team of a hierarchical fabric",
}
"""Kinds without a worker in a graph here, each with advice."""


def find_kind(node: DotNode) -> NodeKind:
    """Return the kind of a node, by its type, its shape or its name."""
    given = {name: one.value for name, one in node.attributes.items()}
    if given.get("type") in TYPES:
        return TYPES[given["type"]]
    if given.get("shape") in SHAPES:
        return SHAPES[given["shape"]]
    return {"start": NodeKind.START, "exit": NodeKind.EXIT, "end": NodeKind.EXIT}.get(node.id.lower(), NodeKind.AGENT)


UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def read_seconds(text: str) -> float:
    """Return a duration in seconds: ``250ms``, ``1800s``, ``30m``, ``2h``, ``1d``, or a bare number of seconds.
    Raises ValueError for others.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*", text)
    if found is None:
        raise ValueError(f"{text!r} is no duration; write one as 1800s, 30m or 2h")
    return float(found[1]) * UNITS[found[2] or "s"]


def read_count(text: str) -> int:
    """Return a whole number from 0 on. Raises ValueError for any other text."""
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise ValueError(f"{text!r} is no whole number from 0 on")
    return int(text)


class PolicyPart(NamedTuple):
    """Place in a policy that an attribute of the graph goes to."""

    group: str
    field: str
    model: type[Any]
    besides: Mapping[str, JSON] = {}
    also: str = ""
    """Second field that gets this value too; empty: none."""
    zero: bool = True
    """False: 0 means no bound, like an absent field here."""


_RETRIES = PolicyPart("retry_layers", "max_retries", RetryLayers, {"preset": "fabro"})
POLICY: Mapping[str, PolicyPart] = {
    "max_node_visits": PolicyPart("limits", "max_node_visits", Limits, {"visits_preset": "fabro"}, zero=False),
    "stall_timeout": PolicyPart("stall_watchdog", "after_s", StallWatchdog),
    "default_max_retry": _RETRIES,
    "default_max_retries": _RETRIES,
    "loop_restart_signature_limit": PolicyPart("failure_signature", "limit", FailureSignature, also="restart_limit"),
}
"""Attributes of the graph with a counterpart in ``policy`` (S1)."""


def build_policy(part: PolicyPart, text: str) -> dict[str, JSON]:
    """Return the fields of an attribute. Raises ValueError with one sentence where it has none."""
    value: Any = read_seconds(text) if part.field == "after_s" else read_count(text)
    if value == 0 and not part.zero:
        return {}
    fields = {name: value for name in (part.field, part.also) if name}
    try:
        read = part.model.model_validate({**fields, **part.besides})
    except ValidationError as error:
        raise ValueError(describe_wrong_value(error.errors()[0])) from None
    return {name: getattr(read, name) for name in fields} | dict(part.besides)


def read_retries(name: str, text: str) -> JSON:
    """Return the retries in a node's attribute. Raises ValueError, one sentence, for an unreadable one."""
    value: JSON = read_count(text) if name == "max_retries" else text == "true" if name == "allow_partial" else text
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
    "selection": (("random",), "picks the next node at random, which a fabric cannot"),
}
"""Attributes of nodes that affect the next node, each with the values that do."""
NODE_LEFT: Mapping[str, str] = {
    "timeout": "a node has no time of its own here; policy.deadlines bounds calls, stages and the run"
}
"""Attributes of nodes that the author has to replace by other settings, each with a hint."""
DEFAULT_CHOICE = "human.default_choice"
NO_DEFAULT = 'treats silence as an answer, which a fabric does not; write an edge with condition="outcome=failed"'


class ImportNote(NamedTuple):
    """A part of the file with its fate."""

    line: int
    what: str
    """Name of the part: ``node verify, goal_gate``."""
    sentence: str

    def __str__(self) -> str:
        return f"line {self.line}, {self.what}: {self.sentence}"


@dataclass
class ImportNotes:
    """All notes, in the order of their parts."""

    taken: list[ImportNote] = field(default_factory=list)
    lost: list[ImportNote] = field(default_factory=list)
    """Parts whose loss makes it another graph."""
    left: list[ImportNote] = field(default_factory=list)
    """Notes for the author about parts whose loss does not change the graph."""
    idle: dict[str, int] = field(default_factory=dict)
    """Attributes that do not affect the next node: the first line of each."""

    def take(self, line: int, what: str, sentence: str) -> None:
        """Note that a part has a counterpart."""
        self.taken.append(ImportNote(line, what, sentence))

    def lose(self, line: int, what: str, sentence: str) -> None:
        """Note that a part has none, and the graph without it is another one."""
        self.lost.append(ImportNote(line, what, sentence))

    def leave(self, line: int, what: str, sentence: str) -> None:
        """Note that a part has no counterpart and its loss does not change the graph."""
        self.left.append(ImportNote(line, what, sentence))

    def idles(self, name: str, line: int) -> None:
        """Note that an attribute does not affect the next node."""
        self.idle.setdefault(name, line)

    def list_notes(self) -> Iterator[str]:
        """Yield the parts that the result lacks: a line each, and one line for all without effect."""
        yield from (str(one) for one in sorted({*self.lost, *self.left}))
        if self.idle:
            names = ", ".join(f"{name} (line {line})" for name, line in sorted(self.idle.items()))
            yield f"{names}: these decide nothing here; agents, models and prompts are written in the fabric"
