"""What drills found, for people: one page of HTML that needs nothing beside it, on a screen and on paper. Pure: cells in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from itertools import groupby

from fabric.core.taxonomy import FailureType, Tier
from simulator.drills.cells import Cell, Verdict
from simulator.drills.report_style import MARK, icon, sprite, style
from simulator.drills.reports import Drilled, passed, verdicts, xml_text

SEPARATOR = " > "
MARKS_MAX = 96
"""Cells that have a mark each above the tables."""
MARKS: Mapping[Verdict, tuple[str, str, str]] = {
    "pass": ("Pass", "ok", "okc"),
    "deviated": ("Deviated", "danger", "alert"),
    "error": ("Error", "danger", "xc"),
    "unknown": ("Unknown", "neutral", "unknown"),
}
"""Word, tone and icon of a verdict. Total over the verdicts, by test."""
MEANS: Mapping[Verdict, str] = {
    "pass": "the decisions, and the end, were those that the table promises",
    "deviated": "other decisions were made, or the run ended otherwise",
    "error": "a rule of the engine was broken on the way",
    "unknown": "nothing was shown, which is no pass",
}
"""What it says. Total over the verdicts, by test."""
ROWS: Mapping[str, tuple[str, str, str]] = {
    "same": ("Same", "ok", "check"),
    "other": ("Differs", "danger", "swap"),
    "missing": ("Missing", "danger", "minus"),
    "extra": ("Extra", "danger", "plus"),
}
"""Word, tone and icon of a line of two chains."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of two chains beside each other; empty where one has nothing. ``how``: a key of ``ROWS``."""

    expected: str
    observed: str
    how: str
    last: bool = False
    """Whether it is how the run ends."""


def page(drilled: Sequence[Drilled], seconds: float, *, at: datetime | None = None) -> str:
    """The whole page. ``at``: when the drills were begun."""
    title = _question(drilled)
    body = [_head(drilled, seconds, title, at), _not_held(drilled)]
    body += [_fabric(number, one, several=len(drilled) > 1) for number, one in enumerate(drilled)]
    body.append(_foot())
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{xml_text(title)}</title>\n<style>\n{style()}</style>\n</head>\n<body>\n{sprite()}\n"
        f'<main class="page">\n{"".join(body)}</main>\n</body>\n</html>\n'
    )


def lines(cell: Cell) -> list[Line]:
    """Expected against observed, line by line; none where there is nothing to compare: a rule was broken, or nothing was shown."""
    if cell.verdict in ("error", "unknown"):
        return []
    expected, observed = cell.expected.split(SEPARATOR), cell.observed.split(SEPARATOR)
    found = list(_aligned(expected[:-1], observed[:-1]))
    same = expected[-1] == observed[-1]
    return [*found, Line(expected[-1], observed[-1], "same" if same else "other", last=True)]


def _aligned(expected: Sequence[str], observed: Sequence[str]) -> Iterator[Line]:
    """What both begin with stands first, so that what repeats is missing, or too much, at its end."""
    start = next(
        (at for at, (a, b) in enumerate(zip(expected, observed, strict=False)) if a != b),
        min(len(expected), len(observed)),
    )
    yield from (Line(both, both, "same") for both in expected[:start])
    left, right = expected[start:], observed[start:]
    for what, i, j, m, n in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        for at in range(max(j - i, n - m)):
            one, other = (left[i + at] if i + at < j else ""), (right[m + at] if m + at < n else "")
            how = "same" if what == "equal" else "other" if one and other else "missing" if one else "extra"
            yield Line(one, other, how)


# -- the parts of the page ---------------------------------------------------------------------------------------------


def _question(drilled: Sequence[Drilled]) -> str:
    if len(drilled) > 1:
        return f"Do these {len(drilled)} fabrics do what their tables say?"
    name = drilled[0].fabric if drilled else ""
    return f"Does {name} do what its table says?" if name else "Does the default table hold?"


