"""Sends a message to the conversation of a run, or writes one of its context variables.

A variable has a form on the run's page, and a page for a refusal.
"""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from console.forms.common import ContextForm, SayForm, new_start_key
from console.live.stories import AT_ONCE, stories
from console.pages.runs.panels import part
from console.site.access.actors import actor_on_run
from console.site.errors import pages as errors
from console.site.sentences import sentence
from fabric.composition import engine as wiring
from fabric.core.people.actor import Actor
from fabric.selectors.errors import Refused
from fabric.selectors.runs.lookup import run_get
from fabric.selectors.runs.story.messages import takes_turns
from fabric.services.runs.control import MESSAGE_CHARS_MAX, run_context, run_say

SENT = "Your message is sent; the next speaker reads it."
BEFORE = "That message was sent before."


@require_http_methods(["GET", "HEAD", "POST"])
def say(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """Send a message by POST. 422: it is missing or too long; 409: the conversation is over. A refused form keeps its
    text.
    """
    actor, key = actor_on_run(request), str(run_id)
    if request.method != "POST":
        return _render_messages(request, actor, key, fresh_form())
    form = SayForm(request.POST)
    if not form.is_valid():
        form.add_error(None, "The form was damaged on its way: reload the page and send it again.")
        return _render_messages(request, actor, key, form, 422)
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
        return _render_messages(request, actor, key, _refuse_form(form, refusal), errors.STATUS[refusal.code])
    said = SENT if fresh else BEFORE
    if request.headers.get("HX-Request"):
        return _render_messages(request, actor, key, fresh_form(), said=said)
    messages.info(request, said)
    return redirect(f"{reverse('run', args=[key])}#talk")


def fresh_form() -> SayForm:
    """An empty one, with a key of its own: sent twice, by a double click, it is one message."""
    return SayForm(initial={"start_key": new_start_key()})


def _refuse_form(form: SayForm, refusal: Refused) -> SayForm:
    """Return the form with its text and the refusal, under a new key if another message has the old one."""
    key, message = form.cleaned_data["start_key"] or new_start_key(), refusal.message
    if refusal.field == "start_key":
        key = new_start_key()
        message = "this page sent another message already; if this one is to be sent as well, send it again"
    kept = SayForm({"text": form.data.get("text", ""), "start_key": key})
    kept.is_valid()
    kept.add_error("text", sentence(message))
    return kept


def _render_messages(
    request: HttpRequest, actor: Actor, run_id: str, form: SayForm, status: int = 200, said: str = ""
) -> HttpResponse:
    run = run_get(actor, run_id)
    with stories.read_story(actor, run, at_most=AT_ONCE) as story:
        panel = part("talk", actor, run, story)
    shown = {"run": run, "say_form": form, "chars_max": MESSAGE_CHARS_MAX, "told": said, "talks": takes_turns(run)}
    shown["panel"] = {"talk": panel}
    template = "runs/talk.html" if request.headers.get("HX-Request") else "runs/say.html"
    response = render(request, template, shown, status=status)
    response.headers["Vary"] = "HX-Request, Cookie"
    return response


@require_http_methods(["GET", "HEAD", "POST"])
def write(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """Write or delete one variable by POST. 422: it is missing or no variable; 409: the conversation is over; 403: no
    right. A refused form keeps its values.
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
