"""Closing a ticket on its page: with a note alone, or with a run that goes on from an event of the ticket's run."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from console.access import actor_of
from console.forms import sentence
from console.views import errors
from console.views.questions import card, form_of
from console.views.review_acts import onward
from console.views.review_page import shown
from console.views.review_ticket_form import FORK, TicketForm
from fabric import wiring
from fabric.core.actor import Actor
from fabric.selectors.errors import Refused
from fabric.selectors.escalations import EscalationView, escalation_get
from fabric.services.tickets import TicketClosed, ticket_close, ticket_fork

FIELDS = {"note": "message", "start_key": "seq"}
"""Fields of the form that are named otherwise than what they stand for."""


@require_POST
def close(request: HttpRequest, escalation_id: str) -> HttpResponse:
    """Closes a ticket; ``how`` = ``fork`` starts a run first. 403: it is not theirs to close; 409: somebody was faster; 422: a field cannot be taken."""
    actor = actor_of(request.user)
    item, form = escalation_get(actor, escalation_id), TicketForm(request.POST)
    if not form.is_valid():
        return shown(request, actor, card(actor, item), 422, closing=form)
    try:
        done = _closed(actor, item, form)
    except Refused as refusal:
        return _refused(request, actor, item, form, refusal)
    if not done.created:
        said = "You closed this before."
    elif done.closure.fork_run_id:
        said = f"The ticket is closed, and a new run goes on from event {form.cleaned_data['seq']}."
    else:
        said = "The ticket is closed. No run was changed."
    return onward(request, actor, item, said, decided=False)


def _closed(actor: Actor, item: EscalationView, form: TicketForm) -> TicketClosed:
    note = form.cleaned_data["message"]
    if form.cleaned_data["how"] != FORK:
        return ticket_close(actor=actor, escalation_id=item.id, note=note)
    ports = {"store": wiring.store(), "nudge": wiring.nudge()}
    return ticket_fork(**ports, actor=actor, escalation_id=item.id, note=note, seq=form.cleaned_data["seq"])  # type: ignore[arg-type]


def _refused(
    request: HttpRequest, actor: Actor, item: EscalationView, form: TicketForm, refusal: Refused
) -> HttpResponse:
    """What was written stands in the form, with what is wrong where it is wrong; or who was faster, with what was written kept."""
    said, status = sentence(refusal.message), errors.STATUS[refusal.code]
    # The page's script puts no 403 in the page's place, and what was written has to stay.
    status = 409 if status == 403 and request.headers.get("HX-Request") else status
    field = FIELDS.get(refusal.field, refusal.field)
    if field in form.fields:
        form.add_error(field, said)
        return shown(request, actor, card(actor, item), status, closing=form)
    now = escalation_get(actor, item.id)  # As it is by now.
    return shown(request, actor, card(actor, now, form_of(now, request.POST), said), status, closing=form)