def _head(drilled: Sequence[Drilled], seconds: float, title: str, at: datetime | None) -> str:
    seeds = sorted({cell.seed for one in drilled for cell in one.cells})
    total = sum(len(one.cells) for one in drilled)
    facts = {
        "Begun": at.strftime("%Y-%m-%d %H:%M %Z").strip() if at else "",
        "Cells": str(total),
        "Took": f"{seconds:.1f} s",
        "Seed" if len(seeds) == 1 else "Seeds": ", ".join(map(str, seeds)),
    }
    told = "".join(f"<div><dt>{name}</dt><dd>{xml_text(value)}</dd></div>" for name, value in facts.items() if value)
    counts = verdicts(drilled)
    legend = "".join(f"<li>{_badge(one, f'{counts[one]} {one}', plain=True)}</li>" for one in MARKS if counts[one])
    return (
        f'<header class="head"><p class="brand">{MARK}Fabric Flow <span>Failure drills</span></p><h1>{xml_text(title)}</h1>'
        '<p class="lede">Each cell compares what the decision table promises about a failure that does not go away with the '
        "decisions that the engine made when it met one. Unknown is never counted as pass.</p>"
        f'<dl class="facts">{told}</dl></header>\n'
        '<section class="card" aria-label="Result"><div class="tally"><div class="row">'
        f'<p class="big">{passed(drilled)} <small>of {total} cells pass</small></p><ul class="legend">{legend}</ul></div>'
        f"{_bar(counts)}</div></section>\n"
    )


def _bar(counts: Mapping[Verdict, int]) -> str:
    """A mark a cell, or shares where there are too many for that."""
    total = sum(counts.values())
    if total <= MARKS_MAX:
        marks = "".join(
            f'<i data-tone="{tone}" data-v="{one}"></i>' * counts[one] for one, (_, tone, _) in MARKS.items()
        )
        return f'<div class="score" aria-hidden="true">{marks}</div>'
    shares, start = "", 0
    for one, (_, tone, _) in MARKS.items():
        shares += f'<rect x="{start}" width="{counts[one]}" height="1" data-tone="{tone}"/>'
        start += counts[one]
    return f'<svg class="score" viewBox="0 0 {total} 1" preserveAspectRatio="none" aria-hidden="true">{shares}</svg>'


def _not_held(drilled: Sequence[Drilled]) -> str:
    items = [
        f'<li><span>{_badge(cell.verdict)}</span><a href="#{_id(number, cell)}">{_named(one, cell, several=len(drilled) > 1)}</a>'
        f"<p>{xml_text(_in_short(cell))}</p></li>"
        for number, one in enumerate(drilled)
        for cell in one.cells
        if cell.verdict != "pass"
    ]
    if not items:
        return ""
    return (
        '<section class="card" aria-labelledby="not-held"><header><h2 id="not-held">What does not hold</h2>'
        f'<span class="sub">{len(items)} of the cells, in the order of the table</span></header><ul class="not">{"".join(items)}</ul></section>\n'
    )


def _in_short(cell: Cell) -> str:
    """Why it does not hold, or the first line that shows it."""
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


def _named(one: Drilled, cell: Cell, *, several: bool) -> str:
    fabric = f"{one.fabric or 'default table'}: " if several else ""
    return xml_text(f"{fabric}{_words(cell.failure)} × {_words(cell.tier).lower()}")


def _fabric(number: int, one: Drilled, *, several: bool) -> str:
    name = one.fabric or "default table"
    told = f"{passed([one])} of {len(one.cells)} pass"
    head = f'<header><h2 id="fabric-{number}">{xml_text(name if several else "Coverage")}</h2><span class="sub">'
    head += f"{xml_text(told if several else f'{name} · {told}')}</span></header>"
    rows = "".join(_row(number, failure, list(cells)) for failure, cells in groupby(one.cells, key=_failure))
    tiers = "".join(f'<th scope="col">{_words(tier)}</th>' for tier in Tier)
    matrix = (
        '<div class="scroll" tabindex="0" role="region" aria-label="Coverage, scrolls sideways"><table class="matrix">'
        '<caption class="vh">Failure types by tier</caption><colgroup><col><col><col><col></colgroup>'
        f'<thead><tr><th scope="col">Failure type</th>{tiers}</tr></thead><tbody>{rows}</tbody></table></div>'
    )
    types = "".join(_type(number, failure, list(cells)) for failure, cells in groupby(one.cells, key=_failure))
    return f'<section class="card" aria-labelledby="fabric-{number}">{head}{matrix}</section>\n<h2 class="lines">{"Line by line" + (f": {xml_text(name)}" if several else "")}</h2>\n{types}'


def _failure(cell: Cell) -> FailureType:
    return cell.failure


def _row(number: int, failure: FailureType, cells: Sequence[Cell]) -> str:
    by_tier = {cell.tier: cell for cell in cells}
    found = "".join(_square(number, by_tier[tier]) if tier in by_tier else "<td></td>" for tier in Tier)
    return f'<tr><th scope="row">{_words(failure)}</th>{found}</tr>'


