"""What each place in a fabric may hold, read from the types of ``FabricSpec`` themselves, so that no form can know less than the engine does.

A place is a dotted path in which ``*`` stands for a position or a key: ``agents.*.model``. What a type cannot say (which names a field refers
to, what is code) is in the tables here, total over the places by test.
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

from console.configure.sources import SOURCES
from fabric.core.breaker.policy import PRESETS
from fabric.core.spec import FabricSpec
from fabric.selectors.limits import LIMITS, Unit, explained

JSON = Any
Kind = Literal[
    "name", "text", "prose", "code", "integer", "number", "usd", "boolean", "choice", "reference", "picks", "order", "lines", "json",
    "group", "items", "table",
]  # fmt: skip
"""How a place is edited. ``picks``: any of some, ``order``: several of some in order; ``group``: named fields, ``items``: a list of groups,
``table``: groups by key."""


class Missing:
    """There is no value."""

    def __repr__(self) -> str:
        return "missing"


MISSING = Missing()

REFERS: Mapping[str, str] = {
    "agents.*.model": "models",
    "agents.*.tools": "tools",
    "models.*.fallbacks": "models",
    "models.*.cheaper": "models",
    "tools.*.compensation": "tools",
    "tools.*.reconcile": "tools",
    "topology.planner": "agents",
    "topology.workers": "agents",
    "topology.aggregator": "agents",
    "topology.critic": "agents",
    "topology.plan_critic": "agents",
    "topology.finalizer": "agents",
    "topology.handover": "agents",
    "topology.plan.briefs.*.agent": "agents",
    "gates.oracle.*.tool": "tools",
    "gates.oracle.*.critic": "agents",
    "gates.grounding_critic": "agents",
    "policy.goal_gates.nodes": "agents",
}
"""Places that hold names, and the list whose names they are."""
KEYED: Mapping[str, str] = {"policy.budget.agents": "agents"}
"""Tables whose keys are names, and the list whose names they are."""
ORDERED = frozenset({"models.*.fallbacks", "topology.workers"})
"""Of those with several names, where their order says something."""
KINDS: Mapping[str, Kind] = {
    "gates.policies.*.text": "code",
    "gates.invariants.*.expression": "code",
    "gates.oracle.*.expression": "code",
    "gates.guardrails.*.patterns.*.pattern": "code",
    "safe_fallback": "prose",
    "agents.*.name": "name",
    "models.*.name": "name",
    "tools.*.name": "name",
    "memories.*.name": "name",
}
"""Places that are edited otherwise than their type says."""
LABELS: Mapping[str, str] = {
    "name": "Name",
    "models.*.model": "Model id",
    "models.*.base_url": "Endpoint",
    "models.*.context_tokens": "Context window",
    "models.*.price.input_usd_per_mtok": "Price of input",
    "models.*.price.output_usd_per_mtok": "Price of output",
    "models.*.structured_output": "Answers held to a schema",
    "models.*.tool_calls": "Takes tool calls",
    "models.*.cheaper": "Cheaper stand-in",
    "tools.*.timeout_s": "Timeout",
    "tools.*.target": "Target",
    "agents.*.output_schema": "Schema of its data",
    "tools.*.capabilities": "Capabilities that calling it takes, one a line",
    "agents.*.persona.allowed_capabilities": "Allowed capabilities, one a line",
    "agents.*.persona.denied_capabilities": "Denied capabilities, one a line",
    "agents.*.max_output_tokens": "Output, at most",
    "agents.*.calls": "How it calls tools",
    "memories.*.conflicts": "Two writes of one key at once",
    "agents.*.inline_document_chars": "Of each document, in the prompt",
    "tiers.default": "Tier of a run that asks for none",
    "tiers.allowed": "Tiers that a run may ask for",
    "example": "Example request",
    "safe_fallback": "Static answer",
    "topology.kind": "Kind of topology",
    "topology.plan.goal": "Goal of the plan",
    "topology.plan.briefs.*.agent": "Worker",
    "topology.plan.exit_criteria": "Exit criteria, one a line",
    "gates.max_outcome_chars": "Longest answer",
    "gates.citations": "Citations",
    "gates.grounding": "Grounding level",
    "gates.guardrails.*.places": "Where it looks",
    "gates.guardrails.*.rules": "Shipped rules",
    "gates.invariants.*.expression": "Condition, CEL",
    "gates.invariants.*.message": "Said when it does not hold",
    "gates.policies.*.text": "Policy, Cedar",
    "gates.oracle.*.expression": "Condition, CEL",
    "gates.oracle.*.message": "Said when it does not hold",
    "gates.oracle.*.http.url": "Address",
    "gates.oracle.*.http.timeout_s": "Timeout of one attempt",
    "decision_table.*.*.deviation": "Why it may be laxer",
    "policy.budget.agents.*.usd_micros": "Own cap of money",
    "policy.budget.agents.*.tokens": "Own cap of tokens",
    "policy.breakers.*.scope": "Stands in front of",
    "policy.breakers.*.only": "Only these",
    "policy.breakers.*.cooldown_s": "Cooldown",
    "policy.breakers.*.half_open_max": "Probes at once",
    "policy.breakers.*.success_threshold": "Probes to close it",
    "policy.breakers.*.max_trips": "Trips until it stops for good",
    "policy.breakers.*.reset_on_success": "Closing forgets trips",
    "policy.breakers.*.on_open": "Fallback while it is open",
    "policy.breakers.*.signals.*.names": "Counts",
    "policy.breakers.*.signals.*.window_s": "Window",
    "policy.breakers.*.signals.*.min_calls": "Judged from",
    "policy.retry_layers.stages.*.fallback_retry_target": "Retry target after that",
    "policy.retry_layers.stages.*.max_retries": "Node retries",
    "policy.retry_layers.stages.*.allow_partial": "A gap may stay",
}
"""Labels that are not the field's name in words; those of the policy are in ``LIMITS``."""
UNITS: Mapping[str, str] = {
    "policy.budget.agents.*.usd_micros": str(Unit.USD),
    "policy.budget.agents.*.tokens": str(Unit.TOKENS),
    "policy.breakers.*.cooldown_s": "s",
    "policy.breakers.*.signals.*.window_s": "s",
    "policy.breakers.*.signals.*.min_calls": "calls",
    "models.*.context_tokens": "tokens",
    "models.*.price.input_usd_per_mtok": "$ per million tokens",
    "models.*.price.output_usd_per_mtok": "$ per million tokens",
    "tools.*.timeout_s": "s",
    "agents.*.max_output_tokens": "tokens",
    "agents.*.inline_document_chars": "characters",
    "gates.max_outcome_chars": "characters",
    "gates.oracle.*.http.timeout_s": "s",
}


