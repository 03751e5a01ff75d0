"""What each place in a fabric may hold, read from the types of ``FabricSpec`` themselves, so that no form can know less than the engine does.

A place is a dotted path in which ``*`` stands for a position or a key: ``agents.*.model``. What a type cannot say (which names a field refers
to, what is code) is in the tables of ``places``.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from console.configure.places import EXTRA_FIELDS, KEYED, KINDS, LABELS, OF_STAGE, ORDERED, REFERS, TEAM, UNITS, Kind
from console.configure.sources import source_of
from fabric.core.breaker.policy import PRESETS
from fabric.core.loop_names import LOOP_NAMES, sort_detectors
from fabric.core.loop_policy import Detector
from fabric.core.spec import FabricSpec
from fabric.selectors.limits import LIMITS, Unit, explained

JSON = Any


class Missing:
    """There is no value."""

    def __repr__(self) -> str:
        return "missing"


MISSING = Missing()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A place."""

    place: str
    kind: Kind
    label: str
    unit: str = ""
    help: str = ""
    origin: str = ""
    """Where the default comes from."""
    default: JSON = MISSING
    """JSON; ``MISSING``: there is none, and a value has to be given."""
    nullable: bool = False
    """Whether it may be left out though it has no default of its own."""
    options: tuple[str, ...] = ()
    refers: str = ""
    fields: tuple[str, ...] = ()
    """Of a group, or of each group of a list or table: the names of its fields, as an author writes them."""

    @property
    def required(self) -> bool:
        """Whether it has to be given."""
        return self.default is MISSING


def place_of(path: str) -> str:
    """The place that a path of a draft stands at: ``agents.2.model`` is ``agents.*.model``."""
    parts: list[str] = []
    for part in path.split("."):
        known = _shape(".".join(parts)) if parts else _shape("")
        parts.append("*" if (known is not None and known.kind in ("items", "table")) or part.isdecimal() else part)
    return ".".join(parts)


def shape_of(path: str) -> Shape | None:
    """What a path of a draft may hold; None: there is no such place in a fabric."""
    return _shape(place_of(path))


@cache
def _shape(place: str) -> Shape | None:
    if place == "policy.breakers.*.preset":
        said = "A preset stands for every field that is not given."
        return Shape(
            place=place, kind="choice", label="Preset", help=said, default=None, nullable=True, options=tuple(PRESETS)
        )
    found = _typed(place)
    return None if found is None else _made(place, *found)


def kinds_at(path: str) -> Mapping[str, type[BaseModel]]:
    """The kinds that a group at a path of a draft may be of, each with its fields' type; empty: it is of one, or no group."""
    found = _typed(place_of(path))
    groups = () if found is None else _groups(_bare(found[0])[0])
    return {kind: one for one in groups for kind in _kind_names(one)} if len(groups) > 1 else {}


def _typed(place: str) -> tuple[Any, FieldInfo | None, type[BaseModel]] | None:
    """The type of a place, its field, and the group that has it; None: there is no such place."""
    annotation: Any = FabricSpec
    field: FieldInfo | None = None
    owner: type[BaseModel] = FabricSpec
    for part in place.split(".") if place else ():
        annotation, _ = _bare(annotation)
        if groups := _groups(annotation):
            found = next(((one, own) for one in groups if (own := _field(one, part)) is not None), None)
            if found is None:
                return None
            owner, field = found
            annotation = _kinds(groups) if part == "kind" and len(groups) > 1 else field.annotation
        elif part == "*" and (inner := _inner(annotation)) is not None:
            annotation, field = inner, None
        else:
            return None
    return annotation, field, owner


def _made(place: str, annotation: Any, field: FieldInfo | None, owner: type[BaseModel]) -> Shape:
    bare, nullable = _bare(annotation)
    kind, options, fields = _kind(place, bare)
    meaning, origin = explained(field, owner) if field is not None else ("", "")
    meaning = (
        meaning if field is not None and field.description else ""
    )  # What is said of a whole group is no help at each field of it.
    label, unit = LIMITS.get(
        place.removeprefix("policy.").removeprefix(OF_STAGE).replace("deadlines.*", "deadlines"), ("", "")
    )
    return Shape(
        place=place,
        kind=kind,
        label=LABELS.get(place)
        or LABELS.get(place.removeprefix(TEAM).removeprefix(f"policy.{OF_STAGE}"))
        or label
        or _words(place),
        unit=UNITS.get(place) or UNITS.get(place.removeprefix(TEAM)) or ("" if unit in _NO_UNIT else str(unit)),
        help=meaning,
        origin=origin,
        default=_default(field, kind),
        nullable=nullable,
        options=options,
        refers=_refers(place),
        fields=fields,
    )


_NO_UNIT = ("", Unit.MODE, Unit.SENTENCES)


def _words(place: str) -> str:
    named = [part for part in place.split(".") if part != "*"]
    return named[-1].replace("_", " ").capitalize() if named else ""


def _default(field: FieldInfo | None, kind: Kind) -> JSON:
    if field is None:  # What stands under a key, or in a list: it is there or it is not.
        return MISSING if kind in ("group", "items", "table") else None
    if field.is_required():
        return MISSING
    value = field.get_default(call_default_factory=True)
    return MISSING if value is PydanticUndefined else plain(value)


