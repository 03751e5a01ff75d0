"""Serves the auditor's pages: the audit stream with its filter, one record, the export, holds and rules."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import NoReverseMatch, reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.pages.lists.grammar import ROWS, Grammar, ListField, ListRequest, list_page
from console.site.access.actors import find_actor
from console.site.downloads import list_response
from fabric.core.audit.acts import ACTS, Outcome, SubjectKind
from fabric.core.audit.lines import Act
from fabric.core.people.roles import Right
from fabric.selectors.audit.forwarding import forwards_standing
from fabric.selectors.audit.holds import ABOUT, holds_list
from fabric.selectors.audit.lookup import (
    COUNTED,
    AuditFilter,
    AuditPage,
    AuditRow,
    audit_news_count,
    audit_page,
    audit_record_get,
)
from fabric.selectors.database_time import TookTooLong
from fabric.selectors.errors import Refused
from fabric.services.audit.export import audit_export
from fabric.services.audit.holds import hold_lift, hold_place
from fabric.services.audit.retention import ALL, DAYS_MIN, audit_rule_set, audit_rules

# -- filter ------------------------------------------------------------------------------------------------------------

OUTCOMES: Mapping[Outcome, tuple[str, str]] = {
    Outcome.DONE: ("done", "neutral"),
    Outcome.REFUSED: ("refused", "warn"),
    Outcome.FAILED: ("failed", "danger"),
}
"""Word and tone of each outcome; total by test."""
CAME_BY: Mapping[str, str] = {
    "session": "signed in",
    "token": "by a token",
    "cli": "at the command line",
    "system": "by the system",
    "unknown": "not signed in",
    "": "not recorded",
}
"""Words for each way in which an actor signed in."""
ACT_WORDS = tuple(sorted(((act.value, ACTS[act].sentence) for act in Act), key=lambda one: one[1]))
AUDIT = Grammar(
    route="audit",
    makes=AuditFilter,
    usual="all",
    fields=(
        ListField("actor", "by", hint="a name"),
        ListField("act", "act", ACT_WORDS),
        ListField("outcome", "outcome", tuple((one.value, OUTCOMES[one][0]) for one in Outcome)),
        ListField("subject", "object", hint="an id or a name", place="more"),
        ListField("about", "kind of object", tuple((one.value, one.value) for one in SubjectKind), place="more"),
        ListField("address", "address", hint="192.0.2.7", place="more"),
    ),
)

# -- views -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecordRow:
    """A record as a row of the page."""

    of: AuditRow

    @property
    def word(self) -> str:
        """Return the outcome of the act in words."""
        return OUTCOMES[self.of.outcome][0]

    @property
    def tone(self) -> str:
        """Return the tone of the outcome's badge."""
        return OUTCOMES[self.of.outcome][1]

    @property
    def came(self) -> str:
        """Return how the actor signed in, in words."""
        via = self.of.via.partition(":")[2]
        return (
            f"by token {via}" if self.of.came_by == "token" and via else CAME_BY.get(self.of.came_by, self.of.came_by)
        )

    @property
    def object_kind(self) -> str:
        """Return the kind of object."""
        return self.of.act_sentence.about.value if self.of.act_sentence else ""

    @property
    def href(self) -> str:
        """Return the address of the subject's page; empty if it has no page."""
        return _build_page(self.object_kind, self.of.subject)


@require_safe
def audit(request: HttpRequest) -> HttpResponse:
    """Show the audit stream, the newest first. 403: for readers of the audit stream alone; 422, 503: as every list."""
    actor = find_actor(request.user)

    def build_side(asked: ListRequest[AuditFilter], page: AuditPage, after: str) -> dict[str, Any]:
        top = page.rows[0].cursor if page.rows and not after else ""
        return {
            "rows": [RecordRow(one) for one in page.rows],
            "news": asked.address("audit-news", since=top),
            "live": not after,
        }

    return list_page(
        request,
        AUDIT,
        "audit/list.html",
        page_of=lambda asked, after: audit_page(actor, asked.read_filter(), limit=ROWS, after=after),
        beside=build_side,
        shown={"forwards": forwards_standing(actor)},
    )


