"""The auditor's pages: the audit stream as a list that stays true, one record with its place in the chain, the file, holds and rules."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import NoReverseMatch, reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.access import actor_of
from console.exporting import list_response
from console.views.audit_filter import ACT_WORDS, AUDIT, CAME_BY, OUTCOMES
from console.views.list_grammar import Asked
from console.views.list_page import ROWS, list_page
from fabric.core.acts import ACTS, About
from fabric.core.roles import Right
from fabric.selectors.audit_forward import forwards_standing
from fabric.selectors.audit_list import (
    COUNTED,
    AuditFilter,
    AuditPage,
    AuditRow,
    audit_news_count,
    audit_page,
    audit_record_get,
)
from fabric.selectors.errors import Refused
from fabric.selectors.holds import ABOUT, holds_list
from fabric.selectors.time_limit import TookTooLong
from fabric.services.audit_reading import audit_export
from fabric.services.audit_retention import ALL, DAYS_MIN, audit_rule_set, audit_rules
from fabric.services.holds import hold_lift, hold_place


@dataclass(frozen=True, slots=True)
class Row:
    """A record as it is shown."""

    of: AuditRow

    @property
    def word(self) -> str:
        """What came of it."""
        return OUTCOMES[self.of.outcome][0]

    @property
    def tone(self) -> str:
        """Of the badge."""
        return OUTCOMES[self.of.outcome][1]

    @property
    def came(self) -> str:
        """What the actor came in by, in words."""
        via = self.of.via.partition(":")[2]
        return (
            f"by token {via}" if self.of.came_by == "token" and via else CAME_BY.get(self.of.came_by, self.of.came_by)
        )

    @property
    def about(self) -> str:
        """The kind of object."""
        return self.of.said.about.value if self.of.said else ""

    @property
    def href(self) -> str:
        """The page of what it was done to; empty: there is none."""
        return _page_of(self.about, self.of.subject)


@require_safe
def audit(request: HttpRequest) -> HttpResponse:
    """The audit stream, the newest first. 403: for readers of the audit stream alone; 422, 503: as every list."""
    actor = actor_of(request.user)

    def beside(asked: Asked[AuditFilter], page: AuditPage, after: str) -> dict[str, Any]:
        top = page.rows[0].cursor if page.rows and not after else ""
        return {
            "rows": [Row(one) for one in page.rows],
            "news": asked.address("audit-news", since=top),
            "live": not after,
        }

    return list_page(
        request,
        AUDIT,
        "audit/list.html",
        page_of=lambda asked, after: audit_page(actor, asked.wanted(), limit=ROWS, after=after),
        beside=beside,
        shown={"forwards": forwards_standing(actor)},
    )


@require_safe
def news(request: HttpRequest) -> HttpResponse:
    """The count of records that an open list lacks since its first one (``since``, a cursor)."""
    wanted = AUDIT.read(request.GET).wanted()
    try:
        count = audit_news_count(actor_of(request.user), wanted, since=request.GET.get("since", ""))
    except TookTooLong:
        return HttpResponse("The database is slow.", status=503, content_type="text/plain; charset=utf-8")
    shown = {"count": count, "more": count >= COUNTED, "now_ms": time.time_ns() // 1_000_000}
    return render(request, "audit/news.html", shown)


@require_safe
def record(request: HttpRequest, record_id: str) -> HttpResponse:
    """One record: what it says, before and after, and its place in the chain."""
    found = audit_record_get(actor_of(request.user), record_id)
    row, said = found.row, found.row.said
    told = {*said.before, *said.after} if said else set()
    rest = {name: value for name, value in row.more.items() if name not in told | {"reason"}}
    known = {
        "record": found,
        "row": Row(row),
        "changes": [(name, _plain(before), _plain(after)) for name, before, after in row.changes],
        "rest": [(name, _plain(value)) for name, value in rest.items()],
        "now_ms": time.time_ns() // 1_000_000,
    }
    return render(request, "audit/record.html", known)


@require_POST
def export(request: HttpRequest) -> StreamingHttpResponse:
    """The records that a filter asks for as a file, streamed; the audit stream records it. 422: an unknown form or word."""
    wanted, form = AUDIT.read(request.POST).wanted(), request.POST.get("form", "csv")
    return list_response(audit_export(actor=actor_of(request.user), wanted=wanted, form=form))


@require_http_methods(["GET", "HEAD", "POST"])
def holds(request: HttpRequest) -> HttpResponse:
    """Holds and rules; a POST places a hold (``act`` place), lifts one (lift), or sets a rule (rule). 409: it is so already; 422: a field cannot be taken."""
    if request.method != "POST":
        return _holds(request)
    actor, act = actor_of(request.user), request.POST.get("act", "")
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
    actor = actor_of(request.user)
    found = holds_list(actor)
    rules = audit_rules(actor)
    kinds = [(ALL, "every other act"), *ACT_WORDS]
    shown = {
        "stand": [one for one in found if one.open],
        "lifted": [one for one in found if not one.open],
        "about": ABOUT,
        "rules": [(kind, dict(kinds).get(kind, kind), days) for kind, days in sorted(rules.items())],
        "kinds": [(kind, words) for kind, words in kinds if kind == ALL or not _kept(kind)],
        "may_rule": actor.may(Right.MEMBERS),
        "days_min": DAYS_MIN,
        "problem": problem,
        "given": given or {"about": request.GET.get("about", ""), "name": request.GET.get("name", "")},
        "now_ms": time.time_ns() // 1_000_000,
    }
    return render(request, "audit/holds.html", shown, status=status)


def _kept(kind: str) -> bool:
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


def _page_of(about: str, subject: str) -> str:
    routes = {
        About.RUN: ("run", "run_id"),
        About.FABRIC: ("fabric", "name"),
        About.SCENARIO: ("scenario", "scenario_name"),
    }
    route = routes.get(About(about)) if about in frozenset(About) else None
    try:
        return reverse(route[0], kwargs={route[1]: subject}) if route else ""
    except NoReverseMatch:
        return ""
