"""Checks each number of an answer: it has a source, was calculated, or follows by a formula beside it.

Numbers are compared by meaning, not by spelling: 1,249.5 and 1249.50 and 1.249,5 are equal, 12 % is also 0.12. A number
that only names a place or a day (dates, clock times, section and page numbers, list markers, versions) is no claim. A
formula stands in the text, such as ``(1,249.5 - 980) / 980 = 27.5 %``. Values are sorted, so that a value in a range is
found fast.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Context, Decimal, DecimalException
from itertools import islice

from fabric.core.grounding.sources import Sources
from fabric.core.values.frozen import value

# -- values ------------------------------------------------------------------------------------------------------------


class Values:
    """A growing set of values that limits its comparisons: a hostile text costs at most its length times a
    logarithm.
    """

    def __init__(self, given: Iterable[Decimal] = ()) -> None:
        self._held = set(given)
        self._sorted: list[Decimal] | None = None
        self.compared = 0

    def __contains__(self, value: Decimal) -> bool:
        self.compared += 1
        return value in self._held

    def add(self, value: Decimal) -> None:
        """Add a value."""
        if value not in self._held:
            self._held.add(value)
            if self._sorted is not None:
                self._sorted.insert(self._place(value, self._sorted), value)

    def is_between(self, low: Decimal, high: Decimal) -> bool:
        """Return True if a value lies between these two or equals one of them."""
        if self._sorted is None:
            self._sorted = sorted(self._held)
        place = self._place(low, self._sorted)
        return place < len(self._sorted) and self._sorted[place] <= high

    def _place(self, value: Decimal, held: list[Decimal]) -> int:
        """Return the first position whose value is not less."""
        low, high = 0, len(held)
        while low < high:
            self.compared += 1
            middle = (low + high) // 2
            if held[middle] < value:
                low = middle + 1
            else:
                high = middle
        return low


# -- formulas ----------------------------------------------------------------------------------------------------------

CHARS_MAX = 200
DEPTH_MAX = 30
DIGITS = 28
CONSTANTS = frozenset(Decimal(n) for n in (0, 1, 2, 3, 4, 7, 10, 12, 24, 30, 52, 60, 100, 360, 365, 1_000, 1_000_000))
"""Numbers that a calculation may use without a source: counts of months and days, the hundred of a percentage."""

_OPERAND = r"(?>[(]{0,5} ?[-−]?[$€£]? ?(?<!\d)\d[\d.,]{0,40}(?: ?%)?(?: ?[)]){0,5})"
"""Atomic, like the whole chain. A blank may belong to either side, and trying both for each of 20 operands is 3^20
attempts.
"""
_FORMULA = re.compile(
    rf"(?P<expression>{_OPERAND}(?:(?> ?(?:\*\*|[-+−–*×·x/÷^]) ?){_OPERAND}){{1,20}}+) ?(?:=|≈|equals) ?"
    r"(?P<result>[-−]?[$€£]? ?\d(?:[\d.,]{0,40}\d)?(?: ?%)?)"
)
_BLANKS = re.compile(r"[ \t\u00a0\u202f]{2,}")
_SIGNS = str.maketrans({"−": "-", "–": "-", "×": "*", "·": "*", "x": "*", "÷": "/", "$": "", "€": "", "£": ""})


@value()
class Formula:
    """A calculation and its stated result, as written."""

    expression: str
    result: str
    shown: str


def formulas(text: str) -> list[Formula]:
    """Return every formula in a text."""
    found = _FORMULA.finditer(_BLANKS.sub(" ", text))
    return [Formula(match["expression"], match["result"], match[0].strip()) for match in found]


def without_formulas(text: str, found: list[Formula]) -> str:
    """Return the text without its formulas."""
    return _FORMULA.sub(" ", _BLANKS.sub(" ", text)) if found else text


def evaluate(expression: str) -> Decimal | None:
    """Return the value of an expression; None if it is no arithmetic, divides by zero or is too big."""
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
            return _apply_operator(op, _value(left, depth + 1), _value(right, depth + 1))
    raise ValueError("no arithmetic")


def _apply_operator(op: ast.operator, left: Decimal, right: Decimal) -> Decimal:
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


CLAIMS_MAX = 2_000
"""Most numbers of one answer that are checked; an answer with more fails."""
DIGITS_MAX = 40
"""Most characters of one number; a longer one has no value."""
_SCALES = {
    "thousand": 3,
    "k": 3,
    "tsd": 3,
    "million": 6,
    "millions": 6,
    "mn": 6,
    "m": 6,
    "mio": 6,
    "mrd": 9,
    "billion": 9,
    "billions": 9,
    "bn": 9,
    "b": 9,
    "trillion": 12,
    "tn": 12,
    "hundred": 2,
}
_NUMBER = re.compile(
    r"(?<![\w.,:#])(?<![A-Za-z]-)(?P<sign>(?<![\w)])[-−+–])?(?P<money>[$€£¥]\s?)?"
    r"(?P<digits>\d{1,3}(?:[\u00a0\u202f\u2009' ]\d{3})+(?:[.,]\d+)?(?!\d)|\d+(?:[.,]\d+)*)"
    r"(?:[\u00a0 ]?(?P<percent>%|percent\b|per cent\b|pct\b)|[\u00a0 ]?(?P<scale>thousand|millions?|billions?|trillion|hundred|mn|mio|mrd|bn|tn)\b|(?P<tight>[kKmMbB])\b)?",
)
_ANY_NUMBER = re.compile(_NUMBER.pattern.replace(r"(?<![\w.,:#])(?<![A-Za-z]-)", r"(?<![\d.,])", 1))
"""Matches digits anywhere, since a source cannot have too many numbers."""
_MONTH = r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
_NO_CLAIMS = re.compile(
    "|".join(
        (
            r"https?://\S+",
            r"\[[^\[\]\n]{1,200}\]",
            r"\b\d{4}-\d\d(?:-\d\d)?(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)?\b",
            r"\b\d{1,2}[./]\d{1,2}[./](?:19|20)?\d\d\b",
            r"\b\d{1,2}:\d\d(?::\d\d)?(?:\s?[ap]\.?m\b\.?)?",
            r"\b\d{1,2}\s?[ap]\.?m\b",
            rf"\b\d{{1,2}}(?:st|nd|rd|th|\.)?(?:\s(?:of\s)?){_MONTH}(?:,?\s(?:19|20)\d\d)?\b",
            rf"\b{_MONTH}\s\d{{1,2}}(?:st|nd|rd|th)?(?:\s?[-–]\s?\d{{1,2}})?(?:,?\s(?:19|20)\d\d)?\b",
            rf"\b{_MONTH}\s(?:19|20)\d\d\b",
            r"\b(?:in|since|by|until|till|from|during|before|after|fy|year|years|of|between|mid|early|late|spring|summer|autumn|winter|fall)[ -]?(?:19|20)\d\d(?:\s?(?:[-–/]|and|to)\s?(?:(?:19|20)\d\d|\d\d))?(?![\d.,]*\d|\s?%)\b",
            r"\((?:19|20)\d\d\)",
            r"\b(?:19|20)\d\d\s?[-–/]\s?(?:(?:19|20)\d\d|\d\d)\b",
            r"\b(?:q[1-4]|h[12])\b(?:\s?(?:19|20)\d\d)?",
            r"(?:\b(?:sections?|sec\.|chapters?|ch\.|pages?|pp?\.|figures?|fig\.|tables?|steps?|parts?|items?|no\.|nr\.|number|articles?|art\.|appendix|annex|clauses?|paragraphs?|para\.|lines?|rows?|columns?|versions?|rules?|levels?|phases?|notes?|footnotes?|rfc|iso|din|en|v|option|point|question|example|chart|slide|volume|vol\.|issue|release|python|django|room|gate|line)|§§?)\s?[A-Z]?\d+(?:\.\d+)*(?:\s?(?:,|and|to|[-–])\s?\d+(?:\.\d+)*)*\b",
            r"(?m:^[ \t]*(?:#{1,6}[ \t]*)?(?:[-*][ \t]+)?\d{1,3}(?:\.\d{1,3})*[.)](?=\s))",
            r"(?m:^[ \t]*#{1,6}[ \t]*\d{1,3}(?:\.\d{1,3})*(?=\s))",
            r"\bv?\d+\.\d+\.\d+(?:[.-]\w+)*\b",
            r"\b\d+(?:st|nd|rd|th)\b",
            r"\b[A-Za-z]+[-_]?\d[\w-]*",
        )
    ),
    re.IGNORECASE,
)


@value()
class Number:
    """A number as written in a text, and its possible meanings."""

    shown: str
    digits: str
    """Digits without sign, currency and scale."""
    values: tuple[Decimal, ...]
    """1.234 is one and a bit or a thousand and more: both."""
    step: Decimal
    """The last written digit's place: 0.1 for 27.5, 100,000 for 1.2 million."""
    percent: bool = False
    scaled: bool = False

    def possible_values(self) -> tuple[Decimal, ...]:
        """Return every possible value, a percentage as a fraction too."""
        return (*self.values, *(one / 100 for one in self.values)) if self.percent else self.values

    def spans(self) -> Iterator[tuple[Decimal, Decimal]]:
        """Yield the ranges of exact values that, written with as many digits, are this number."""
        for one in self.values:
            low, high = one - self.step / 2, one + self.step / 2
            yield low, high
            if self.percent:
                yield low.scaleb(-2), high.scaleb(-2)

    def rounds(self, exact: Decimal) -> bool:
        """Return True if ``exact``, written with as many digits, is this number."""
        return any(low <= exact <= high for low, high in self.spans())

    def rounds_one(self, of: Values) -> bool:
        """Return True if one of the values, written with as many digits, is this number."""
        return any(of.is_between(low, high) for low, high in self.spans())


