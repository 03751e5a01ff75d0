"""Signed markers in place of audit lines that retention removed: followed while a stream is verified, from the database or from an export."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence

from fabric.core.audit_cut import CutBody, cut_read
from fabric.models import AuditLine
from fabric.selectors.verify import Fault, Finding

Verified = Callable[[str, bytes, bytes], bool]
"""Whether ``(public key in hex, signature, bytes)`` go together."""


class Cuts:
    """The markers of one workspace. Those that cannot be trusted are findings, and pass over nothing."""

    def __init__(
        self, workspace: str, marks: Sequence[tuple[bytes, bytes]], verified: Verified | None, trusted: Collection[str]
    ) -> None:
        self._workspace, self._findings = workspace, list[Finding]()
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

    def passed(self, seq: int, head: bytes, upto: int) -> tuple[int, bytes]:
        """Where the chain stands after the markers that follow ``seq`` at once, before the line at ``upto``."""
        while seq + 1 < upto and (cut := self._by_first.get(seq + 1)) is not None:
            if cut.prev != head.hex():
                self._say(cut.first, "what is before it is not what was there when it was made")
            seq, head = cut.last, bytes.fromhex(cut.head)
        return seq, head

    def found(self) -> Iterator[Finding]:
        """What is wrong, once."""
        while self._findings:
            yield self._findings.pop(0)

    def _say(self, first: int, problem: str) -> None:
        sentence = f"audit stream of workspace {self._workspace}: the marker in place of line {first} cannot be trusted: {problem}"
        self._findings.append(Finding(fault=Fault.CUT_CHANGED, seq=first, says=sentence))


def said_otherwise(line: AuditLine) -> bool:
    """Whether a line's column of the address says something else than its body, which the hash is over."""
    try:
        said = json.loads(bytes(line.body)).get("origin", {}).get("address", "")
    except (ValueError, AttributeError):
        said = ""
    return (line.address or "") != said
