"""What tells a drill's run from a real one on its pages: which drill, with what verdict, by which clock, and its other runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.urls import reverse

from console.views.drill_words import Mark, cell_words, drill_mark
from fabric.selectors.runs import RunView
from simulator.drills.kept import RunDrill, drill_of
from simulator.drills.names import PARTS, SAID


@dataclass(frozen=True, slots=True)
class Marks:
    """The banner of a drill's run."""

    of: RunDrill
    title: str
    """What was drilled."""
    mark: Mark
    """Its verdict."""
    others: tuple[tuple[str, str, bool], ...]
    """Each run of it: its word, its address, and whether it is this one."""


def marks_of(run: RunView) -> Marks | None:
    """Those of a run; None: a real one."""
    found = drill_of(run)
    if found is None:
        return None
    ids: Mapping[str, str] = found.drill.body.get("runs", {})
    others = tuple((SAID[part], reverse("run", args=[ids[part]]), ids[part] == run.id) for part in PARTS if part in ids)
    return Marks(found, cell_words(found.drill), drill_mark(found.drill), others)
