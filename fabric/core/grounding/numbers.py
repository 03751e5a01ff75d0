"""Numbers: each one that an answer states is in a source or a tool's answer, was calculated, or follows by a formula that stands beside it.

A number is compared by what it means, not by how it is written: 1,249.5 and 1249.50 and 1.249,5 are equal, 12 % is also 0.12. What only names a place
or a day (dates, clock times, section and page numbers, list markers, versions) is no claim.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import islice

from fabric.core.frozen import value
from fabric.core.grounding.formulas import CONSTANTS, Formula, evaluated, formulas, without
from fabric.core.grounding.sources import Sources
from fabric.core.grounding.values import Values

CLAIMS_MAX = 2_000
"""Numbers of one answer that are looked at; with more it fails."""
DIGITS_MAX = 40
"""Characters of one number; what is longer has no value."""
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
"""Wherever digits stand: what a source holds is never too much."""
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
    """A number as it stands in a text, and what it may mean."""

    shown: str
    digits: str
    """Without sign, currency and scale."""
    values: tuple[Decimal, ...]
    """1.234 is one and a bit or a thousand and more: both."""
    step: Decimal
    """The last written digit's place: 0.1 for 27.5, 100,000 for 1.2 million."""
    percent: bool = False
    scaled: bool = False

    def meant(self) -> tuple[Decimal, ...]:
        """Every value that it may stand for, a percentage as a fraction too."""
        return (*self.values, *(one / 100 for one in self.values)) if self.percent else self.values

    def spans(self) -> Iterator[tuple[Decimal, Decimal]]:
        """The ranges of what, written with as many digits, is this number."""
        for one in self.values:
            low, high = one - self.step / 2, one + self.step / 2
            yield low, high
            if self.percent:
                yield low.scaleb(-2), high.scaleb(-2)

    def rounds(self, exact: Decimal) -> bool:
        """Whether ``exact`` written with as many digits is this number."""
        return any(low <= exact <= high for low, high in self.spans())

    def rounds_one(self, of: Values) -> bool:
        """Whether one of those is, written with as many digits."""
        return any(of.within(low, high) for low, high in self.spans())


def read(text: str, pattern: re.Pattern[str] = _NUMBER) -> Iterator[Number]:
    """The numbers in a text, in order."""
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
    """What digits with separators may mean, and how many of them stand behind the point in the first meaning."""
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
    """The numbers that a text states as facts; a date, a clock time, a section's or a version's number is none."""
    blanked = _NO_CLAIMS.sub(lambda match: " " * len(match[0]), text)
    return list(islice(read(blanked), CLAIMS_MAX + 1))


@value()
class Known:
    """What stands in the sources: values, and digits that have none (too many of them, or grouped as no number is)."""

    values: Values
    digits: frozenset[str]


def known_in(sources: Sources) -> Known:
    """Everything of the kind."""
    found, digits = set[Decimal](), set[str]()
    for text in sources.texts():
        for number in read(text, _ANY_NUMBER):
            if number.values:
                found.update(number.meant())
            else:
                digits.add(number.digits)
    return Known(Values(found | {-one for one in found}), frozenset(digits))


def calculated(sources: Sources, known: Known) -> Values:
    """The results of calls of the calculator whose numbers are known themselves: a call makes no number true that nobody gave it."""
    results = Values()
    for one in sources.calculations:
        operands = [number for number in read(one.expression, _ANY_NUMBER) if number.values]
        founded = len(operands) > 1 and all(_operand(number, known, results) for number in operands)
        if founded and (result := evaluated(one.result)) is not None:
            results.add(result)
    return results


@value()
class Looked:
    """A number or a formula of an answer, and what speaks against it."""

    shown: str
    problem: str = ""
    """As a sentence; empty: it is founded, or comes out."""
    number: Number | None = None
    """None: it is a formula."""


def looked(text: str, sources: Sources) -> list[Looked]:
    """Each number and formula of an answer, held against the sources; or that there are too many of them."""
    calculations = formulas(text)
    stated = claims(without(text, calculations)) if len(calculations) <= CLAIMS_MAX else []
    if max(len(stated), len(calculations)) > CLAIMS_MAX:
        return [Looked("", f"text: more than {CLAIMS_MAX:,} numbers, which are too many to check")]
    if not stated and not calculations:
        return []
    known = known_in(sources)
    return list(judged(stated, calculations, known, calculated(sources, known)))


def problems(text: str, sources: Sources) -> list[str]:
    """A sentence for each number that stands on nothing, and for each formula that does not come out."""
    return list({one.shown: one.problem for one in looked(text, sources) if one.problem}.values())


def judged(stated: Sequence[Number], calculations: Sequence[Formula], known: Known, exact: Values) -> Iterator[Looked]:
    """In order: formulas first, whose results the numbers after them may rest on."""
    for formula in calculations:
        result = evaluated(formula.expression)
        loose = [one for one in read(formula.expression, _ANY_NUMBER) if not _operand(one, known, exact)]
        yield from (Looked(one.shown, _unfounded(one), one) for one in loose)
        if loose:
            continue
        if result is None or not any(number.rounds(result) for number in read(formula.result, _ANY_NUMBER)):
            yield Looked(formula.shown, f"text: {formula.shown} does not come out")
        else:
            exact.add(result)
            yield Looked(formula.shown)
    for number in stated:
        yield Looked(number.shown, "" if founded(number, known, exact) else _unfounded(number), number)


def _unfounded(number: Number) -> str:
    return f"text: {number.shown[:DIGITS_MAX]} is in no source and no tool's answer, and follows from no stated formula"


def _operand(number: Number, known: Known, exact: Values) -> bool:
    """Whether a number may stand in a calculation."""
    return any(abs(one) in CONSTANTS for one in number.meant()) or founded(number, known, exact)


def founded(number: Number, known: Known, exact: Values) -> bool:
    """Whether a number stands in what is known, or was calculated."""
    if not number.values:
        return number.digits in known.digits
    if any(one in known.values for one in number.meant()) or number.rounds_one(exact):
        return True
    return number.scaled and number.rounds_one(known.values)