def _square(number: int, cell: Cell) -> str:
    return f'<td data-v="{cell.verdict}"><a href="#{_id(number, cell)}">{_badge(cell.verdict, plain=cell.verdict == "pass")}</a>{_chain(cell.expected)}</td>'


def _chain(told: str) -> str:
    """A chain as chips, a sentence as it is."""
    return _ladder(told) if SEPARATOR in told else f'<p class="words">{xml_text(told)}</p>'


def _ladder(chain: str) -> str:
    """A chain as chips, those that repeat as one."""
    *steps, end = chain.split(SEPARATOR)
    chips = []
    for step, same in groupby(steps):
        times = len(list(same))
        many = f" <b>×{times}</b>" if times > 1 else ""
        kind = "rung skip" if step.startswith("skips ") else "rung"
        chips.append(f'<li><span class="{kind}">{xml_text(_plain(step))}{many}</span></li>')
    chips.append(f'<li><span class="rung end">{xml_text(_plain(end))}</span></li>')
    return f'<ol class="ladder">{"".join(chips)}</ol>'


def _type(number: int, failure: FailureType, cells: Sequence[Cell]) -> str:
    inner = "".join(_cell(number, cell) for cell in cells)
    return f'<section class="card type"><header><h3>{_words(failure)}</h3></header><div class="cells">{inner}</div></section>\n'


def _cell(number: int, cell: Cell) -> str:
    took = cell.seconds
    facts = f"seed {cell.seed}" + (f" · {took:.2f} s" if took else "")
    note = _note(MARKS[cell.verdict][1], "Why", xml_text(cell.why)) if cell.why else ""
    note += (
        _note("neutral", "Given", f"The fabric lacked {xml_text(cell.equipped)}, and was given it.")
        if cell.equipped
        else ""
    )
    return (
        f'<article class="cell" id="{_id(number, cell)}"><header><h3>{_words(cell.tier)}</h3>{_badge(cell.verdict)}'
        f'<span class="sub">{facts}</span></header>{note}{_compared(cell)}</article>'
    )


def _compared(cell: Cell) -> str:
    found = lines(cell)
    if not found:
        tone = MARKS[cell.verdict][1]
        seen = xml_text(cell.observed) if cell.verdict == "error" else _chain(cell.observed)
        return _note("neutral", "Expected", _chain(cell.expected)) + _note(tone, "Observed", seen)
    rows = "".join(_line(number, line) for number, line in enumerate(found, start=1))
    return (
        '<table class="chain"><thead><tr><th scope="col" class="n"><span class="vh">Line</span></th><th scope="col">Expected</th>'
        f'<th scope="col">Observed</th><th scope="col" class="how"><span class="vh">Compared</span></th></tr></thead><tbody>{rows}</tbody></table>'
    )


def _line(number: int, line: Line) -> str:
    word, tone, drawn = ROWS[line.how]
    sides = "".join(_side(text, last=line.last) for text in (line.expected, line.observed))
    how = f'<span class="badge plain" data-tone="{tone}">{icon(drawn)}{word}</span>'
    return f'<tr class="{"same" if line.how == "same" else "dev"}"><td class="n">{number}</td>{sides}<td class="how">{how}</td></tr>'


def _side(text: str, *, last: bool) -> str:
    if not text:
        return '<td class="gone">nothing</td>'
    shown = xml_text(_plain(text))
    return f'<td><span class="fin">{icon("end")}{shown}</span></td>' if last else f"<td>{shown}</td>"


def _note(tone: str, head: str, body: str) -> str:
    return f'<div class="note" data-tone="{tone}"><b>{head}</b>{body}</div>'


def _badge(verdict: Verdict, text: str = "", *, plain: bool = False) -> str:
    word, tone, drawn = MARKS[verdict]
    return f'<span class="badge{" plain" if plain else ""}" data-tone="{tone}">{icon(drawn)}{text or word}</span>'


def _foot() -> str:
    told = "; ".join(f"{MARKS[one][0].lower()}: {MEANS[one]}" for one in MARKS)
    return f'<footer class="foot"><p>{told[:1].upper()}{told[1:]}.</p></footer>\n'


def _id(number: int, cell: Cell) -> str:
    return f"cell-{number}-{cell.failure}-{cell.tier}".replace("_", "-")


def _words(name: str) -> str:
    """``high_stakes`` as a heading."""
    text = str(name).replace("_", " ")
    return text[:1].upper() + text[1:]


def _plain(step: str) -> str:
    """A step of a chain in words."""
    return step.replace("_", " ")
