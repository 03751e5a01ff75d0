"""Saying something to the conversation of a run in the browser: a form on the run's page, and a page of its own for who has no script."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from console.access import actor_on_run
from console.forms import SayForm, new_start_key, sentence
from console.live.stories import AT_ONCE, stories
from console.views import errors
from console.views.run_parts import part
from fabric import wiring
from fabric.core.actor import Actor
from fabric.selectors.errors import Refused
from fabric.selectors.messages import takes_turns
from fabric.selectors.runs import run_get
from fabric.services.control import MESSAGE_CHARS_MAX, run_say

SENT = "Your message is on its way: whoever speaks next reads it."
BEFORE = "That message was sent before."


@require_http_methods(["GET", "HEAD", "POST"])
def say(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """A POST sends a message. 422: there is none, or it is too long; 409: nobody would read it. What was written is kept."""
    actor, key = actor_on_run(request), str(run_id)
    if request.method != "POST":
        return _shown(request, actor, key, fresh_form())
    form = SayForm(request.POST)
    if not form.is_valid():
        form.add_error(None, "The form was damaged on its way: reload the page and send it again.")
        return _shown(request, actor, key, form, 422)
    given = form.cleaned_data
    try:
        fresh = run_say(
            store=wiring.store(),
            nudge=wiring.nudge(),
            actor=actor,
            run_id=key,
            text=given["text"],
            start_key=given["start_key"],
        )
    except Refused as refusal:
        if refusal.code in ("forbidden", "not_found"):
            raise
        return _shown(request, actor, key, _refused(form, refusal), errors.STATUS[refusal.code])
    said = SENT if fresh else BEFORE
    if request.headers.get("HX-Request"):
        return _shown(request, actor, key, fresh_form(), said=said)
    messages.info(request, said)
    return redirect(f"{reverse('run', args=[key])}#talk")


def fresh_form() -> SayForm:
    """An empty one, with a key of its own: sent twice, by a double click, it is one message."""
    return SayForm(initial={"start_key": new_start_key()})


def _refused(form: SayForm, refusal: Refused) -> SayForm:
    """The form with what was written and why it was not sent; under a new key, where the old one is another message's."""
    key, message = form.cleaned_data["start_key"] or new_start_key(), refusal.message
    if refusal.field == "start_key":
        key = new_start_key()
        message = "this page sent another message already; if this one is to be sent as well, send it again"
    kept = SayForm({"text": form.data.get("text", ""), "start_key": key})
    kept.is_valid()
    kept.add_error("text", sentence(message))
    return kept


def _shown(
    request: HttpRequest, actor: Actor, run_id: str, form: SayForm, status: int = 200, said: str = ""
) -> HttpResponse:
    run = run_get(actor, run_id)
    with stories.told(actor, run, at_most=AT_ONCE) as story:
        panel = part("talk", actor, run, story)
    shown = {"run": run, "say_form": form, "chars_max": MESSAGE_CHARS_MAX, "told": said, "talks": takes_turns(run)}
    shown["panel"] = {"talk": panel}
    template = "runs/talk.html" if request.headers.get("HX-Request") else "runs/say.html"
    response = render(request, template, shown, status=status)
    response.headers["Vary"] = "HX-Request, Cookie"
    return response
