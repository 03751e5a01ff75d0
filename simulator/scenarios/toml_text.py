"""TOML beside what the standard library does: on which line the value at a path stands, and values written as TOML."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from typing import Any

from simulator.scenarios.problems import Path
from simulator.scenarios.toml_reading import TEXT, toml_read

JSON = Any
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY = re.compile(r"""[ \t]*(?:([A-Za-z0-9_-]+)|"((?:[^"\\\n]|\\.)*)"|'([^'\n]*)')[ \t]*(\.?)""")
_STRING = re.compile(TEXT, re.DOTALL)
_PLAIN = re.compile(r"[^,\]}#\n]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


class Lines:
    """Where the values of a TOML text stand. The text is one that ``toml_read`` takes."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at: dict[Path, int] = {(): 0}
        self._tables: Counter[Path] = Counter()
        self._ends = [found.start() for found in re.finditer("\n", text)]
        self._read()

    def line(self, path: Path) -> int:
        """The line, from 1, on which the value at a path begins; of what is not there, the one that it would be part of."""
        while path not in self._at:
            path = path[:-1]
        return bisect_left(self._ends, self._at[path]) + 1

    def _read(self) -> None:
        table: Path = ()
        at = self._blank(0)
        while at < len(self._text):
            if self._text.startswith("[", at):
                at, table = self._header(at)
            else:
                at = self._pair(at, table)
            at = self._blank(at)

    def _blank(self, at: int) -> int:
        found = _BLANK.match(self._text, at)
        return found.end() if found else at

    def _header(self, at: int) -> tuple[int, Path]:
        many = self._text.startswith("[[", at)
        end, keys = self._keys(at + 1 + many)
        table = self._placed(keys[:-1]) + keys[-1:]
        if many:
            self._at.setdefault(table, at)
            self._tables[table] += 1
            table = (*table, self._tables[table] - 1)
        self._note(table, at)
        return self._text.index("]", end) + 1 + many, table

    def _placed(self, keys: Path) -> Path:
        """The path that keys of a header stand for: behind an array of tables is its last table."""
        path: Path = ()
        for key in keys:
            path = (*path, key)
            if self._tables[path]:
                path = (*path, self._tables[path] - 1)
        return path

    def _note(self, path: Path, at: int) -> None:
        for length in range(1, len(path) + 1):
            self._at.setdefault(path[:length], at)

    def _keys(self, at: int) -> tuple[int, Path]:
        keys: list[str] = []
        while found := _KEY.match(self._text, at):
            bare, quoted, raw, dot = found.groups()
            keys.append(bare or (raw if quoted is None else toml_read(f'key = "{quoted}"')["key"]))
            at = found.end()
            if not dot:
                break
        return at, tuple(keys)

    def _pair(self, at: int, table: Path) -> int:
        end, keys = self._keys(at)
        path = (*table, *keys)
        self._note(path, at)
        return self._value(self._blank(self._text.index("=", end) + 1), path)

    def _value(self, at: int, path: Path) -> int:
        """Notes what stands inside a value; where it ends."""
        if self._text.startswith(("[", "{"), at):
            return self._inside(at, path, named=self._text[at] == "{")
        found = _STRING.match(self._text, at) or _PLAIN.match(self._text, at)
        return found.end() if found else at + 1

    def _inside(self, at: int, path: Path, *, named: bool) -> int:
        at, count = self._blank(at + 1), 0
        while at < len(self._text) and self._text[at] not in "]}":
            if named:
                at = self._pair(at, path)
            else:
                self._note((*path, count), at)
                at, count = self._value(at, (*path, count)), count + 1
            at = self._blank(at)
            if self._text.startswith(",", at):
                at = self._blank(at + 1)
        return at + 1


def written(value: JSON) -> str:
    """A value as TOML, on one line. ValueError for null, which TOML has not."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return "nan" if math.isnan(value) else repr(value)
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case list() | tuple():
            return f"[{', '.join(map(written, value))}]"
        case Mapping():
            pairs = [f"{key_written(key)} = {written(one)}" for key, one in value.items()]
            return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    raise ValueError(f"{value!r} cannot be written as TOML")


def key_written(key: str) -> str:
    """A key, in quotes where it has to be."""
    return key if _BARE.fullmatch(key) else written(key)


def pairs_written(values: Mapping[str, JSON]) -> list[str]:
    """A line for each key and value."""
    return [f"{key_written(key)} = {written(value)}" for key, value in values.items()]
