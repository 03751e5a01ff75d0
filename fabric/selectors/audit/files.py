"""Exports the audit stream as a file, and verifies such a file without the database.

The file is CSV for spreadsheets, or lines of JSON. A line of JSON has its hash and everything under it: ``manage.py
audit verify FILE`` checks the chain. Signed markers stand in place of removed lines, in the database as in an export.
The order is that of the chain, the oldest first; unsealed records are sealed before. The last line names the last
record.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fabric.core.audit.lines import CutBody, cut_read, line_hash
from fabric.core.people.actor import Actor
from fabric.core.texts.notifications import rfc3339
from fabric.core.values.fingerprint import ZERO_HASH
from fabric.core.values.units import JSON
from fabric.models import AuditCut, AuditLine
from fabric.selectors.audit.journal_verification import AuditFault, AuditFinding
from fabric.selectors.audit.lookup import AuditFilter, AuditRow, audit_wanted, build_row, find_records
from fabric.selectors.list_file import ListLines

PROBLEMS_MAX = 1_000
LINE_MAX = 1_000_000
"""Largest line, in bytes."""
WORDS = ("sentence", "outcome")
"""Fields in the words of the version that wrote the file: the hash does not cover them."""


@dataclass(slots=True)
class FileFound:
    """Findings in a file."""

    whole: bool = False
    """True: the file claims to have every record. The chain of a part cannot be followed."""
    count: int = 0
    problems: list[str] = field(default_factory=list)

    def say(self, problem: str) -> None:
        """Record a problem, up to the limit."""
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(problem)


def file_verify(lines: Iterable[bytes], *, verified: Verified, trusted: Collection[str]) -> FileFound:
    """Verify the lines of an export as NDJSON. ``trusted``: the public keys that may have signed markers."""
    found, workspace = FileFound(), ""
    marks: list[tuple[bytes, bytes]] = []
    cuts: StreamCuts | None = None
    seq, head, ended = 0, ZERO_HASH, False
    for number, raw in enumerate(lines, start=1):
        one = _read(raw)
        if number == 1:
            if one is None or one.get("fabric_audit") != 1:
                found.say("this is no export of the audit stream as NDJSON: its first line says otherwise")
                return found
            workspace, found.whole = str(one.get("workspace", "")), one.get("whole") is True
        elif one is None:
            found.say(f"line {number} is no record")
        elif "cut" in one:
            marks.append(_mark(one))
        elif "end" in one:
            ended = (one["end"], one.get("records")) == (seq, found.count)
        else:
            cuts = cuts or StreamCuts(workspace, marks, verified, trusted)
            place, hashed, fits = _record(one, workspace)
            found.count, ended = found.count + 1, False
            if place is None or fits is None:
                found.say(f"line {number} lacks what its hash is over")
                continue
            seq, head = cuts.pass_markers(seq, head, place)
            if found.whole and place != seq + 1:
                found.say(f"line {number}: record {place} follows {seq}: what was between them is missing")
            elif (found.whole or place == seq + 1) and fits(head) != hashed:
                found.say(
                    f"line {number}: record {place} does not have the hash of what it says after the one before it"
                )
            seq, head = place, hashed
    if not ended:
        found.say(f"the file does not end after record {seq}, as its last line has to say: the rest is missing")
    cuts = cuts or StreamCuts(workspace, marks, verified, trusted)
    for finding in cuts.list_findings():
        found.say(finding.says)
    return found


def _read(raw: bytes) -> dict[str, Any] | None:
    try:
        one = json.loads(raw) if len(raw) <= LINE_MAX else None
    except (ValueError, RecursionError):
        return None
    return one if isinstance(one, dict) else None


def _mark(one: dict[str, Any]) -> tuple[bytes, bytes]:
    try:
        return str(one["cut"]).encode(), bytes.fromhex(str(one.get("signature", "")))
    except ValueError:
        return b"", b""


def _is_said_as(one: dict[str, Any], line: AuditLine) -> bool:
    """Return True if the readable part of a record equals its hashed part."""
    hashed = record_json(build_row(line))
    return all(one.get(name) == value for name, value in hashed.items() if name not in WORDS)


def _record(one: dict[str, Any], workspace: str) -> tuple[int | None, bytes, Any]:
    """Return a record's place, its hash, and the function that hashes it after another one; None: a field is
    missing.
    """
    try:
        place, hashed = int(one["seq"]), bytes.fromhex(one["hash"])
        named = {name: str(one[name]) for name in ("actor", "via", "act", "subject")}
        body, at, line_id = base64.b64decode(one["body"], validate=True), int(one["at_us"]), str(one["id"])
        row = {name: value for name, value in named.items() if name != "act"}
        line = AuditLine(
            id=line_id, workspace_id=workspace, seq=place, hash=hashed, at=at, body=body, kind=named["act"], **row
        )
        same = _is_said_as(one, line)
    except (LookupError, TypeError, ValueError, AttributeError):
        return None, b"", None
    if not same:
        return place, hashed, lambda _: b""
    return place, hashed, lambda prev: line_hash(prev, place, workspace_id=workspace, line_id=line_id, at=at, body=body, **named)  # fmt: skip


Verified = Callable[[str, bytes, bytes], bool]
"""Function that verifies a signature: ``(public key in hex, signature, bytes)``."""


class StreamCuts:
    """Markers of one workspace. Untrusted ones are findings, and pass over nothing."""

    def __init__(
        self, workspace: str, marks: Sequence[tuple[bytes, bytes]], verified: Verified | None, trusted: Collection[str]
    ) -> None:
        self._workspace, self._findings = workspace, list[AuditFinding]()
        self._by_first: dict[int, CutBody] = {}
        for raw, signature in marks:
            try:
                body = cut_read(raw)
                problem = "it is of another workspace" if body.workspace != workspace else ""
            except ValueError as error:
                self._say(0, str(error))
                continue
            if verified is not None and not verified(body.key, signature, raw):
                problem = "its signature is not over what it says"
            elif verified is not None and body.key not in trusted:
                problem = f"it is signed by key {body.key}, which is not this installation's: if it once was, name it with --key"
            if problem:
                self._say(body.first, problem)
            else:
                self._by_first[body.first] = body

    def pass_markers(self, seq: int, head: bytes, upto: int) -> tuple[int, bytes]:
        """Return the chain's number and hash after the markers that directly follow ``seq``, before the line at
        ``upto``.
        """
        while seq + 1 < upto and (cut := self._by_first.get(seq + 1)) is not None:
            if cut.prev != head.hex():
                self._say(cut.first, "what is before it is not what was there when it was made")
            seq, head = cut.last, bytes.fromhex(cut.head)
        return seq, head

    def list_findings(self) -> Iterator[AuditFinding]:
        """Yield each finding once."""
        while self._findings:
            yield self._findings.pop(0)

    def _say(self, first: int, problem: str) -> None:
        sentence = f"audit stream of workspace {self._workspace}: the marker in place of line {first} cannot be trusted: {problem}"
        self._findings.append(AuditFinding(fault=AuditFault.CUT_CHANGED, seq=first, says=sentence))


def has_other_address(line: AuditLine) -> bool:
    """Return True if a line's column of the address differs from its hashed body."""
    try:
        said = json.loads(bytes(line.body)).get("origin", {}).get("address", "")
    except (ValueError, AttributeError):
        said = ""
    return (line.address or "") != said


