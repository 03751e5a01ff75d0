"""What the frame of every page asks for: results while one types (and their page), and its own counts again."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.access import actor_of, is_staff
from console.forms import sentence
from console.shell import offered, places
from console.views import errors
from fabric.core.roles import Right
from fabric.selectors.errors import Refused
from fabric.selectors.search import GROUP_MAX, SEARCHED_RUNS, Found, search


@require_safe
def results(request: HttpRequest) -> HttpResponse:
    """Runs, fabrics and questions for ``q``. For the page's script: the same as rows of the palette, with the pages that match."""
    actor, query = actor_of(request.user), request.GET.get("q", "").strip(" \t\r\n")
    found, problem, status = Found(), "", 200
    try:
        found = search(actor, query)
    except Refused as refusal:
        problem, status = sentence(refusal.message), errors.STATUS[refusal.code]
    in_palette = bool(request.headers.get("HX-Request"))
    shown = {
        "searched": query,
        "found": found,
        "problem": problem,
        "group_max": GROUP_MAX,
        "searched_runs": SEARCHED_RUNS,
        "places": places(query, offered(staff=is_staff(request.user, actor), audits=actor.may(Right.AUDIT))),
    }
    # A palette shows what is wrong with the query where its results would be.
    template, code = ("search/palette.html", 200) if in_palette else ("search/page.html", status)
    response = render(request, template, shown, status=code)
    response.headers["Vary"] = "HX-Request, Cookie"
    return response


@require_safe
def frame(request: HttpRequest) -> HttpResponse:
    """What the frame counts, as of now: its navigation and who works. ``at`` is the route name of the page that it stands around."""
    return render(request, "shell/frame.html")