def plain(value: Any) -> JSON:
    """A value of the spec as JSON."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, dict):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, frozenset):
        return sort_detectors(value)  # The only sets of a fabric are of detectors.
    return value.value if isinstance(value, Enum) else value


# -- types -------------------------------------------------------------------------------------------------------------


def _bare(annotation: Any) -> tuple[Any, bool]:
    """A type without what is noted on it, and whether nothing may stand there too."""
    nullable = False
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            annotation = get_args(annotation)[0]
        elif origin in (Union, types.UnionType):
            real = [one for one in get_args(annotation) if one is not type(None)]
            nullable = nullable or len(real) < len(get_args(annotation))
            if len(real) != 1:
                return annotation, nullable
            annotation = real[0]
        else:
            return annotation, nullable


def _groups(bare: Any) -> tuple[type[BaseModel], ...]:
    """The groups of fields that may stand there: one, or one of several kinds; none: it is no group."""
    several = get_args(bare) if get_origin(bare) in (Union, types.UnionType) else (bare,)
    found = tuple(_bare(one)[0] for one in several)
    return found if all(isinstance(one, type) and issubclass(one, BaseModel) for one in found) else ()


def _kinds(groups: tuple[type[BaseModel], ...]) -> Any:
    """The type of what tells groups of several kinds apart."""
    return Literal[tuple(kind for one in groups for kind in _kind_names(one))]


def _kind_names(group: type[BaseModel]) -> tuple[str, ...]:
    return tuple(str(one) for one in get_args(group.model_fields["kind"].annotation))


def _inner(annotation: Any) -> Any:
    """The type of what a list or a mapping holds; None for any other."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin in (tuple, list, frozenset) and args:
        return args[0]
    return args[1] if origin is dict else None


def _field(owner: type[BaseModel], name: str) -> FieldInfo | None:
    for own, field in owner.model_fields.items():
        if name == (field.alias or own):
            return field
    return None


def _refers(place: str) -> str:
    """The list whose names a place holds; empty: it holds none."""
    around, _, within = place.partition(".when.")
    return REFERS.get(place) or REFERS.get(f"{around}.when.**.{within.rpartition('.')[2]}", "")


def _kind(place: str, bare: Any) -> tuple[Kind, tuple[str, ...], tuple[str, ...]]:
    """How a type is edited, what may be picked, and which fields it has."""
    if _refers(place) or source_of(place) is not None:
        several = get_origin(bare) is tuple
        return ("order" if place in ORDERED else "picks") if several else "reference", (), ()
    if place in KINDS:
        return KINDS[place], (), ()
    if (options := _options(bare)) is not None:
        return "choice", options, ()
    if groups := _groups(bare):
        names = (name for one in groups for name in _names(place.removesuffix(".*"), one))
        return "group", (), tuple(dict.fromkeys(names))
    inner = _inner(bare)
    if inner is not None:
        return _several(place, bare, inner)
    return _plain_kind(place, bare), (), ()


def _several(place: str, bare: Any, inner: Any) -> tuple[Kind, tuple[str, ...], tuple[str, ...]]:
    item, _ = _bare(inner)
    keyed = get_origin(bare) is dict
    keys = (_options(_bare(get_args(bare)[0])[0]) or ()) if keyed else ()
    if groups := _groups(item):
        names = dict.fromkeys(name for one in groups for name in _names(place, one))
        return ("table" if keyed else "items"), keys, tuple(names)
    if keyed:
        return ("table" if keys or place in KEYED else "json"), keys, ()
    if (options := _options(item)) is not None:
        return "picks", options, ()
    return ("lines" if item is str else "numbers" if item is int else "json"), (), ()


def _names(place: str, group: type[BaseModel]) -> tuple[str, ...]:
    """The fields of a group, as an author writes them."""
    return (*EXTRA_FIELDS.get(place, ()), *(field.alias or name for name, field in group.model_fields.items()))


def _options(bare: Any) -> tuple[str, ...] | None:
    if bare == Detector:
        return tuple(LOOP_NAMES)
    if get_origin(bare) is Literal:
        return tuple(str(one) for one in get_args(bare))
    if isinstance(bare, type) and issubclass(bare, Enum):
        return tuple(str(one.value) for one in bare)
    return None


def _plain_kind(place: str, bare: Any) -> Kind:
    if bare is bool:
        return "boolean"
    if bare is int:
        return "usd" if place.endswith("usd_micros") else "integer"
    if bare is float:
        return "number"
    if bare is str:
        return "prose" if place.rpartition(".")[2] in _PROSE else "text"
    return "json"


_PROSE = frozenset({"description", "example", "instructions", "objective", "goal", "task"})


def places(start: str = "", within: tuple[Any, ...] = ()) -> Iterator[Shape]:
    """Every place under another, itself first: groups, lists and tables, and what stands in them. A group that may hold groups of its own kind is entered
    once. ``within``: the types of the groups around it.
    """
    found = _shape(start)
    if found is None:
        return
    if start:
        yield found
    typed = _typed(start)
    bare = None if typed is None else _bare(typed[0])[0]
    own = _groups(bare) or _groups(_bare(_inner(bare))[0])
    if own and own in within:
        return
    around, under = (*within, own), f"{start}." if start else ""
    if found.kind == "group":
        names = [f"{under}{name}" for name in found.fields]
    elif found.kind in ("items", "table"):
        names = [f"{under}*.{name}" for name in found.fields] if found.fields else [f"{under}*"]
    else:
        names = []
    for name in names:
        yield from places(name, around)
