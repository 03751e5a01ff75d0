"""Rules of tools, in CEL: they decide before which calls a person is asked. Compiled once; an unclear rule asks, and
never lets pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fabric.core.reviews.asking_before import RUN
from fabric.core.spec.fabric import FabricSpec
from fabric.core.state.evaluators import Asks
from fabric.core.values.units import JSON
from fabric.policies.expressions.evaluation import drop_texts, evaluate
from fabric.policies.expressions.invariants import ExpressionProblem, compile_program

KNOWN = ("args", "agent", "stage", "run")


def problems(spec: FabricSpec) -> Iterator[tuple[str, str]]:
    """Yield ``(path, sentence)`` for every invalid rule."""
    for n, tool in enumerate(spec.tools):
        if tool.approve_when is None:
            continue
        try:
            _program(tool.approve_when)
        except ExpressionProblem as problem:
            yield f"tools.{n}.approve_when", f"the rule of tool {tool.name!r} {problem}"


def map_asks(spec: FabricSpec) -> dict[str, Asks]:
    """Return the rules by the name of their tool. Raises ExpressionProblem for errors that ``problems`` reports."""
    return {tool.name: _asks(tool.approve_when) for tool in spec.tools if tool.approve_when is not None}


def _program(rule: str) -> Any:
    if "/" in drop_texts(rule):
        raise ExpressionProblem(
            "divides, and what is divided by zero is neither more nor less than anything; multiply instead: a > 2.0 * b"
        )
    return compile_program(rule, KNOWN, RUN)


def _asks(rule: str) -> Asks:
    program = _program(rule)
    reads_texts = "double" in program.functions()

    def asks(about: Mapping[str, JSON]) -> tuple[bool, str]:
        odd = next(_no_numbers(about["args"], "args"), "") if reads_texts else ""
        if odd:
            return True, f"{odd} is not a number, and neither more nor less than one"
        found = evaluate(program, rule, about)
        if found.error:
            return True, f"it could not be evaluated: {found.failed}"
        return (True, found.failed) if found.failed else (found.holds, "")

    return asks


def _no_numbers(node: JSON, at: str) -> Iterator[str]:
    """Yield the places of texts that would be read as NaN or an infinity, which compare with nothing. JSON has no
    such numbers.
    """
    if isinstance(node, dict):
        for key, held in node.items():
            yield from _no_numbers(held, f"{at}.{key}")
    elif isinstance(node, list):
        for n, held in enumerate(node):
            yield from _no_numbers(held, f"{at}.{n}")
    elif isinstance(node, str) and node.strip().lstrip("+-").lower() in ("nan", "inf", "infinity"):
        yield at
