"""Questions to people: the open ones, and answering one."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from console.access import actor_of
from console.forms import DecisionForm, sentence
from console.views import errors
from fabric import wiring
from fabric.selectors.errors import Refused
from fabric.selectors.escalations import EscalationView, escalation_get, escalations_open
from fabric.services.escalations import escalation_decide

SAID = {"approve": "approved", "reject": "rejected", "edit": "edited", "respond": "answered"}


@require_safe
def reviews(request: HttpRequest) -> HttpResponse:
    """Everything that waits for a person, the most urgent first."""
    return render(request, "reviews/list.html", {"questions": escalations_open(actor_of(request.user))})


@require_POST
def decide(request: HttpRequest, escalation_id: str) -> HttpResponse:
    """Record an answer. 422: something is missing, and what was written is kept; 409: somebody was faster, and who it was."""
    actor = actor_of(request.user)
    item = escalation_get(actor, escalation_id)
    form = DecisionForm(request.POST)
    if not form.is_valid():
        return _answer(request, item, form, 422)
    given = form.cleaned_data
    try:
        taken = escalation_decide(
            store=wiring.store(),
            nudge=wiring.nudge(),
            actor=actor,
            escalation_id=item.id,
            verb=given["verb"],
            message=given["message"],
            digest=given["digest"],
        )
    except Refused as refusal:
        if refusal.code in ("conflict", "forbidden"):
            return _answer(request, item, form, errors.STATUS[refusal.code], refusal=sentence(refusal.message))
        form.add_error(refusal.field if refusal.field in form.fields else None, sentence(refusal.message))
        return _answer(request, item, form, errors.STATUS[refusal.code])
    if request.headers.get("HX-Request"):
        return render(request, "reviews/taken.html", {"question": item, "said": SAID.get(taken.verb, taken.verb)})
    messages.success(request, f"Recorded: {SAID.get(taken.verb, taken.verb)}. The run goes on from there.")
    return redirect("run", run_id=item.run_id)


def _answer(
    request: HttpRequest, item: EscalationView, form: DecisionForm, status: int, refusal: str = ""
) -> HttpResponse:
    template = "reviews/question.html" if request.headers.get("HX-Request") else "reviews/page.html"
    shown = {"question": item, "form": form, "refusal": refusal}
    return render(request, template, shown, status=status)
