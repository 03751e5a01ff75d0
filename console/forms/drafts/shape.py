"""The shape of each place in a fabric, read from the schema that its types make. So no form knows less than the engine.

A place is a dotted path in which ``*`` stands for a position or a key: ``agents.*.model``. ``places`` adds what a
schema cannot say: the names that a field refers to, and code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from console.forms.controls.fields import MISSING, Shape
from console.forms.controls.kinds import HOLDING, NUMBERS, SEVERAL, Kind, leaf_kind, options_of
from console.forms.controls.schemas import (
    NULLABLE,
    Schema,
    allowed_of,
    choices_of,
    inner_of,
    properties_of,
    required_of,
    resolve,
    types_of,
)
from console.forms.drafts.places import COLUMNS, KEYED, KINDS, LABELS, ORDERED, REFERS, TEAM, source_of
from fabric.core.schema.limits import OWN
from fabric.core.values.units import JSON
from fabric.services.fabrics.schema import form_schema


def place_of(path: str) -> str:
    """The place that a path of a draft stands at: ``agents.2.model`` is ``agents.*.model``."""
    parts: list[str] = []
    for part in path.split("."):
        known = _shape(".".join(parts)) if parts else _shape("")
        parts.append("*" if (known is not None and known.kind in ("items", "table")) or part.isdecimal() else part)
    return ".".join(parts)


def shape_of(path: str) -> Shape | None:
    """Return the shape of a path of a draft; None where a fabric has no such place."""
    return _shape(place_of(path))


@cache
def _shape(place: str) -> Shape | None:
    found = _site(place)
    return None if found is None else _made(place, found)


def kinds_at(path: str) -> Mapping[str, Schema]:
    """Return the kinds that a group at a path of a draft may have, with their schemas. Empty: it has one kind."""
    found = _site(place_of(path))
    groups = () if found is None else _groups(found.schema)
    return {kind: one for one in groups for kind in _kind_names(one)} if len(groups) > 1 else {}


@dataclass(frozen=True, slots=True)
class _Site:
    """The position of a place in the schema of a fabric."""

    schema: Schema
    """Resolved: what may stand there."""
    said: Schema
    """The schema at the field itself; empty for an element of a list or a table."""
    around: Schema
    """The schema at the field that holds it."""
    required: bool
    element: bool
    """True for an element of a list or a table."""


def _site(place: str) -> _Site | None:
    """Return where a place stands in the schema; None where there is no such place."""
    site = _Site(form_schema(), {}, {}, required=True, element=False)
    for part in place.split(".") if place else ():
        if part == "*" and (inner := inner_of(site.schema)) is not None:
            site = _Site(_resolved(inner), {}, site.around, required=False, element=True)
        elif (own := _part(_groups(site.schema), part)) is not None:
            said, required = own
            site = _Site(_resolved(said), said, said, required=required, element=False)
        else:
            return None
    return site


def _part(groups: tuple[Schema, ...], name: str) -> tuple[Schema, bool] | None:
    """Return the schema of a group's part, and whether it has to be given. The kinds of several groups are
    one choice.
    """
    having = [one for one in groups if name in properties_of(one)]
    if not having:
        return None
    said = properties_of(having[0])[name]
    if name == "kind" and len(groups) > 1:
        rest = {key: value for key, value in said.items() if key != "const"}
        said = {**rest, "enum": [kind for one in groups for kind in _kind_names(one)]}
    return said, name in required_of(having[0])


def _resolved(schema: JSON) -> Schema:
    return resolve(form_schema(), schema)


def _made(place: str, site: _Site) -> Shape:
    kind, options, fields = _kind(place, site.schema)
    # A number under a key is the table's: the table's field has its words.
    about = site.around if kind in NUMBERS else site.said
    default = _default(site, kind, options)
    return Shape(
        place=place,
        kind=kind,
        label=_label(place, about),
        unit="" if kind in HOLDING else about.get("x-unit", ""),
        help=site.said.get("description", ""),
        stops="" if kind in HOLDING else about.get("x-at-limit", ""),
        origin=about.get("x-source", OWN) if about else "",
        default=default,
        nullable=bool(site.schema.get(NULLABLE)) or (default is None and not site.element),
        options=options,
        refers=_refers(place),
        fields=fields,
        columns=COLUMNS.get(place.rpartition(".")[2], ()) if kind == "pairs" else (),
    )


def _label(place: str, about: Schema) -> str:
    """Return the title of a place: its field's own, this console's for it, or its name in words."""
    title = about.get("title", "")
    own = "" if title == place.rpartition(".")[2].replace("_", " ").title() else title
    words = [part.replace("_", " ").capitalize() for part in place.split(".") if part != "*"]
    return own or LABELS.get(place) or LABELS.get(place.removeprefix(TEAM)) or (words or [""])[-1]


def _default(site: _Site, kind: Kind, options: Mapping[str, JSON]) -> JSON:
    if site.element:  # It is there or it is not.
        return MISSING if kind in HOLDING else None
    if site.required:
        return MISSING
    if "default" not in site.said:  # A list or a table that begins empty.
        return {"object": {}, "array": []}.get(str(site.schema.get("type")))
    default = site.said["default"]
    if kind == "picks" and options and isinstance(default, list):
        return sorted(default, key=list(options).index)
    return default


# -- the schema --------------------------------------------------------------------------------------------------------


def _groups(schema: Schema) -> tuple[Schema, ...]:
    """Return the groups of fields that may be there: one, or one of several kinds. Empty: the place is no group."""
    found = tuple(choices_of(form_schema(), schema))
    return found if all("properties" in one for one in found) else ()


def _kind_names(group: Schema) -> tuple[str, ...]:
    return tuple(str(one) for one in allowed_of(properties_of(group)["kind"]))


def _refers(place: str) -> str:
    """Return the list whose names a place holds; empty where it holds none."""
    around, _, within = place.partition(".when.")
    return REFERS.get(place) or REFERS.get(f"{around}.when.**.{within.rpartition('.')[2]}", "")


def _kind(place: str, schema: Schema) -> tuple[Kind, Mapping[str, JSON], tuple[str, ...]]:
    """Return how a place is edited, what may be picked, and which fields it has."""
    if _refers(place) or source_of(place) is not None:
        several = schema.get("type") == "array"
        return ("order" if place in ORDERED else "picks") if several else "reference", {}, ()
    if place in KINDS:
        return KINDS[place], {}, ()
    if groups := _groups(schema):
        return "group", {}, _names(groups)
    item = _resolved(inner_of(schema) or {})
    if item and schema.get("type") == "object":
        return _table(place, schema, item)
    if groups := _groups(item):
        return "items", {}, _names(groups)
    kind = leaf_kind(schema, _type(schema), item)
    return _refined(place, kind), options_of(item if kind in SEVERAL else schema), ()


def _table(place: str, schema: Schema, item: Schema) -> tuple[Kind, Mapping[str, JSON], tuple[str, ...]]:
    keys = options_of(_resolved(schema.get("propertyNames", {})))
    groups = _groups(item)
    if groups or keys or place in KEYED:
        return "table", keys, _names(groups)
    return ("pairs" if _type(item) == "string" else "json"), options_of(item), ()


def _names(groups: tuple[Schema, ...]) -> tuple[str, ...]:
    """Return the fields of groups, as an author writes them."""
    return tuple(dict.fromkeys(name for one in groups for name in properties_of(one)))


def _type(schema: Schema) -> str:
    """Return the type that a control is made for: of several the one that has room for the others."""
    named = types_of(schema)
    return next((one for one in ("boolean", "string", "integer", "number", "array") if one in named), "")


def _refined(place: str, kind: Kind) -> Kind:
    """Return the kind of a place whose name says more than its type."""
    name = place.rpartition(".")[2]
    if kind == "text" and name in _PROSE:
        return "prose"
    return "usd" if kind == "integer" and "usd_micros" in name else kind


_PROSE = frozenset({"description", "example", "instructions", "objective", "goal", "task"})
