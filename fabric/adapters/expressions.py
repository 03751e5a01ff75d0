"""Evaluates expressions in CEL: what may take long in a child process that has a deadline and a bound of memory, the rest here. Whatever ends otherwise is no answer."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

from fabric.adapters.apart import Children, Ended, NoneFree
from fabric.adapters.expression_costs import may_take_long
from fabric.adapters.tools.process_pool import ChildDied
from fabric.core.text import clean_text

JSON = Any
WITHIN_S = 2.0
"""Seconds that an expression may take."""
SENTENCE_CHARS = 200
START_S = 20.0
"""Seconds that a child may take to begin; with ten deadlines it is less than the watchdog waits."""
CHILDREN = Children("fabric.adapters.expression_child", start_s=START_S)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What an expression gave."""

    holds: bool = False
    failed: str = ""
    """Why it gave neither true nor false: what the library says, or a sentence about ``it``; empty: it gave one."""
    error: str = ""
    """The class of what the library raised; empty: it raised nothing."""


def evaluated(program: JSON, expression: str, about: Mapping[str, JSON], *, within_s: float = WITHIN_S) -> Evaluated:
    """Evaluates a compiled expression over what it may name, within its time. It never raises: what ends otherwise has failed."""
    if not may_take_long(expression):
        return evaluated_here(program, expression, about)
    try:
        found = CHILDREN.asked({"expression": expression, "about": dict(about)}, within_s)
    except Ended as ended:
        said = str(ended)
        return Evaluated(failed=f"{said[:1].lower()}{said[1:]}".rstrip("."))
    except NoneFree:
        return Evaluated(failed=f"it found no process free within {within_s:g} seconds")
    except ChildDied as died:
        return Evaluated(failed=str(died))
    return Evaluated(**found)


def evaluated_here(program: JSON, expression: str, about: Mapping[str, JSON]) -> Evaluated:
    """Evaluates a compiled expression in this process, however long it takes. It raises MemoryError alone."""
    try:
        found = program.execute(dict(about))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the library raises, it has failed
        return Evaluated(failed=sentence_of(error), error=type(error).__name__)
    if isinstance(found, bool):
        return Evaluated(found)
    return Evaluated(failed=f"it gave {type(found).__name__}, not true or false")


@cache
def library() -> ModuleType:
    """Returns the compiled part of the CEL library. The package itself would import its command line and 300 modules of a terminal toolkit."""
    package = find_spec("cel")
    part = PathFinder.find_spec("cel.cel", package.submodule_search_locations) if package else None
    if part is None or part.loader is None:
        return import_module("cel")  # Built otherwise; or missing, which this says.
    found = sys.modules["cel.cel"] = module_from_spec(part)
    part.loader.exec_module(found)
    return found


def sentence_of(error: Exception) -> str:
    """What an error says, as one line without its drawing."""
    lines = [line for line in str(error).splitlines() if line.strip() and not line.lstrip().startswith("|")]
    return clean_text(" ".join(" ".join(lines).split()))[0][:SENTENCE_CHARS]
