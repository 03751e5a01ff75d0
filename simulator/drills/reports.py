"""What drills found, for programs: a line of JSON, and JUnit XML as continuous integration reads it. Pure: cells in, text out.

A cell passes or it fails: deviated, error and unknown are all no pass, and are counted as failed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from itertools import groupby
from typing import Any

from simulator.drills.cells import Cell, Verdict

DEFAULT = "default-table"
"""What stands for the fabric where no fabric is named: the default table."""
_UNFIT = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 forbids, escaped or not."""


@dataclass(frozen=True, slots=True)
class Drilled:
    """The cells of one fabric, in the order of its table. ``fabric``: its name, empty for the default table."""

    fabric: str
    cells: list[Cell]


def passed(drilled: Sequence[Drilled]) -> int:
    """Cells that kept their promise, of all fabrics."""
    return verdicts(drilled)["pass"]


def failed(drilled: Sequence[Drilled]) -> int:
    """All others."""
    return sum(len(one.cells) for one in drilled) - passed(drilled)


def verdicts(drilled: Sequence[Drilled]) -> Counter[Verdict]:
    """How many cells of each verdict."""
    return Counter(cell.verdict for one in drilled for cell in one.cells)


# -- JSON --------------------------------------------------------------------------------------------------------------


def json_line(drilled: Sequence[Drilled], seconds: float) -> str:
    """One line: every cell, how many passed and failed, how long it took. A cell names its fabric where there are several."""
    several = len(drilled) > 1
    cells = [_cell(cell, one.fabric, several=several) for one in drilled for cell in one.cells]
    told = {"cells": cells, "passed": passed(drilled), "failed": failed(drilled), "seconds": round(seconds, 3)}
    return json.dumps(told)


def _cell(cell: Cell, fabric: str, *, several: bool) -> dict[str, Any]:
    named = {"fabric": fabric or DEFAULT} if several else {}
    return {
        **named,
        "failure": str(cell.failure),
        "tier": str(cell.tier),
        "verdict": cell.verdict,
        "expected": cell.expected,
        "observed": f"{cell.observed}: {cell.why}" if cell.why and TAGS[cell.verdict] == "error" else cell.observed,
        "seed": cell.seed,
    }


# -- JUnit -------------------------------------------------------------------------------------------------------------

TAGS: Mapping[Verdict, str] = {"pass": "", "deviated": "failure", "error": "error", "unknown": "error"}
"""What a test case holds; empty: nothing. Nothing is ever skipped: what was not shown is no pass. Total over the verdicts, by test."""


def junit(drilled: Sequence[Drilled], seconds: float, *, at: datetime | None = None) -> str:
    """A suite for each failure type of each fabric, a case for each tier. ``at``: when it was begun."""
    suites = [
        _suite(one, str(failure), list(cells), at, several=len(drilled) > 1)
        for one in drilled
        for failure, cells in groupby(one.cells, key=lambda cell: cell.failure)
    ]
    every = [cell for one in drilled for cell in one.cells]
    attributes = {"name": "drills", **_counts(every), "time": seconds_told(seconds)}
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + element("testsuites", attributes, suites) + "\n"


def _suite(one: Drilled, failure: str, cells: Sequence[Cell], at: datetime | None, *, several: bool) -> str:
    attributes = {
        "name": f"{one.fabric or DEFAULT}: {failure}" if several else failure,
        **_counts(cells),
        "skipped": "0",
    }
    attributes["time"] = seconds_told(sum(cell.seconds for cell in cells))
    if at is not None:
        attributes["timestamp"] = at.strftime("%Y-%m-%dT%H:%M:%S")
    told = {"fabric": one.fabric or DEFAULT} | {f"seed.{cell.tier}": str(cell.seed) for cell in cells}
    properties = [element("property", {"name": name, "value": value}) for name, value in told.items()]
    return element(
        "testsuite", attributes, [element("properties", {}, properties), *(_case(one.fabric, cell) for cell in cells)]
    )


def _case(fabric: str, cell: Cell) -> str:
    name = f"{cell.failure} x {cell.tier}"
    attributes = {"name": name, "classname": f"drills.{fabric or DEFAULT}", "time": seconds_told(cell.seconds)}
    tag = TAGS[cell.verdict]
    if not tag:
        return element("testcase", attributes)
    message = cell.why or f"expected {cell.expected}; observed {cell.observed}"
    told = [f"expected: {cell.expected}", f"observed: {cell.observed}", f"seed: {cell.seed}"]
    if cell.why:
        told.append(f"why: {cell.why}")
    if cell.equipped:
        told.append(f"the fabric was given {cell.equipped}")
    body = xml_text("\n".join(told))
    return element(
        "testcase", attributes, [element(tag, {"type": cell.verdict, "message": message}, [body], inline=True)]
    )


def _counts(cells: Sequence[Cell]) -> dict[str, str]:
    tags = Counter(TAGS[cell.verdict] for cell in cells)
    return {"tests": str(len(cells)), "failures": str(tags["failure"]), "errors": str(tags["error"])}


def seconds_told(seconds: float) -> str:
    """Seconds as a report has them."""
    return f"{seconds:.3f}"


def element(name: str, attributes: Mapping[str, str], children: Sequence[str] = (), *, inline: bool = False) -> str:
    """An element of children that are XML already."""
    told = "".join(f' {key}="{_attribute(value)}"' for key, value in attributes.items())
    if not children:
        return f"<{name}{told}/>"
    if inline:
        return f"<{name}{told}>{''.join(children)}</{name}>"
    inner = "\n".join(children).replace("\n<", "\n  <")
    return f"<{name}{told}>\n  {inner}\n</{name}>"


def xml_text(text: str) -> str:
    r"""Text as XML may hold it: what it forbids stands as ``\x00`` does in a program."""
    return escape(_UNFIT.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)).replace(
        "\r", "&#13;"
    )


def _attribute(text: str) -> str:
    """The same within quotes, where a line break would become a blank."""
    return xml_text(text).replace("\n", "&#10;").replace("\t", "&#9;")
