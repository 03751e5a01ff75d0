"""Invariants in CEL, compiled once: over the payload, the run and the stage, and nothing else. An error in evaluation is a failed check."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fabric.adapters.expression_costs import MACROS, may_take_long, without_texts
from fabric.adapters.expressions import Evaluated, evaluated, library, sentence_of
from fabric.core.evaluators import Holds
from fabric.core.gates import Invariant, OracleCheck

JSON = Any
KNOWN = ("payload", "run", "stage")
OF_AN_OUTCOME = ("outcome", "exit_criteria", "run")
OF_AN_ANSWER = (*OF_AN_OUTCOME, "answer")
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
_FIELD = re.compile(r"(?<![\w.])run\s*\.\s*(\w+)")
_BOUND = re.compile(rf"\.\s*(?:{'|'.join(MACROS)})\s*\(\s*(\w+)\s*,")
"""Names that an expression brings itself: ``items.all(item, ...)``."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a condition said of something."""

    said: str = ""
    """What is wrong; empty: it holds."""
    evaluated: bool = True
    """False: it said neither, for it could not be evaluated."""


Asks = Callable[[Mapping[str, JSON]], Answered]
Evaluates = Callable[[Any, str, Mapping[str, JSON]], Evaluated]
"""Evaluates a compiled expression, which is given as text too."""


class ExpressionProblem(ValueError):
    """An expression that does not compile, or names what there is not. The message is one sentence."""


@lru_cache(maxsize=1_024)
def program_of(expression: str, known: tuple[str, ...] = KNOWN, of_run: tuple[str, ...] = RUN) -> Any:
    """A compiled expression that may name ``known``, and of the run ``of_run``. ExpressionProblem says why it is none."""
    try:
        program = library().compile(expression)
    except ValueError as error:
        raise ExpressionProblem(f"does not compile: {sentence_of(error)}") from None
    bound = set(_BOUND.findall(without_texts(expression)))
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

    What may take long is not decided: this is asked while one types.
    """
    if may_take_long(expression):
        return False
    try:
        return program_of(expression, known).execute({}) is False
    except Exception:  # noqa: BLE001 - whatever the library raises: it is named elsewhere, or was not decided
        return False


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


def asks_of(asked: Invariant | OracleCheck, evaluates: Evaluates = evaluated) -> Asks:
    """Asks one condition, and tells a no from what could not be evaluated. ExpressionProblem for an expression that is none."""
    what, known = ("invariant", KNOWN) if isinstance(asked, Invariant) else ("check", named_by(asked))
    expression = asked.expression or ""
    program, named = program_of(expression, known), f"{what} {asked.name}"

    def asks(about: Mapping[str, JSON]) -> Answered:
        found = evaluates(program, expression, about)
        if found.failed or found.error:
            said = f"{found.error}: {found.failed}" if found.error else found.failed
            return Answered(f"{named} could not be evaluated: {said}", evaluated=False)
        return Answered() if found.holds else Answered(f"{named}: {asked.message}")

    return asks


def _holds(asks: Asks) -> Holds:
    def holds(about: Mapping[str, JSON]) -> str:
        return asks(about).said

    return holds
