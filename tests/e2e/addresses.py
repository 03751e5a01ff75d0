"""Addresses of all pages, by the route table, and the routes that are no page."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, get_resolver, reverse

from console.pages.fabrics.views import TABS
from console.pages.runs.events import DENSITIES
from console.pages.runs.page import VIEWS
from console.site.access.policies import ROUTES, Policy

NO_PAGE = {
    "livez": "JSON for supervisors",
    "readyz": "JSON for supervisors",
    "healthz": "JSON for supervisors",
    "csp-reports": "for browsers",
    "logout": "a POST",
    "decide": "a POST",
    "reviews-next": "a POST",
    "reviews-together": "a POST, looked at in tests/e2e/reviews/test_axe.py",
    "reviews-export": "a POST",
    "review": "looked at in tests/e2e/reviews/test_axe.py, with the rest of the reviews",
    "review-changes": "a POST",
    "review-reveal": "a POST",
    "review-claim": "a POST",
    "review-release": "a POST",
    "review-reassign": "a POST",
    "review-beat": "a POST",
    "review-news": "an empty answer",
    "review-close": "a POST",
    "review-comment": "a POST",
    "review-snooze": "a POST",
    "reviews-inbox-seen": "a POST",
    "decision-undo": "a POST",
    "decision-continue": "a POST",
    "run-export": "a POST that gives a file",
    "login-link": "looked at signed out, in its own test",
    "login-second": "wants half a sign-in: looked at in tests/e2e/people/test_passkeys.py",
    "login-passkey": "a POST",
    "login-sso": "leads to a provider",
    "login-sso-back": "a provider leads here",
    "login-recover": "looked at signed out, in its own test",
    "login-password": "wants a mailed link: the same form as the account's",
    "invitation": "looked at signed out, in its own test",
    "security-passkey": "a POST",
    "security-remove": "a POST",
    "security-codes": "a POST",
    "sign-ins-end": "a POST",
    "member-sign-ins": "a POST",
    "member-invite": "a POST",
    "member-service": "a POST",
    "invitation-revoke": "a POST",
    "frame": "a part of every page",
    "run-review": "a part of a run's page",
    "run-event-json": "JSON of one event",
    "run-event-reveal": "a POST",
    "fabric-memory-reveal": "a POST",
    "run-events-download": "a file",
    "runs-news": "a part of the list of runs",
    "runs-job-live": "a part of a job's page",
    "runs-job-stop": "a POST",
    "runs-view": "a POST",
    "runs-columns": "a POST",
    "audit-news": "a part of the list of records",
    "audit-export": "a POST that gives a file",
    "reviews-news": "a part of the list of reviews",
    "overview-live": "a part of the overview",
    "overview-card": "a part of the overview",
    "notification-resend": "a POST",
    "notifications-mine": "a POST",
    "notifications-channels": "a POST",
    "notifications-channel-remove": "a POST",
    "model-key": "a POST",
    "model-key-delete": "a POST",
    "model-test": "a POST",
    "breakers-live": "a part of the breakers' page",
    "drills-live": "a part of the drills' page",
    "drill-live": "a part of a drill's page",
    "drill-report": "a file",
    "drills-batch-report": "a file",
    "drills-report": "a file",
    "drills-ask": "a POST",
    "drills-batch-stop": "a POST",
    "scenario-live": "a part of a scenario's page",
    "scenario-ask": "a POST",
    "scenario-duplicate": "a POST",
    "scenario-delete": "a POST",
    "scenario-toml": "a file",
    "scenario-json": "a file",
    "fabric-yaml": "a file",
    "docs-picture": "a picture",
    "fabric-duplicate": "a POST",
    "fabric-draft-beat": "a POST",
    "drills-stale": "a POST",
    "run-stop-allow": "a POST",
    "runs-job": "looked at in the round of pictures jobs",
    "fabric-draft-agent": "wants a draft: looked at in the round of pictures editor",
    "fabric-draft-tool": "wants a draft: looked at in the round of pictures editor",
    "api-openapi": "JSON for generators",
}
"""Routes that are no page of ours, and what they are instead."""
ALSO = (
    "/search?q=ledger",
    "/search?q=zzzz",
    f"/search?q={'x' * 201}",
    "/runs?q=state:nosuch",
    "/runs?q=state:failed+zzzz",
    "/runs/start?fabric=doubtful&example=1",
    "/nothing",
    "/docs?q=webhook",
    "/docs?q=zzzz",
    "/reviews/history?within=all&item=failure",
    "/reviews/history?by=nobody",
    "/drills/coverage?fabric=small-model",
    "/drills?only=never",
    "/scenarios?q=zzzz",
    "/fabrics/writing?tab=memory",
    "/fabrics/writing/memory/notes?key=budget",
    "/audit?actor=nobody",
)
"""States of pages that no route names."""


def patterns(within: URLResolver | None = None) -> list[URLPattern]:
    found: list[URLPattern] = []
    for item in (within or get_resolver()).url_patterns:
        found += patterns(item) if isinstance(item, URLResolver) else [item]
    return found


def pages(known: dict[str, object]) -> list[str]:
    """Addresses of all pages whose arguments are known."""
    found = []
    for pattern in patterns():
        assert pattern.name
        if pattern.name not in NO_PAGE and ROUTES[pattern.name] in (Policy.PUBLIC, Policy.SIGNED_IN, Policy.STAFF):
            names = list(pattern.pattern.converters)
            if set(names) <= set(known):
                found.append(reverse(pattern.name, kwargs={name: known[name] for name in names}))
    return found


def views(run_id: str) -> list[str]:
    """Return what a page shows one at a time; the first of each is there where none is named."""
    run = reverse("run", args=[run_id])
    named = [f"{run}?view={name}" for name, _ in VIEWS[1:]] + [f"{run}?fold=off"]
    named += [f"{run}?view=events&events={name}" for name, _, _ in DENSITIES[1:]]
    return named + [f"{reverse('fabric', args=['doubtful'])}?tab={tab}" for tab in list(TABS)[1:]]


KNOWN = {
    "run_id": "019a1f3c-5d20-7c11-9a5e-4c81d7e20b1f",
    "seq": 3,
    "document": "concepts/tiers",
    "name": "doubtful",
    "scenario_name": "rate-limit-then-healthy",
    "number": 1,
    "scope": "provider:scripted",
    "digest": "92e507dd97e0",
    "memory": "notes",
    "drill_id": "01a20ad2-a0da-75e8-86f0-896fd8797a56",
    "schedule_id": "01a20c1a-59b1-77f1-bef2-cf6045060838",
    "member_id": "0a1b2c3d4e5f60718293a4b5c6d7e8f9",
    "change_id": "01a20e1a-59b1-77f1-bef2-cf6045060838",
    "record_id": "01a20f1a59b177f1bef2cf6045060838",
}