def read(text: str, pattern: re.Pattern[str] = _NUMBER) -> Iterator[Number]:
    """Yield the numbers in a text, in order."""
    for match in pattern.finditer(text):
        values, decimals = _values(match["digits"])
        scale = _SCALES.get((match["scale"] or match["tight"] or "").lower(), 0)
        sign = -1 if match["sign"] in ("-", "−", "–") else 1
        yield Number(
            match[0].strip(),
            match["digits"],
            tuple(sign * one.scaleb(scale) for one in values),
            Decimal(1).scaleb(scale - decimals),
            match["percent"] is not None,
            scale > 0,
        )


def _values(digits: str) -> tuple[tuple[Decimal, ...], int]:
    """Return the possible meanings of digits with separators, and the decimal places of the first meaning."""
    if len(digits) > DIGITS_MAX:
        return (), 0
    plain = re.sub(r"[\u00a0\u202f\u2009' ]", "", digits)
    marks = [char for char in plain if char in ".,"]
    groups = re.split(r"[.,]", plain)
    whole = Decimal("".join(groups))
    if not marks:
        return (whole,), 0
    last = groups[-1]
    grouped = all(len(one) == 3 for one in groups[1:]) and 1 <= len(groups[0]) <= 3
    as_decimal = whole.scaleb(-len(last))
    if len(set(marks)) == 2 and marks.count(marks[-1]) == 1:
        return (as_decimal,), len(last)
    if len(marks) > 1:
        return ((whole,), 0) if grouped else ((), 0)
    if grouped and groups[0] != "0":
        return ((whole, as_decimal), 0) if marks[0] == "," else ((as_decimal, whole), 3)
    return (as_decimal,), len(last)


