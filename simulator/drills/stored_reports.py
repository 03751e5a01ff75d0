"""Reports of stored drills: one, a batch, or what the cells of a fabric have been shown to do; as ``manage.py drill`` writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, cast

from fabric.core.taxonomy import FailureType
from fabric.selectors.errors import Refused
from simulator.drills.cells import Cell, Verdict
from simulator.drills.models import Status
from simulator.drills.report_page import page
from simulator.drills.reports import Drilled, json_line, junit
from simulator.drills.selectors import BatchView, CellView, Coverage, DrillView, State
from simulator.scenarios.journal import journal_of
from simulator.scenarios.probes import Checked
from simulator.scenarios.problems import Unreadable
from simulator.scenarios.reading import read

JSON = Any
Written = Literal["html", "json", "junit"]
Form = Literal[Written, "journal"]
FORMS: Mapping[str, tuple[str, str]] = {
    "html": ("text/html; charset=utf-8", "html"),
    "json": ("application/json", "json"),
    "junit": ("application/xml; charset=utf-8", "xml"),
    "journal": ("application/json", "json"),
}
"""Media type and ending of each form. ``journal``: as chaostoolkit writes it, of one drill that played a scenario. Total over ``Form``, by test."""


@dataclass(frozen=True, slots=True)
class Report:
    """A report to be sent."""

    text: str
    media: str
    name: str
    """Of its file."""


# -- what is told ------------------------------------------------------------------------------------------------------


def drill_report(seen: DrillView, form: str) -> Report:
    """Of one drill. Refused not_found for a form that there is not; conflict for the journal of what was no scenario, or has not ended."""
    if form == "journal":
        return _report(form, f"drill-{seen.id}.journal", journal(seen))
    return _report(form, f"drill-{seen.id}", _written(form, seen.fabric, [cell_of(seen)], _begun([seen])))


def batch_report(seen: BatchView, form: str) -> Report:
    """Of a batch. Refused not_found for a form that there is not."""
    drills = seen.drills
    return _report(form, f"drills-{seen.id}", _written(form, drills[0].fabric, [cell_of(one) for one in drills], _begun(drills)))  # fmt: skip


def coverage_report(seen: Coverage, form: str) -> Report:
    """Of the 24 cells of a fabric as it is published: a verdict that is stale is none. Refused not_found for a form that there is not."""
    begun = _begun([one.last for one in seen.cells if one.last is not None])
    cells = [_known(one) for one in seen.cells]
    return _report(form, f"{seen.fabric.name}-r{seen.fabric.number}-drills", _written(form, seen.fabric.name, cells, begun))  # fmt: skip


def _report(form: str, name: str, text: str) -> Report:
    media, ending = FORMS[form]
    return Report(text, media, f"{name}.{ending}")


def _written(form: str, fabric: str, cells: list[Cell], at: datetime | None) -> str:
    if form not in WRITES:
        known = ", ".join(WRITES)
        raise Refused(f"there is no report as {form[:40]!r}; there are: {known}", code="not_found", field="form")
    return WRITES[form]([Drilled(fabric, cells)], sum(cell.seconds for cell in cells), at)


WRITES: Mapping[str, Callable[[Sequence[Drilled], float, datetime | None], str]] = {
    "html": lambda drilled, seconds, at: page(drilled, seconds, at=at),
    "json": lambda drilled, seconds, _: json_line(drilled, seconds) + "\n",
    "junit": lambda drilled, seconds, at: junit(drilled, seconds, at=at),
}
"""By form; those of ``manage.py drill``."""


# -- cells -------------------------------------------------------------------------------------------------------------


def cell_of(seen: DrillView) -> Cell:
    """A stored drill as a line of a report. What has no verdict is unknown, and never a pass; a scenario stands under its own name."""
    verdict, why = seen.verdict, seen.why
    if not verdict:
        verdict, why = "unknown", why or NO_VERDICT[seen.status]
    row = cast("FailureType", seen.scenario or seen.failure)  # A report only writes it down.
    return Cell(
        failure=row,
        tier=seen.tier,
        verdict=cast("Verdict", verdict),
        expected=seen.expected or "not known",
        observed=seen.observed or "not drilled",
        seed=seen.seed,
        why=why,
        equipped=" and ".join(seen.equipped),
        seconds=float(seen.body.get("seconds") or (seen.took or 0) / 1e6),
    )


NO_VERDICT: Mapping[Status, str] = {
    Status.QUEUED: "it waits for its turn",
    Status.RUNNING: "it is driven now",
    Status.COMPLETED: "it came to no verdict",
    Status.FAILED: "it came to no verdict",
    Status.ABORTED: "it was stopped before it came to a verdict",
    Status.INTERRUPTED: "it was interrupted before it came to a verdict",
}
"""Why a drill has none; total over ``Status``, by test."""


def _known(one: CellView) -> Cell:
    if one.last is None:
        why = "it was never drilled"
        return Cell(one.failure, one.tier, "unknown", "not known", "not drilled", 0, why)
    found = cell_of(one.last)
    if one.state is not State.STALE:
        return found
    why = f"the cell, a limit, an agent or the engine has changed since its last drill, which was {found.verdict}: drill it again"
    return Cell(one.failure, one.tier, "unknown", found.expected, found.observed, found.seed, why, found.equipped, found.seconds)  # fmt: skip


def _begun(drills: Sequence[DrillView]) -> datetime | None:
    """When the first of them was begun; None: none was."""
    begun = [one.started_at for one in drills if one.started_at]
    return datetime.fromtimestamp(min(begun) / 1e6, UTC) if begun else None


# -- chaostoolkit's journal --------------------------------------------------------------------------------------------


def journal(seen: DrillView) -> str:
    """The record of a drill that played a scenario, as chaostoolkit writes one. Refused conflict where there is none."""
    if not seen.scenario:
        message = "this drill played no scenario, so there is no experiment to keep a journal of: take its JSON or JUnit report"
        raise Refused(message, code="conflict", field="form")
    if seen.started_at is None or seen.ended_at is None:
        raise Refused("it has not ended: its journal is there as soon as it has", code="conflict", field="form")
    try:
        scenario = read(seen.source, origin=seen.scenario)
    except Unreadable as error:
        raise Refused(f"its scenario cannot be read by this version: {error}", code="conflict", field="form") from None
    steady = seen.body.get("steady") or {}
    before, after = (_checked(steady.get(part)) for part in ("before", "after"))
    if len(before) < len(scenario.steady_state.probes):
        message = "it was ended before anybody had looked at its steady state: there is nothing to keep a journal of"
        raise Refused(message, code="conflict", field="form")
    return journal_of(
        scenario,
        start=datetime.fromtimestamp(seen.started_at / 1e6, UTC),
        end=datetime.fromtimestamp(seen.ended_at / 1e6, UTC),
        before=before,
        after=after or None,
        struck=seen.body.get("struck") if after else None,
        ended=_ended(seen),
    ).written()


def _checked(told: JSON) -> tuple[Checked, ...]:
    return tuple(Checked(one["probe"], one["output"], one["why_not"]) for one in told or ())


def _ended(seen: DrillView) -> Literal["aborted", "interrupted"] | None:
    if seen.status is Status.INTERRUPTED:
        return "interrupted"
    return "aborted" if seen.status is Status.ABORTED or seen.verdict == State.ERROR else None
