"""Lists the scenarios of a workspace, shipped ones and its own, with their last result in a fabric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from django.db.models import Max, Q, QuerySet

from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.texts.text import clean_text
from fabric.core.values.taxonomy import Tier
from fabric.models import Run
from fabric.selectors.errors import Refused
from fabric.selectors.reach import match_visible, read_by
from simulator.drills.models.tables import OPEN_STATUSES, VIRTUAL, Drill, StoredScenario
from simulator.drills.selectors.drill_views import DrillView
from simulator.drills.selectors.drills import view
from simulator.scenarios.spec.collection import FOLDER, library
from simulator.scenarios.spec.scenario import Scenario
from simulator.scenarios.spec.toml import parse_scenario
from simulator.texts.problems import Unreadable, nearest

Origin = Literal["shipped", "ours", "captured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioView:
    """A scenario of the library. Instants are microseconds since the epoch, UTC; of a shipped one they are 0."""

    name: str
    origin: Origin
    source: str = field(repr=False)
    """TOML."""
    scenario: Scenario | None
    """None: this version cannot read it."""
    problems: tuple[str, ...] = ()
    """Why, a sentence each."""
    captured_from: str = ""
    """The run whose failures it repeats."""
    made_by: str = ""
    made_at: int = 0
    changed_at: int = 0
    version: int = 0

    @property
    def title(self) -> str:
        """The scenario's title; its name if it cannot be read."""
        return self.scenario.title if self.scenario else self.name

    def readable(self) -> Scenario:
        """The scenario. Refused conflict where this version cannot read it."""
        if self.scenario is None:
            message = f"scenario {self.name} cannot be read by this version: {self.problems[0]}; edit it"
            raise Refused(message, code="conflict", field="scenario", problems=self.problems)
        return self.scenario


@cache
def shipped_views() -> Mapping[str, ScenarioView]:
    """The shipped ones by name."""
    return {
        name: ScenarioView(
            name=name, origin="shipped", source=(FOLDER / f"{name}.toml").read_text(encoding="utf-8"), scenario=one
        )
        for name, one in library().items()
    }


def scenarios_list(actor: Actor) -> list[ScenarioView]:
    """The workspace's own first, the newest of them first, then the shipped ones by name."""
    own = [stored_view(row) for row in _rows(actor).order_by("-id")]
    taken = {one.name for one in own}
    return [*own, *(one for name, one in shipped_views().items() if name not in taken)]


def scenario_get(actor: Actor, name: str) -> ScenarioView:
    """The scenario of that name. Refused not_found."""
    row = _rows(actor).filter(name=clean_text(name)[0]).first()
    if row is not None:
        return stored_view(row)
    if name in shipped_views():
        return shipped_views()[name]
    known = [*_rows(actor).values_list("name", flat=True), *shipped_views()]
    close = nearest(name, known)
    hint = close if close.startswith("did") else "the library lists them all"
    raise Refused(f"there is no scenario {name[:80]!r}; {hint}", code="not_found", field="scenario")


def scenario_source(actor: Actor, name: str) -> str:
    """The scenario of that name as it is now, TOML; empty: there is none."""
    if not name:
        return ""
    found = _rows(actor).filter(name=name).values_list("source", flat=True).first()
    return found if found is not None else shipped_views()[name].source if name in shipped_views() else ""


def _rows(actor: Actor) -> QuerySet[StoredScenario]:
    rows = StoredScenario.objects.filter(workspace_id=actor.workspace_id)
    if not actor.narrow and actor.may(Right.CONTENTS):
        return rows
    # A captured scenario has the request and the documents of its run: only their readers may see it.
    readable = Run.objects.filter(match_visible(actor, Run), read_by(actor, Run)).values("id")
    return rows.filter(Q(captured_from="") | Q(captured_from__in=readable))


def stored_view(row: StoredScenario) -> ScenarioView:
    """Return a row as pages show it."""
    scenario: Scenario | None = None
    problems: tuple[str, ...] = ()
    try:
        scenario = parse_scenario(row.source)
    except Unreadable as error:
        problems = error.told
    return ScenarioView(
        name=row.name,
        origin="captured" if row.captured_from else "ours",
        source=row.source,
        scenario=scenario,
        problems=problems,
        captured_from=row.captured_from,
        made_by=row.made_by,
        made_at=row.made_at,
        changed_at=row.changed_at,
        version=row.version,
    )


# -- what they have shown ----------------------------------------------------------------------------------------------

Shown = Mapping[tuple[str, Tier], DrillView]
"""By scenario and tier."""


def scenarios_shown(actor: Actor, fabric: str, name: str = "", mode: str = VIRTUAL) -> tuple[Shown, Shown]:
    """Return the newest ended drill of each scenario in a fabric and a tier. Return also the one that waits or runs.
    Both are of one mode. ``name``: of one scenario only.
    """
    rows = Drill.objects.filter(match_visible(actor, Drill), fabric__name=clean_text(fabric)[0], mode=mode)
    rows = rows.filter(scenario=clean_text(name)[0]) if name else rows.exclude(scenario="")
    open_now = rows.filter(status__in=OPEN_STATUSES)
    ended = rows.exclude(verdict="").values("scenario", "tier").annotate(newest=Max("id")).values_list("newest")
    newest = Drill.objects.filter(id__in=[one for (one,) in ended])
    return _index_by_tier(newest.select_related("fabric")), _index_by_tier(open_now.select_related("fabric"))


def _index_by_tier(rows: QuerySet[Drill]) -> Shown:
    return {(row.scenario, Tier(row.tier)): view(row) for row in rows}
