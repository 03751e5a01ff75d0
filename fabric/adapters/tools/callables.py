"""Tools that are Python functions, named by dotted path.

Only a function that its author marked with ``@tool`` can be named: a fabric is written by people who may not run code on this machine.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

JSON = Any
F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__fabric_tool__"


def tool(function: F) -> F:
    """Marks a function as one that fabrics may name. It takes the arguments by keyword and returns JSON.

    In a conversation it may return a ``Handoff`` or a ``Finish`` of ``fabric.core.graph.state`` in place of JSON: who speaks next, or that nobody does.
    It may raise ``Retry`` of ``fabric.adapters.tools.outcome``: it is to be called once more.
    A keyword ``idempotency_key``, if it has one, gets the call's key: the same key is the same call, tried again.
    """
    setattr(function, _MARK, True)
    return function


class NotATool(LookupError):
    """A dotted path that names no tool. The message is one sentence: what is wrong, what to do."""


def load(path: str) -> Callable[..., JSON]:
    """The function at ``package.module.function`` (or ``package.module:function``). Raises NotATool."""
    module_name, _, name = path.replace(":", ".").rpartition(".")
    if not module_name or not all(part.isidentifier() for part in path.replace(":", ".").split(".")):
        raise NotATool(f"{path[:200]!r} is no dotted path; write one like package.module.function")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # noqa: BLE001 - Whatever a foreign module raises while it loads, the author is told.
        raise NotATool(f"{module_name} does not import: {error} ({type(error).__name__})") from None
    function = getattr(module, name, None)
    if function is None:
        raise NotATool(f"{module_name} has no function {name!r}")
    if not callable(function) or getattr(function, _MARK, False) is not True:
        raise NotATool(f"{path} is not marked as a tool; put @fabric.adapters.tools.callables.tool above the function")
    if inspect.iscoroutinefunction(function):
        raise NotATool(f"{path} is a coroutine function; a tool is a plain function, run in a thread")
    return function


def invoke(path: str, args: Mapping[str, JSON], key: str) -> JSON:
    """Loads the function and calls it. Raises NotATool, TypeError when the arguments do not fit, and whatever the function raises."""
    function = load(path)
    given = dict(args)
    signature = inspect.signature(function)
    if "idempotency_key" in signature.parameters:
        given["idempotency_key"] = key
    signature.bind(**given)
    return function(**given)
