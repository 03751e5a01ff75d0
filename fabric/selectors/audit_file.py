"""Verifying an export of the audit stream without the database: each record's hash, the chain, and the markers in place of what was removed."""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from fabric.core.audit import line_hash
from fabric.core.fingerprint import ZERO_HASH
from fabric.models import AuditLine
from fabric.selectors.audit_cuts import Cuts, Verified
from fabric.selectors.audit_export import said
from fabric.selectors.audit_list import row_of

PROBLEMS_MAX = 1_000
LINE_MAX = 1_000_000
"""Bytes of one line."""
WORDS = ("sentence", "outcome")
"""Fields in the words of the version that wrote the file: no hash is over them."""


@dataclass(slots=True)
class FileFound:
    """What was found in a file."""

    whole: bool = False
    """True: the file says that it has every record. The chain of a part cannot be followed."""
    count: int = 0
    problems: list[str] = field(default_factory=list)

    def say(self, problem: str) -> None:
        """Notes a problem, so far as they are noted."""
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(problem)


def file_verify(lines: Iterable[bytes], *, verified: Verified, trusted: Collection[str]) -> FileFound:
    """Verifies the lines of an export as NDJSON. ``trusted``: the public keys that may have signed markers."""
    found, workspace = FileFound(), ""
    marks: list[tuple[bytes, bytes]] = []
    cuts: Cuts | None = None
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
            cuts = cuts or Cuts(workspace, marks, verified, trusted)
            place, hashed, fits = _record(one, workspace)
            found.count, ended = found.count + 1, False
            if place is None or fits is None:
                found.say(f"line {number} lacks what its hash is over")
                continue
            seq, head = cuts.passed(seq, head, place)
            if found.whole and place != seq + 1:
                found.say(f"line {number}: record {place} follows {seq}: what was between them is missing")
            elif (found.whole or place == seq + 1) and fits(head) != hashed:
                found.say(
                    f"line {number}: record {place} does not have the hash of what it says after the one before it"
                )
            seq, head = place, hashed
    if not ended:
        found.say(f"the file does not end after record {seq}, as its last line has to say: the rest is missing")
    cuts = cuts or Cuts(workspace, marks, verified, trusted)
    for finding in cuts.found():
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


def _said_as(one: dict[str, Any], line: AuditLine) -> bool:
    """Whether what people read of a record is what is hashed of it."""
    hashed = said(row_of(line))
    return all(one.get(name) == value for name, value in hashed.items() if name not in WORDS)


def _record(one: dict[str, Any], workspace: str) -> tuple[int | None, bytes, Any]:
    """A record's place, the hash that it has, and what hashes it after another one; None: a field is missing."""
    try:
        place, hashed = int(one["seq"]), bytes.fromhex(one["hash"])
        named = {name: str(one[name]) for name in ("actor", "via", "act", "subject")}
        body, at, line_id = base64.b64decode(one["body"], validate=True), int(one["at_us"]), str(one["id"])
        row = {name: value for name, value in named.items() if name != "act"}
        line = AuditLine(
            id=line_id, workspace_id=workspace, seq=place, hash=hashed, at=at, body=body, kind=named["act"], **row
        )
        same = _said_as(one, line)
    except (LookupError, TypeError, ValueError, AttributeError):
        return None, b"", None
    if not same:
        return place, hashed, lambda _: b""
    return place, hashed, lambda prev: line_hash(prev, place, workspace_id=workspace, line_id=line_id, at=at, body=body, **named)  # fmt: skip
