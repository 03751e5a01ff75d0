"""Changes the labels of a run on a page of their own."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from console.forms.labels import LabelsForm, list_label_rows
from console.site.access.actors import actor_on_run
from console.site.errors import pages as errors
from console.site.sentences import sentence
from fabric.selectors.errors import Refused
from fabric.selectors.runs.lookup import run_get
from fabric.services.runs.labels import run_label


@require_http_methods(["GET", "HEAD", "POST"])
def label(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """Show the labels; a POST replaces them all. 422: one is not taken; 409: a child run; 403: no right."""
    key = str(run_id)
    if request.method != "POST":
        run = run_get(actor_on_run(request), key)
        return _page(request, key, LabelsForm(initial={"labels": run.labels}))
    form = LabelsForm(request.POST)
    if not form.is_valid():
        return _page(request, key, form, 422)
    actor, given = actor_on_run(request), form.cleaned_data["labels"]
    removed = [one for one in run_get(actor, key).labels if one not in given]
    try:
        if given or removed:
            run_label(actor=actor, run_id=key, set=given, delete=removed)
    except Refused as refusal:
        if refusal.code in ("forbidden", "not_found"):
            raise
        form.add_error("labels", sentence(refusal.message))
        return _page(request, key, form, errors.STATUS[refusal.code])
    messages.success(request, "The labels are saved." if given else "The run has no label.")
    return redirect("run", key)


def _page(request: HttpRequest, run_id: str, form: LabelsForm, status: int = 200) -> HttpResponse:
    run = run_get(actor_on_run(request), run_id)
    return render(request, "runs/labels/page.html", {"run": run, "label_rows": list_label_rows(form)}, status=status)
