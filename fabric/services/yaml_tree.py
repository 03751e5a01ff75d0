"""YAML text as plain JSON values, each with the line and column it stands at.

Less than YAML: one document, plain names as keys, no anchors, aliases, merge keys, tags or directives, no key twice, bounded in size, depth and
number of values. What reads differently in two YAML programs is refused rather than guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import isfinite
from typing import Any, Literal, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import ScalarNode

from fabric.core.text import clean_text

JSON = Any
Path = tuple[str | int, ...]
Style = Literal["plain", "'", '"', "|", ">", "flow", "block", "empty"]

BYTES_MAX = 256 * 1024
DEPTH_MAX = 32
REMEMBERED_CHARS_MAX = 32 * 1024
VALUES_MAX = 10_000
"""Keys and values. A fabric of 64 agents has about two thousand."""
_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in the text, counted from 1."""

    line: int
    column: int


class YamlProblem(ValueError):
    """Text that is not read. The message is one sentence without its place; ``mark`` is the place, where there is one."""

    def __init__(self, sentence: str, mark: Mark | None = None) -> None:
        super().__init__(sentence)
        self.mark = mark


class Span(NamedTuple):
    """The characters ``text[start:end]`` that a value or a name was read from."""

    start: int
    end: int
    style: Style
    """``plain``, ``'``, ``"``, ``|`` or ``>`` of a scalar, ``flow`` or ``block`` of a group or list. ``empty``: nothing is written there, so
    that the span says only roughly where. A block group begins at its first name or dash, and what its span ends with is not its last value."""


@dataclass(frozen=True, slots=True)
class Tree:
    """What was read, and where each value stands by its path."""

    value: JSON
    marks: Mapping[Path, Mark]
    keys: Mapping[Path, Mark]
    """Where the names of the fields stand."""
    spans: Mapping[Path, Span]
    names: Mapping[Path, Span]
    """The spans of the names of the fields."""

    def mark(self, path: Path, *, name: bool = False) -> Mark | None:
        """Where a path stands, or the nearest thing around it that does. ``name``: the field's name rather than its value."""
        if name and (named := self.keys.get(path)):
            return named
        for end in range(len(path), -1, -1):
            if found := self.marks.get(path[:end]):
                return found
        return None


@dataclass(slots=True)
class _Open:
    """A mapping or list that has not ended yet."""

    path: Path
    value: dict[str, JSON] | list[JSON]
    start: int
    style: Style
    key: str | None = None


@dataclass(slots=True)
class _Reader:
    yaml: YAML
    open: list[_Open] = field(default_factory=list)
    marks: dict[Path, Mark] = field(default_factory=dict)
    keys: dict[Path, Mark] = field(default_factory=dict)
    spans: dict[Path, Span] = field(default_factory=dict)
    names: dict[Path, Span] = field(default_factory=dict)
    root: JSON = None
    values: int = 0
    documents: int = 0


def read_yaml(text: str) -> Tree:
    """The tree of a YAML text; its values are the caller's own. Raises YamlProblem.

    A save of a draft reads the same few texts several times, 10 ms each: the last ones are remembered, where they are short.
    """
    if len(text) > REMEMBERED_CHARS_MAX:
        return _read(text)
    tree = _remembered(text)
    return replace(tree, value=_own(tree.value))


@lru_cache(maxsize=16)
def _remembered(text: str) -> Tree:
    return _read(text)


def _own(value: JSON) -> JSON:
    """A copy that may be changed."""
    if isinstance(value, dict):
        return {name: _own(inner) for name, inner in value.items()}
    return [_own(inner) for inner in value] if isinstance(value, list) else value


def _read(text: str) -> Tree:
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
        raise YamlProblem(_said(error), _mark(error.problem_mark or error.context_mark)) from None
    except YAMLError as error:
        raise YamlProblem(f"the text is no YAML: {' '.join(str(error).split())[:200]}") from None
    return Tree(reader.root, reader.marks, reader.keys, reader.spans, reader.names)


def _events(yaml: YAML, text: str) -> Iterator[Any]:
    yield from yaml.parse(text)


def _said(error: MarkedYAMLError) -> str:
    parts = [part for part in (error.problem, error.context) if part]
    said = ", ".join(" ".join(part.split()) for part in parts) or "it cannot be parsed"
    hint = "; indent with spaces, not tabs" if "'\\t'" in said else ""
    return f"the YAML is malformed: {said}{hint}"


def _mark(mark: Any) -> Mark | None:
    return None if mark is None else Mark(mark.line + 1, mark.column + 1)


# -- events ------------------------------------------------------------------------------------------------------------


def _nothing(reader: _Reader, event: Any) -> None:
    """The beginning and end of the stream and of the document."""


def _document(reader: _Reader, event: Any) -> None:
    reader.documents += 1
    if reader.documents > 1:
        raise YamlProblem("there is a second document; write one fabric a file", _mark(event.start_mark))
    if event.version or event.tags:
        raise YamlProblem("directives such as %YAML are not read; leave them out", _mark(event.start_mark))


def _alias(reader: _Reader, event: Any) -> None:
    raise YamlProblem(f"the alias *{event.anchor} is not read; write the value out", _mark(event.start_mark))


def _plain(reader: _Reader, event: Any) -> None:
    """Refuses what a value may not carry."""
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
        reader.spans[_put(reader, event, _value(reader, event))] = _span(event)


def _span(event: Any) -> Span:
    """Of a scalar."""
    style: Style = event.style or ("plain" if event.value else "empty")
    return Span(event.start_mark.index, event.end_mark.index, style)


def _key(reader: _Reader, inside: _Open, event: Any) -> None:
    mark = _mark(event.start_mark)
    if event.implicit[0] and event.value == "<<":
        raise YamlProblem("merge keys (<<) are not read; write the fields out", mark)
    if event.value in inside.value:
        raise YamlProblem(f"the key {event.value[:60]!r} is there twice", mark)
    inside.key = _text(event)
    path = (*inside.path, inside.key)
    reader.keys[path] = mark or Mark(1, 1)
    reader.names[path] = _span(event)


def _begin(reader: _Reader, event: Any, value: dict[str, JSON] | list[JSON]) -> None:
    _plain(reader, event)
    inside = reader.open[-1] if reader.open else None
    if inside is not None and isinstance(inside.value, dict) and inside.key is None:
        raise YamlProblem("a key must be a plain name", _mark(event.start_mark))
    if len(reader.open) == DEPTH_MAX:
        raise YamlProblem(f"it is nested deeper than {DEPTH_MAX} levels; make it flatter", _mark(event.start_mark))
    path = _put(reader, event, value)
    reader.open.append(_Open(path, value, event.start_mark.index, "flow" if event.flow_style else "block"))


def _put(reader: _Reader, event: Any, value: JSON) -> Path:
    """Puts a value into what is open, and remembers where it stands: at its key, where it has one."""
    mark = _mark(event.start_mark) or Mark(1, 1)
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
    ended = reader.open.pop()
    reader.spans[ended.path] = Span(ended.start, event.end_mark.index, ended.style)


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
    """A scalar as JSON: what is quoted is text, and so is what YAML would take for a date."""
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
