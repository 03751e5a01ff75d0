"""Writing a context variable of a run's conversation in the browser: a form on the run's page, and a page of its own for what was refused."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from console.access import actor_on_run
from console.forms import ContextForm, sentence
from console.views import errors
from fabric import wiring
from fabric.selectors.errors import Refused
from fabric.selectors.messages import takes_turns
from fabric.selectors.runs import run_get
from fabric.services.control import run_context


@require_http_methods(["GET", "HEAD", "POST"])
def write(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """A POST writes or deletes one variable. 422: something is missing, or is no variable; 409: nobody would see it; 403: that is for others. What was
    written is kept.
    """
    key = str(run_id)
    if request.method != "POST":
        return _page(request, key, ContextForm())
    form = ContextForm(request.POST)
    if not form.is_valid():
        return _page(request, key, form, 422)
    given = form.cleaned_data
    name: str = given["name"]
    change = {"delete": [name]} if given["delete"] else {"set": {name: form.written}}
    try:
        run_context(store=wiring.store(), nudge=wiring.nudge(), actor=actor_on_run(request), run_id=key, **change)
    except Refused as refusal:
        if refusal.code in ("forbidden", "not_found"):
            raise
        form.add_error("name", sentence(refusal.message))
        return _page(request, key, form, errors.STATUS[refusal.code])
    did = "deleted" if given["delete"] else "written"
    messages.info(request, f"{name[:60]} is on its way: it is {did} once the turn in flight is over.")
    return redirect("run", key)  # To the top of the page, where the message stands.


def _page(request: HttpRequest, run_id: str, form: ContextForm, status: int = 200) -> HttpResponse:
    run = run_get(actor_on_run(request), run_id)
    shown = {"run": run, "context_form": form, "talks": takes_turns(run)}
    return render(request, "runs/context.html", shown, status=status)
