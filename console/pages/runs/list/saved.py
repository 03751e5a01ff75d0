"""Saves views of the list of runs, lists them, and stores the columns that a member sees."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from console.site.access.actors import find_actor
from console.site.errors import pages as errors
from console.site.sentences import sentence
from fabric.core.people.actor import Actor
from fabric.selectors.errors import Refused
from fabric.selectors.runs.query.grammar import Query
from fabric.selectors.runs.query.orders import NEWEST, Order
from fabric.selectors.runs.saved_views import COLUMNS, VIEWS_MAX, RunsView, list_chosen_columns, list_saved_views
from fabric.services.runs.saved_views import columns_set, may_change, may_share, view_delete, view_rename, view_save

COLUMN_WORDS: Mapping[str, str] = {
    "state": "State",
    "fabric": "Fabric",
    "stages": "Stages",
    "when": "Started and took",
    "cost": "Cost",
    "tokens": "Tokens",
    "protections": "Protections",
}
"""Word of each column that can be left out; total by test."""
REDIRECT_CHARS_MAX = 2_000
"""Django refuses to lead to a longer address."""
TABS_MAX = 5
"""Saved views beside the ready-made ones; the page of views has all."""


def find_shown_view(views: Sequence[RunsView], query: Query, order: Order) -> RunsView | None:
    """Return the saved view that a list shows: the first one of its query and order."""
    sort = "" if order == NEWEST else order.name
    return next((view for view in views if (view.query, view.sort) == (query.text, sort)), None)


def list_shown_columns(actor: Actor, shown: RunsView | None) -> frozenset[str]:
    """Return the columns of a list: those of the saved view that it shows, else those that the member chose."""
    return frozenset(shown.columns) if shown and shown.columns else list_chosen_columns(actor)


def view_address(view: RunsView) -> str:
    """Return the address of the list as a view has it."""
    asked = {name: value for name, value in (("q", view.query), ("sort", view.sort)) if value}
    return reverse("runs") + (f"?{urlencode(asked)}" if asked else "")


@require_http_methods(["GET", "HEAD", "POST"])
def views(request: HttpRequest) -> HttpResponse:
    """List the saved views; a POST saves one. 422 or 409: it cannot be saved so, and the form keeps what was typed."""
    actor = find_actor(request.user)
    if request.method != "POST":
        return _render_views(request, actor)
    given = request.POST
    try:
        saved = view_save(
            actor=actor,
            name=given.get("name", ""),
            query=given.get("q", ""),
            sort=given.get("sort", ""),
            columns=given.getlist("column") if "with_columns" in given else (),
            shared="shared" in given,
        )
    except Refused as refusal:
        kept = [name for name in given.getlist("column") if name in COLUMN_WORDS]
        typed = {name: given.get(name, "") for name in ("name", "q", "sort", "shared", "with_columns")} | {
            "columns": kept
        }
        return _render_views(request, actor, refusal, typed)
    messages.success(request, f"The view {saved.name!r} is saved.")
    where = view_address(saved)
    return redirect(where if len(where) < REDIRECT_CHARS_MAX else "runs-views")


@require_POST
def view(request: HttpRequest, view_id: UUID) -> HttpResponse:
    """Rename or delete a view."""
    actor, key = find_actor(request.user), str(view_id)
    try:
        if request.POST.get("act") == "delete":
            view_delete(actor=actor, view_id=key)
            messages.info(request, "The view is deleted.")
        else:
            renamed = view_rename(actor=actor, view_id=key, name=request.POST.get("name", ""))
            messages.info(request, f"The view is named {renamed.name!r}.")
    except Refused as refusal:
        if refusal.code == "forbidden":
            raise
        return _render_views(request, actor, refusal)
    return redirect("runs-views")


@require_POST
def columns(request: HttpRequest) -> HttpResponse:
    """Store the columns that the member sees, and go back to the list."""
    columns_set(actor=find_actor(request.user), columns=request.POST.getlist("column"))
    asked = {name: value for name in ("q", "sort") if (value := request.POST.get(name, ""))}
    return redirect(reverse("runs") + (f"?{urlencode(asked)}" if asked else ""))


def _render_views(
    request: HttpRequest, actor: Actor, refusal: Refused | None = None, typed: Mapping[str, Any] | None = None
) -> HttpResponse:
    found = list_saved_views(actor)
    shown = {
        "rows": [(one, view_address(one), may_change(actor, one)) for one in found],
        "mine": sum(one.owner == actor.name for one in found),
        "most": VIEWS_MAX,
        "wrong": sentence(refusal.message) if refusal else "",
        "typed": typed,
        "may_share": may_share(actor),
        "now_ms": time.time_ns() // 1_000_000,
    }
    return render(request, "runs/saved_views/page.html", shown, status=errors.STATUS[refusal.code] if refusal else 200)


def build_column_boxes(shown: frozenset[str]) -> list[tuple[str, str, bool]]:
    """Return name, word and state of the box of each column."""
    return [(name, COLUMN_WORDS[name], name in shown) for name in COLUMNS]
