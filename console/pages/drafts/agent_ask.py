"""Serves the page that sends one prompt to an agent of a draft."""

from __future__ import annotations

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from console.site.access.actors import find_actor
from console.site.errors import pages as errors
from console.site.requests.throttle import AGENT_ASKS, count_request
from console.site.sentences import sentence
from fabric.composition.models import ask_once, provider_names
from fabric.core.people.actor import Actor
from fabric.services.drafts.agent_asks import (
    DAYS,
    PROMPT_CHARS_MAX,
    USD_MICROS_MAX,
    WITHIN_S,
    AgentReply,
    agent_ask,
    agent_get,
    asked_sum,
)
from fabric.services.errors import Refused


class AskForm(forms.Form):
    """Form with a prompt, and the role in which the agent answers. Their limits are the service's."""

    prompt = forms.CharField(required=False, strip=False)
    role = forms.CharField(required=False, max_length=100)


@require_http_methods(["GET", "HEAD", "POST"])
def ask(request: HttpRequest, name: str, agent: str) -> HttpResponse:
    """Show the form of a prompt; POST sends it to the agent as drafted, and shows the answer.

    409: a key's cap. 422: it cannot be sent. 429: too often.
    """
    actor = find_actor(request.user)
    asked = agent_get(actor, name, agent, provider_names())
    form = AskForm(request.POST if request.method == "POST" else None)
    said, result, status, wait = "", None, 200, 0
    if request.method == "POST":
        wait = count_request(AGENT_ASKS, f"{actor.workspace_id}:{actor.name}")
        if wait:
            said = f"More than {AGENT_ASKS.most} prompts within a minute: try again in {wait} s."
            status = 429
        else:
            said, result, status = _send(actor, name, agent, form)
    context = {
        "name": name,
        "asked": asked,
        "hindrance": sentence(asked.problem) if asked.problem else "",
        "prompt": form["prompt"].value() or "",
        "role": form["role"].value() or next(iter(asked.shapes)),
        "said": said,
        "result": result,
        "misfits": result.misfits if result else (),
        "problem": sentence(result.problem) if result and result.problem else "",
        "within_s": WITHIN_S,
        "usd_micros_max": USD_MICROS_MAX,
        "chars_max": PROMPT_CHARS_MAX,
        "days": DAYS,
        "sum": asked_sum(actor, name),
    }
    answer = render(request, "drafts/agent/ask.html", context, status=status)
    if wait:
        answer.headers["Retry-After"] = str(wait)
    return answer


def _send(actor: Actor, name: str, agent: str, form: AskForm) -> tuple[str, AgentReply | None, int]:
    """Return the refusal, the answer, and the status."""
    if not form.is_valid():
        return "The form was damaged on its way, and nothing was sent: look at it again.", None, 422
    given = form.cleaned_data
    try:
        result = agent_ask(
            actor=actor,
            fabric=name,
            name=agent,
            prompt=given["prompt"],
            role=given["role"],
            providers=provider_names(),
            ask=ask_once,
        )
    except Refused as refusal:
        if refusal.code not in ("invalid", "unavailable", "conflict"):
            raise
        return sentence(refusal.message), None, errors.STATUS[refusal.code]
    return "", result, 200
