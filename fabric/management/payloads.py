"""Reads a person's payload from a file or standard input, as JSON or YAML, with the place of every error."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from fabric.core.values.units import JSON
from fabric.management.base import read_text
from fabric.services.errors import Refused
from fabric.services.fabrics.yaml.tree import TextMark, YamlProblem, YamlTree, read_yaml
from fabric.services.reviews.answer_checks import EDITED_BYTES_MAX

STDIN = "-"
_PATH = re.compile(r"([\w-]+(?:\.[\w-]+|\[\d+\])*): (.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Payload:
    """The payload, and the places of its parts."""

    name: str
    tree: YamlTree

    @property
    def value(self) -> JSON:
        """Return the payload's value."""
        return self.tree.value

    def place_problem(self, problem: str) -> str:
        """Return a problem with its place: ``payload.json, line 3, column 9, items[0].n: ...``. ``problem``: its
        path first, where it has one.
        """
        found = _PATH.fullmatch(problem)
        path = _parts(found[1]) if found else ()
        # Words before the colon may be part of the sentence: only an existing path is one.
        path = path if path and path in self.tree.marks else self._read_path(problem)
        at, between = (path, ", ") if path else ((), ": ")
        return f"{_place(self.name, self.tree.mark(at))}{between}{problem}"

    def _read_path(self, problem: str) -> tuple[str | int, ...]:
        """Return the longest path with which the problem begins, such as ``hosts.0``, with any names in it; empty:
        none.
        """
        named = {".".join(map(str, path)): path for path in self.tree.marks if path}
        led = [text for text in named if problem.startswith((f"{text}:", f"{text}."))]
        return named[max(led, key=len)] if led else ()


def payload_given(where: str) -> Payload:
    """Return the payload in a file, or on standard input for ``-``. Raises Refused, with file, line and column where
    there are any.
    """
    if where == STDIN:
        return payload_read("standard input", _stdin())
    return payload_read(Path(where).name, read_text(Path(where), most=EDITED_BYTES_MAX, what="a payload"))


def payload_read(name: str, text: str, *, field: str = "payload") -> Payload:
    """Return a payload from its text. Raises Refused, with name, line and column."""
    try:
        return Payload(name, read_yaml(text))
    except YamlProblem as error:
        raise Refused(f"{_place(name, error.mark)}: {error}", code="invalid", field=field) from None


def _stdin() -> str:
    raw = sys.stdin.buffer.read(EDITED_BYTES_MAX + 1)
    if len(raw) > EDITED_BYTES_MAX:
        message = f"standard input has more than {EDITED_BYTES_MAX:,} bytes; at most so many are taken as a payload"
        raise Refused(message, code="too_large", field="payload")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"standard input is no UTF-8 text (byte {error.start:,} is not); send it as UTF-8"
        raise Refused(message, code="invalid", field="payload") from None


def _place(name: str, mark: TextMark | None) -> str:
    return name if mark is None else f"{name}, line {mark.line}, column {mark.column}"


def _parts(path: str) -> tuple[str | int, ...]:
    """Return ``items[0].n`` as its steps."""
    steps = re.findall(r"\[(\d+)\]|([^.\[\]]+)", path)
    return tuple(int(number) if number else name for number, name in steps)
