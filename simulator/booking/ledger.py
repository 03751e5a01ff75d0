"""The ledger of an outside service: one line of JSON a request that was acted on, on disk before the answer goes out, never changed.

The workers never write it, so it is the judge of what they did: ``{n, at, kind, run, command, attempt, key, applied}`` and what else is known.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

CALL_HEADER = "x-fabric-call"
"""``run/command id/attempt``: which attempt of which call a request is (sent by the engine's adapters)."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line."""

    n: int
    """1 for the first line; the order in which things were done."""
    at: int
    """Microseconds since the epoch, on the service's clock."""
    kind: str
    """``model``, ``book`` or ``cancel``."""
    run: str
    command: str
    attempt: int
    key: str
    """The idempotency key."""
    applied: bool
    """Whether this request changed something; False: its key was known, or there was nothing to change."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What else is known: ``id`` of a booking, ``usd_micros`` of an answer."""


class Ledger:
    """Appends to a file; the file's lines so far are in ``found``. Thread-safe; one process at a time."""

    def __init__(self, path: Path) -> None:
        self.found = entries(path) if path.exists() else []
        if path.exists():
            _cut_torn_line(path)
        self._n = len(self.found)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._lock = threading.Lock()

    def note(self, kind: str, headers: Mapping[str, str], /, *, applied: bool, **about: Any) -> Entry:
        """Writes a line and waits until it is on disk. ``headers``: the request's, names in lower case."""
        run, command, attempt = call_of(headers)
        with self._lock:
            self._n += 1
            key = headers.get("idempotency-key", "")
            entry = Entry(self._n, time.time_ns() // 1_000, kind, run, command, attempt, key, applied, about)
            os.write(self._file, json.dumps(asdict(entry)).encode() + b"\n")
            os.fsync(self._file)
        return entry

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)


def call_of(headers: Mapping[str, str]) -> tuple[str, str, int]:
    """Run, command id and attempt that a request names; empty and 0 when it names none."""
    run, _, rest = headers.get(CALL_HEADER, "").partition("/")
    command, _, attempt = rest.rpartition("/")
    return (run, command, int(attempt)) if run and command and attempt.isdecimal() else ("", "", 0)


def entries(path: Path) -> list[Entry]:
    """The whole lines of a ledger, in order; one that is being written is left out."""
    text = path.read_bytes()
    whole = text[: text.rfind(b"\n") + 1]
    return [Entry(**json.loads(line)) for line in whole.splitlines()]


def _cut_torn_line(path: Path) -> None:
    """Takes away what a killed service left of a line: nothing was answered for it."""
    text = path.read_bytes()
    if not text.endswith(b"\n"):
        os.truncate(path, text.rfind(b"\n") + 1)
