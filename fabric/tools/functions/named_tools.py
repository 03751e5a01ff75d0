"""The functions that fabrics may use, by the operator's names (FABRIC_TOOLS), with the declarations of their marks.

They are imported because the operator named them, once a process. A fabric's names are looked up here, and import
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from fabric.core.spec.tools import ToolSpec
from fabric.core.values.saga import Effect
from fabric.tools.functions.callables import Function, NotATool, build_mark, load

VARIABLE = "FABRIC_TOOLS"
PRODUCT: Mapping[str, str] = MappingProxyType(
    {
        "paper-reserve": "simulator.tools.payments.reserve",
        "paper-release": "simulator.tools.payments.release",
        "paper-pay": "simulator.tools.payments.pay",
        "drill-lookup": "simulator.tools.lookup.lookup",
    }
)
"""The product's own functions, which every fabric may use: none of them changes anything."""
_STRICTER = tuple(Effect)


class ToolsUnusable(ValueError):
    """A name of the operator's without a tool, in one sentence."""


@dataclass(frozen=True, slots=True)
class NamedTool:
    """A named function. ``undone_by`` and ``reconciled_by``: names of its compensations and reconciliations."""

    path: str
    effect: Effect
    undone_by: tuple[str, ...] = ()
    reconciled_by: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


Named = Mapping[str, NamedTool]


def build_tools(paths: Mapping[str, str]) -> Named:
    """Return the product's own tools and those at the operator's paths, by name. Raises ToolsUnusable for the first
    one that fails.
    """
    return _build_tools(tuple(sorted(paths.items())))


def problems(spec: ToolSpec, named: Named) -> Iterator[tuple[str, str]]:
    """Yield field and sentence where a fabric may not use its named function as it declares."""
    found = named.get(spec.target)
    if found is None:
        yield "target", _unknown(spec.target, named)
    elif _STRICTER.index(Effect(spec.effect)) < _STRICTER.index(found.effect):
        said = found.effect.value
        yield "effect", f"is declared {spec.effect}, but the operator's {spec.target!r} is {said}; declare it {said}"


def pairs_problems(spec: ToolSpec, others: Mapping[str, ToolSpec], named: Named) -> Iterator[tuple[str, str]]:
    """Yield field and sentence where a fabric's mutating function has another compensation or reconciliation than
    its author declares.
    """
    found = named.get(spec.target)
    if found is None or found.effect is not Effect.MUTATING or Effect(spec.effect) is not Effect.MUTATING:
        return
    for field, may, word in (
        ("compensation", found.undone_by, "undone"),
        ("reconcile", found.reconciled_by, "reconciled"),
    ):
        other = others.get(getattr(spec, field) or "")
        if other is None or (other.kind == "callable" and other.target in may):
            continue
        wanted = f"name a callable tool with target {may[0]!r}" if may else "leave it out: a person is asked"
        yield field, f"the operator's {spec.target!r} is not {word} by {other.name!r}; {wanted}"


def _unknown(target: str, named: Named) -> str:
    there = ", ".join(sorted(named))
    sentence = f"{target[:200]!r} is no tool that the operator names here; there are: {there}"
    return f"{sentence}; use one of them, or have the operator add NAME=dotted.path to {VARIABLE} and give NAME"


@lru_cache(maxsize=8)
def _build_tools(pairs: tuple[tuple[str, str], ...]) -> Named:
    for name, _ in pairs:
        if name in PRODUCT:
            raise ToolsUnusable(
                f"{VARIABLE} names {name!r}, which is a tool of the product's own: give it another name"
            )
    paths = {**PRODUCT, **dict(pairs)}
    functions = {name: _function(name, path) for name, path in paths.items()}
    return MappingProxyType({name: _make_named_tool(name, paths[name], functions) for name in functions})


def _function(name: str, path: str) -> Function:
    try:
        return load(path)
    except NotATool as error:
        raise ToolsUnusable(f"{VARIABLE} has {name}={path}, which is no tool ({error}): correct it") from None


def _make_named_tool(name: str, path: str, functions: Mapping[str, Function]) -> NamedTool:
    mark = build_mark(functions[name])
    ways = {}
    for word, other, must_be in (
        ("undone", mark.undone_by, Effect.IDEMPOTENT),
        ("reconciled", mark.reconciled_by, Effect.READ_ONLY),
    ):
        ways[word] = tuple(sorted(one for one, function in functions.items() if function is other))
        if other is None:
            continue
        where = f"{other.__module__}.{other.__qualname__}"
        if not ways[word]:
            raise ToolsUnusable(
                f"{VARIABLE} has {name}={path}, which is {word} by {where}, which has no name: add NAME={where}"
            )
        if (effect := build_mark(other).effect) is not must_be:
            raise ToolsUnusable(
                f"{VARIABLE} has {name}={path}, which is {word} by {where}, which is {effect.value}: it must be {must_be.value}"
            )
    return NamedTool(path, mark.effect, ways["undone"], ways["reconciled"], mark.variables)
