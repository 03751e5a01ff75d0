"""The report for people: what stands in it, that it is one file, and that it looks as the console does."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import get_args

import pytest

from fabric.core.values.taxonomy import FailureType, Tier
from simulator.scenarios.play.verdicts import Cell, Verdict
from simulator.scenarios.reports.formats import Drilled
from simulator.scenarios.reports.page import MARKS, MEANS, ROWS, ReportLine, lines, page

ROOT = Path(__file__).resolve().parents[4]
STYLE = (ROOT / "templates/scenarios/reports/style.css").read_text()
TOKENS = dict(re.findall(r"^--([\w-]+):(light-dark\([^;]+\));", STYLE, re.MULTILINE))
ICONS = re.findall(r'<symbol id="i-(\w+)"', (ROOT / "templates/scenarios/reports/icons.html").read_text())
FAST, BATCH, HIGH = Tier.INTERACTIVE, Tier.BATCH, Tier.HIGH_STAKES
HOSTILE = "</td><script>alert(1)</script> a\0b\ud800"
CELLS = [
    Cell(failure, tier, "pass", "retry > retry > abort > aborted", "retry > retry > abort > aborted", 7)
    for failure in FailureType
    for tier in Tier
]
CELLS[1] = Cell(
    FailureType.TOOL_LOOP, BATCH, "deviated", "retry > retry > abort > aborted", "retry > abort > failed", 7
)
CELLS[2] = Cell(FailureType.TOOL_LOOP, HIGH, "error", "abort > aborted", f"some_rule: {HOSTILE}", 7)
CELLS[3] = Cell(FailureType.DEADLOCK, FAST, "unknown", "not known", "abort > aborted", 7)
CELLS[4] = Cell(FailureType.DEADLOCK, BATCH, "unknown", "abort > aborted", "nothing decided > completed", 7)
LEDGER = Drilled("ledger", [replace(cell, seconds=0.25) for cell in CELLS])
VOID = ("meta", "path", "circle", "col", "use", "rect")


class Read(HTMLParser):
    """A page as a browser reads it. AssertionError where an element is not closed as it was opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data

    def of(self, name: str, value: str) -> list[dict[str, str | None]]:
        """Elements with that class."""
        return [attrs for tag, attrs in self.tags if tag == name and value in (attrs.get("class") or "").split()]


def test_verdicts_and_lines_have_a_word_a_tone_and_a_mark():
    assert set(MARKS) == set(MEANS) == set(get_args(Verdict))
    for word, tone, drawn in [*MARKS.values(), *ROWS.values()]:
        assert word
        assert f"{tone}-fg" in TOKENS
        assert drawn in ICONS
    assert [verdict for verdict, (_, tone, _) in MARKS.items() if tone == "ok"] == ["pass"]


def test_colours_are_those_of_the_console():
    tokens = (ROOT / "static/shell/tokens.css").read_text()
    theirs = dict(re.findall(r"--([\w-]+): (light-dark\([^;]+\));", tokens))
    assert {name: theirs.get(name) for name in TOKENS} == TOKENS
    assert set(re.findall(r"var\(--([\w-]+)\)", STYLE)) - {"fg", "bg", "edge", "solid"} <= set(TOKENS)


def test_the_page_is_one_file_that_fetches_and_runs_nothing():
    text = page([LEDGER], 3.1)
    read = Read(text)
    assert {"script", "link", "img", "iframe"} & {tag for tag, _ in read.tags} == set()
    assert re.findall(r"url\(|@import|https?:", text) == []
    assert all((attrs.get("href") or "#").startswith("#") for _, attrs in read.tags)
    assert not any(name.startswith("on") or name == "style" for _, attrs in read.tags for name in attrs)


def test_every_link_leads_to_something_once():
    for told in ([LEDGER], [LEDGER, Drilled("", CELLS)]):
        read = Read(page(told, 3.1))
        ids = [attrs["id"] for _, attrs in read.tags if "id" in attrs]
        assert len(ids) == len(set(ids))
        hrefs = {attrs["href"] for _, attrs in read.tags if "href" in attrs}
        assert hrefs <= {f"#{one}" for one in ids}
        assert sum(one.startswith("#cell-") for one in hrefs) == 24 * len(told)


def test_the_matrix_has_8_rows_of_3_each_with_icon_word_and_colour():
    text = page([LEDGER], 3.1)
    [matrix] = re.findall(r'<table class="matrix">.*?</table>', text, re.DOTALL)
    squares = re.findall(r'<td data-v="(\w+)">(.*?)</td>', matrix, re.DOTALL)
    assert [verdict for verdict, _ in squares] == [cell.verdict for cell in CELLS]
    assert len(re.findall(r'<th scope="row">', matrix)) == 8
    for verdict, square in squares:
        word, tone, drawn = MARKS[verdict]
        assert f'data-tone="{tone}"' in square
        assert f'href="#i-{drawn}"' in square
        assert f">{word}</span>" in square.replace("</svg>", ">")
    assert "retry <b>×2</b>" in squares[0][1]


