"""Compiles invariants and conditions of planned calls, in CEL, once.

A condition is over the results of earlier calls. A model writes it, so it may not take long or go through a list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fabric.core.spec.policies.gates import Invariant, OracleCheck
from fabric.core.state.evaluators import Holds
from fabric.core.values.units import JSON
from fabric.policies.expressions.evaluation import (
    MACROS,
    Evaluated,
    drop_texts,
    evaluate,
    library,
    loops,
    may_take_long,
    write_sentence,
)

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
"""Functions of the library, besides operators and ``has``, ``all``, ``exists``, ``exists_one``, ``map`` and
``filter``, which it resolves itself.
"""
_FIELD = re.compile(r"(?<![\w.])run\s*\.\s*(\w+)")
_BOUND = re.compile(rf"\.\s*(?:{'|'.join(MACROS)})\s*\(\s*(\w+)\s*,")
"""Names that an expression itself declares: ``items.all(item, ...)``."""


@dataclass(frozen=True, slots=True)
class ConditionAnswer:
    """Answer of a condition."""

    said: str = ""
    """The objection; empty: the condition holds."""
    evaluated: bool = True
    """False: neither holds nor fails, for it could not be evaluated."""


Asks = Callable[[Mapping[str, JSON]], ConditionAnswer]
Evaluates = Callable[[Any, str, Mapping[str, JSON]], Evaluated]
"""Evaluates a compiled expression; its text is an argument too."""


class ExpressionProblem(ValueError):
    """An expression that does not compile, or has unknown names. The message is one sentence."""


@lru_cache(maxsize=1_024)
def compile_program(expression: str, known: tuple[str, ...] = KNOWN, of_run: tuple[str, ...] = RUN) -> Any:
    """Return a compiled expression over the names ``known``, and of the run ``of_run``. Raises ExpressionProblem
    with the reason.
    """
    try:
        program = library().compile(expression)
    except ValueError as error:
        raise ExpressionProblem(f"does not compile: {write_sentence(error)}") from None
    bound = set(_BOUND.findall(drop_texts(expression)))
    for name in program.variables():
        if name not in known and name not in bound:
            raise ExpressionProblem(f"names {name!r}; there are: {', '.join(known)}")
    for name in program.functions():
        if name[0].isalpha() and name not in FUNCTIONS:
            raise ExpressionProblem(f"calls {name!r}, which there is not; there are: {', '.join(FUNCTIONS)}")
    for name in () if "run" in bound else _FIELD.findall(drop_texts(expression)):
        if name not in of_run:
            raise ExpressionProblem(f"names run.{name}, which there is not; there are: {', '.join(of_run)}")
    return program


def problems(invariants: Sequence[Invariant]) -> Iterator[tuple[str, str]]:
    """Yield ``(path, sentence)`` for every invalid expression, and for every repeated name."""
    seen: set[tuple[str, str]] = set()
    for n, one in enumerate(invariants):
        if (one.stage, one.name) in seen:
            yield f"gates.invariants.{n}.name", f"{one.name!r} is there twice for stage {one.stage}; name them apart"
        seen.add((one.stage, one.name))
        try:
            compile_program(one.expression)
        except ExpressionProblem as problem:
            yield f"gates.invariants.{n}.expression", f"invariant {one.name!r} {problem}"


def never_holds(expression: str, known: tuple[str, ...]) -> bool:
    """Return True if it is always false, without reading anything. An expression that reads ends in an error here,
    and may hold.

    A long one is not decided: this runs while an author types.
    """
    if may_take_long(expression):
        return False
    try:
        return compile_program(expression, known).execute({}) is False
    except Exception:  # noqa: BLE001 - whatever the library raises: it is named elsewhere, or was not decided
        return False


def holds_by_stage(invariants: Sequence[Invariant]) -> dict[str, tuple[Holds, ...]]:
    """Return the invariants of each stage's post-gate, in the fabric's order. Raises ExpressionProblem for errors
    that ``problems`` reports.
    """
    found: dict[str, tuple[Holds, ...]] = {}
    for one in invariants:
        found[one.stage] = (*found.get(one.stage, ()), build_holds(one))
    return found


def oracle_problems(checks: Sequence[OracleCheck]) -> Iterator[tuple[str, str]]:
    """Yield path and sentence for each error in the conditions on a finished outcome."""
    seen: set[str] = set()
    for n, one in enumerate(checks):
        if one.name in seen:
            yield f"gates.oracle.{n}.name", f"{one.name!r} is there twice; name them apart"
        seen.add(one.name)
        if one.expression is None:
            continue
        try:
            compile_program(one.expression, named_by(one))
        except ExpressionProblem as problem:
            yield f"gates.oracle.{n}.expression", f"check {one.name!r} {problem}"


def compile_oracle(checks: Sequence[OracleCheck]) -> tuple[Holds, ...]:
    """Compile the checks of a finished outcome. Raises ExpressionProblem for a check that ``oracle_problems``
    reports.
    """
    return tuple(_holds(build_asks(one)) for one in checks if not one.asks_world)


def map_answers(checks: Sequence[OracleCheck]) -> dict[str, Holds]:
    """Return the conditions on answers of tools and addresses, by name of the check. Raises ExpressionProblem for
    errors that ``problems`` reports.
    """
    return {one.name: _holds(build_asks(one)) for one in checks if one.asks_world and one.expression}


def named_by(check: OracleCheck) -> tuple[str, ...]:
    """Return the names that the expression of a check may use."""
    return OF_AN_ANSWER if check.asks_world else OF_AN_OUTCOME


def build_holds(invariant: Invariant) -> Holds:
    """Return a function that evaluates one invariant. An error, or a result that is no truth value, becomes a
    sentence with its name.
    """
    return _holds(build_asks(invariant))


def build_asks(asked: Invariant | OracleCheck, evaluates: Evaluates = evaluate) -> Asks:
    """Return a function that evaluates one condition, and tells a no from a failure. Raises ExpressionProblem for an
    invalid expression.
    """
    what, known = ("invariant", KNOWN) if isinstance(asked, Invariant) else ("check", named_by(asked))
    expression = asked.expression or ""
    program, named = compile_program(expression, known), f"{what} {asked.name}"

    def asks(about: Mapping[str, JSON]) -> ConditionAnswer:
        found = evaluates(program, expression, about)
        if found.failed or found.error:
            said = f"{found.error}: {found.failed}" if found.error else found.failed
            return ConditionAnswer(f"{named} could not be evaluated: {said}", evaluated=False)
        return ConditionAnswer() if found.holds else ConditionAnswer(f"{named}: {asked.message}")

    return asks


def _holds(asks: Asks) -> Holds:
    def holds(about: Mapping[str, JSON]) -> str:
        return asks(about).said

    return holds


CONDITION_KNOWN = ("calls",)


def holds(condition: str, about: Mapping[str, JSON]) -> tuple[bool, str]:
    """Return True if a condition over ``calls`` holds. With False comes the reason if it is unclear: a compile error,
    unknown names, no yes or no.
    """
    if loops(condition):
        return False, "it goes through a list, which a condition may not"
    try:
        program = compile_program(condition, CONDITION_KNOWN)
    except ExpressionProblem as problem:
        return False, str(problem)
    found = evaluate(program, condition, about)
    if found.error:
        return False, f"it could not be evaluated: {found.failed}"
    return (False, found.failed) if found.failed else (found.holds, "")
