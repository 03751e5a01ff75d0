"""Control a run in the browser: cancel, terminate, pause, resume and fork, each with its consequences first."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from django.contrib import messages
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from console.forms.common import ForkForm, ReasonForm
from console.live.stories import AT_ONCE, stories
from console.site.access.actors import actor_on_run
from console.site.errors import pages as errors
from console.site.sentences import sentence
from fabric.composition import engine as wiring
from fabric.core.people.actor import Actor
from fabric.core.values.words import count, words
from fabric.models import JobAction
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import revision_spec
from fabric.selectors.runs.lookup import RunView, run_get
from fabric.selectors.runs.story.fork_choices import ForkChoice, list_fork_choices
from fabric.services.runs.control import run_cancel, run_pause, run_resume, run_terminate
from fabric.services.runs.forks import REQUEST, ForkEdit, ForkOrigin, fork_origin, run_fork
from fabric.services.runs.jobs.actions import ACTIONS, ActionRule


@dataclass(frozen=True, slots=True)
class Hold:
    """One way to take hold of a run: what its page says, and what it does."""

    word: str
    """The heading, before the run's title."""
    button: str
    icon: str
    tone: Literal["primary", "danger"]
    follows: tuple[str, ...]
    rule: ActionRule
    """Its states, and whether it asks for a reason."""
    back: str
    """Link back, without the action."""
    service: Callable[..., bool]
    done: str
    before: str
    """Message where it was requested already."""


HOLDS: Mapping[str, Hold] = {
    "cancel": Hold(
        "Cancel",
        "Cancel the run",
        "x",
        "primary",
        (
            "No new model or tool call starts.",
            "Running calls are abandoned and billed at their maximum.",
            "Changes are undone where possible. The run ends as cancelled with its results so far. You cannot undo this.",
        ),
        ACTIONS[JobAction.CANCEL],
        "Keep it running",
        run_cancel,
        "The run is being cancelled. It ends when its calls are abandoned.",
        "The run was being cancelled already.",
    ),
    "terminate": Hold(
        "Terminate",
        "Terminate the run",
        "stop",
        "danger",
        (
            "No new model or tool call starts. Running calls are abandoned and billed at their maximum.",
            "Nothing is undone. Changes by tools stay; the history lists them.",
            "The run ends as aborted at once. You cannot undo this; cancelling is gentler.",
        ),
        ACTIONS[JobAction.TERMINATE],
        "Keep it running",
        run_terminate,
        "The run is being terminated.",
        "The run was being terminated already.",
    ),
    "pause": Hold(
        "Pause",
        "Pause the run",
        "pause",
        "primary",
        (
            "No new model or tool call starts until a person resumes it.",
            "Running calls finish and their results are kept.",
            "Its clocks stop. An open review keeps its own due time.",
        ),
        ACTIONS[JobAction.PAUSE],
        "Keep it running",
        run_pause,
        "The run is being paused: calls in flight still come back.",
        "The run was paused already.",
    ),
    "resume": Hold(
        "Resume",
        "Resume the run",
        "play",
        "primary",
        ("It continues from here with its remaining time.",),
        ACTIONS[JobAction.RESUME],
        "Leave it paused",
        run_resume,
        "The run continues.",
        "The run is not paused. It continues.",
    ),
}
"""Every way to take hold of a run, by its name in the address."""


def offered_holds(run: RunView) -> list[str]:
    """Return the acts that the run's state allows."""
    return [name for name, hold in HOLDS.items() if run.state in hold.rule.states]


