"""Reads YAML text as plain JSON values, each with its line and column.

It accepts less than YAML: one document, plain names as keys, no anchors, aliases, merge keys, tags or directives, no
repeated key, bounded in size, depth and number of values. Text that two YAML programs read differently is refused
rather than guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import isfinite
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import ScalarNode

from fabric.core.texts.text import clean_text
from fabric.core.values.units import JSON

Path = tuple[str | int, ...]

BYTES_MAX = 256 * 1024
DEPTH_MAX = 32
REMEMBERED_CHARS_MAX = 32 * 1024
VALUES_MAX = 10_000
"""Keys and values. A fabric of 64 agents has about two thousand."""
_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class TextMark:
    """A place in the text, counted from 1."""

    line: int
    column: int


class YamlProblem(ValueError):
    """Text that cannot be read. The message is one sentence without its place; ``mark`` is the place, where there is
    one.
    """

    def __init__(self, sentence: str, mark: TextMark | None = None) -> None:
        super().__init__(sentence)
        self.mark = mark


@dataclass(frozen=True, slots=True)
class YamlTree:
    """Parsed values, and the mark of each value by its path."""

    value: JSON
    marks: Mapping[Path, TextMark]
    keys: Mapping[Path, TextMark]
    """Marks of the fields' names."""

    def mark(self, path: Path, *, name: bool = False) -> TextMark | None:
        """Return the mark of a path, or of the nearest path around it that has one. ``name``: of the field's name
        rather than its value.
        """
        if name and (named := self.keys.get(path)):
            return named
        for end in range(len(path), -1, -1):
            if found := self.marks.get(path[:end]):
                return found
        return None


@dataclass(slots=True)
class _Open:
    """A mapping or list without its end so far."""

    path: Path
    value: dict[str, JSON] | list[JSON]
    key: str | None = None


@dataclass(slots=True)
class _Reader:
    yaml: YAML
    open: list[_Open] = field(default_factory=list)
    marks: dict[Path, TextMark] = field(default_factory=dict)
    keys: dict[Path, TextMark] = field(default_factory=dict)
    root: JSON = None
    values: int = 0
    documents: int = 0


def read_yaml(text: str) -> YamlTree:
    """Return the tree of a YAML text; its values belong to the caller. Raises YamlProblem.

    A save of a draft reads a few texts several times, 10 ms each: the last short ones are cached.
    """
    if len(text) > REMEMBERED_CHARS_MAX:
        return _read(text)
    tree = _read_cached(text)
    return replace(tree, value=_own(tree.value))


@lru_cache(maxsize=16)
def _read_cached(text: str) -> YamlTree:
    return _read(text)


def _own(value: JSON) -> JSON:
    """Return a copy that may be changed."""
    if isinstance(value, dict):
        return {name: _own(inner) for name, inner in value.items()}
    return [_own(inner) for inner in value] if isinstance(value, list) else value


def _read(text: str) -> YamlTree:
    if len(text) > BYTES_MAX or len(text.encode("utf-8", "surrogatepass")) > BYTES_MAX:
        size = len(text.encode("utf-8", "surrogatepass"))
        raise YamlProblem(f"the text has {size:,} bytes; at most {BYTES_MAX:,} are read; make it shorter")
    if clean_text(text)[1]:
        raise YamlProblem("the text holds NUL characters or broken Unicode; save it as UTF-8 text")
    reader = _Reader(YAML(typ="safe", pure=True))
    try:
        for event in _events(reader.yaml, text):
            _HANDLERS.get(type(event).__name__, _nothing)(reader, event)
    except MarkedYAMLError as error:
        raise YamlProblem(_error_sentence(error), _mark(error.problem_mark or error.context_mark)) from None
    except YAMLError as error:
        raise YamlProblem(f"the text is no YAML: {' '.join(str(error).split())[:200]}") from None
    return YamlTree(reader.root, reader.marks, reader.keys)


def _events(yaml: YAML, text: str) -> Iterator[Any]:
    yield from yaml.parse(text)


def _error_sentence(error: MarkedYAMLError) -> str:
    parts = [part for part in (error.problem, error.context) if part]
    said = ", ".join(" ".join(part.split()) for part in parts) or "it cannot be parsed"
    hint = "; indent with spaces, not tabs" if "'\\t'" in said else ""
    return f"the YAML is malformed: {said}{hint}"


def _mark(mark: Any) -> TextMark | None:
    return None if mark is None else TextMark(mark.line + 1, mark.column + 1)


# -- events ------------------------------------------------------------------------------------------------------------


def _nothing(reader: _Reader, event: Any) -> None:
    """Ignore the beginning and end of the stream and of the document."""


def _document(reader: _Reader, event: Any) -> None:
    reader.documents += 1
    if reader.documents > 1:
        raise YamlProblem("there is a second document; write one fabric a file", _mark(event.start_mark))
    if event.version or event.tags:
        raise YamlProblem("directives such as %YAML are not read; leave them out", _mark(event.start_mark))


