"""Invariants in CEL, compiled once: over the payload, the run and the stage, and nothing else. An error in evaluation is a failed check."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

from fabric.core.evaluators import Holds
from fabric.core.gates import Invariant, OracleCheck
from fabric.core.text import clean_text

JSON = Any
KNOWN = ("payload", "run", "stage")
OF_AN_OUTCOME = ("outcome", "exit_criteria", "run")
OF_AN_ANSWER = (*OF_AN_OUTCOME, "answer")
SENTENCE_CHARS = 200
RUN = ("id", "tier", "epoch", "depth", "request", "documents")
FUNCTIONS = (
    *(
        "size",
        "contains",
        "startsWith",
        "endsWith",
        "matches",
        "int",
        "uint",
        "double",
        "string",
        "bytes",
        "type",
        "dyn",
    ),
    *("duration", "timestamp", "getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
    *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
)
"""What the library can call, beside operators and ``has``, ``all``, ``exists``, ``exists_one``, ``map`` and ``filter``, which it resolves itself."""
_TEXT = re.compile(r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\"""")
_FIELD = re.compile(r"(?<![\w.])run\s*\.\s*(\w+)")
_BOUND = re.compile(r"\.(?:all|exists|exists_one|map|filter)\s*\(\s*(\w+)\s*,")
"""Names that an expression brings itself: ``items.all(item, ...)``."""
_LOOP = re.compile(r"\.\s*(?:all|exists|exists_one|map|filter)\s*\(")
"""Where an expression goes through a list."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a condition said of something."""

    said: str = ""
    """What is wrong; empty: it holds."""
    evaluated: bool = True
    """False: it said neither, for it could not be evaluated."""


Asks = Callable[[Mapping[str, JSON]], Answered]


class ExpressionProblem(ValueError):
    """An expression that does not compile, or names what there is not. The message is one sentence."""


@lru_cache(maxsize=1_024)
def program_of(expression: str, known: tuple[str, ...] = KNOWN, of_run: tuple[str, ...] = RUN) -> Any:
    """A compiled expression that may name ``known``, and of the run ``of_run``. ExpressionProblem says why it is none."""
    try:
        program = _library().compile(expression)
    except ValueError as error:
        raise ExpressionProblem(f"does not compile: {sentence_of(error)}") from None
    bound = set(_BOUND.findall(expression))
    for name in program.variables():
        if name not in known and name not in bound:
            raise ExpressionProblem(f"names {name!r}; there are: {', '.join(known)}")
    for name in program.functions():
        if name[0].isalpha() and name not in FUNCTIONS:
            raise ExpressionProblem(f"calls {name!r}, which there is not; there are: {', '.join(FUNCTIONS)}")
    for name in () if "run" in bound else _FIELD.findall(without_texts(expression)):
        if name not in of_run:
            raise ExpressionProblem(f"names run.{name}, which there is not; there are: {', '.join(of_run)}")
    return program


def without_texts(expression: str) -> str:
    """An expression with every text in it empty."""
    return _TEXT.sub("''", expression)


@cache
def _library() -> ModuleType:
    """The library's compiled part alone, once somebody asks: the package imports its own command line, a terminal toolkit of 300 modules, with it."""
    package = find_spec("cel")
    part = PathFinder.find_spec("cel.cel", package.submodule_search_locations) if package else None
    if part is None or part.loader is None:
        return import_module("cel")  # Built otherwise; or missing, which this says.
    library = sys.modules["cel.cel"] = module_from_spec(part)
    part.loader.exec_module(library)
    return library


def problems(invariants: Sequence[Invariant]) -> Iterator[tuple[str, str]]:
    """``(path, sentence)`` for every expression that is none, and for every name that stands twice."""
    seen: set[tuple[str, str]] = set()
    for n, one in enumerate(invariants):
        if (one.stage, one.name) in seen:
            yield f"gates.invariants.{n}.name", f"{one.name!r} is there twice for stage {one.stage}; name them apart"
        seen.add((one.stage, one.name))
        try:
            program_of(one.expression)
        except ExpressionProblem as problem:
            yield f"gates.invariants.{n}.expression", f"invariant {one.name!r} {problem}"


