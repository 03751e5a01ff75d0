"""Formulas that stand in a text, such as ``(1,249.5 - 980) / 980 = 27.5 %``: found, and calculated in decimal numbers."""

from __future__ import annotations

import ast
import re
from decimal import Context, Decimal, DecimalException

from fabric.core.frozen import value

CHARS_MAX = 200
DEPTH_MAX = 30
DIGITS = 28
CONSTANTS = frozenset(Decimal(n) for n in (0, 1, 2, 3, 4, 7, 10, 12, 24, 30, 52, 60, 100, 360, 365, 1_000, 1_000_000))
"""What stands in a calculation without a source: counts of months and days, the hundred of a percentage."""

_OPERAND = r"(?>[(]{0,5} ?[-−]?[$€£]? ?(?<!\d)\d[\d.,]{0,40}(?: ?%)?(?: ?[)]){0,5})"
"""Atomic, as the whole chain is: a blank may belong to what is before it or behind it, and trying both for each of 20 operands is 3^20 tries."""
_FORMULA = re.compile(
    rf"(?P<expression>{_OPERAND}(?:(?> ?(?:\*\*|[-+−–*×·x/÷^]) ?){_OPERAND}){{1,20}}+) ?(?:=|≈|equals) ?"
    r"(?P<result>[-−]?[$€£]? ?\d(?:[\d.,]{0,40}\d)?(?: ?%)?)"
)
_BLANKS = re.compile(r"[ \t\u00a0\u202f]{2,}")
_SIGNS = str.maketrans({"−": "-", "–": "-", "×": "*", "·": "*", "x": "*", "÷": "/", "$": "", "€": "", "£": ""})


@value()
class Formula:
    """A calculation and what it is said to come to, as they are written."""

    expression: str
    result: str
    shown: str


def formulas(text: str) -> list[Formula]:
    """Every formula in a text."""
    found = _FORMULA.finditer(_BLANKS.sub(" ", text))
    return [Formula(match["expression"], match["result"], match[0].strip()) for match in found]


def without(text: str, found: list[Formula]) -> str:
    """The text without its formulas."""
    return _FORMULA.sub(" ", _BLANKS.sub(" ", text)) if found else text


def evaluated(expression: str) -> Decimal | None:
    """What an expression comes to; None where it is no arithmetic, divides by nothing or is too big."""
    plain = re.sub(r"(?<=\d),(?=\d{3}(?:\D|$))", "", expression.translate(_SIGNS)).replace("^", "**")
    plain = re.sub(r"(\d)\s?%", r"\1/100", plain)
    if len(plain) > CHARS_MAX:
        return None
    try:
        tree = ast.parse(re.sub(r"(?<![\d.])0+(?=\d)", "", plain.strip()), mode="eval")
        return _value(tree.body, 0)
    except (SyntaxError, ValueError, RecursionError, MemoryError, DecimalException):
        return None


_CONTEXT = Context(prec=DIGITS, Emax=99, Emin=-99)


def _value(node: ast.expr, depth: int) -> Decimal:
    if depth > DEPTH_MAX:
        raise ValueError("too deep")
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return Decimal(str(number))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, depth + 1)
        case ast.BinOp(left=left, op=op, right=right):
            return _applied(op, _value(left, depth + 1), _value(right, depth + 1))
    raise ValueError("no arithmetic")


def _applied(op: ast.operator, left: Decimal, right: Decimal) -> Decimal:
    match op:
        case ast.Add():
            return _CONTEXT.add(left, right)
        case ast.Sub():
            return _CONTEXT.subtract(left, right)
        case ast.Mult():
            return _CONTEXT.multiply(left, right)
        case ast.Div():
            return _CONTEXT.divide(left, right)
        case ast.Pow() if abs(right) <= 100:
            return _CONTEXT.power(left, right)
    raise ValueError("no arithmetic")
