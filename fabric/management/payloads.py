"""A payload that a person wrote into a file, or sends on standard input: as JSON or YAML, with the place of whatever is wrong in it."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fabric.management.base import read_text
from fabric.services.answer_checks import EDITED_BYTES_MAX
from fabric.services.errors import Refused
from fabric.services.yaml_tree import Mark, Tree, YamlProblem, read_yaml

JSON = Any
STDIN = "-"
_PATH = re.compile(r"([\w-]+(?:\.[\w-]+|\[\d+\])*): (.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Payload:
    """What was written, and where its parts stand."""

    name: str
    tree: Tree

    @property
    def value(self) -> JSON:
        """What was written."""
        return self.tree.value

    def placed(self, problem: str) -> str:
        """A problem with its place: ``payload.json, line 3, column 9, items[0].n: ...``. ``problem``: its path first, where it has one."""
        found = _PATH.fullmatch(problem)
        path = _parts(found[1]) if found else ()
        # What stands before the colon may be part of the sentence: a path is one that was written.
        path = path if path and path in self.tree.marks else self._dotted(problem)
        at, between = (path, ", ") if path else ((), ": ")
        return f"{_place(self.name, self.tree.mark(at))}{between}{problem}"

    def _dotted(self, problem: str) -> tuple[str | int, ...]:
        """The longest path that the problem begins with as ``hosts.0``, whatever its names have in them; empty: none."""
        named = {".".join(map(str, path)): path for path in self.tree.marks if path}
        led = [text for text in named if problem.startswith((f"{text}:", f"{text}."))]
        return named[max(led, key=len)] if led else ()


def payload_given(where: str) -> Payload:
    """The payload in a file, or on standard input for ``-``. Raises Refused, with file, line and column where there are any."""
    if where == STDIN:
        return payload_read("standard input", _stdin())
    return payload_read(Path(where).name, read_text(Path(where), most=EDITED_BYTES_MAX, what="a payload"))


def payload_read(name: str, text: str, *, field: str = "payload") -> Payload:
    """A payload out of its text. Raises Refused, with name, line and column."""
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


def _place(name: str, mark: Mark | None) -> str:
    return name if mark is None else f"{name}, line {mark.line}, column {mark.column}"


def _parts(path: str) -> tuple[str | int, ...]:
    """``items[0].n`` as its steps."""
    steps = re.findall(r"\[(\d+)\]|([^.\[\]]+)", path)
    return tuple(int(number) if number else name for number, name in steps)