def never_holds(expression: str, known: tuple[str, ...]) -> bool:
    """Whether it is false without reading anything, so that it always is. What reads something ends in an error here, and may hold.

    What loops is not decided: loops within loops over lists of its own can take as long as their author likes, and this is asked while one types.
    """
    if loops(expression):
        return False
    try:
        return program_of(expression, known).execute({}) is False
    except Exception:  # noqa: BLE001 - whatever the library raises: it is named elsewhere, or was not decided
        return False


def loops(expression: str) -> bool:
    """Whether it goes through a list."""
    return _LOOP.search(expression) is not None


def holds_by_stage(invariants: Sequence[Invariant]) -> dict[str, tuple[Holds, ...]]:
    """What is asked at each stage's post-gate, in the fabric's order. ExpressionProblem for what ``problems`` names."""
    found: dict[str, tuple[Holds, ...]] = {}
    for one in invariants:
        found[one.stage] = (*found.get(one.stage, ()), holds_of(one))
    return found


def oracle_problems(checks: Sequence[OracleCheck]) -> Iterator[tuple[str, str]]:
    """The same of the conditions on a finished outcome."""
    seen: set[str] = set()
    for n, one in enumerate(checks):
        if one.name in seen:
            yield f"gates.oracle.{n}.name", f"{one.name!r} is there twice; name them apart"
        seen.add(one.name)
        if one.expression is None:
            continue
        try:
            program_of(one.expression, named_by(one))
        except ExpressionProblem as problem:
            yield f"gates.oracle.{n}.expression", f"check {one.name!r} {problem}"


def oracle_of(checks: Sequence[OracleCheck]) -> tuple[Holds, ...]:
    """What a finished outcome is asked. ExpressionProblem for what ``oracle_problems`` names."""
    return tuple(_holds(asks_of(one)) for one in checks if not one.asks_world)


def answers_of(checks: Sequence[OracleCheck]) -> dict[str, Holds]:
    """What the answers of tools and addresses are asked, by name of the check. ExpressionProblem as above."""
    return {one.name: _holds(asks_of(one)) for one in checks if one.asks_world and one.expression}


def named_by(check: OracleCheck) -> tuple[str, ...]:
    """What the expression of a check may name."""
    return OF_AN_ANSWER if check.asks_world else OF_AN_OUTCOME


def holds_of(invariant: Invariant) -> Holds:
    """Asks one invariant. What is no truth value, and every error, is a sentence that names it."""
    return _holds(asks_of(invariant))


def asks_of(asked: Invariant | OracleCheck) -> Asks:
    """Asks one condition, and tells a no from what could not be evaluated. ExpressionProblem for an expression that is none."""
    what, known = ("invariant", KNOWN) if isinstance(asked, Invariant) else ("check", named_by(asked))
    program, named = program_of(asked.expression or "", known), f"{what} {asked.name}"

    def asks(about: Mapping[str, JSON]) -> Answered:
        try:
            found = program.execute(dict(about))
        except Exception as error:  # noqa: BLE001 - whatever the library raises, the check did not pass
            return Answered(
                f"{named} could not be evaluated: {type(error).__name__}: {sentence_of(error)}", evaluated=False
            )
        if found is True:
            return Answered()
        if found is False:
            return Answered(f"{named}: {asked.message}")
        said = f"{named} could not be evaluated: it gave {type(found).__name__}, not true or false"
        return Answered(said, evaluated=False)

    return asks


def _holds(asks: Asks) -> Holds:
    def holds(about: Mapping[str, JSON]) -> str:
        return asks(about).said

    return holds


def sentence_of(error: Exception) -> str:
    """What an error says, as one line without its drawing."""
    lines = [line for line in str(error).splitlines() if line.strip() and not line.lstrip().startswith("|")]
    return clean_text(" ".join(" ".join(lines).split()))[0][:SENTENCE_CHARS]
