"""Tools that are Python functions: their authors declare them with ``@tool``; this module finds and calls them.

The operator names the functions that fabrics may use (``named_tools.py``). A fabric has the operator's name, and no
path.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from fabric.core.values.saga import Effect
from fabric.core.values.units import JSON

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)
EffectName = Literal["read_only", "idempotent", "mutating", "irreversible"]

_MARK = "__fabric_tool__"


@dataclass(frozen=True, slots=True)
class ToolMark:
    """Declaration of a function's author: its effect on the world, and its needs."""

    effect: Effect
    undone_by: Function | None = None
    reconciled_by: Function | None = None
    variables: tuple[str, ...] = ()


def tool(
    *,
    effect: EffectName,
    undone_by: Function | None = None,
    reconciled_by: Function | None = None,
    variables: tuple[str, ...] = (),
) -> Callable[[F], F]:
    """Return a decorator for a function that an operator may name. The function takes its arguments by keyword and
    returns JSON.

    1. ``effect``: its effect on the world; no fabric can declare a weaker one.
    2. ``undone_by``: the idempotent function that undoes a mutating one; it is called with ``key``, ``args`` and
       ``result``.
    3. ``reconciled_by``: the read-only function that reports whether a mutating one was executed; it is called with
       ``key`` and ``args``.
    4. ``variables``: names of the environment variables that it reads; it gets no other secret.
    5. In a conversation it may return a ``Handoff`` or a ``Finish`` of ``fabric.core.graph.state`` in place of JSON:
       the next speaker, or the end.
    6. It may raise ``Retry`` of ``fabric.tools.answers.outcome`` to be called once more.
    7. A keyword ``idempotency_key``, if it has one, gets the call's key: all attempts of one call have one key.

    Raises ValueError for a mutating one without ``undone_by``, and for another one with ``undone_by`` or
    ``reconciled_by``.
    """
    made = ToolMark(Effect(effect), undone_by, reconciled_by, tuple(variables))
    mutating = made.effect is Effect.MUTATING
    if mutating and undone_by is None:
        raise ValueError("a mutating tool is undone by another: give undone_by, or declare it irreversible")
    if not mutating and (undone_by or reconciled_by):
        raise ValueError(
            f"only a mutating tool has undone_by and reconciled_by: leave them out of one that is {effect}"
        )

    def mark(function: F) -> F:
        setattr(function, _MARK, made)
        return function

    return mark


class NotATool(LookupError):
    """A name or a path without a tool. The message is one sentence: the fault and the remedy."""


def load(path: str) -> Function:
    """Return the function at ``package.module.function``, a path of the operator's. Raises NotATool."""
    module_name, _, name = path.rpartition(".")
    if not module_name or not all(part.isidentifier() for part in path.split(".")):
        raise NotATool(f"{path[:200]!r} is no dotted path; write one like package.module.function")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - Whatever a foreign module does while it loads, the operator is told.
        said = " ".join(f"{error} ({type(error).__name__})".split())[:300]
        raise NotATool(f"{module_name} does not import: {said}") from None
    function = getattr(module, name, None)
    if function is None:
        raise NotATool(f"{module_name} has no function {name!r}")
    if not callable(function) or not isinstance(getattr(function, _MARK, None), ToolMark):
        raise NotATool(f"{path} is not marked as a tool; put @fabric.tools.functions.callables.tool above the function")
    if inspect.iscoroutinefunction(function):
        raise NotATool(f"{path} is a coroutine function; a tool is a plain function, run in a process of its own")
    return function


def build_mark(function: Function) -> ToolMark:
    """Return the declaration of a function that ``load`` returned."""
    found: ToolMark = getattr(function, _MARK)
    return found


def invoke(path: str, args: Mapping[str, JSON], key: str) -> JSON:
    """Load the function and call it. Raises NotATool, TypeError when the arguments do not fit, and any error of the
    function.
    """
    function = load(path)
    given = dict(args)
    signature = inspect.signature(function)
    if "idempotency_key" in signature.parameters:
        given["idempotency_key"] = key
    signature.bind(**given)
    return function(**given)
