"""Reports of a stored drill, a batch, or a fabric's coverage, in the formats of ``manage.py drill``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, cast

from fabric.core.values.taxonomy import FailureType
from fabric.core.values.units import JSON
from fabric.selectors.errors import Refused
from simulator.drills.models.tables import Status
from simulator.drills.selectors.drill_views import BatchView, CellView, Coverage, DrillView, State
from simulator.scenarios.play.verdicts import Cell, Verdict
from simulator.scenarios.reports.formats import Drilled, json_line, junit
from simulator.scenarios.reports.page import page
from simulator.scenarios.spec.journal import build_journal
from simulator.scenarios.spec.probes import CheckedProbe
from simulator.scenarios.spec.toml import parse_scenario
from simulator.texts.problems import Unreadable

Written = Literal["html", "json", "junit"]
Form = Literal[Written, "journal"]
FORMS: Mapping[str, tuple[str, str]] = {
    "html": ("text/html; charset=utf-8", "html"),
    "json": ("application/json", "json"),
    "junit": ("application/xml; charset=utf-8", "xml"),
    "journal": ("application/json", "json"),
}
"""Media type and file ending of each form. Total over ``Form``, by test.

``journal`` is chaostoolkit's, of one drill that played a scenario.
"""


@dataclass(frozen=True, slots=True)
class Report:
    """A report as a file."""

    text: str
    media: str
    name: str
    """File name."""


# -- what is told ------------------------------------------------------------------------------------------------------


def drill_report(seen: DrillView, form: str) -> Report:
    """Return the report of one drill.

    Raises Refused not_found for an unknown form; conflict for the journal of a drill without a scenario, or before
    its end.
    """
    if form == "journal":
        return _report(form, f"drill-{seen.id}.journal", journal(seen))
    return _report(form, f"drill-{seen.id}", _write_report(form, seen.fabric, [build_cell(seen)], _find_begin([seen])))


def batch_report(seen: BatchView, form: str) -> Report:
    """Return the report of a batch. Raises Refused not_found for an unknown form."""
    drills = seen.drills
    return _report(form, f"drills-{seen.id}", _write_report(form, drills[0].fabric, [build_cell(one) for one in drills], _find_begin(drills)))  # fmt: skip


def coverage_report(seen: Coverage, form: str) -> Report:
    """Return the report of a published fabric's 24 cells; a stale verdict counts as none.

    Raises Refused not_found for an unknown form.
    """
    begun = _find_begin([one.last for one in seen.cells if one.last is not None])
    cells = [_build_cell(one) for one in seen.cells]
    return _report(form, f"{seen.fabric.name}-r{seen.fabric.number}-drills", _write_report(form, seen.fabric.name, cells, begun))  # fmt: skip


def _report(form: str, name: str, text: str) -> Report:
    media, ending = FORMS[form]
    return Report(text, media, f"{name}.{ending}")


def _write_report(form: str, fabric: str, cells: list[Cell], at: datetime | None) -> str:
    if form not in WRITES:
        known = ", ".join(WRITES)
        raise Refused(f"there is no report as {form[:40]!r}; there are: {known}", code="not_found", field="form")
    return WRITES[form]([Drilled(fabric, cells)], sum(cell.seconds for cell in cells), at)


WRITES: Mapping[str, Callable[[Sequence[Drilled], float, datetime | None], str]] = {
    "html": lambda drilled, seconds, at: page(drilled, seconds, at=at),
    "json": lambda drilled, seconds, _: json_line(drilled, seconds) + "\n",
    "junit": lambda drilled, seconds, at: junit(drilled, seconds, at=at),
}
"""Writer of each form, as for ``manage.py drill``."""


# -- cells -------------------------------------------------------------------------------------------------------------


def build_cell(seen: DrillView) -> Cell:
    """Return a stored drill as a line of a report.

    One without a verdict is unknown, and never a pass. A scenario has its own name as row.
    """
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
        equipped=" and ".join(seen.equipment),
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
"""Reason why a drill has no verdict; total over ``Status``, by test."""


def _build_cell(one: CellView) -> Cell:
    if one.last is None:
        why = "it was never drilled"
        return Cell(one.failure, one.tier, "unknown", "not known", "not drilled", 0, why)
    found = build_cell(one.last)
    if one.state is not State.STALE:
        return found
    why = f"the cell, a limit, an agent or the engine has changed since its last drill, which was {found.verdict}: drill it again"
    return Cell(one.failure, one.tier, "unknown", found.expected, found.observed, found.seed, why, found.equipped, found.seconds)  # fmt: skip


def _find_begin(drills: Sequence[DrillView]) -> datetime | None:
    """Return the begin of the first drill; None if none has begun."""
    begun = [one.started_at for one in drills if one.started_at]
    return datetime.fromtimestamp(min(begun) / 1e6, UTC) if begun else None


# -- chaostoolkit's journal --------------------------------------------------------------------------------------------


def journal(seen: DrillView) -> str:
    """Return the record of a drill that played a scenario, as chaostoolkit writes it. Raises Refused conflict
    without one.
    """
    if not seen.scenario:
        message = "this drill played no scenario, so there is no experiment to keep a journal of: take its JSON or JUnit report"
        raise Refused(message, code="conflict", field="form")
    if seen.started_at is None or seen.ended_at is None:
        raise Refused("it has not ended: its journal is there as soon as it has", code="conflict", field="form")
    try:
        scenario = parse_scenario(seen.source, origin=seen.scenario)
    except Unreadable as error:
        raise Refused(f"its scenario cannot be read by this version: {error}", code="conflict", field="form") from None
    steady = seen.body.get("steady") or {}
    before, after = (_read_probes(steady.get(part)) for part in ("before", "after"))
    if len(before) < len(scenario.steady_state.probes):
        message = "it ended before its steady state was looked at: there is no journal"
        raise Refused(message, code="conflict", field="form")
    return build_journal(
        scenario,
        start=datetime.fromtimestamp(seen.started_at / 1e6, UTC),
        end=datetime.fromtimestamp(seen.ended_at / 1e6, UTC),
        before=before,
        after=after or None,
        struck=seen.body.get("struck") if after else None,
        ended=_end_word(seen),
    ).write_json()


def _read_probes(told: JSON) -> tuple[CheckedProbe, ...]:
    return tuple(CheckedProbe(one["probe"], one["output"], one["why_not"]) for one in told or ())


def _end_word(seen: DrillView) -> Literal["aborted", "interrupted"] | None:
    if seen.status is Status.INTERRUPTED:
        return "interrupted"
    return "aborted" if seen.status is Status.ABORTED or seen.verdict == State.ERROR else None
