"""The audit stream as OTLP logs over HTTP, in JSON (OpenTelemetry Protocol 1.x, "OTLP/HTTP"; logs data model)."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence

import httpx2

from fabric.adapters.audit import NotTaken
from fabric.core.values.units import JSON

DEADLINE_S = 10.0
"""Seconds for the whole exchange, and for each wait in it."""
BYTES_MAX = 65_536
"""Largest part of an answer that is read."""
INFO, WARN = (9, "INFO"), (13, "WARN")
"""Severity numbers and texts (logs data model, "Severity Fields"): of done acts, and of refused or failed ones."""
ATTRIBUTES = (
    "id",
    "seq",
    "hash",
    "actor",
    "via",
    "came_by",
    "address",
    "request_id",
    "outcome",
    "subject",
    "reason",
    "times",
)
SUCCESS = 200


def build_body(records: Sequence[Mapping[str, JSON]]) -> dict[str, JSON]:
    """Return an ``ExportLogsServiceRequest`` as JSON. ``records``: from ``selectors.audit.export.record_json``, with
    ``workspace`` and ``at_us``.
    """
    service = [_attribute("service.name", "fabric-flow")]
    scope = {"name": "fabric.audit"}
    return {
        "resourceLogs": [
            {
                "resource": {"attributes": service},
                "scopeLogs": [{"scope": scope, "logRecords": [_record(one) for one in records]}],
            }
        ]
    }


def _record(one: Mapping[str, JSON]) -> dict[str, JSON]:
    number, text = INFO if one["outcome"] == "done" else WARN
    named = [_attribute(f"fabric.audit.{name}", one[name]) for name in ATTRIBUTES if one.get(name) not in (None, "")]
    if one["more"]:
        named.append(_attribute("fabric.audit.more", json.dumps(one["more"], ensure_ascii=False, sort_keys=True)))
    return {
        # 64-bit integers are decimal strings in JSON (proto3 JSON mapping).
        "timeUnixNano": str(one["at_us"] * 1_000),
        "observedTimeUnixNano": str(one["at_us"] * 1_000),
        "severityNumber": number,
        "severityText": text,
        "eventName": f"fabric.audit.{one['act']}",
        "body": {"stringValue": f"{one['sentence']} {one['subject']}".strip()},
        "attributes": [*named, _attribute("fabric.workspace", one["workspace"])],
    }


def _attribute(key: str, value: JSON) -> dict[str, JSON]:
    if isinstance(value, int) and not isinstance(value, bool):
        return {"key": key, "value": {"intValue": str(value)}}
    return {"key": key, "value": {"stringValue": str(value)}}


class Otlp:
    """One receiver. ``address``: the whole address, such as ``https://collector.internal:4318/v1/logs``; ``key``:
    sent as a bearer token.
    """

    def __init__(self, address: str, key: str = "", *, deadline_s: float = DEADLINE_S) -> None:
        self._address, self._deadline_s = address, deadline_s
        self._headers = {"Content-Type": "application/json", "User-Agent": "fabric-flow"}
        self._headers["Accept-Encoding"] = "identity"
        if key:
            self._headers["Authorization"] = f"Bearer {key}"

    def send(self, records: Sequence[Mapping[str, JSON]]) -> str:
        """Send records in one request; return a sentence about rejected ones. Raises NotTaken for any answer but
        200.
        """
        raw = json.dumps(build_body(records), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        try:
            with httpx2.Client(timeout=self._deadline_s, trust_env=False, follow_redirects=False) as client:
                sent = client.stream("POST", self._address, content=raw, headers=self._headers)
                with sent as answer:
                    if answer.status_code != SUCCESS:
                        wait = answer.headers.get("Retry-After", "")
                        seconds = float(wait) if wait.isascii() and wait.isdecimal() else 0.0
                        raise NotTaken(f"the OTLP receiver answered {answer.status_code}", seconds)
                    return _describe_rejection(self._read(answer, time.monotonic() + self._deadline_s))
        except httpx2.HTTPError as error:
            raise NotTaken(f"the OTLP receiver cannot be reached: {type(error).__name__}") from error

    @staticmethod
    def _read(answer: httpx2.Response, until: float) -> bytes:
        """Return the body of a success, as far as it is read. The records are taken, whatever it contains."""
        found = b""
        for piece in answer.iter_raw():
            found += piece
            if len(found) >= BYTES_MAX or time.monotonic() > until:
                break
        return found[:BYTES_MAX]


def _describe_rejection(raw: bytes) -> str:
    """Return a sentence about rejected records of a success (``partialSuccess``), which the specification forbids to
    send again.
    """
    try:
        partial = json.loads(raw or b"{}").get("partialSuccess", {})
        count = int(partial.get("rejectedLogRecords", 0))
    except (ValueError, AttributeError, TypeError):
        return ""
    return (
        f"the OTLP receiver would not keep {count:,} records: {str(partial.get('errorMessage', ''))[:200]}"
        if count
        else ""
    )
