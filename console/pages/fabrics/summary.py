"""Builds the summary of a fabric: ends and costs of its runs, its last runs, its drills, its picture."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from console.pages.runs.list.rows import lines
from console.topologies.fabrics import topology_svg
from fabric.core.people.actor import Actor
from fabric.selectors.fabrics.lookup import RevisionPage
from fabric.selectors.overview.success_cost import success_costs
from fabric.selectors.runs.query.grammar import Query, parse
from fabric.selectors.runs.query.list_pages import fabric_ids, runs_page
from simulator.drills.selectors.standings import fabric_stands

RUNS_SHOWN = 5


def build_summary(actor: Actor, page: RevisionPage) -> dict[str, Any]:
    """Return what the summary tab shows. Drills are those of the published version."""
    now, name = time.time_ns() // 1_000, page.fabric.name
    query = parse(f"fabric:{name}", now=now, fabrics=[name])
    assert isinstance(query, Query)
    found = runs_page(actor, query, fabric_ids(actor), limit=RUNS_SHOWN)
    costs = success_costs(actor, name, now)
    return {
        "runs": lines(found.rows, now),
        "all_runs": f"{reverse('runs')}?{urlencode({'q': query.text})}",
        "costs": costs,
        "percent": 100 * costs.whole.completed // costs.whole.runs if costs.whole.runs else None,
        "cap": page.spec.policy.budget.run_usd_micros,
        "stand": next(iter(fabric_stands(actor, [page.fabric])), None) if page.current else None,
        "picture": topology_svg(page.spec),
    }
