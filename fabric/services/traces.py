"""Recorded agent traces, read and checked: ``*.jsonl``, one run a line, in the form of ``tests/data/traces/README.md``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fabric.core.echoes import without_echoes
from fabric.core.fingerprint import canonical, masked_fingerprint
from fabric.services.errors import Refused

JSON = Any
KINDS = ("model", "tool", "handoff", "message")
LINE_BYTES_MAX = 64_000_000
"""A longer line is no record of one run."""


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One thing that an agent, a tool or a person did."""

    agent: str
    kind: str
    tool: str
    args: str
    """JSON or raw text, as it was recorded."""
    masked: str
    """Hash of the content, clocks, hex ids, durations and process ids masked."""
    chars: int
    """Characters of the content."""
    error: str
    said: str = ""
    """Of what an agent says: the words, or the beginning of them."""
    target: str = ""
    """Of a handoff: to whom."""
    tokens: int = 0
    cost: float = 0.0
    """Dollars; 0 where nobody recorded them."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One recorded run."""

    trace_id: str
    success: bool | None
    """None: nobody judged it."""
    halted: bool
    steps: tuple[TraceStep, ...]


def traces_in(folder: Path) -> Iterator[tuple[str, Iterator[Trace]]]:
    """``(file name, its runs)`` of every ``*.jsonl`` in a folder, by name. Refused for no folder, no files or a broken line."""
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
        raise _broken(where, f"it has more than {LINE_BYTES_MAX:,} bytes; give one run a line")
    try:
        found = json.loads(raw.decode())
    except UnicodeDecodeError as error:
        raise _broken(where, f"byte {error.start:,} is no UTF-8; save the file as UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise _broken(where, f"it is no JSON ({error}); give one JSON object a line") from None
    if not isinstance(found, dict):
        raise _broken(where, "it is no JSON object; give one object a line")
    success, labels, steps = (
        _of(found, "success", bool, where, null=True),
        found.get("labels") or {},
        _of(found, "steps", list, where),
    )
    if not isinstance(labels, dict):
        raise _broken(where, "labels is no object; give labels as an object")
    return Trace(
        str(found.get("trace_id") or where),
        success,
        labels.get("halted") is True,
        tuple(_step(one, f"{where}, steps[{n}]") for n, one in enumerate(steps)),
    )


def _step(one: JSON, where: str) -> TraceStep:
    if not isinstance(one, dict):
        raise _broken(where, "it is no object; give each step as an object")
    kind = _of(one, "kind", str, where)
    if kind not in KINDS:
        raise _broken(where, f"kind is {kind!r}; give one of {', '.join(KINDS)}")
    args = one.get("args")
    tool = _of(one, "tool", str, where, null=True) if kind == "tool" else ""
    chars = one.get("raw_len")
    return TraceStep(
        agent=_of(one, "agent", str, where, null=True) or "",
        kind=kind,
        tool=tool or "",
        args=args if isinstance(args, str) else "" if args is None else json.dumps(args),
        masked=_masked(one, _of(one, "masked_hash", str, where))
        if kind == "tool"
        else _of(one, "masked_hash", str, where),
        chars=chars if type(chars) is int else len(str(one.get("content_excerpt") or "")),
        error=str(one.get("error") or ""),
        said="" if kind == "tool" else str(one.get("content_excerpt") or ""),
        target=str(one.get("tool") or "") if kind == "handoff" else "",
        tokens=_number(one.get("tokens"), int),
        cost=_number(one.get("cost"), float),
    )


def _number(given: JSON, kind: type) -> Any:
    return kind(given) if isinstance(given, int | float) and not isinstance(given, bool) and given > 0 else kind(0)


def _masked(one: dict[str, JSON], recorded: str) -> str:
    """The hash of a tool's result: as recorded, or without the arguments that it repeats where all of it is there."""
    said = one.get("content_excerpt")
    if not isinstance(said, str) or one.get("raw_len") != len(said):
        return recorded
    result, args = canonical(_json(said)), canonical(_json(one.get("args")))
    return recorded if without_echoes(result, args) == result else masked_fingerprint(result, args)


def _json(given: JSON) -> JSON:
    try:
        return json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        return given


def _of(found: dict[str, JSON], name: str, kind: type, where: str, *, null: bool = False) -> Any:
    if name not in found:
        raise _broken(where, f"{name} is missing; every {'record' if kind in (bool, list) else 'step'} has it")
    if null and found[name] is None:
        return None
    if not isinstance(found[name], kind):
        wanted = {bool: "true or false", list: "a list", str: "text"}[kind]
        raise _broken(where, f"{name} is {str(found[name])[:40]!r}; give {wanted}")
    return found[name]


def _broken(where: str, what: str) -> Refused:
    return Refused(f"{where}: {what}", code="invalid", field="line")
