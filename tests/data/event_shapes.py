"""The shapes of events and inputs, each under its version, kept for good once their format is released: ``tests/data/event_shapes.json``.

``python -m tests.data.event_shapes`` writes down the shapes of this program's kinds and versions. It refuses to change one of a released format
(``golden.RELEASED``): an installation has rows of it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import inspect

from fabric.core import events
from fabric.core.events.envelope import SINCE, SINCE_INPUT
from fabric.core.events.inputs import InboxInput, latest
from fabric.core.values.flow import FORMAT
from fabric.core.values.units import JSON
from tests.data import golden

FILE = Path(__file__).with_name("event_shapes.json")


def recorded() -> dict[str, JSON]:
    """``{"format", "shape"}`` of everything that a release wrote or will write, by ``event run_started 1``."""
    found: dict[str, JSON] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def current() -> dict[str, JSON]:
    """The same of what this program writes."""
    found = {}
    for cls in get_args(events.Fact):
        found[f"event {cls.kind} {cls.version}"] = {"format": SINCE.get(cls.kind, 1), "shape": shape(cls)}
    for cls in get_args(InboxInput):
        kind = cls.__dataclass_fields__["kind"].default
        found[f"input {kind} {latest(cls)}"] = {"format": SINCE_INPUT.get(kind, 1), "shape": shape(cls)}
    return found


def shape(cls: Any) -> JSON:
    """A class's fields with their types and defaults; what they hold is followed to the end, names of choices included."""
    info: Any = inspect.type_info(cls)
    return json.loads(json.dumps(_fields(info)))


def _fields(info: inspect.StructType) -> JSON:
    return {field.encode_name: _field(field) for field in info.fields if field.name not in ("kind", "version")}


def _field(field: inspect.Field) -> JSON:
    found = _type(field.type)
    if field.required:
        return found
    default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    return {"default": msgspec.to_builtins(default), "type": found}


def _type(info: Any) -> JSON:
    match info:
        case inspect.StructType():
            return _fields(info)
        case inspect.EnumType():
            return [member.value for member in info.cls]
        case inspect.LiteralType():
            return list(info.values)
        case inspect.UnionType():
            return {"one of": sorted((_type(one) for one in info.types), key=json.dumps)}
        case inspect.VarTupleType() | inspect.ListType():
            return {"many": _type(info.item_type)}
        case inspect.DictType():
            return {"by": _type(info.key_type), "one": _type(info.value_type)}
        case _:
            return type(info).__name__.removesuffix("Type").lower()


def wrong(known: dict[str, JSON], now: dict[str, JSON], released: frozenset[int] = golden.RELEASED) -> list[str]:
    """Return what breaks the rule, a sentence each: which shape, and what to do."""
    found = []
    for name, one in now.items():
        was = known.get(name)
        if was == one:
            continue
        if (was or one)["format"] in released:
            found.append(_breach(name, was, one))
        else:
            found.append(
                f"{name.rpartition(' ')[0]} is not written down as it is: run python -m tests.data.event_shapes"
            )
    return found


def _breach(name: str, was: JSON, one: JSON) -> str:
    """Return what is wrong with a shape that rows of a release have."""
    what, kind, version = name.split()
    table, since = ("UPCAST", "SINCE") if what == "event" else ("UPCAST_INPUT", "SINCE_INPUT")
    if was is None:
        return (
            f"{what} {kind} version {version} is new: raise FORMAT in fabric/core/values/flow.py unless it was raised since the last release, "
            f"name it in fabric/core/events/envelope.py {since}, then run python -m tests.data.event_shapes"
        )
    if was["shape"] != one["shape"]:
        return (
            f"{what} {kind} has another shape under version {version}, and old rows of it are kept for good: give it version "
            f"{int(version) + 1}, add {table}[{kind!r}, {version}] and {since}[{kind!r}] in fabric/core/events/envelope.py, raise FORMAT in "
            "fabric/core/values/flow.py unless it was raised since the last release, then run python -m tests.data.event_shapes"
        )
    return f"{what} {kind} version {version} came with format {was['format']}, and {since} says {one['format']}: correct it"


def write(released: frozenset[int] = golden.RELEASED) -> None:
    """Writes down what is new, and forgets what is gone. SystemExit, a sentence each, where that would change what a release wrote."""
    known, now = recorded(), current()
    of_releases = {name: one for name, one in now.items() if (known.get(name) or one)["format"] in released}
    if breaches := wrong(known, of_releases, released):
        raise SystemExit("\n".join(breaches))
    kept = {name: one for name, one in known.items() if one["format"] in released} | now
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(kept[name])}" for name in sorted(kept))
    FILE.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    write()
    print(f"format {FORMAT}: {len(recorded())} shapes")
