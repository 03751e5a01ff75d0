"""The field of one limit: its default, title, unit, description, what happens there, and the source of its default.

A limit is declared once, in its group under ``fabric.core.spec``. Pages, the editor, the schema, exported files,
commands and the reference read everything else from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, get_args

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo


class Unit(StrEnum):
    """The unit in which pages show a number."""

    USD = "USD"
    USD_A_MINUTE = "USD a minute"
    USD_PER_MTOK = "$ per million tokens"
    USD_A_CALL = "$ a call"
    SECONDS = "s"
    DAYS = "days"
    TOKENS = "tokens"
    TOKENS_A_MINUTE = "tokens a minute"
    RETRY_TOKENS = "retry tokens"
    BYTES = "bytes"
    CHARACTERS = "characters"
    KEYS = "keys"
    HANDOFFS = "handoffs"
    LEVELS = "levels"
    TURNS = "turns"
    ROUNDS = "rounds"
    CALLS = "calls"
    AGENTS = "agents"
    EVENTS = "events"
    BRIEFS = "briefs"
    BRANCHES = "branches"
    REPLANS = "replans"
    CORRECTIONS = "corrections"
    CLAIMS = "claims"
    REPEATS = "repeats"
    VISITS = "visits"
    MOVES = "moves"
    HANDS = "agents in a cycle"
    TIMES = "times"
    PROBES = "probes"
    TRIPS = "trips"
    SHARE = "of the time"
    SCORE = "score"
    COUNT_OR_SHARE = "count or share"

    @property
    def file_unit(self) -> str:
        """Return the unit in which a fabric's file has the number: ``micro-dollars``, ``seconds``."""
        return _WRITTEN.get(self, self.value)


_WRITTEN = {
    Unit.USD: "micro-dollars",
    Unit.USD_A_MINUTE: "micro-dollars a minute",
    Unit.USD_PER_MTOK: "dollars per million tokens",
    Unit.USD_A_CALL: "dollars a call",
    Unit.SECONDS: "seconds",
    Unit.SHARE: "share of the time",
}

REQUIRED: Any = ...
"""The default of a field that an author must give."""
OWN = "Fabric Flow's own"
"""The source of a default that no document gives."""
_UNIT, _STOPS, _SOURCE = "x-unit", "x-at-limit", "x-source"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Declaration of a limit's field, in addition to its default and bounds."""

    title: str
    unit: Unit
    description: str
    stops: str
    """The effect at the limit, as it stands behind ``at 5``."""
    source: str
    """The document, or the page of ours, that the default comes from."""


def declare_limit(default: Any, title: str, unit: Unit, description: str, *, stops: str, source: str = OWN) -> Any:
    """Return the field of a number. ``stops`` says what happens there, ``source`` where the default comes from."""
    extra: dict[str, Any] = {_UNIT: unit.value, _STOPS: stops, _SOURCE: source}
    return Field(default=default, title=title, description=description, json_schema_extra=extra)


def declare_amount(default: Any, title: str, unit: Unit, description: str) -> Any:
    """Return the field of a number that limits nothing, such as a price."""
    return Field(default=default, title=title, description=description, json_schema_extra={_UNIT: unit.value})


def declare_setting(default: Any, title: str, description: str, *, source: str = OWN) -> Any:
    """Return the field of a choice, a text or a list."""
    return Field(default=default, title=title, description=description, json_schema_extra={_SOURCE: source})


def declare_late_setting(title: str, description: str, *, source: str = OWN) -> Any:
    """Return the field of an optional setting. A fabric without it is written without it.

    So the digests of fabrics that were published before the setting existed stay.
    """
    return Field(
        default=None,
        title=title,
        description=description,
        json_schema_extra={_SOURCE: source},
        exclude_if=lambda given: given is None,
    )


def declare_for_stage(group: type[BaseModel], name: str) -> Any:
    """Return the field of one stage for a field of the fabric: same words and bounds, and None by default."""
    found = group.model_fields[name]
    extra = found.json_schema_extra if isinstance(found.json_schema_extra, dict) else None
    return Field(
        default=None,
        title=found.title,
        description=found.description,
        json_schema_extra=extra,
        **map_bounds(found),
    )


def find_unit(field: FieldInfo) -> Unit | None:
    """Return the unit of a field's number; None where it holds no number."""
    found = _extra(field, _UNIT)
    return Unit(found) if found else None


def default_source(field: FieldInfo) -> str:
    """Return where a field's default comes from."""
    return _extra(field, _SOURCE) or OWN


def find_limit(field: FieldInfo) -> Limit | None:
    """Return the limit that a field declares; None where it is no limit."""
    stops, unit = _extra(field, _STOPS), find_unit(field)
    if not stops or unit is None:
        return None
    title, description = field.title or "", field.description or ""
    return Limit(title=title, unit=unit, description=description, stops=stops, source=default_source(field))


def map_bounds(field: FieldInfo) -> dict[str, Any]:
    """Return the bounds of a field's number by their name in pydantic: ``gt``, ``ge``, ``lt``, ``le``."""
    return {name: value for one in (*field.metadata, *_read_notes(field.annotation)) for name, value in _bounds(one)}


def _bounds(noted: Any) -> list[tuple[str, Any]]:
    if isinstance(noted, FieldInfo):
        return [pair for one in noted.metadata for pair in _bounds(one)]
    return [(name, getattr(noted, name)) for name in ("gt", "ge", "lt", "le") if hasattr(noted, name)]


def _read_notes(annotation: Any) -> list[Any]:
    """Return what is noted within a type: the bounds in ``Annotated[int, Field(ge=1)] | None``."""
    own = list(getattr(annotation, "__metadata__", ()))
    return own + [noted for one in get_args(annotation) for noted in _read_notes(one)]


def _extra(field: FieldInfo, name: str) -> str:
    extra = field.json_schema_extra
    return str(extra.get(name, "")) if isinstance(extra, dict) else ""
