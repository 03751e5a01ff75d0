"""Runs of drills as they are looked at: which drill a run is of, and the list of them. They are in a workspace that no list of real runs reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fabric.core.actor import Actor
from fabric.core.text import clean_text
from fabric.models import Run
from fabric.selectors.reach import seen_by
from fabric.selectors.runs import RunView
from fabric.selectors.runs_list import RunRow, rows_named
from fabric.services.workspaces import drills_owner, drills_workspace
from simulator.drills.models import Drill
from simulator.drills.names import PARTS, SAID, drill_of_key
from simulator.drills.selectors import DrillView, view

PAGE = 10
"""Drills in one page of the list: three runs each."""


@dataclass(frozen=True, slots=True)
class RunDrill:
    """The drill that a run is of."""

    drill: DrillView
    part: str
    """Which of its runs: a ``names.Part``, or something else for one beside them."""

    @property
    def said(self) -> str:
        """The part in a word."""
        return SAID.get(self.part, "beside it")

    @property
    def virtual(self) -> bool:
        """Whether it went by the virtual clock, so that nothing can happen to it any more."""
        return self.drill.mode == "virtual"


def drill_of(run: RunView) -> RunDrill | None:
    """The drill that a run is of; None: a real run. No statement for a run that was started without a key of that kind, and by nobody."""
    if run.root_run_id is None and ":" not in run.start_key:
        return None
    return drill_named(run.workspace_id, run.start_key, run.root_run_id)


def drill_named(workspace_id: str, key: str, root_run_id: str | None) -> RunDrill | None:
    """The same, by what the run's row says."""
    owner = drills_owner(workspace_id)
    if owner is None:
        return None
    if not key and root_run_id:
        key = Run.objects.filter(id=root_run_id).values_list("start_key", flat=True).first() or ""
    drill_id, part = drill_of_key(key)
    row = Drill.objects.filter(id=drill_id, workspace_id=owner).select_related("fabric").first() if drill_id else None
    return RunDrill(view(row), part) if row is not None else None


def drill_of_run_id(workspace_id: str, run_id: str) -> RunDrill | None:
    """The same, by the run's id."""
    rows = Run.objects.filter(id=run_id, workspace_id=workspace_id)
    found = rows.values_list("start_key", "root_run_id").first()
    return drill_named(workspace_id, *found) if found is not None else None


@dataclass(frozen=True, slots=True)
class DrillRuns:
    """A drill with its runs, in their order: ``(part, run)``."""

    drill: DrillView
    runs: tuple[tuple[str, RunRow], ...]


def drills_with_runs(
    actor: Actor, *, fabric: str = "", before: str = "", limit: int = PAGE
) -> tuple[list[DrillRuns], bool]:
    """The newest drills whose runs are kept first, and whether there are older ones. ``before``: the id of the last one that was seen."""
    inside = drills_workspace(actor.workspace_id)
    if inside is None:
        return [], False
    rows = Drill.objects.filter(seen_by(actor, Drill)).exclude(run_id="")
    if fabric:
        rows = rows.filter(fabric__name=clean_text(fabric)[0])
    if before:
        rows = rows.filter(id__lt=clean_text(before)[0])
    found = [view(row) for row in rows.select_related("fabric").order_by("-id")[: limit + 1]]
    ids = [run_id for one in found[:limit] for run_id in _ids(one).values()]
    runs = {run.id: run for run in rows_named(actor, inside, ids)}
    return [DrillRuns(one, _in_order(_ids(one), runs)) for one in found[:limit]], len(found) > limit


def _ids(one: DrillView) -> Mapping[str, str]:
    found: Mapping[str, str] = one.body.get("runs", {})
    return found


def _in_order(ids: Mapping[str, str], runs: Mapping[str, RunRow]) -> tuple[tuple[str, RunRow], ...]:
    order: Sequence[str] = [*(part for part in PARTS if part in ids), *(part for part in ids if part not in PARTS)]
    return tuple((part, runs[ids[part]]) for part in order if ids[part] in runs)