@require_http_methods(["GET", "HEAD", "POST"])
def hold(request: HttpRequest, run_id: UUID, name: str) -> HttpResponse:
    """Say what follows first; a POST does it. 422: a reason is missing; 409: it is not possible any more."""
    actor, key, one = actor_on_run(request), str(run_id), HOLDS[name]
    view = run_get(actor, key)
    made = Form if one.rule.reason == "none" else ReasonForm
    form = made(request.POST if request.method == "POST" else None)
    status = 200
    if request.method == "POST" and form.is_valid():
        given = {} if one.rule.reason == "none" else {"reason": form.cleaned_data["reason"]}
        try:
            fresh = one.service(store=wiring.store(), nudge=wiring.nudge(), actor=actor, run_id=key, **given)
        except Refused as refusal:
            form.add_error("reason" if refusal.field == "reason" else None, sentence(refusal.message))
            status = errors.STATUS[refusal.code]
        else:
            messages.info(request, one.done if fresh else one.before)
            return redirect("run", run_id=key)
    elif request.method == "POST":
        status = 422
    shown = {"form": form, "run": view, "hold": one, "name": name, "possible": name in offered_holds(view)}
    return render(request, "runs/hold.html", shown, status=status)


# -- forking -----------------------------------------------------------------------------------------------------------


@require_http_methods(["GET", "HEAD", "POST"])
def fork(request: HttpRequest, run_id: UUID, seq: int) -> HttpResponse:
    """Show what a fork from that event keeps and what can be edited. A POST starts it. 422: an edit does not fit, and
    is kept.
    """
    actor, key = actor_on_run(request), str(run_id)
    origin = fork_origin(store=wiring.store(), actor=actor, run_id=key, seq=seq)
    form = (
        ForkForm(request.POST)
        if request.method == "POST"
        else ForkForm(initial={"start_key": f"page-{secrets.token_urlsafe(12)}"})
    )
    form.fields["what"].choices = [("", "Nothing"), *((name, words(name)) for name in origin.editable)]  # type: ignore[attr-defined]
    status = 200
    if request.method == "POST" and form.is_valid():
        try:
            started = run_fork(
                store=wiring.store(),
                nudge=wiring.nudge(),
                actor=actor,
                run_id=key,
                seq=seq,
                now=wiring.clock().now,
                edit=_edit(form),
                start_key=form.cleaned_data["start_key"],
            )
        except Refused as refusal:
            form.add_error("value" if refusal.field in ("edit", "text") else None, sentence(refusal.message))
            status = errors.STATUS[refusal.code]
        else:
            messages.success(request, f"This run continues from event {seq} of the other one.")
            return redirect("run", run_id=started.run_id)
    elif request.method == "POST":
        status = 422
    kept = [words(stage) for stage, _ in origin.point.stages]
    shown = {"form": form, "run": origin.run, "origin": origin, "kept": kept, "parts": _parts(origin), "seq": seq}
    shown |= {"texts": _texts(origin), "choices": _choices(actor, origin.run)}
    return render(request, "runs/fork.html", shown, status=status)


def _choices(actor: Actor, run: RunView) -> list[ForkChoice]:
    """Return where the run can be tried again from. Empty: its journal is too long to fold while a reader waits."""
    with stories.read_story(actor, run, at_most=AT_ONCE) as story:
        return [] if story is None else list_fork_choices(story)


def _parts(origin: ForkOrigin) -> str:
    """Return the parts of the fan-out that a fork keeps. Empty: none is done."""
    many = len(origin.point.branches)
    if not many:
        return ""
    in_turns = revision_spec(origin.run.revision_id).topology.kind in ("debate", "sop")
    return count(many, "done turn" if in_turns else "done branch", "done turns" if in_turns else "done branches")


def _texts(origin: ForkOrigin) -> list[tuple[str, str]]:
    """Return the texts that can be edited: ``(what, text)``."""
    texts = {REQUEST: origin.request["text"]}
    for stage in origin.editable[1:]:
        texts[stage] = json.dumps(origin.output(stage), ensure_ascii=False, indent=2)
    return [(words(what), text) for what, text in texts.items()]


def _edit(form: ForkForm) -> ForkEdit | None:
    what, text = form.cleaned_data["what"], form.cleaned_data["value"]
    if not what:
        return None
    if what == REQUEST:
        return ForkEdit(what, text)
    try:
        return ForkEdit(what, json.loads(text))
    except ValueError as error:
        raise Refused(f"the new output is no JSON: {error}", code="invalid", field="edit") from None
