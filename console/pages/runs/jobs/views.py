"""Shows what a job would do and begins it, follows it, lists its refusals, and stops it."""

from __future__ import annotations

import time
from datetime import tzinfo
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.forms.common import new_start_key
from console.pages.runs.list.rows import lines
from console.site.access.actors import find_actor
from console.site.errors import pages as errors
from console.site.fragments import fresh_part
from console.site.requests.time_zone import find_zone
from console.site.sentences import sentence
from console.words.run_jobs import ACTION_WORDS, STATE_WORDS, build_title, describe_progress
from fabric.core.people.actor import Actor
from fabric.core.people.roles import holders
from fabric.core.values.words import count
from fabric.models import JobAction
from fabric.selectors.errors import Refused
from fabric.selectors.runs.query.choices import NAMED_MAX, RUNS_MAX, ChosenCount, RunChoice, count_choice
from fabric.selectors.runs.query.jobs import RunJobView, job_get, job_refusals, jobs_list
from fabric.services.runs.jobs.actions import ACTIONS
from fabric.services.runs.jobs.requests import job_begin, job_stop

NOTHING = "no run is selected: tick some in the list, or choose all that match"
BEGAN = "this page began another job already; if this one is to begin as well, press the button again"


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """Say what a job would do, with the number of its runs; a POST begins it. 422: it cannot begin so."""
    actor, given = find_actor(request.user), request.POST if request.method == "POST" else request.GET
    action, choice = _read_action(given), _read_choice(given, find_zone(request))
    wrong: Refused | None = None
    if request.method == "POST" and (choice.ids or "all" in given):
        try:
            begun = job_begin(
                actor=actor,
                action=action,
                choice=choice,
                reason=given.get("reason", ""),
                start_key=given.get("start_key", ""),
            )
        except Refused as refusal:
            wrong = refusal
        else:
            return redirect("runs-job", job_id=begun.job.id)
    shown = _describe_choice(actor, action, choice, everything="all" in given)
    status = errors.STATUS[wrong.code] if wrong else 422 if shown["problem"] else 200
    key = given.get("start_key", "")
    if wrong and wrong.field == "start_key":
        key, wrong = "", Refused(BEGAN, code=wrong.code, field=wrong.field)
    shown |= {
        "reason": given.get("reason", ""),
        "reason_error": sentence(wrong.message) if wrong and wrong.field == "reason" else "",
        "wrong": sentence(wrong.message) if wrong and wrong.field != "reason" and not shown["problem"] else "",
        "start_key": key or new_start_key(),
    }
    return render(request, "runs/jobs/new.html", shown, status=status)


@require_safe
def jobs(request: HttpRequest) -> HttpResponse:
    """List the newest jobs."""
    rows = [_row(job) for job in jobs_list(find_actor(request.user))]
    return render(request, "runs/jobs/list.html", {"rows": rows, "now_ms": time.time_ns() // 1_000_000})


@require_safe
def job(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Show a job with its progress and its refusals."""
    seen = job_get(find_actor(request.user), str(job_id))
    shown = {"job": seen, "title": build_title(seen), "board": _board(request, seen)}
    return render(request, "runs/jobs/page.html", shown | {"now_ms": time.time_ns() // 1_000_000})


@require_safe
def live(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Return the part of the page that changes while the job runs; without a script, redirect to the page."""
    seen = job_get(find_actor(request.user), str(job_id))
    if not request.headers.get("HX-Request"):
        return redirect("runs-job", job_id=job_id)
    return fresh_part(request, _board(request, seen), time.time_ns() // 1_000)


@require_POST
def stop(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Stop a job after its present batch."""
    fresh = job_stop(actor=find_actor(request.user), job_id=str(job_id))
    said = "The job stops after its present batch." if fresh else "The job was stopped before."
    messages.info(request, said)
    return redirect("runs-job", job_id=job_id)


def _read_action(given: QueryDict) -> JobAction:
    name = given.get("action", "")
    if name not in frozenset(JobAction):
        known = ", ".join(JobAction)
        raise Refused(f"{name[:30]!r} is no action on runs; there are {known}", code="invalid", field="action")
    return JobAction(name)


def _read_choice(given: QueryDict, zone: tzinfo) -> RunChoice:
    """Return the chosen runs; all that match have precedence over ticked ones."""
    ids = () if "all" in given else tuple(dict.fromkeys(given.getlist("run")[: NAMED_MAX + 1]))
    return RunChoice(given.get("q", ""), ids, zone)


def _describe_choice(actor: Actor, action: JobAction, choice: RunChoice, *, everything: bool) -> dict[str, Any]:
    """Return the runs of a job in words, and why it cannot begin; an empty problem: it can."""
    rule, problem, found = ACTIONS[action], "", None
    if not choice.ids and not everything:
        problem = NOTHING
    else:
        try:
            found = count_choice(actor, choice, rule.states, now=time.time_ns() // 1_000)
        except Refused as refusal:
            problem = refusal.message
    if found is not None and not found.count:
        problem = "no run matches (any more): go back to the list"
    elif found is not None and found.count > RUNS_MAX:
        problem = f"more than {RUNS_MAX:,} runs match, and a job acts on at most {RUNS_MAX:,}: narrow the query"
    back = {"q": choice.query} if choice.query else {}
    return {
        "action": action,
        "words": ACTION_WORDS[action],
        "lacked": "" if actor.may_somewhere(rule.right) else f"This is for {holders(rule.right)}.",
        "rule": rule,
        "choice": choice,
        "runs": _count_runs(choice, found),
        "found": found,
        "unfit": found.count - found.fitting if found else 0,
        "problem": sentence(problem) if problem else "",
        "back": reverse("runs") + (f"?{urlencode(back)}" if back else ""),
    }


def _count_runs(choice: RunChoice, found: ChosenCount | None) -> str:
    """Return the runs as the heading names them: ``the 3 selected runs``."""
    if found is None:
        return "all runs that match"
    return f"{count(found.count, 'selected run' if choice.ids else 'matching run')}"


def _row(seen: RunJobView) -> dict[str, Any]:
    return {
        "job": seen,
        "title": build_title(seen),
        "state": STATE_WORDS[seen.state],
        "progress": describe_progress(seen),
    }


def _board(request: HttpRequest, seen: RunJobView) -> str:
    """Return the changing part: where the job stands, and its refusals from ``after`` on."""
    actor, after = find_actor(request.user), request.GET.get("after", "")
    refusals, more = job_refusals(actor, seen.id, after=after)
    rows = {line.id: line for line in lines(one.run for one in refusals if one.run)}
    tried = seen.done + seen.refused
    shown = _row(seen) | {
        "words": ACTION_WORDS[seen.action],
        "refusals": [(one, rows.get(one.run_id)) for one in refusals],
        "after": after,
        "more": more,
        "tried": tried,
        "done_percent": 100 * seen.done / seen.total,
        "refused_percent": 100 * seen.refused / seen.total,
    }
    return render_to_string("runs/jobs/board.html", shown)
