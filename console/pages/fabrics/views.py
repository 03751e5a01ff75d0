"""Shows fabrics: their list, one in its parts, its revisions and YAML.

The list has published and drafted fabrics, with their activity and drill results.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from console.editor.draft import editing
from console.pages.fabrics.summary import build_summary
from console.pages.memories import views as memories
from console.site.access.actors import find_actor
from console.templatetags.marks import EFFECTS
from console.topologies.fabrics import judges, topology_links, topology_svg
from console.words import fabrics as words
from console.words.decision_table import build_table, list_layers
from fabric.core.people.actor import Actor
from fabric.core.spec.second_person import second_wanted
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.selectors.drafts.change_requests import change_requests, requests_open
from fabric.selectors.drafts.lookup import DraftLine, draft_get, drafts_by_fabric, list_drafts
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.differences import revision_changes
from fabric.selectors.fabrics.limits import list_limits
from fabric.selectors.fabrics.lookup import (
    REVISIONS_MAX,
    FabricView,
    RevisionPage,
    fabric_revisions,
    fabrics_list,
    revision_get,
    usual_rates,
)
from fabric.selectors.overview.success_cost import Activities, Activity, fabric_activities, success_costs
from fabric.selectors.overview.tiles import NEWEST_RUNS, Tile
from fabric.selectors.runs.stops import stops_standing
from fabric.services.drafts.changes import NAME_CHARS_MAX
from fabric.services.fabrics.uses import NO_USES, find_tool_uses
from fabric.services.fabrics.yaml.export import export_revision, written_out
from simulator.drills.selectors.drill_views import State
from simulator.drills.selectors.standings import FabricStanding, fabric_stands

MIX: Mapping[str, tuple[str, str, tuple[Tile, ...]]] = {
    "completed": ("completed", "ok", (Tile.COMPLETED,)),
    "recovered": ("after recovery", "warn", (Tile.RECOVERED,)),
    "stopped": ("stopped early", "warn", (Tile.STOPPED,)),
    "failed": ("failed or aborted", "danger", (Tile.ENDED_BADLY,)),
    "cancelled": ("cancelled", "neutral", (Tile.CANCELLED,)),
    "live": (
        "not ended",
        "info",
        (Tile.RUNNING, Tile.WAITING, Tile.QUEUED, Tile.PAUSED, Tile.ENDING, Tile.QUARANTINED),
    ),
}
"""Parts of an outcome mix: word, tone, and tiles. Total over ``Tile``, by test."""


@dataclass(frozen=True, slots=True)
class Share:
    """One part of a bar, in percent of its width."""

    word: str
    tone: str
    count: int
    x: float
    width: float


def outcome_mix(mix: Mapping[Tile, int]) -> list[Share]:
    """Return the ends of a fabric's runs as parts of a bar; an empty list if none ended."""
    whole = sum(mix.values())
    shares: list[Share] = []
    x = 0.0
    for word, tone, tiles in MIX.values():
        count = sum(mix.get(tile, 0) for tile in tiles)
        if count:
            width = round(100 * count / whole, 2)
            shares.append(Share(word, tone, count, round(x, 2), width))
            x += width
    return shares


# -- one fabric --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tab:
    """A part of a fabric's page."""

    name: str
    label: str
    build: Callable[[Actor, RevisionPage], dict[str, Any]]


def _agents(actor: Actor, page: RevisionPage) -> dict[str, Any]:
    uses = find_tool_uses(actor, page.fabric.name, page.spec)
    tools = [(line, uses.get(line.tool.name, NO_USES)) for line in words.list_tools(page.spec)]
    return {"agents": words.list_agents(page.spec), "tools": tools}


def _topology(actor: Actor, page: RevisionPage) -> dict[str, Any]:
    judged = any(judges(page.spec, stage) for stage in Stage)
    picture, links = topology_svg(page.spec), topology_links(page.spec)
    return {"picture": picture, "links": links, "effects": EFFECTS.items(), "judged": judged}


def _stages(actor: Actor, page: RevisionPage) -> dict[str, Any]:
    return {"stages": words.list_stages(page.spec), "falling_back": words.falling_back(page.spec)}


def _limits(actor: Actor, page: RevisionPage) -> dict[str, Any]:
    groups = list_limits(page.spec)
    shown = [(group, words.limit_lines(group)) for group in groups]
    counts = {"count": sum(len(rows) for _, rows in shown), "set_here": sum(group.own for group in groups)}
    return {"groups": shown, **counts, "usual": usual_rates(actor, page.fabric.name, page.spec)}


