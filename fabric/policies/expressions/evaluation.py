"""Evaluates expressions in CEL: long ones in a child process with a deadline and bounded memory, the rest here.

Any other end is no answer. The costs of an expression are known as far as its text shows them: loops through lists, and
their number at most.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType

from fabric.child_processes.process import ChildDied
from fabric.core.texts.text import clean_text
from fabric.core.values.units import JSON
from fabric.policies.expressions.processes import ChildProcessEnded, ModuleChildren, NoneFree

WITHIN_S = 2.0
"""Seconds that an expression may take."""
SENTENCE_CHARS = 200
START_S = 20.0
"""Seconds that a child may take to begin; with ten deadlines it is less than the watchdog's limit."""
CHILDREN = ModuleChildren("fabric.policies.expressions.child", start_s=START_S)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Result of an expression."""

    holds: bool = False
    failed: str = ""
    """Reason why it is neither true nor false: the library's words, or a sentence about ``it``. Empty: it is one of
    them.
    """
    error: str = ""
    """Class of the library's error; empty: there was none."""


def evaluate(program: JSON, expression: str, about: Mapping[str, JSON], *, within_s: float = WITHIN_S) -> Evaluated:
    """Evaluate a compiled expression over its names, within its time. It never raises: any other end is a failure."""
    if not may_take_long(expression):
        return evaluated_here(program, expression, about)
    try:
        found = CHILDREN.ask({"expression": expression, "about": dict(about)}, within_s)
    except ChildProcessEnded as ended:
        said = str(ended)
        return Evaluated(failed=f"{said[:1].lower()}{said[1:]}".rstrip("."))
    except NoneFree:
        return Evaluated(failed=f"it found no process free within {within_s:g} seconds")
    except ChildDied as died:
        return Evaluated(failed=str(died))
    return Evaluated(**found)


def evaluated_here(program: JSON, expression: str, about: Mapping[str, JSON]) -> Evaluated:
    """Evaluate a compiled expression in this process, however long it takes. Raises only MemoryError."""
    try:
        found = program.execute(dict(about))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the library raises, it has failed
        return Evaluated(failed=write_sentence(error), error=type(error).__name__)
    if isinstance(found, bool):
        return Evaluated(found)
    return Evaluated(failed=f"it gave {type(found).__name__}, not true or false")


@cache
def library() -> ModuleType:
    """Return the compiled part of the CEL library. The package itself would import its command line and 300 modules
    of a terminal toolkit.
    """
    package = find_spec("cel")
    part = PathFinder.find_spec("cel.cel", package.submodule_search_locations) if package else None
    if part is None or part.loader is None:
        return import_module("cel")  # Built differently, or missing; the error shows which.
    found = sys.modules["cel.cel"] = module_from_spec(part)
    part.loader.exec_module(found)
    return found


def write_sentence(error: Exception) -> str:
    """Return an error's words as one line without its drawing."""
    lines = [line for line in str(error).splitlines() if line.strip() and not line.lstrip().startswith("|")]
    return clean_text(" ".join(" ".join(lines).split()))[0][:SENTENCE_CHARS]


NESTING_MAX = 2
"""Largest nesting of macros that go through a list."""
TURNS_MAX = 10_000
"""Largest number of turns through written lists: the longest of them, to the power of the nesting."""
PLUS_MAX = 8
"""Largest number of plus signs in an expression that is evaluated in this process: each may copy the longest text."""
MACROS = ("all", "exists", "exists_one", "existsOne", "map", "filter")
_TEXT = re.compile(
    r'(?:(?<!\w)[bB]?[rR](?:"""[\s\S]*?"""|\'\'\'[\s\S]*?\'\'\'|"[^"\n]*"|\'[^\'\n]*\'))'
    r'|"""(?:[^\\]|\\[\s\S])*?"""|\'\'\'(?:[^\\]|\\[\s\S])*?\'\'\''
    r"|'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\""
    r"|//[^\n]*"
)
"""Texts and comments: a sign in them does not count."""
_LOOP = re.compile(rf"\.\s*(?:{'|'.join(MACROS)})\s*\(")
_WORD = re.compile(rf"\b(?:{'|'.join(MACROS)})\b")
_SIGN = re.compile(rf"{_LOOP.pattern}|[\[({{,\])}}]")


def drop_texts(expression: str) -> str:
    """Return an expression with every text in it empty, and without its comments."""
    return _TEXT.sub(lambda found: " " if found[0].startswith("//") else "''", expression)


def loops(expression: str) -> bool:
    """Return True if it goes through a list."""
    return _LOOP.search(drop_texts(expression)) is not None


def may_take_long(expression: str) -> bool:
    """Return True if it might take long and so needs a process of its own. The name of a macro anywhere is enough,
    and so are many plus signs.
    """
    return _WORD.search(expression) is not None or expression.count("+") > PLUS_MAX


def too_costly(expression: str) -> str:
    """Return why an expression is too costly to publish, as the end of a sentence. Empty: it is not. A deadline bounds
    its reading of a run.
    """
    open_: list[tuple[bool, int]] = []
    nesting = longest = 0
    for found in _SIGN.finditer(drop_texts(expression)):
        sign = found[0]
        if sign == ",":
            if open_:
                macro, commas = open_[-1]
                open_[-1] = (macro, commas + 1)
        elif sign in ("]", ")", "}"):
            macro, commas = open_.pop() if open_ else (False, 0)
            longest = longest if macro or sign == ")" else max(longest, commas + 1)
        else:
            open_.append((sign.startswith("."), 0))
            nesting = max(nesting, sum(macro for macro, _ in open_))
    if nesting > NESTING_MAX:
        return f"goes through lists within each other {nesting} deep; at most {NESTING_MAX}"
    if nesting and longest**nesting > TURNS_MAX:
        return f"may go through its own lists {longest**nesting:,} times; at most {TURNS_MAX:,}, so write shorter lists"
    return ""