ROWS = 500


class AuditLines(ListLines):
    """Records of a filter. Raises Refused: forbidden, invalid."""

    name = "audit"
    called = "records"
    columns = (
        *("seq", "at", "actor", "via", "came_by", "address", "act", "sentence", "outcome", "subject", "reason"),
        *("times", "more", "request_id", "id", "hash"),
    )

    def __init__(self, actor: Actor, wanted: AuditFilter, form: str) -> None:
        audit_wanted(actor)
        super().__init__(form)
        self._rows = find_records(actor, wanted).filter(seq__isnull=False)
        self._workspace, self._whole, self._seq = actor.workspace_id, wanted.empty, 0

    def rows(self) -> tuple[list[dict[str, JSON]], bool]:
        """Return the next rows, each with the bytes under its hash."""
        found = list(self._rows.filter(seq__gt=self._seq).order_by("seq")[:ROWS])
        self._seq = found[-1].seq or 0 if found else self._seq
        raw = [{"body": base64.b64encode(bytes(one.body)).decode(), "at_us": one.at} for one in found]
        return [{**record_json(build_row(one)), **also} for one, also in zip(found, raw, strict=True)], len(
            found
        ) == ROWS

    def marks(self) -> Iterable[dict[str, JSON]]:
        """Yields the head of the file, and the markers in place of removed records."""
        yield {"fabric_audit": 1, "workspace": self._workspace, "whole": self._whole}
        for one in AuditCut.objects.filter(workspace_id=self._workspace).order_by("first"):
            yield {"cut": bytes(one.body).decode(), "signature": bytes(one.signature).hex()}

    def end(self) -> dict[str, JSON]:
        """Return the last record and the number of records: a truncated file lacks them."""
        return {"end": self._seq, "records": self.count}


def record_json(row: AuditRow) -> dict[str, JSON]:
    """Return a record as a program reads it."""
    return {
        "id": row.id,
        "at": rfc3339(row.at),
        "actor": row.actor,
        "via": row.via,
        "came_by": row.came_by,
        "address": row.address,
        "request_id": row.request_id,
        "act": row.act,
        "sentence": f"{row.actor} {row.sentence}",
        "outcome": row.outcome.value,
        "subject": row.subject,
        "reason": row.reason,
        "times": row.times,
        "more": dict(row.more),
        "seq": row.seq,
        "hash": row.hash,
    }
