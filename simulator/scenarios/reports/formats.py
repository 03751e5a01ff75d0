"""Writes drill results for programs: a line of JSON, and JUnit XML for continuous integration. Pure functions.

A cell passes or fails: deviated, error and unknown all count as failed.
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

from simulator.scenarios.play.verdicts import Cell, Verdict

DEFAULT = "default-table"
"""Name for the default table, where no fabric is named."""
_UNFIT = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 forbids, escaped or not."""


@dataclass(frozen=True, slots=True)
class Drilled:
    """The cells of one fabric, in the order of its table. ``fabric``: its name, empty for the default table."""

    fabric: str
    cells: list[Cell]


def count_passed(drilled: Sequence[Drilled]) -> int:
    """Return the number of passed cells of all fabrics."""
    return verdicts(drilled)["pass"]


def count_failed(drilled: Sequence[Drilled]) -> int:
    """Return the number of cells that did not pass."""
    return sum(len(one.cells) for one in drilled) - count_passed(drilled)


def verdicts(drilled: Sequence[Drilled]) -> Counter[Verdict]:
    """Return the number of cells of each verdict."""
    return Counter(cell.verdict for one in drilled for cell in one.cells)


# -- JSON --------------------------------------------------------------------------------------------------------------


def json_line(drilled: Sequence[Drilled], seconds: float) -> str:
    """Return one line of JSON: every cell, numbers of passed and failed, and duration.

    A cell names its fabric if there are several.
    """
    several = len(drilled) > 1
    cells = [_cell(cell, one.fabric, several=several) for one in drilled for cell in one.cells]
    told = {
        "cells": cells,
        "passed": count_passed(drilled),
        "failed": count_failed(drilled),
        "seconds": round(seconds, 3),
    }
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
"""Element in a test case; empty for none. Nothing counts as skipped: a cell without proof is no pass.

Total over the verdicts, by test.
"""


def junit(drilled: Sequence[Drilled], seconds: float, *, at: datetime | None = None) -> str:
    """Return a suite for each failure type of each fabric, a case for each tier. ``at``: begin of the drills."""
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
    """Return seconds in the form of a report."""
    return f"{seconds:.3f}"


def element(name: str, attributes: Mapping[str, str], children: Sequence[str] = (), *, inline: bool = False) -> str:
    """Return an element of children that are XML already."""
    told = "".join(f' {key}="{_attribute(value)}"' for key, value in attributes.items())
    if not children:
        return f"<{name}{told}/>"
    if inline:
        return f"<{name}{told}>{''.join(children)}</{name}>"
    inner = "\n".join(children).replace("\n<", "\n  <")
    return f"<{name}{told}>\n  {inner}\n</{name}>"


def readable_text(text: str) -> str:
    r"""Return text whose characters that XML and HTML forbid are written as ``\x00``."""
    return _UNFIT.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def xml_text(text: str) -> str:
    """Return text escaped for XML."""
    return escape(readable_text(text)).replace("\r", "&#13;")


def _attribute(text: str) -> str:
    """Return text for an attribute, in which a line break would become a blank."""
    return xml_text(text).replace("\n", "&#10;").replace("\t", "&#9;")
