"""Calculator for models: evaluates an expression over decimal numbers, bounded in length, depth and size of its
numbers.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from decimal import (
    ROUND_CEILING,
    ROUND_FLOOR,
    ROUND_HALF_EVEN,
    ROUND_HALF_UP,
    Context,
    Decimal,
    DecimalException,
    DivisionByZero,
    Inexact,
    InvalidOperation,
    Overflow,
    localcontext,
)

from fabric.core.values.units import JSON
from fabric.tools.answers.outcome import ToolError

CHARS_MAX = 500
DEPTH_MAX = 50
EXPONENT_MAX = 1_000
DIGITS = 50
"""Significant digits; a longer result is rounded, and says so."""

PARAMETERS: Mapping[str, JSON] = {
    "type": "object",
    "properties": {
        "expression": {
            "type": "string",
            "minLength": 1,
            "maxLength": CHARS_MAX,
            "description": "For example (1249.5 - 980) / 980 * 100. Operators + - * / // % **; functions abs, avg, ceil, floor, max, min, "
            "round(x, digits), sqrt, sum.",
        }
    },
    "required": ["expression"],
    "additionalProperties": False,
}
DESCRIPTION = (
    "Calculates an arithmetic expression exactly, in decimal numbers. Use it for every sum, difference and percentage."
)


def calculate(expression: str) -> dict[str, JSON]:
    """Return ``{"expression", "value", "exact"}``, the value as decimal text. Raises ToolError for bad or too large
    expressions.
    """
    if len(expression) > CHARS_MAX:
        raise ToolError(f"the expression has {len(expression)} characters; at most {CHARS_MAX} are calculated")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ToolError(f"{expression[:100]!r} is no arithmetic expression: {getattr(error, 'msg', error)}") from None
    context = Context(
        prec=DIGITS,
        rounding=ROUND_HALF_EVEN,
        Emax=EXPONENT_MAX,
        Emin=-EXPONENT_MAX,
        traps=[DivisionByZero, InvalidOperation, Overflow],
    )
    with localcontext(context) as used:
        try:
            value = _value(tree.body, expression.strip(), DEPTH_MAX)
        except DivisionByZero:
            raise ToolError("the expression divides by zero") from None
        except Overflow:
            raise ToolError(f"a number on the way is larger than 1e{EXPONENT_MAX}") from None
        except DecimalException:
            raise ToolError(f"{expression[:100]!r} has no value in real numbers of {DIGITS} digits") from None
        return {"expression": expression, "value": _text(value), "exact": not used.flags[Inexact]}


def _value(node: ast.expr, source: str, room: int) -> Decimal:
    if room == 0:
        raise ToolError(f"the expression nests deeper than {DEPTH_MAX} levels")
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _number(number, ast.get_source_segment(source, node) or "")
        case ast.UnaryOp(op=ast.UAdd() | ast.USub() as sign, operand=operand):
            value = _value(operand, source, room - 1)
            return -value if isinstance(sign, ast.USub) else +value
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return OPERATORS[type(op)](_value(left, source, room - 1), _value(right, source, room - 1))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            return _call(name, [_value(arg, source, room - 1) for arg in args])
        case ast.BinOp(op=ast.BitXor()):
            raise ToolError("^ is no operator here; write ** for a power")
        case ast.Tuple():
            raise ToolError("a comma separates nothing here; write 1234.5 without a thousands separator")
        case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)):
            raise ToolError(f"{name!r} is not known; functions are: {', '.join(sorted(FUNCTIONS))}")
    raise ToolError(
        f"{(ast.get_source_segment(source, node) or 'a part of it')[:60]!r} is no arithmetic; only numbers, + - * / // % ** and ()"
    )


def _number(number: int | float, written: str) -> Decimal:
    # As it was written: 0.1 is a tenth here, which no float is.
    text = str(number) if isinstance(number, int) else written.replace("_", "")
    try:
        return +Decimal(text)
    except InvalidOperation:
        raise ToolError(f"{written[:60]!r} is no decimal number") from None


def _power(base: Decimal, exponent: Decimal) -> Decimal:
    if abs(exponent) > EXPONENT_MAX:
        raise ToolError(f"the exponent {_text(exponent)} is larger than {EXPONENT_MAX}")
    if not base and exponent < 0:
        raise DivisionByZero
    return base**exponent


def _floor_division(a: Decimal, b: Decimal) -> Decimal:
    if not b:
        raise DivisionByZero
    quotient, rest = divmod(a, b)
    return quotient - 1 if rest and (rest < 0) != (b < 0) else quotient


def _modulo(a: Decimal, b: Decimal) -> Decimal:
    if not b:
        raise DivisionByZero
    rest = a % b
    return rest + b if rest and (rest < 0) != (b < 0) else rest


def _round(value: Decimal, digits: Decimal = Decimal(0)) -> Decimal:
    if digits != digits.to_integral_value() or abs(digits) > DIGITS:
        raise ToolError(f"round takes a whole number of digits between -{DIGITS} and {DIGITS}")
    return value.quantize(Decimal(1).scaleb(-int(digits)), ROUND_HALF_UP)


OPERATORS: Mapping[type[ast.operator], Callable[[Decimal, Decimal], Decimal]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: _floor_division,
    ast.Mod: _modulo,
    ast.Pow: _power,
}
FUNCTIONS: Mapping[str, tuple[int, int, Callable[..., Decimal]]] = {
    "abs": (1, 1, abs),
    "avg": (1, 100, lambda *values: sum(values, Decimal(0)) / len(values)),
    "ceil": (1, 1, lambda value: value.to_integral_value(ROUND_CEILING)),
    "floor": (1, 1, lambda value: value.to_integral_value(ROUND_FLOOR)),
    "max": (1, 100, lambda *values: max(values)),
    "min": (1, 100, lambda *values: min(values)),
    "round": (1, 2, _round),
    "sqrt": (1, 1, lambda value: value.sqrt()),
    "sum": (1, 100, lambda *values: sum(values, Decimal(0))),
}
"""By name: the least and the largest number of arguments, and the function."""


def _call(name: str, values: list[Decimal]) -> Decimal:
    fewest, most, function = FUNCTIONS[name]
    if not fewest <= len(values) <= most:
        takes = "one argument" if most == 1 else f"{fewest} to {most} arguments"
        raise ToolError(f"{name} takes {takes}, not {len(values)}")
    return function(*values)


def _text(value: Decimal) -> str:
    """Return the number as people write it: plain up to 40 places, no trailing zeros."""
    if not value:
        return "0"
    plain = value.normalize()
    return format(plain, "f") if -20 <= plain.adjusted() < 40 else str(plain)