def _alias(reader: _Reader, event: Any) -> None:
    raise YamlProblem(f"the alias *{event.anchor} is not read; write the value out", _mark(event.start_mark))


def _plain(reader: _Reader, event: Any) -> None:
    """Raise YamlProblem for properties that a value may not have."""
    if event.anchor:
        raise YamlProblem(f"the anchor &{event.anchor} is not read; write the value out", _mark(event.start_mark))
    if event.tag is not None and event.tag != "!":
        raise YamlProblem(f"the tag {event.tag} is not read; leave it out", _mark(event.start_mark))
    reader.values += 1
    if reader.values > VALUES_MAX:
        raise YamlProblem(f"there are more than {VALUES_MAX:,} values; make it smaller", _mark(event.start_mark))


def _scalar(reader: _Reader, event: Any) -> None:
    _plain(reader, event)
    inside = reader.open[-1] if reader.open else None
    if inside is not None and isinstance(inside.value, dict) and inside.key is None:
        _key(reader, inside, event)
    else:
        _put(reader, event, _value(reader, event))


def _key(reader: _Reader, inside: _Open, event: Any) -> None:
    mark = _mark(event.start_mark)
    if event.implicit[0] and event.value == "<<":
        raise YamlProblem("merge keys (<<) are not read; write the fields out", mark)
    if event.value in inside.value:
        raise YamlProblem(f"the key {event.value[:60]!r} is there twice", mark)
    inside.key = _text(event)
    reader.keys[(*inside.path, inside.key)] = mark or TextMark(1, 1)


def _begin(reader: _Reader, event: Any, value: dict[str, JSON] | list[JSON]) -> None:
    _plain(reader, event)
    inside = reader.open[-1] if reader.open else None
    if inside is not None and isinstance(inside.value, dict) and inside.key is None:
        raise YamlProblem("a key must be a plain name", _mark(event.start_mark))
    if len(reader.open) == DEPTH_MAX:
        raise YamlProblem(f"it is nested deeper than {DEPTH_MAX} levels; make it flatter", _mark(event.start_mark))
    reader.open.append(_Open(_put(reader, event, value), value))


def _put(reader: _Reader, event: Any, value: JSON) -> Path:
    """Put a value into the open node, and record its mark: that of its key, where it has one."""
    mark = _mark(event.start_mark) or TextMark(1, 1)
    if not reader.open:
        reader.root = value
        reader.marks[()] = mark
        return ()
    inside = reader.open[-1]
    if isinstance(inside.value, list):
        inside.value.append(value)
        path: Path = (*inside.path, len(inside.value) - 1)
    else:
        assert inside.key is not None
        inside.value[inside.key] = value
        path, inside.key = (*inside.path, inside.key), None
    # A group of fields begins on the next line: its name is the better place.
    grouped = isinstance(value, dict | list)
    reader.marks[path] = reader.keys.get(path, mark) if grouped else mark
    return path


def _end(reader: _Reader, event: Any) -> None:
    reader.open.pop()


_HANDLERS = {
    "DocumentStartEvent": _document,
    "AliasEvent": _alias,
    "ScalarEvent": _scalar,
    "MappingStartEvent": lambda reader, event: _begin(reader, event, {}),
    "SequenceStartEvent": lambda reader, event: _begin(reader, event, []),
    "MappingEndEvent": _end,
    "SequenceEndEvent": _end,
}


# -- scalars -----------------------------------------------------------------------------------------------------------


def _text(event: Any) -> str:
    cleaned, changed = clean_text(event.value)
    if changed:
        raise YamlProblem(
            "NUL characters and lone surrogates are not read; take the escape out", _mark(event.start_mark)
        )
    return cleaned


def _value(reader: _Reader, event: Any) -> JSON:
    """Return a scalar as JSON: quoted ones are text, and so are YAML's dates."""
    if not event.implicit[0]:
        return _text(event)
    tag = str(reader.yaml.resolver.resolve(ScalarNode, event.value, (True, False)))
    node = ScalarNode(tag, event.value, event.start_mark, event.end_mark)
    constructor = reader.yaml.constructor
    match tag.removeprefix(_TAG):
        case "null":
            return None
        case "bool":
            return constructor.construct_yaml_bool(node)
        case "int":
            return _number(event, constructor.construct_yaml_int, node)
        case "float":
            return _number(event, constructor.construct_yaml_float, node)
    return _text(event)


def _number(event: Any, construct: Any, node: ScalarNode) -> int | float:
    sentence = f"{event.value[:40]!r} is no number that is read; write a finite one, or quote it"
    try:
        value: int | float = construct(node)
    except (ValueError, OverflowError):
        raise YamlProblem(sentence, _mark(event.start_mark)) from None
    if abs(value) >= 2**63 or not isfinite(value):
        raise YamlProblem(sentence, _mark(event.start_mark))
    return value
