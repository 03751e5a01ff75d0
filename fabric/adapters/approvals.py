"""Rules of tools, in CEL: before which calls a person is asked. They are compiled once; whatever nobody can say is asked about, and never let pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fabric.adapters.expression_costs import without_texts
from fabric.adapters.expressions import evaluated
from fabric.adapters.invariants import ExpressionProblem, program_of
from fabric.core.asking_before import RUN
from fabric.core.evaluators import Asks
from fabric.core.spec import FabricSpec

JSON = Any
KNOWN = ("args", "agent", "stage", "run")


def problems(spec: FabricSpec) -> Iterator[tuple[str, str]]:
    """``(path, sentence)`` for every rule that is none."""
    for n, tool in enumerate(spec.tools):
        if tool.approve_when is None:
            continue
        try:
            _program(tool.approve_when)
        except ExpressionProblem as problem:
            yield f"tools.{n}.approve_when", f"the rule of tool {tool.name!r} {problem}"


def asks_of(spec: FabricSpec) -> dict[str, Asks]:
    """The rules by the name of their tool. ExpressionProblem for what ``problems`` names."""
    return {tool.name: _asks(tool.approve_when) for tool in spec.tools if tool.approve_when is not None}


def _program(rule: str) -> Any:
    if "/" in without_texts(rule):
        raise ExpressionProblem(
            "divides, and what is divided by zero is neither more nor less than anything; multiply instead: a > 2.0 * b"
        )
    return program_of(rule, KNOWN, RUN)


def _asks(rule: str) -> Asks:
    program = _program(rule)
    reads_texts = "double" in program.functions()

    def asks(about: Mapping[str, JSON]) -> tuple[bool, str]:
        odd = next(_no_numbers(about["args"], "args"), "") if reads_texts else ""
        if odd:
            return True, f"{odd} is not a number, and neither more nor less than one"
        found = evaluated(program, rule, about)
        if found.error:
            return True, f"it could not be evaluated: {found.failed}"
        return (True, found.failed) if found.failed else (found.holds, "")

    return asks


def _no_numbers(node: JSON, at: str) -> Iterator[str]:
    """Where a text stands that would be read as NaN or an infinity, which compare with nothing. As numbers they are not in JSON."""
    if isinstance(node, dict):
        for key, held in node.items():
            yield from _no_numbers(held, f"{at}.{key}")
    elif isinstance(node, list):
        for n, held in enumerate(node):
            yield from _no_numbers(held, f"{at}.{n}")
    elif isinstance(node, str) and node.strip().lstrip("+-").lower() in ("nan", "inf", "infinity"):
        yield at