def claims(text: str) -> list[Number]:
    """Return the numbers that a text states as facts. Dates, clock times, section numbers and versions are left out."""
    blanked = _NO_CLAIMS.sub(lambda match: " " * len(match[0]), text)
    return list(islice(read(blanked), CLAIMS_MAX + 1))


@value()
class KnownNumbers:
    """Numbers in the sources: values, and digits without a value (too many of them, or grouped like no number)."""

    values: Values
    digits: frozenset[str]


def known_in(sources: Sources) -> KnownNumbers:
    """Return all numbers of the sources."""
    found, digits = set[Decimal](), set[str]()
    for text in sources.texts():
        for number in read(text, _ANY_NUMBER):
            if number.values:
                found.update(number.possible_values())
            else:
                digits.add(number.digits)
    return KnownNumbers(Values(found | {-one for one in found}), frozenset(digits))


def calculated_values(sources: Sources, known: KnownNumbers) -> Values:
    """Return the results of calculator calls whose operands are known themselves; a call proves no number that it
    invented.
    """
    results = Values()
    for one in sources.calculations:
        operands = [number for number in read(one.expression, _ANY_NUMBER) if number.values]
        founded = len(operands) > 1 and all(_operand(number, known, results) for number in operands)
        if founded and (result := evaluate(one.result)) is not None:
            results.add(result)
    return results


