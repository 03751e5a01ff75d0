"""Reads the runs of drills: the drill of a run, and their list. No list of real runs reads their workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fabric.core.people.actor import Actor
from fabric.core.texts.text import clean_text
from fabric.models import Run
from fabric.selectors.reach import match_visible
from fabric.selectors.runs.lookup import RunView
from fabric.selectors.runs.query.list_pages import RunRow, rows_named
from fabric.services.actors import drills_owner, drills_workspace
from simulator.drills.models.tables import Drill
from simulator.drills.runs.names import PART_WORDS, PARTS, drill_of_key
from simulator.drills.selectors.drill_views import DrillView
from simulator.drills.selectors.drills import view

PAGE = 10
"""Drills in one page of the list: three runs each."""


@dataclass(frozen=True, slots=True)
class RunDrill:
    """The drill that a run is of."""

    drill: DrillView
    part: str
    """Part of the drill: a ``names.Part``, or the mark of a further run."""

    @property
    def part_word(self) -> str:
        """Return the part in a word."""
        return PART_WORDS.get(self.part, "beside it")

    @property
    def virtual(self) -> bool:
        """Return True if it ran by the virtual clock, so that it cannot change any more."""
        return self.drill.mode == "virtual"


def find_drill(run: RunView) -> RunDrill | None:
    """Return the drill of a run; None for a real run.

    It makes no database statement for a root run without such a key.
    """
    if run.root_run_id is None and ":" not in run.start_key:
        return None
    return drill_named(run.workspace_id, run.start_key, run.root_run_id)


def drill_named(workspace_id: str, key: str, root_run_id: str | None) -> RunDrill | None:
    """Return the drill of a run by the columns of its row; None for a real run."""
    owner = drills_owner(workspace_id)
    if owner is None:
        return None
    if not key and root_run_id:
        key = Run.objects.filter(id=root_run_id).values_list("start_key", flat=True).first() or ""
    drill_id, part = drill_of_key(key)
    row = Drill.objects.filter(id=drill_id, workspace_id=owner).select_related("fabric").first() if drill_id else None
    return RunDrill(view(row), part) if row is not None else None


def drill_of_run_id(workspace_id: str, run_id: str) -> RunDrill | None:
    """Return the drill of a run by its id; None for a real run."""
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
    """Return the newest drills with kept runs, and True if there are older ones.

    ``before``: the id of the last one that was shown.
    """
    inside = drills_workspace(actor.workspace_id)
    if inside is None:
        return [], False
    rows = Drill.objects.filter(match_visible(actor, Drill)).exclude(run_id="")
    if fabric:
        rows = rows.filter(fabric__name=clean_text(fabric)[0])
    if before:
        rows = rows.filter(id__lt=clean_text(before)[0])
    found = [view(row) for row in rows.select_related("fabric").order_by("-id")[: limit + 1]]
    ids = [run_id for one in found[:limit] for run_id in _ids(one).values()]
    runs = {run.id: run for run in rows_named(actor, inside, ids)}
    return [DrillRuns(one, _order_runs(_ids(one), runs)) for one in found[:limit]], len(found) > limit


def _ids(one: DrillView) -> Mapping[str, str]:
    found: Mapping[str, str] = one.body.get("runs", {})
    return found


def _order_runs(ids: Mapping[str, str], runs: Mapping[str, RunRow]) -> tuple[tuple[str, RunRow], ...]:
    order: Sequence[str] = [*(part for part in PARTS if part in ids), *(part for part in ids if part not in PARTS)]
    return tuple((part, runs[ids[part]]) for part in order if ids[part] in runs)
