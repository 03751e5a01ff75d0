"""Tools that are Python functions: what their author declares of them with ``@tool``, and how they are found and called.

Which functions fabrics may use the operator says (``named.py``). A fabric has the operator's name, and no path.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from fabric.core.saga import Effect

JSON = Any
Function = Callable[..., Any]
F = TypeVar("F", bound=Function)
EffectName = Literal["read_only", "idempotent", "mutating", "irreversible"]

_MARK = "__fabric_tool__"


@dataclass(frozen=True, slots=True)
class Mark:
    """What the author of a function declares: what running it does to the world, and what it needs."""

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
    """Marks a function as one that an operator may name. It takes the arguments by keyword and returns JSON.

    ``effect``: what running it does to the world; no fabric can say less of it. ``undone_by``: the function that undoes a mutating one, itself
    idempotent; it is called with ``key``, ``args`` and ``result``. ``reconciled_by``: the read-only function that says whether a mutating one was
    executed; it is called with ``key`` and ``args``. ``variables``: names of the environment variables that it reads; it is given no other secret.

    In a conversation it may return a ``Handoff`` or a ``Finish`` of ``fabric.core.graph.state`` in place of JSON: who speaks next, or that nobody does.
    It may raise ``Retry`` of ``fabric.adapters.tools.outcome``: it is to be called once more.
    A keyword ``idempotency_key``, if it has one, gets the call's key: the same key is the same call, tried again.

    ValueError for a mutating one without ``undone_by``, and for another one with ``undone_by`` or ``reconciled_by``.
    """
    made = Mark(Effect(effect), undone_by, reconciled_by, tuple(variables))
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
    """A name or a path at which there is no tool. The message is one sentence: what is wrong, what to do."""


def load(path: str) -> Function:
    """The function at ``package.module.function``, which an operator wrote. Raises NotATool."""
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
    if not callable(function) or not isinstance(getattr(function, _MARK, None), Mark):
        raise NotATool(f"{path} is not marked as a tool; put @fabric.adapters.tools.callables.tool above the function")
    if inspect.iscoroutinefunction(function):
        raise NotATool(f"{path} is a coroutine function; a tool is a plain function, run in a process of its own")
    return function


def mark_of(function: Function) -> Mark:
    """What the author of a function that ``load`` gave declares of it."""
    found: Mark = getattr(function, _MARK)
    return found


def invoke(path: str, args: Mapping[str, JSON], key: str) -> JSON:
    """Loads the function and calls it. Raises NotATool, TypeError when the arguments do not fit, and whatever the function raises."""
    function = load(path)
    given = dict(args)
    signature = inspect.signature(function)
    if "idempotency_key" in signature.parameters:
        given["idempotency_key"] = key
    signature.bind(**given)
    return function(**given)
