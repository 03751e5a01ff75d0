"""Answers as the booking service, for ``simulator.endpoint``, and keeps its ledger.

- ``POST /bookings`` ``{"kind": "room", ...}``: 201 ``{"id", "kind", "status": "booked"}``.
- ``POST /bookings/cancel`` ``{"key", "args", "result"}``: 200 ``{"id", "status": "cancelled"}``, for ``result.id``,
  else for the booking under ``key``. ``DELETE /bookings/ID``: likewise.
- ``GET /bookings/ID``, ``GET /bookings/status?key=KEY``: 200 ``{"id", "kind", "status"}``; status ``unknown`` for a key
  without a booking.
- ``POST /bookings/find`` ``{"key", "args"}``: 200 ``{"executed": true or false, "result": the booking or null}``, as
  ``reconcile`` tools answer.
- ``GET /bookings``: 200 ``{"bookings": [...]}``.

A request with an ``Idempotency-Key`` is done once: a repetition gets the first answer. Another request under the key is
a 409. Cancelling a cancelled booking, or a key without a booking, changes nothing and is a 200 that says so.

The ledger has one line of JSON for each executed request, on disk before its answer: ``{n, at, kind, run, command,
attempt, key, applied}`` and further facts. Lines are never changed, and the workers never write it, so it proves what
they did.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from fabric.core.values.command_ids import unit
from fabric.core.values.fingerprint import fingerprint
from fabric.core.values.units import JSON
from simulator.endpoint.wire.server import Received
from simulator.endpoint.wire.steps import JSON_TYPE, Step

SLOW_S = 1.0


@dataclass(frozen=True, slots=True)
class Faults:
    """Shares, 0 to 1, of keys whose first request fails; a key is struck once, so that a retry helps."""

    lost: float = 0.0
    """Share of requests done without an answer: the connection closes."""
    slow: float = 0.0
    """Share of requests done at once, and answered a second later."""
    refused: float = 0.0
    """Share of requests not done: 503."""
    seed: int = 0

    def find_fault(self, key: str) -> str:
        """Return ``lost``, ``slow``, ``refused`` or nothing."""
        drawn = unit(self.seed, "booking", key)
        for name in ("lost", "slow", "refused"):
            if drawn < getattr(self, name):
                return name
            drawn -= getattr(self, name)
        return ""


class BookingDesk:
    """The bookings of a ledger. ``reply`` is a script; the endpoint's loop passes requests one at a time."""

    def __init__(self, ledger: Ledger, faults: Faults | None = None) -> None:
        self._ledger, self._faults = ledger, faults or Faults()
        self._bookings: dict[str, dict[str, JSON]] = {}
        self._of_key: dict[str, str] = {}
        """Booking id by the key that it was made under."""
        self._said: dict[str, tuple[str, Step]] = {}
        """Request and answer by key."""
        self._struck: set[str] = set()
        for entry in ledger.found:
            self._restore_entry(entry)

    def serves(self, path: str) -> bool:
        """Return True if a path belongs to this service."""
        return urlsplit(path).path.split("/")[1:2] == ["bookings"]

    def reply(self, received: Received) -> Step:
        """Carry out a request, record it, and return the answer."""
        key = received.idempotency_key
        fault = self._faults.find_fault(key) if key and key not in self._struck else ""
        self._struck.add(key)
        if fault == "refused" and received.method != "GET":
            return _error(503, "the booking service is being maintained; try again")
        step = self._answer_request(received)
        if fault == "lost" and step.status < 400:
            return replace(step, mode="hang_up")
        return replace(step, delay_s=SLOW_S) if fault == "slow" else step

    def _answer_request(self, received: Received) -> Step:
        where = urlsplit(received.path)
        if not self.serves(received.path):
            return _error(404, f"nothing is served at {where.path}; see simulator/booking/desk.py")
        parts = [unquote(part) for part in where.path.split("/")[2:] if part]
        match received.method, parts:
            case "POST", []:
                return self._once(received, self._book)
            case "POST", ["cancel"]:
                return self._once(received, self._cancel)
            case "POST", ["find"]:
                return _json(200, self._find_booking(received.body))
            case "DELETE", [booking]:
                return self._once(received, lambda asked: self._cancel_booking(asked, booking, ""))
            case "GET", []:
                return _json(200, {"bookings": list(self._bookings.values())})
            case "GET", ["status"]:
                return _json(200, self._status(parse_qs(where.query).get("key", [""])[0]))
            case "GET", [booking] if booking in self._bookings:
                return _json(200, self._bookings[booking])
            case "GET" | "DELETE", [booking]:
                return _error(404, f"there is no booking {booking!r}")
        return _error(404, f"nothing is served at {received.method} {received.path}; see simulator/booking/desk.py")

    def _once(self, received: Received, do: Any) -> Step:
        key = received.idempotency_key
        asked = fingerprint([received.method, urlsplit(received.path).path, received.body])
        if key and key in self._said:
            earlier, step = self._said[key]
            if earlier and earlier != asked:
                return _error(409, "this Idempotency-Key was used for another request; use a new one")
            self._ledger.note(_kind(received), received.headers, applied=False)
            return step
        step = do(received)
        if key and step.status < 400:
            self._said[key] = (asked, step)
        return step

    def _book(self, received: Received) -> Step:
        body = received.body
        if not isinstance(body, dict) or not isinstance(body.get("kind"), str) or not body["kind"]:
            return _error(400, 'say what is to be booked: {"kind": "room", ...}')
        booking = f"b-{len(self._bookings) + 1}"
        made = {"id": booking, "kind": body["kind"], "status": "booked"}
        self._ledger.note("book", received.headers, applied=True, id=booking, kind=body["kind"])
        self._bookings[booking] = made
        self._of_key[received.idempotency_key] = booking
        return _json(201, made)

    def _cancel(self, received: Received) -> Step:
        body = received.body if isinstance(received.body, dict) else {}
        result, key = body.get("result"), body.get("key")
        named = result.get("id") if isinstance(result, dict) else None
        if not (isinstance(named, str) or isinstance(key, str)):
            return _error(400, 'say what is to be cancelled: {"key": the key it was booked under, "args", "result"}')
        return self._cancel_booking(received, named or self._of_key.get(str(key), ""), str(key or ""))

    def _cancel_booking(self, received: Received, booking: str, of_key: str) -> Step:
        made = self._bookings.get(booking)
        if booking and made is None:
            return _error(404, f"there is no booking {booking!r}")
        applied = made is not None and made["status"] == "booked"
        self._ledger.note("cancel", received.headers, applied=applied, id=booking, of_key=of_key)
        if made is None:
            return _json(200, {"id": "", "status": "unknown"})
        made["status"] = "cancelled"
        return _json(200, {"id": booking, "status": "cancelled"})

    def _status(self, key: str) -> dict[str, JSON]:
        return self._bookings.get(self._of_key.get(key, ""), {"id": "", "kind": "", "status": "unknown"})

    def _find_booking(self, body: JSON) -> dict[str, JSON]:
        key = body.get("key") if isinstance(body, dict) else None
        made = self._bookings.get(self._of_key.get(str(key), ""))
        return {"executed": made is not None, "result": made}

    def _restore_entry(self, entry: Entry) -> None:
        booking = str(entry.about.get("id", ""))
        if entry.kind == "book" and entry.applied:
            made = {"id": booking, "kind": entry.about["kind"], "status": "booked"}
            self._bookings[booking] = made
            self._of_key[entry.key] = booking
            self._said[entry.key] = ("", _json(201, dict(made)))
        elif entry.kind == "cancel" and entry.applied:
            self._bookings[booking]["status"] = "cancelled"
            self._said[entry.key] = ("", _json(200, {"id": booking, "status": "cancelled"}))
        self._struck.add(entry.key)