def test_what_was_said_stays_text():
    text = page([LEDGER], 3.1)
    assert "<script>" not in text
    assert r"some_rule: &lt;/td&gt;&lt;script&gt;alert(1)&lt;/script&gt; a\x00b\ud800" in text
    text.encode()
    assert "<b>x</b>" not in page(
        [Drilled("<b>x</b>", [replace(cell, why="<b>x</b>", equipped="<b>x</b>") for cell in CELLS])], 3.1
    )


@pytest.mark.parametrize(
    ("expected", "observed", "found"),
    [
        (
            "retry > retry > retry > abort > aborted",
            "retry > abort > failed",
            [
                ReportLine("retry", "retry", "same"),
                ReportLine("retry", "", "missing"),
                ReportLine("retry", "", "missing"),
                ReportLine("abort", "abort", "same"),
                ReportLine("aborted", "failed", "other", last=True),
            ],
        ),
        (
            "replan > abort > aborted",
            "replan > replan > escalate > abort > aborted",
            [
                ReportLine("replan", "replan", "same"),
                ReportLine("", "replan", "extra"),
                ReportLine("", "escalate", "extra"),
                ReportLine("abort", "abort", "same"),
                ReportLine("aborted", "aborted", "same", last=True),
            ],
        ),
        (
            "surface > failed",
            "abort > failed",
            [ReportLine("surface", "abort", "other"), ReportLine("failed", "failed", "same", last=True)],
        ),
    ],
)
def test_two_chains_are_compared_line_by_line(expected, observed, found):
    assert lines(Cell(FailureType.PROVIDER, FAST, "deviated", expected, observed, 1)) == found


def test_what_cannot_be_compared_is_told_beside_each_other():
    assert [lines(cell) for cell in CELLS[2:5]] == [[], [], []]
    read = Read(page([LEDGER], 3.1))
    assert len(read.of("div", "note")) == 6
    assert len(read.of("table", "chain")) == 21


def test_what_does_not_hold_stands_first_and_is_counted():
    text = page([LEDGER], 3.14, at=datetime(2026, 3, 1, 12, 30, tzinfo=UTC))
    told = Read(text).text
    assert "20 of 24 cells pass" in told
    assert "Begun2026-03-01 12:30 UTC" in told
    assert "Took3.1 s" in told
    assert "Seed7" in told
    start, end = told.index("Cells that do not pass"), told.index("Coverage")
    assert "4 of the cells" in told[start:end]
    assert "Infinite tool loop × long-running batchLine 2: expected retry, observed nothing." in told[start:end]
    assert "Infinite tool loop × high-stakes regulatedsome_rule: " in told[start:end]
    assert "Sub-agent deadlock × low-latency interactiveNot known." in told[start:end]
    assert "Sub-agent deadlock × long-running batchObserved: nothing decided, completed." in told[start:end]
    assert all(
        len(re.findall(f'data-v="{one}"></i>', text)) == sum(cell.verdict == one for cell in CELLS) for one in MARKS
    )


def test_a_reason_stands_in_place_of_the_first_difference():
    why = Drilled(
        "ledger", [replace(cell, why="No time was left.") if cell.verdict == "deviated" else cell for cell in CELLS]
    )
    told = Read(page([why], 3.1)).text
    assert "Infinite tool loop × long-running batchNo time was left." in told
    assert told.count("No time was left.") == 2


def test_where_all_hold_nothing_else_is_said():
    good = [Cell(cell.failure, cell.tier, "pass", "abort > aborted", "abort > aborted", 7) for cell in CELLS]
    told = Read(page([Drilled("", good)], 3.1)).text
    assert "Drill coverage of the default decision table" in told
    assert "24 of 24 cells pass" in told
    assert "Cells that do not pass" not in told


def test_several_fabrics_are_told_apart():
    told = Read(page([LEDGER, Drilled("", CELLS)], 3.1)).text
    assert "Drill coverage of 2 fabrics" in told
    assert "40 of 48 cells pass" in told
    assert "ledger: Infinite tool loop × long-running batch" in told
    assert "default table: Infinite tool loop × long-running batch" in told


def test_paper_is_light_and_no_row_is_torn():
    paper = STYLE.partition("@media print{")[2]
    assert ":root{color-scheme:light}" in paper
    assert re.search(r"tr,[^{]*\{break-inside:avoid\}", paper)


def test_very_many_cells_have_shares_instead_of_marks():
    text = page([Drilled(f"fabric-{n}", CELLS) for n in range(5)], 3.1)
    assert 'data-v="pass"></i>' not in text
    assert re.findall(r'<rect x="(\d+)" width="(\d+)"', text) == [
        ("0", "100"),
        ("100", "5"),
        ("105", "5"),
        ("110", "10"),
    ]
