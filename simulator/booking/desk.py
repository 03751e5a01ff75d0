"""What the booking service answers, as a script for ``simulator.endpoint``.

| request | answer |
|---|---|
| ``POST /bookings`` ``{"kind": "room", ...}`` | 201 ``{"id", "kind", "status": "booked"}`` |
| ``POST /bookings/cancel`` ``{"key", "args", "result"}`` | 200 ``{"id", "status": "cancelled"}``: of ``result.id``, else of what was booked under ``key`` |
| ``DELETE /bookings/ID`` | the same |
| ``GET /bookings/ID``, ``GET /bookings/status?key=KEY`` | 200 ``{"id", "kind", "status"}``; status ``unknown`` for a key under which nothing was booked |
| ``POST /bookings/find`` ``{"key", "args"}`` | 200 ``{"executed": true or false, "result": the booking or null}``: as ``reconcile`` tools answer |
| ``GET /bookings`` | 200 ``{"bookings": [...]}`` |

A request with an ``Idempotency-Key`` is done once: sent again, it gets its first answer again. The same key for another request is a 409.
Cancelling what is cancelled, or was never booked under that key, changes nothing and is a 200 that says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from fabric.core.draw import unit
from fabric.core.fingerprint import fingerprint
from simulator.booking.ledger import Entry, Ledger
from simulator.endpoint.server import Received
from simulator.endpoint.steps import JSON_TYPE, Step

JSON = Any
SLOW_S = 1.0


@dataclass(frozen=True, slots=True)
class Faults:
    """Shares, 0 to 1, of keys whose first request goes wrong; a key is struck once, so that trying again helps."""

    lost: float = 0.0
    """Done, and the connection closed without an answer."""
    slow: float = 0.0
    """Done at once, answered a second later."""
    refused: float = 0.0
    """Not done: 503."""
    seed: int = 0

    def of(self, key: str) -> str:
        """``lost``, ``slow``, ``refused`` or nothing."""
        drawn = unit(self.seed, "booking", key)
        for name in ("lost", "slow", "refused"):
            if drawn < getattr(self, name):
                return name
            drawn -= getattr(self, name)
        return ""


class BookingDesk:
    """The bookings of a ledger. ``reply`` is a script; requests come one at a time, as the endpoint's loop gives them."""

    def __init__(self, ledger: Ledger, faults: Faults | None = None) -> None:
        self._ledger, self._faults = ledger, faults or Faults()
        self._bookings: dict[str, dict[str, JSON]] = {}
        self._of_key: dict[str, str] = {}
        """Booking id by the key that it was made under."""
        self._said: dict[str, tuple[str, Step]] = {}
        """What was asked under a key, and what was answered."""
        self._struck: set[str] = set()
        for entry in ledger.found:
            self._restored(entry)

    def serves(self, path: str) -> bool:
        """Whether a path is one of this service's."""
        return urlsplit(path).path.split("/")[1:2] == ["bookings"]

    def reply(self, received: Received) -> Step:
        """Does what is asked, writes it down, and answers."""
        key = received.idempotency_key
        fault = self._faults.of(key) if key and key not in self._struck else ""
        self._struck.add(key)
        if fault == "refused" and received.method != "GET":
            return _error(503, "the booking service is being maintained; try again")
        step = self._answered(received)
        if fault == "lost" and step.status < 400:
            return replace(step, mode="hang_up")
        return replace(step, delay_s=SLOW_S) if fault == "slow" else step

    def _answered(self, received: Received) -> Step:
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
                return _json(200, self._found(received.body))
            case "DELETE", [booking]:
                return self._once(received, lambda asked: self._cancelled(asked, booking, ""))
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
        return self._cancelled(received, named or self._of_key.get(str(key), ""), str(key or ""))

    def _cancelled(self, received: Received, booking: str, of_key: str) -> Step:
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

    def _found(self, body: JSON) -> dict[str, JSON]:
        key = body.get("key") if isinstance(body, dict) else None
        made = self._bookings.get(self._of_key.get(str(key), ""))
        return {"executed": made is not None, "result": made}

    def _restored(self, entry: Entry) -> None:
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
