"""Shows two runs side by side: how each ended, the first difference, each step, the answers."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.live.stories import AT_ONCE, stories
from console.pages.texts.markdown import render_markdown
from console.site.access.actors import actor_on_run
from console.templatetags.figures import decimals_of
from fabric.core.people.actor import Actor
from fabric.core.values.flow import Stage
from fabric.selectors.runs.lookup import RunView, run_get, run_outcome
from fabric.selectors.runs.story.compare import Place, StepFacts, compare_steps, find_last_good, list_steps
from fabric.selectors.whole_ids import whole_run_id

ID_CHARS_MAX = 80


@require_safe
def compare(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """Compare a run with another one, ``?with=``; without it, with the last one of its fabric that completed."""
    actor = actor_on_run(request)
    run = run_get(actor, str(run_id))
    wanted = str(request.GET.get("with", "")).strip()[:ID_CHARS_MAX]
    wanted = whole_run_id(actor, wanted) if wanted else find_last_good(actor, run.fabric_id, run.id)
    shown = {"run": run, "wanted": wanted, "stages": list(Stage)}
    if not wanted:
        return render(request, "runs/compare.html", shown | {"other": None})
    other = run_get(actor, wanted)
    left, right = (_read_steps(actor, one) for one in (run, other))
    steps = compare_steps(left, right) if left is not None and right is not None else []
    facts = [one for step in steps for one in (step.left, step.right) if one is not None]
    shown |= {
        "other": other,
        "too_long": left is None or right is None,
        "steps": steps,
        "first": next((step for step in steps if step.differs), None),
        "sides": [(one, _answer(actor, one)) for one in (run, other)],
        "decimals": decimals_of([run.cost_usd_micros, other.cost_usd_micros, *(one.cost_usd_micros for one in facts)]),
    }
    return render(request, "runs/compare.html", shown)


def _read_steps(actor: Actor, run: RunView) -> dict[Place, StepFacts] | None:
    """Return a run's steps. None: its journal is too long to fold while a reader waits. The stories are read one after
    another: each is locked while it is read.
    """
    with stories.read_story(actor, run, at_most=AT_ONCE) as story:
        return None if story is None else list_steps(story)


def _answer(actor: Actor, run: RunView) -> str:
    outcome = run_outcome(actor, run.id) if run.terminal else None
    return "" if outcome is None else render_markdown(str(outcome["text"]))