def _table(actor: Actor, page: RevisionPage) -> dict[str, Any]:
    rows = build_table(page.spec)
    return {
        "rows": rows,
        "layers": list_layers(page.spec),
        "columns": list(Tier),
        "changed": sum(bool(cell.standard) for _, cells in rows for cell in cells),
    }


def _cost(actor: Actor, page: RevisionPage) -> dict[str, Any]:
    return {"costs": success_costs(actor, page.fabric.name, time.time_ns() // 1_000), "most": NEWEST_RUNS}


def _yaml(actor: Actor, page: RevisionPage) -> dict[str, Any]:
    return {"yaml": export_revision(page)}


def _versions(actor: Actor, page: RevisionPage) -> dict[str, Any]:
    _, revisions = fabric_revisions(actor, page.fabric.name)
    changes = revision_changes(actor, page.fabric.id, [revision.number for revision in revisions])
    rows = [(revision, changes.get(revision.number)) for revision in revisions]
    two = bool(second_wanted(None, revision_get(actor, page.fabric.name).spec if not page.current else page.spec))
    most = REVISIONS_MAX if len(rows) == REVISIONS_MAX else 0
    return {"revisions": rows, "most": most, "two": two}


TABS: Mapping[str, Tab] = {
    tab.name: tab
    for tab in (
        Tab("summary", "Summary", build_summary),
        Tab("agents", "Agents", _agents),
        Tab("topology", "Topology", _topology),
        Tab("stages", "Stages and gates", _stages),
        Tab("limits", "Budgets and limits", _limits),
        Tab("table", "Decision table", _table),
        Tab("memory", "Memory", memories.tab),
        Tab("cost", "Cost", _cost),
        Tab("yaml", "YAML", _yaml),
        Tab("versions", "Versions", _versions),
    )
}
"""Tabs of a fabric's page by the name in the address; the first is the default."""
TABS_OF_VERSION = {name: tab for name, tab in TABS.items() if name != "summary"}
"""Tabs of one version's page. The summary is about the fabric."""


@require_safe
def fabric(request: HttpRequest, name: str) -> HttpResponse:
    """Show the published revision of a fabric."""
    return show_fabric(request, revision_get(find_actor(request.user), name), pinned=False)


@require_safe
def revision(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Show one revision of a fabric."""
    return show_fabric(request, revision_get(find_actor(request.user), name, number), pinned=True)


@require_safe
def download(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Download one revision as YAML, as it was published.

    ``?form=written``, or a revision without that text: generated YAML, equal bytes for equal revisions.
    """
    page, form = revision_get(find_actor(request.user), name, number), request.GET.get("form", "")
    if form not in ("", "written"):
        message = f"a version has no form {form[:40]!r}; it has: written"
        raise Refused(message, code="not_found", field="form")
    text = written_out(page.spec) if form else export_revision(page)
    response = HttpResponse(text, content_type="application/yaml; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="{page.spec.name}-r{page.number}.yaml"'
    return response


def show_fabric(
    request: HttpRequest, page: RevisionPage, *, pinned: bool, refused: str = "", status: int = 200
) -> HttpResponse:
    """Show a fabric, or one of its revisions (``pinned``). ``refused``: why no copy was made."""
    actor, tabs = find_actor(request.user), TABS_OF_VERSION if pinned else TABS
    first = next(iter(tabs))
    asked = request.GET.get("tab", first)
    if asked not in tabs:
        known = ", ".join(tabs)
        raise Refused(f"a fabric's page has no part {asked[:40]!r}; it has: {known}", code="not_found", field="tab")
    tab = tabs[asked]
    seen = {
        "page": page,
        "pinned": pinned,
        "tab": tab.name,
        "title": tab.label,
        "tabs": [
            (one, _count(one.name, page), _build_address(page, "" if one.name == first else one.name, pinned=pinned))
            for one in tabs.values()
        ],
        "part": f"fabrics/parts/{tab.name}.html",
        "waiting": change_requests(actor, page.fabric.name),
        "stop": next((one for one in stops_standing(actor) if one.fabric == page.fabric.name), None),
        "refused": refused,
        "wanted": request.POST.get("to", "")[:NAME_CHARS_MAX],
        **_drafts(actor, page.fabric.name),
        **tab.build(actor, page),
    }
    return render(request, "fabrics/page.html", seen, status=status)


def _drafts(actor: Actor, name: str) -> dict[str, Any]:
    """Return the drafts of the fabric by author, and the number of changes in one's own."""
    lines = list_drafts(actor, name)
    own = next((line for line in lines if line.author == actor.name), None)
    changes = len(editing(draft_get(actor, name), None).changes) if own else 0
    return {"own": own, "changes": changes, "others": [line for line in lines if line is not own]}


def _build_address(page: RevisionPage, tab: str, *, pinned: bool) -> str:
    """Return the address of a tab; empty for the first one, which is the page itself."""
    name = page.fabric.name
    here = reverse("fabric-revision", args=[name, page.number]) if pinned else reverse("fabric", args=[name])
    return f"{here}?tab={tab}" if tab else here


def _count(tab: str, page: RevisionPage) -> int | None:
    """Return the number beside a tab; None if it shows none."""
    if tab == "agents":
        return len(page.spec.agents)
    if tab == "memory":
        return len(page.spec.memories) or None
    return len(FailureType) * len(Tier) if tab == "table" else None


ASKED_SHOWN = 5
"""Number of changes waiting for a second person that are named above the list."""
DRAFTS_SHOWN = 3
"""Number of draft authors named beside a fabric; further ones are counted."""


@dataclass(frozen=True, slots=True)
class Drafts:
    """Drafts of one fabric."""

    own: DraftLine | None
    others: tuple[DraftLine, ...]
    """Authors that are named."""
    more: int


@dataclass(frozen=True, slots=True)
class FabricLine:
    """A published fabric in the list."""

    fabric: FabricView
    activity: Activity
    mix: Sequence[Share]
    drafts: Drafts
    stand: FabricStanding | None
    """Drill results of the fabric; None if they were not read."""
    requests: int
    """Changes that wait for a second person."""

    @property
    def stale(self) -> int:
        """Return the number of cells that changed since their verdict."""
        return self.stand.counts.get(State.STALE, 0) if self.stand else 0

    @property
    def wrong(self) -> int:
        """Return the number of cells that deviated from the table, or could not be drilled."""
        return sum(self.stand.counts.get(state, 0) for state in (State.DEVIATED, State.ERROR)) if self.stand else 0

    @property
    def tone(self) -> str:
        """Return the tone of the coverage."""
        if self.stand is None or self.stand.never:
            return "neutral"
        return "danger" if self.wrong else "ok" if self.stand.proven == self.stand.cells else "warn"


@require_safe
def fabrics(request: HttpRequest) -> HttpResponse:
    """Show every published or drafted fabric. The number of database statements is constant."""
    actor = find_actor(request.user)
    found = fabric_activities(actor, time.time_ns() // 1_000)
    drafts = drafts_by_fabric(actor)
    lines = _lines(actor, found, drafts)
    names = {line.fabric.name for line in lines}
    only = [(name, _list_drafts(actor, rows)) for name, rows in drafts.items() if name not in names]
    asked = [one for one in change_requests(actor, most=ASKED_SHOWN) if one.waits and one.publish_at is None]
    stopped = {one.fabric for one in stops_standing(actor)}
    shown = {"lines": lines, "only": only, "stopped": stopped, "cut": found.cut, "legend": MIX.values(), "asked": asked}
    return render(request, "fabrics/list.html", shown)


def _lines(actor: Actor, activities: Activities, drafts: Mapping[str, Sequence[DraftLine]]) -> list[FabricLine]:
    published = fabrics_list(actor)
    stands = {stand.fabric: stand for stand in fabric_stands(actor, published)}
    requests = requests_open(actor)
    return [
        FabricLine(
            fabric,
            activity := activities.find_activity(fabric.id),
            outcome_mix(activity.mix),
            _list_drafts(actor, drafts.get(fabric.name, ())),
            stands.get(fabric.name),
            requests.get(fabric.name, 0),
        )
        for fabric in published
    ]


def _list_drafts(actor: Actor, rows: Sequence[DraftLine]) -> Drafts:
    own = next((row for row in rows if row.author == actor.name), None)
    others = [row for row in rows if row.author != actor.name]
    return Drafts(own, tuple(others[:DRAFTS_SHOWN]), max(0, len(others) - DRAFTS_SHOWN))
