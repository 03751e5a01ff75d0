"""Reads and checks recorded agent traces: ``*.jsonl``, one run a line (``tests/data/traces/README.md``).

It also finds the speakers: a person's word, and an agent's answer (docs/reference/detectors.md "How a trace is read").
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fabric.core.values.fingerprint import canonical, masked_fingerprint, replace_echoes
from fabric.core.values.units import JSON
from fabric.services.errors import Refused

KINDS = ("model", "tool", "handoff", "message")
LINE_BYTES_MAX = 64_000_000
"""Largest line; a longer one is no record of one run."""


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One act of an agent, a tool or a person."""

    agent: str
    kind: str
    tool: str
    args: str
    """JSON or raw text, as it was recorded."""
    masked: str
    """Hash of the content, with clocks, hex ids, durations and process ids masked."""
    chars: int
    """Characters of the content."""
    error: str
    said: str = ""
    """An agent's words, or their beginning."""
    target: str = ""
    """Target of a handoff."""
    tokens: int = 0
    cost: float = 0.0
    """Dollars; 0 where none were recorded."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One recorded run."""

    trace_id: str
    success: bool | None
    """None: not judged."""
    halted: bool
    steps: tuple[TraceStep, ...]


def traces_in(folder: Path) -> Iterator[tuple[str, Iterator[Trace]]]:
    """Yield ``(file name, its runs)`` of every ``*.jsonl`` in a folder, by name. Raises Refused for no folder, no
    files or a broken line.
    """
    if not folder.is_dir():
        raise Refused(f"{folder} is no folder; give the one that holds the *.jsonl files", code="invalid", field="dir")
    files = sorted(path for path in folder.glob("*.jsonl") if path.is_file())
    if not files:
        raise Refused(f"{folder} has no *.jsonl file; give the folder that holds them", code="invalid", field="dir")
    for path in files:
        yield path.name, _runs(path)


def _runs(path: Path) -> Iterator[Trace]:
    with path.open("rb") as lines:
        number = 0
        while raw := lines.readline(LINE_BYTES_MAX + 1):
            number += 1
            if raw.strip():
                yield _record(raw, f"{path}, line {number}")