@value()
class NumberFinding:
    """A number or a formula of an answer, and its problem."""

    shown: str
    problem: str = ""
    """Problem as a sentence; "": the number is founded, or the formula is correct."""
    number: Number | None = None
    """None: it is a formula."""


def check_numbers(text: str, sources: Sources) -> list[NumberFinding]:
    """Check each number and formula of an answer against the sources; report if there are too many."""
    calculations = formulas(text)
    stated = claims(without_formulas(text, calculations)) if len(calculations) <= CLAIMS_MAX else []
    if max(len(stated), len(calculations)) > CLAIMS_MAX:
        return [NumberFinding("", f"text: more than {CLAIMS_MAX:,} numbers, which are too many to check")]
    if not stated and not calculations:
        return []
    known = known_in(sources)
    return list(judge_claims(stated, calculations, known, calculated_values(sources, known)))


def problems(text: str, sources: Sources) -> list[str]:
    """Return a sentence for each unfounded number, and for each wrong formula."""
    return list({one.shown: one.problem for one in check_numbers(text, sources) if one.problem}.values())


def judge_claims(
    stated: Sequence[Number], calculations: Sequence[Formula], known: KnownNumbers, exact: Values
) -> Iterator[NumberFinding]:
    """Yield the findings: formulas first, whose results may found the numbers after them."""
    for formula in calculations:
        result = evaluate(formula.expression)
        loose = [one for one in read(formula.expression, _ANY_NUMBER) if not _operand(one, known, exact)]
        yield from (NumberFinding(one.shown, _describe_unfounded(one), one) for one in loose)
        if loose:
            continue
        if result is None or not any(number.rounds(result) for number in read(formula.result, _ANY_NUMBER)):
            yield NumberFinding(formula.shown, f"text: {formula.shown} does not come out")
        else:
            exact.add(result)
            yield NumberFinding(formula.shown)
    for number in stated:
        yield NumberFinding(
            number.shown, "" if is_founded(number, known, exact) else _describe_unfounded(number), number
        )


def _describe_unfounded(number: Number) -> str:
    return f"text: {number.shown[:DIGITS_MAX]} is in no source and no tool's answer, and follows from no stated formula"


def _operand(number: Number, known: KnownNumbers, exact: Values) -> bool:
    """Return True if a number may be used in a calculation."""
    return any(abs(one) in CONSTANTS for one in number.possible_values()) or is_founded(number, known, exact)


def is_founded(number: Number, known: KnownNumbers, exact: Values) -> bool:
    """Return True if a number is in the sources, or was calculated."""
    if not number.values:
        return number.digits in known.digits
    if any(one in known.values for one in number.possible_values()) or number.rounds_one(exact):
        return True
    return number.scaled and number.rounds_one(known.values)
