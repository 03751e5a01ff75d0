"""Fabrics: the list, one fabric in its parts, one of its versions, its YAML."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from console.access import actor_of
from console.configure.editing import editing
from console.templatetags.marks import EFFECTS
from console.views import fabric_words as words
from console.views import memories
from console.views.fabric_table import layers_of, table_of
from console.views.topology_picture import judges, topology_links, topology_svg
from fabric.core.actor import Actor
from fabric.core.flow import Stage
from fabric.core.second_person import second_wanted
from fabric.core.taxonomy import FailureType, Tier
from fabric.selectors.change_requests import change_requests
from fabric.selectors.drafts import draft_get, drafts_of
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics import RevisionPage, revision_get
from fabric.selectors.limits import limits_of
from fabric.selectors.overview import NEWEST_RUNS, Tile
from fabric.selectors.revision_diff import revision_changes
from fabric.selectors.revisions import REVISIONS_MAX, fabric_revisions
from fabric.selectors.success_cost import success_costs
from fabric.selectors.usual_rates import usual_rates
from fabric.services.drafts import NAME_CHARS_MAX
from fabric.services.fabric_text import exported, written_out

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
"""The parts of an outcome mix: word, tone, and which tiles they are made of. Total over ``Tile``, by test."""


@dataclass(frozen=True, slots=True)
class Share:
    """One part of a bar, in percent of its width."""

    word: str
    tone: str
    count: int
    x: float
    width: float


def outcome_mix(mix: Mapping[Tile, int]) -> list[Share]:
    """What became of a fabric's runs, as parts of a bar; empty where there were none."""
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
    return {"agents": words.agents_of(page.spec), "tools": words.tools_of(page.spec)}


def _topology(actor: Actor, page: RevisionPage) -> dict[str, Any]:
    judged = any(judges(page.spec, stage) for stage in Stage)
    picture, links = topology_svg(page.spec), topology_links(page.spec)
    return {"picture": picture, "links": links, "effects": EFFECTS.items(), "judged": judged}


def _stages(actor: Actor, page: RevisionPage) -> dict[str, Any]:
    return {"stages": words.stages_of(page.spec), "falling_back": words.falling_back(page.spec)}


def _limits(actor: Actor, page: RevisionPage) -> dict[str, Any]:
    groups = limits_of(page.spec)
    shown = [(group, words.limit_lines(group)) for group in groups]
    counts = {"count": sum(len(rows) for _, rows in shown), "own": sum(group.own for group in groups)}
    return {"groups": shown, **counts, "usual": usual_rates(actor, page.fabric.name, page.spec)}


def _table(actor: Actor, page: RevisionPage) -> dict[str, Any]:
    rows = table_of(page.spec)
    return {
        "rows": rows,
        "layers": layers_of(page.spec),
        "columns": list(Tier),
        "changed": sum(bool(cell.standard) for _, cells in rows for cell in cells),
    }


def _cost(actor: Actor, page: RevisionPage) -> dict[str, Any]:
    return {"costs": success_costs(actor, page.fabric.name, time.time_ns() // 1_000), "most": NEWEST_RUNS}


def _yaml(actor: Actor, page: RevisionPage) -> dict[str, Any]:
    return {"yaml": exported(page)}


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
"""The parts of a fabric's page by the name in the address; the first one where none is named."""


@require_safe
def fabric(request: HttpRequest, name: str) -> HttpResponse:
    """One fabric as it is published."""
    return shown(request, revision_get(actor_of(request.user), name), pinned=False)


@require_safe
def revision(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """One version of it: what a run is pinned to."""
    return shown(request, revision_get(actor_of(request.user), name, number), pinned=True)


@require_safe
def download(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """One version as YAML: the text that it was published with; ``?form=written``, or where there is none: written out, equal versions in equal bytes."""
    page, form = revision_get(actor_of(request.user), name, number), request.GET.get("form", "")
    if form not in ("", "written"):
        message = f"a version has no form {form[:40]!r}; it has: written"
        raise Refused(message, code="not_found", field="form")
    text = written_out(page.spec) if form else exported(page)
    response = HttpResponse(text, content_type="application/yaml; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="{page.spec.name}-r{page.number}.yaml"'
    return response


def shown(
    request: HttpRequest, page: RevisionPage, *, pinned: bool, refused: str = "", status: int = 200
) -> HttpResponse:
    """The page of a fabric, or of one of its versions (``pinned``). ``refused``: why no copy was made of it."""
    actor, asked = actor_of(request.user), request.GET.get("tab", next(iter(TABS)))
    if asked not in TABS:
        known = ", ".join(TABS)
        raise Refused(f"a fabric's page has no part {asked[:40]!r}; it has: {known}", code="not_found", field="tab")
    tab = TABS[asked]
    seen = {
        "page": page,
        "pinned": pinned,
        "tab": tab.name,
        "title": tab.label,
        "tabs": [(one, _count(one.name, page), _address(one, page, pinned=pinned)) for one in TABS.values()],
        "part": f"fabrics/parts/{tab.name}.html",
        "waiting": change_requests(actor, page.fabric.name),
        "refused": refused,
        "wanted": request.POST.get("to", "")[:NAME_CHARS_MAX],
        **_drafts(actor, page.fabric.name),
        **tab.build(actor, page),
    }
    return render(request, "fabrics/page.html", seen, status=status)


def _drafts(actor: Actor, name: str) -> dict[str, Any]:
    """Whose drafts of it there are, and how much one's own changes."""
    lines = drafts_of(actor, name)
    own = next((line for line in lines if line.author == actor.name), None)
    changes = len(editing(draft_get(actor, name), None).changes) if own else 0
    return {"own": own, "changes": changes, "others": [line for line in lines if line is not own]}


def _address(tab: Tab, page: RevisionPage, *, pinned: bool) -> str:
    """Of a part of the page; the first part is the page itself."""
    name = page.fabric.name
    here = reverse("fabric-revision", args=[name, page.number]) if pinned else reverse("fabric", args=[name])
    return here if tab is next(iter(TABS.values())) else f"{here}?tab={tab.name}"


def _count(tab: str, page: RevisionPage) -> int | None:
    """The number beside a tab; None: it has none."""
    if tab == "agents":
        return len(page.spec.agents)
    if tab == "memory":
        return len(page.spec.memories) or None
    return len(FailureType) * len(Tier) if tab == "table" else None