EXTRA_FIELDS: Mapping[str, tuple[str, ...]] = {"policy.breakers": ("preset",)}
"""Fields that an author may write and that are gone once a fabric is read: a breaker may be a preset and what differs from it."""


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
            annotation = _kinds(groups) if part == "kind" else field.annotation
        elif part == "*" and (inner := _inner(annotation)) is not None:
            annotation, field = inner, None
        else:
            return None
    return _made(place, annotation, field, owner)


def _made(place: str, annotation: Any, field: FieldInfo | None, owner: type[BaseModel]) -> Shape:
    bare, nullable = _bare(annotation)
    kind, options, fields = _kind(place, bare)
    meaning, origin = explained(field, owner) if field is not None else ("", "")
    meaning = (
        meaning if field is not None and field.description else ""
    )  # What is said of a whole group is no help at each field of it.
    label, unit = LIMITS.get(place.removeprefix("policy.").replace("deadlines.*", "deadlines"), ("", ""))
    return Shape(
        place=place,
        kind=kind,
        label=LABELS.get(place) or label or _words(place),
        unit=UNITS.get(place) or ("" if unit in _NO_UNIT else str(unit)),
        help=meaning,
        origin=origin,
        default=_default(field, kind),
        nullable=nullable,
        options=options,
        refers=REFERS.get(place, ""),
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
        return sorted(plain(item) for item in value)
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
    return Literal[tuple(kind for one in groups for kind in get_args(one.model_fields["kind"].annotation))]


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


def _kind(place: str, bare: Any) -> tuple[Kind, tuple[str, ...], tuple[str, ...]]:
    """How a type is edited, what may be picked, and which fields it has."""
    if place in REFERS or place in SOURCES:
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
    if isinstance(item, type) and issubclass(item, BaseModel):
        return ("table" if keyed else "items"), keys, _names(place, item)
    if keyed:
        return ("table" if keys else "json"), keys, ()
    if (options := _options(item)) is not None:
        return "picks", options, ()
    return ("lines" if item is str else "json"), (), ()


def _names(place: str, group: type[BaseModel]) -> tuple[str, ...]:
    """The fields of a group, as an author writes them."""
    return (*EXTRA_FIELDS.get(place, ()), *(field.alias or name for name, field in group.model_fields.items()))


def _options(bare: Any) -> tuple[str, ...] | None:
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


def places(start: str = "") -> Iterator[Shape]:
    """Every place under another, itself first: groups, lists and tables, and what stands in them."""
    found = _shape(start)
    if found is None:
        return
    if start:
        yield found
    under = f"{start}." if start else ""
    if found.kind == "group":
        names = [f"{under}{name}" for name in found.fields]
    elif found.kind in ("items", "table"):
        names = [f"{under}*.{name}" for name in found.fields] if found.fields else [f"{under}*"]
    else:
        names = []
    for name in names:
        yield from places(name)