def _kind(received: Received) -> str:
    return "book" if received.method == "POST" and urlsplit(received.path).path.strip("/") == "bookings" else "cancel"


def _json(status: int, value: Mapping[str, JSON]) -> Step:
    return Step(status=status, body=json.dumps(value).encode(), content_type=JSON_TYPE)


def _error(status: int, sentence: str) -> Step:
    return _json(status, {"error": HTTPStatus(status).phrase, "detail": sentence})


CALL_HEADER = "x-fabric-call"
"""Header with ``run/command id/attempt`` of a request, set by the engine's adapters."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line."""

    n: int
    """Number of the line, from 1; lines are in the order of execution."""
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
    """True if this request changed something; False if its key was known, or there was nothing to change."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Further facts: ``id`` of a booking, ``usd_micros`` of an answer."""


class Ledger:
    """Appends to a file; ``found`` has its earlier lines. Thread-safe; one process at a time."""

    def __init__(self, path: Path) -> None:
        self.found = entries(path) if path.exists() else []
        if path.exists():
            _cut_torn_line(path)
        self._n = len(self.found)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._lock = threading.Lock()

    def note(self, kind: str, headers: Mapping[str, str], /, *, applied: bool, **about: Any) -> Entry:
        """Write a line and wait until it is on disk. ``headers``: the request's, names in lower case."""
        run, command, attempt = read_call(headers)
        with self._lock:
            self._n += 1
            key = headers.get("idempotency-key", "")
            entry = Entry(self._n, time.time_ns() // 1_000, kind, run, command, attempt, key, applied, about)
            os.write(self._file, json.dumps(asdict(entry)).encode() + b"\n")
            os.fsync(self._file)
        return entry

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def read_call(headers: Mapping[str, str]) -> tuple[str, str, int]:
    """Return run, command id and attempt that a request names; empty and 0 if it names none."""
    run, _, rest = headers.get(CALL_HEADER, "").partition("/")
    command, _, attempt = rest.rpartition("/")
    return (run, command, int(attempt)) if run and command and attempt.isdecimal() else ("", "", 0)


def entries(path: Path) -> list[Entry]:
    """Return the complete lines of a ledger, in order."""
    text = path.read_bytes()
    whole = text[: text.rfind(b"\n") + 1]
    return [Entry(**json.loads(line)) for line in whole.splitlines()]


def _cut_torn_line(path: Path) -> None:
    """Remove a killed service's incomplete line, which was never answered."""
    text = path.read_bytes()
    if not text.endswith(b"\n"):
        os.truncate(path, text.rfind(b"\n") + 1)
