"""Writes the report of drills for people: one self-contained page of HTML, for screen and paper.

The page is the template ``scenarios/reports/page.html``; this module provides its data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from itertools import accumulate, groupby

from django.template.loader import render_to_string

from fabric.core.values.taxonomy import FailureType, Tier
from fabric.core.values.units import JSON
from fabric.core.values.words import FAILURES, TIERS
from simulator.scenarios.play.verdicts import Cell, Verdict
from simulator.scenarios.reports.formats import Drilled, count_passed, readable_text, verdicts

SEPARATOR = " > "
MARKS_MAX = 96
"""Largest number of cells with a mark each above the tables."""
MARKS: Mapping[Verdict, tuple[str, str, str]] = {
    "pass": ("Pass", "ok", "okc"),
    "deviated": ("Deviated", "danger", "alert"),
    "error": ("Error", "danger", "xc"),
    "unknown": ("Unknown", "neutral", "unknown"),
}
"""Word, tone and icon of a verdict. Total over the verdicts, by test."""
MEANS: Mapping[Verdict, str] = {
    "pass": "the decisions, and the end, were those that the table promises",
    "deviated": "the run broke a promise: its reason, or the two chains, show which",
    "error": "a rule of the engine was broken on the way",
    "unknown": "the drill proved nothing: it needs another run",
}
"""Meaning of a verdict. Total over the verdicts, by test."""
ROWS: Mapping[str, tuple[str, str, str]] = {
    "same": ("Same", "ok", "check"),
    "other": ("Differs", "danger", "exchange"),
    "missing": ("Missing", "danger", "minus"),
    "extra": ("Extra", "danger", "plus"),
}
"""Word, tone and icon of a line of two chains."""


@dataclass(frozen=True, slots=True)
class ReportLine:
    """A line of two chains side by side; empty where one has nothing. ``how``: a key of ``ROWS``."""

    expected: str
    observed: str
    how: str
    last: bool = False
    """True if it is the end of the run."""


def page(drilled: Sequence[Drilled], seconds: float, *, at: datetime | None = None) -> str:
    """Return the whole page. ``at``: begin of the drills."""
    fabrics = [_fabric(number, one) for number, one in enumerate(drilled)]
    context = {
        "title": _question(drilled),
        "facts": _facts(drilled, seconds, at),
        "passed": count_passed(drilled),
        "total": sum(fabric["total"] for fabric in fabrics),
        "marks_max": MARKS_MAX,
        "counts": _counts(drilled),
        "not_held": [
            cell
            for fabric in fabrics
            for failure in fabric["failures"]
            for cell in failure["cells"]
            if not cell["is_pass"]
        ],
        "fabrics": fabrics,
        "tiers": [TIERS[tier].capitalize() for tier in Tier],
        "meanings": [{"word": MARKS[one][0], "means": MEANS[one]} for one in MARKS],
    }
    return render_to_string("scenarios/reports/page.html", context)


def lines(cell: Cell) -> list[ReportLine]:
    """Return expected and observed chain, line by line; none after an error or unknown verdict."""
    if cell.verdict in ("error", "unknown"):
        return []
    expected, observed = cell.expected.split(SEPARATOR), cell.observed.split(SEPARATOR)
    found = list(_align_lines(expected[:-1], observed[:-1]))
    same = expected[-1] == observed[-1]
    return [*found, ReportLine(expected[-1], observed[-1], "same" if same else "other", last=True)]


def _align_lines(expected: Sequence[str], observed: Sequence[str]) -> Iterator[ReportLine]:
    """Yield the common beginning first, so that missing and surplus repetitions appear at the end."""
    start = next(
        (at for at, (a, b) in enumerate(zip(expected, observed, strict=False)) if a != b),
        min(len(expected), len(observed)),
    )
    yield from (ReportLine(both, both, "same") for both in expected[:start])
    left, right = expected[start:], observed[start:]
    for what, i, j, m, n in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        for at in range(max(j - i, n - m)):
            one, other = (left[i + at] if i + at < j else ""), (right[m + at] if m + at < n else "")
            how = "same" if what == "equal" else "other" if one and other else "missing" if one else "extra"
            yield ReportLine(one, other, how)


# -- what stands in the page -------------------------------------------------------------------------------------------


def _question(drilled: Sequence[Drilled]) -> str:
    if len(drilled) > 1:
        return f"Drill coverage of {len(drilled)} fabrics"
    name = drilled[0].fabric if drilled else ""
    return readable_text(f"Drill coverage of {name}") if name else "Drill coverage of the default decision table"


def _facts(drilled: Sequence[Drilled], seconds: float, at: datetime | None) -> list[tuple[str, str]]:
    seeds = sorted({cell.seed for one in drilled for cell in one.cells})
    facts = (
        ("Begun", at.strftime("%Y-%m-%d %H:%M %Z").strip() if at else ""),
        ("Cells", str(sum(len(one.cells) for one in drilled))),
        ("Took", f"{seconds:.1f} s"),
        ("Seed" if len(seeds) == 1 else "Seeds", ", ".join(map(str, seeds))),
    )
    return [(name, value) for name, value in facts if value]


def _counts(drilled: Sequence[Drilled]) -> list[JSON]:
    """Return the verdicts that occur, with their share of the bar."""
    counts = {verdict: count for verdict, count in verdicts(drilled).items() if count}
    named = [verdict for verdict in MARKS if verdict in counts]
    starts = accumulate((counts[verdict] for verdict in named), initial=0)
    return [
        {
            "verdict": verdict,
            "mark": _mark(MARKS[verdict]),
            "count": counts[verdict],
            "text": f"{counts[verdict]} {verdict}",
            "start": start,
            "each": range(counts[verdict]),
        }
        for verdict, start in zip(named, starts, strict=False)
    ]


def _mark(mark: tuple[str, str, str]) -> dict[str, str]:
    return dict(zip(("word", "tone", "icon"), mark, strict=True))


def _fabric(number: int, one: Drilled) -> dict[str, JSON]:
    name = readable_text(one.fabric or "default table")
    failures = []
    for failure, cells in groupby(one.cells, key=_failure):
        shown = {cell.tier: _cell(number, name, cell) for cell in cells}
        squares = [shown.get(tier) for tier in Tier]
        failures.append({"words": _name_row(failure), "cells": list(shown.values()), "squares": squares})
    return {
        "number": number,
        "name": name,
        "passed": count_passed([one]),
        "total": len(one.cells),
        "failures": failures,
    }


def _failure(cell: Cell) -> FailureType:
    return cell.failure


def _name_row(name: str) -> str:
    """Return a failure type in words, or the name of a scenario, as a heading."""
    text = FAILURES.get(FailureType(name), "") if name in set(FailureType) else name
    return text[:1].upper() + text[1:]


def _cell(number: int, fabric: str, cell: Cell) -> dict[str, JSON]:
    return {
        "id": f"cell-{number}-{cell.failure}-{cell.tier}".replace("_", "-"),
        "fabric": fabric,
        "failure": _name_row(cell.failure),
        "tier": TIERS[cell.tier].capitalize(),
        "verdict": cell.verdict,
        "is_pass": cell.verdict == "pass",
        "mark": _mark(MARKS[cell.verdict]),
        "seed": cell.seed,
        "seconds": cell.seconds,
        "why": readable_text(cell.why),
        "equipped": readable_text(cell.equipped),
        "in_short": readable_text(_in_short(cell)),
        "expected": _chain(cell.expected),
        "observed": _chain(cell.observed),
        "said": readable_text(cell.observed),
        "lines": [_line(line) for line in lines(cell)],
    }


def _in_short(cell: Cell) -> str:
    """Return the reason of the verdict, or the first line that shows it."""
    if cell.why:
        return cell.why
    for number, line in enumerate(lines(cell), start=1):
        if line.how != "same":
            return f"Line {number}: expected {_plain(line.expected) or 'nothing'}, observed {_plain(line.observed) or 'nothing'}."
    if cell.verdict == "error":
        return cell.observed
    if SEPARATOR not in cell.expected:
        return f"{cell.expected[:1].upper()}{cell.expected[1:]}."
    return f"Observed: {_plain(cell.observed).replace(SEPARATOR, ', ')}."


def _chain(told: str) -> dict[str, JSON]:
    """Return a chain as steps, repeated ones as one, with its end; a sentence stays unchanged."""
    if SEPARATOR not in told:
        return {"words": readable_text(told)}
    *steps, end = told.split(SEPARATOR)
    shown = [
        {"words": readable_text(_plain(step)), "times": len(list(same)), "skipped": step.startswith("skips ")}
        for step, same in groupby(steps)
    ]
    return {"steps": shown, "end": readable_text(_plain(end))}


def _line(line: ReportLine) -> dict[str, JSON]:
    sides = [readable_text(_plain(side)) for side in (line.expected, line.observed)]
    return {"how": line.how, "mark": _mark(ROWS[line.how]), "last": line.last, "sides": sides}


def _plain(step: str) -> str:
    """Return a step of a chain in words."""
    return step.replace("_", " ")