def _record(raw: bytes, where: str) -> Trace:
    if len(raw) > LINE_BYTES_MAX:
        raise _refuse_line(where, f"it has more than {LINE_BYTES_MAX:,} bytes; give one run a line")
    try:
        found = json.loads(raw.decode())
    except UnicodeDecodeError as error:
        raise _refuse_line(where, f"byte {error.start:,} is no UTF-8; save the file as UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise _refuse_line(where, f"it is no JSON ({error}); give one JSON object a line") from None
    if not isinstance(found, dict):
        raise _refuse_line(where, "it is no JSON object; give one object a line")
    success, labels, steps = (
        _read_field(found, "success", bool, where, null=True),
        found.get("labels") or {},
        _read_field(found, "steps", list, where),
    )
    if not isinstance(labels, dict):
        raise _refuse_line(where, "labels is no object; give labels as an object")
    return Trace(
        str(found.get("trace_id") or where),
        success,
        labels.get("halted") is True,
        tuple(_step(one, f"{where}, steps[{n}]") for n, one in enumerate(steps)),
    )


def _step(one: JSON, where: str) -> TraceStep:
    if not isinstance(one, dict):
        raise _refuse_line(where, "it is no object; give each step as an object")
    kind = _read_field(one, "kind", str, where)
    if kind not in KINDS:
        raise _refuse_line(where, f"kind is {kind!r}; give one of {', '.join(KINDS)}")
    args = one.get("args")
    tool = _read_field(one, "tool", str, where, null=True) if kind == "tool" else ""
    chars = one.get("raw_len")
    return TraceStep(
        agent=_read_field(one, "agent", str, where, null=True) or "",
        kind=kind,
        tool=tool or "",
        args=args if isinstance(args, str) else "" if args is None else json.dumps(args),
        masked=_masked_hash(one, _read_field(one, "masked_hash", str, where))
        if kind == "tool"
        else _read_field(one, "masked_hash", str, where),
        chars=chars if type(chars) is int else len(str(one.get("content_excerpt") or "")),
        error=str(one.get("error") or ""),
        said="" if kind == "tool" else str(one.get("content_excerpt") or ""),
        target=str(one.get("tool") or "") if kind == "handoff" else "",
        tokens=_number(one.get("tokens"), int),
        cost=_number(one.get("cost"), float),
    )


def _number(given: JSON, kind: type) -> Any:
    return kind(given) if isinstance(given, int | float) and not isinstance(given, bool) and given > 0 else kind(0)


def _masked_hash(one: dict[str, JSON], recorded: str) -> str:
    """Return the hash of a tool's result as recorded. A result that is wholly there is hashed without the arguments
    that it repeats.
    """
    said = one.get("content_excerpt")
    if not isinstance(said, str) or one.get("raw_len") != len(said):
        return recorded
    result, args = canonical(_json(said)), canonical(_json(one.get("args")))
    return recorded if replace_echoes(result, args) == result else masked_fingerprint(result, args)


def _json(given: JSON) -> JSON:
    try:
        return json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        return given


def _read_field(found: dict[str, JSON], name: str, kind: type, where: str, *, null: bool = False) -> Any:
    if name not in found:
        raise _refuse_line(where, f"{name} is missing; every {'record' if kind in (bool, list) else 'step'} has it")
    if null and found[name] is None:
        return None
    if not isinstance(found[name], kind):
        wanted = {bool: "true or false", list: "a list", str: "text"}[kind]
        raise _refuse_line(where, f"{name} is {str(found[name])[:40]!r}; give {wanted}")
    return found[name]


def _refuse_line(where: str, what: str) -> Refused:
    return Refused(f"{where}: {what}", code="invalid", field="line")


_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_PERSON = frozenset({"user", "human", "person", "customer"})
_ROLE = frozenset({"proxy", "agent", "simulator", "input", "admin"})
"""Words that may accompany a person's word in a name. With any other, it tells an agent's subject: a customer
service agent is no customer.
"""


def is_person(step: TraceStep) -> bool:
    """Return True for a message whose speaker is called user, human, person or customer."""
    if step.kind != "message":
        return False
    words = {word.lower() for word in _WORD.findall(step.agent)}
    return bool(words & _PERSON) and words <= _PERSON | _ROLE


def persons_words(steps: Sequence[TraceStep]) -> frozenset[int]:
    """Return the numbers of the steps in which a person speaks.

    An empty message does not count, nor a message repeated at once: a program in a person's place answers so.
    """
    found: set[int] = set()
    said: dict[str, str] = {}
    for number, step in enumerate(steps):
        if is_person(step):
            if step.chars and said.get(step.agent) != step.masked:
                found.add(number)
            said[step.agent] = step.masked
    return frozenset(found)


def new_texts(steps: Sequence[TraceStep]) -> frozenset[int]:
    """Return the numbers of the steps after which other agents answer anew. They are a person's words, and an agent's
    first words, as a brief.
    """
    found: set[int] = set()
    said: set[tuple[str, str]] = set()
    for number, step in enumerate(steps):
        if step.kind in ("model", "message") and (is_person(step) or (step.agent, step.masked) not in said):
            found.add(number)
            said.add((step.agent, step.masked))
    return frozenset(found)


def is_answer(steps: Sequence[TraceStep], number: int) -> bool:
    """Return True where a text is an agent's answer. A person's message is not, nor the agent's announcement of a
    call.

    The words of its own handoff are none either: frameworks record them once more as a message.
    """
    step = steps[number]
    if step.kind not in ("model", "message") or is_person(step):
        return False
    before = steps[number - 1] if number else None
    if before is not None and before.kind == "handoff" and (before.agent, before.masked) == (step.agent, step.masked):
        return False
    after = steps[number + 1] if number + 1 < len(steps) else None
    return after is None or after.kind not in ("tool", "handoff") or after.agent != step.agent