@require_safe
def news(request: HttpRequest) -> HttpResponse:
    """Return the number of records newer than the first one of an open list (``since``, a cursor)."""
    wanted = AUDIT.read(request.GET).read_filter()
    try:
        count = audit_news_count(find_actor(request.user), wanted, since=request.GET.get("since", ""))
    except TookTooLong:
        return HttpResponse("The database is slow.", status=503, content_type="text/plain; charset=utf-8")
    shown = {"count": count, "more": count >= COUNTED, "now_ms": time.time_ns() // 1_000_000}
    return render(request, "audit/news.html", shown)


@require_safe
def record(request: HttpRequest, record_id: str) -> HttpResponse:
    """Show one audit record: its text, the values before and after, and its place in the chain."""
    found = audit_record_get(find_actor(request.user), record_id)
    row, said = found.row, found.row.act_sentence
    told = {*said.before, *said.after} if said else set()
    rest = {name: value for name, value in row.more.items() if name not in told | {"reason"}}
    known = {
        "record": found,
        "row": RecordRow(row),
        "changes": [(name, _plain(before), _plain(after)) for name, before, after in row.changes],
        "rest": [(name, _plain(value)) for name, value in rest.items()],
        "now_ms": time.time_ns() // 1_000_000,
    }
    return render(request, "audit/record.html", known)


@require_POST
def export(request: HttpRequest) -> StreamingHttpResponse:
    """Stream the records of a filter as a file, and record the export in the audit stream. 422: an unknown form or
    word.
    """
    wanted, form = AUDIT.read(request.POST).read_filter(), request.POST.get("form", "csv")
    return list_response(audit_export(actor=find_actor(request.user), wanted=wanted, form=form))


@require_http_methods(["GET", "HEAD", "POST"])
def holds(request: HttpRequest) -> HttpResponse:
    """Show holds and rules; POST places a hold (``act`` = ``place``), lifts one (``lift``), or sets a rule
    (``rule``).

    409: the hold or rule has that state already. 422: an invalid field.
    """
    if request.method != "POST":
        return _holds(request)
    actor, act = find_actor(request.user), request.POST.get("act", "")
    given = {name: request.POST.get(name, "").strip() for name in ("about", "name", "reason", "hold", "kind", "days")}
    try:
        if act == "place":
            hold_place(actor=actor, about=given["about"], name=given["name"], reason=given["reason"])
        elif act == "lift":
            hold_lift(actor=actor, hold_id=given["hold"], reason=given["reason"])
        elif act == "rule":
            audit_rule_set(actor=actor, kind=given["kind"], days=_days(given["days"]))
        else:
            raise Refused(
                f"{act[:40]!r} is nothing that can be done here: place, lift or rule", code="invalid", field="act"
            )
    except Refused as refusal:
        if refusal.code not in ("invalid", "conflict", "not_found"):
            raise
        status = {"invalid": 422, "conflict": 409, "not_found": 422}[refusal.code]
        return _holds(request, problem=refusal.message, given=given, status=status)
    return redirect("audit-holds")


def _holds(request: HttpRequest, *, problem: str = "", given: Any = None, status: int = 200) -> HttpResponse:
    actor = find_actor(request.user)
    found = holds_list(actor)
    rules = audit_rules(actor)
    kinds = [(ALL, "every other act"), *ACT_WORDS]
    shown = {
        "stand": [one for one in found if one.open],
        "lifted": [one for one in found if not one.open],
        "about": ABOUT,
        "rules": [(kind, dict(kinds).get(kind, kind), days) for kind, days in sorted(rules.items())],
        "kinds": [(kind, words) for kind, words in kinds if kind == ALL or not _is_kept(kind)],
        "may_rule": actor.may(Right.MEMBERS),
        "days_min": DAYS_MIN,
        "problem": problem,
        "given": given or {"about": request.GET.get("about", ""), "name": request.GET.get("name", "")},
        "now_ms": time.time_ns() // 1_000_000,
    }
    return render(request, "audit/holds.html", shown, status=status)


def _is_kept(kind: str) -> bool:
    return any(act.value == kind and said.kept for act, said in ACTS.items())


def _days(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 6):
        raise Refused(
            f"{text[:20]!r} is no number of days; give a whole number, or nothing for good",
            code="invalid",
            field="days",
        )
    return int(text)


def _plain(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _build_page(about: str, subject: str) -> str:
    routes = {
        SubjectKind.RUN: ("run", "run_id"),
        SubjectKind.RUN_JOB: ("runs-job", "job_id"),
        SubjectKind.FABRIC: ("fabric", "name"),
        SubjectKind.SCENARIO: ("scenario", "scenario_name"),
    }
    route = routes.get(SubjectKind(about)) if about in frozenset(SubjectKind) else None
    try:
        return reverse(route[0], kwargs={route[1]: subject}) if route else ""
    except NoReverseMatch:
        return ""
