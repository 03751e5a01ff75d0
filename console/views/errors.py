"""What is shown when something was not done: one sentence and one next step."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string

from console.refused import sentence_kept
from fabric.selectors.errors import Code, Refused
from fabric.services.rights import SIGN_IN

log = logging.getLogger(__name__)

STATUS: Mapping[Code, int] = {
    "not_found": 404,
    "invalid": 422,
    "conflict": 409,
    "unavailable": 503,
    "too_large": 413,
    "forbidden": 403,
}
"""HTTP status of each refusal."""


class Shown(NamedTuple):
    """How the page of a status looks."""

    title: str
    word: str
    tone: str
    icon: str
    step: str
    """The one thing to do next, as a button says it."""
    to: str
    """Route name of where that is; empty: this page again."""


AGAIN = ("Try again", "")
SHOWN: Mapping[int, Shown] = {
    400: Shown("That request could not be read", "Not done", "neutral", "xc", "Overview", "overview"),
    401: Shown("Signed out", "Signed out", "neutral", "lock", "Sign in", "login"),
    403: Shown("Not allowed", "No permission", "neutral", "lock", "Overview", "overview"),
    404: Shown("Not here", "Not found", "neutral", "unknown", "Search for it", "search"),
    405: Shown("Not taken here", "Not done", "neutral", "xc", "Overview", "overview"),
    409: Shown("Already decided", "Not done", "warn", "alert", "Reviews", "reviews"),
    410: Shown("This link no longer works", "Used up", "neutral", "lock", "Sign in", "login"),
    413: Shown("Too large", "Not done", "neutral", "xc", "Start a run", "start"),
    422: Shown("That could not be done", "Not done", "warn", "alert", "Overview", "overview"),
    429: Shown("Too often", "Not done", "warn", "wait", "Sign in", "login"),
    500: Shown("Something broke here", "Failed", "danger", "alert", *AGAIN),
    503: Shown("Not available right now", "Not available", "warn", "plug", *AGAIN),
}
"""Each status that a page of ours can have."""
OUTSIDE = {"login", ""}
"""Next steps that are there for a stranger too; for any other, a stranger is asked to sign in."""


DRILLS_RUN = Shown("The run of a drill", "Not done", "drill", "drill", "Runs of drills", "drills-runs")
"""What is not done to a drill's run, whatever the status."""

STALE = Shown("Sign in again", "Not done", "warn", "lock", "Sign in again", "login")
"""What wants a fresh sign-in: whoever signs in comes back to the page that they were on."""

NO_MEMBER = Shown("No member here", "No permission", "neutral", "lock", "Sign in again", "login")
"""What somebody is told who is signed in and no member of the workspace (any more): outside the frame, which would show them the workspace."""


def page(request: HttpRequest, status: int, message: str, shown: Shown | None = None) -> HttpResponse:
    """An error page, inside the frame for who is signed in; for a request made by the page's script, the sentence alone. ``shown``: in place of what the status has."""
    sentence_kept(request, message)
    if request.headers.get("HX-Request"):
        return HttpResponse(message, status=status, content_type="text/plain; charset=utf-8")
    shown = shown or SHOWN.get(status, SHOWN[400])
    known = {"status": status, "shown": shown, "message": message, "here": _here(request), "query": ""}
    if shown is STALE:
        known["query"] = f"?{urlencode({'again': 1, 'next': _before(request)})}"
    try:
        inside = getattr(request, "user", None) is not None and request.user.is_authenticated
    except DatabaseError:
        return _alone(request, status, known)
    if inside and shown is not NO_MEMBER and _has_readable_fields(request):
        return render(request, "errors/page.html", known, status=status)
    if shown.to not in OUTSIDE and not inside:
        known["shown"] = shown._replace(step="Sign in", to="login")
    return _alone(request, status, known)


def _has_readable_fields(request: HttpRequest) -> bool:
    """Whether the frame can be drawn, which reads the fields of the address."""
    try:
        return request.GET is not None
    except TooManyFieldsSent:
        return False


def _alone(request: HttpRequest, status: int, known: Mapping[str, object]) -> HttpResponse:
    """Without the frame, and without anything that would ask the database who looks."""
    nonce = {"csp_nonce": getattr(request, "csp_nonce", "")}
    return HttpResponse(render_to_string("errors/alone.html", {**known, **nonce}), status=status)


def _here(request: HttpRequest) -> str:
    """The same page again, where asking again is harmless."""
    return request.get_full_path() if request.method in ("GET", "HEAD") else "/"


def _before(request: HttpRequest) -> str:
    """The page of ours from which this was asked."""
    came = urlsplit(request.headers.get("Referer", ""))
    own = came.netloc == request.get_host() and came.path.startswith("/")
    return came.path if own else "/"


def refused(request: HttpRequest, refusal: Refused) -> HttpResponse:
    """The page of a refusal that no view showed in a better place."""
    return page(request, STATUS[refusal.code], refusal.message, STALE if refusal.field == SIGN_IN else None)


def not_allowed(request: HttpRequest, allowed: str) -> HttpResponse:
    """Django's 405, which says nothing by itself. ``allowed``: the methods that the address takes."""
    takes = f": it takes {allowed}" if allowed else ""
    answer = page(request, 405, f"This address does not take {str(request.method)[:20]}{takes}. Nothing was changed.")
    answer.headers["Allow"] = allowed
    return answer


def database_away(request: HttpRequest, error: Exception) -> HttpResponse:
    """The database did not answer, or not as it should: 503, and asking again is the thing to do."""
    # Not the path: that of a sign-in link or an invitation holds its token.
    route = request.resolver_match.view_name if request.resolver_match else "no page"
    log.error("%s %s: the database did not answer: %s", request.method, route, error)
    message = "The database does not answer, so nothing can be shown or changed: runs go on from where they were when it is back."
    if request.headers.get("HX-Request"):
        return page(request, 503, message)
    shown = SHOWN[503]._replace(title="The database is away")
    return _alone(request, 503, {"status": 503, "shown": shown, "message": message, "here": _here(request)})


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's 400."""
    if isinstance(exception, RequestDataTooBig):
        return page(request, 413, "The form is larger than 256 KB: a request may have 64 KB, attach the rest as files.")
    if isinstance(exception, TooManyFieldsSent):
        most = f"{settings.DATA_UPLOAD_MAX_NUMBER_FIELDS:,}"
        return page(request, 400, f"The address or the form has more than {most} fields: send fewer.")
    return page(request, 400, "The browser sent something that is no form: reload the page and try again.")


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's 403."""
    return page(request, 403, "Your account may not see or do this: ask the owner of this installation.")


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form without its token: from another site, or from before a sign-in or sign-out."""
    return page(
        request, 403, "The form was made before you signed in or out: go back, reload the page and send it again."
    )


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's 404."""
    return page(request, 404, "There is no such page: the address may be mistyped, or what it named was removed.")


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's 500: nothing but the page itself is trusted to work."""
    message = "This page failed and the failure is in the server's log; runs are not affected."
    if request.headers.get("HX-Request"):
        return page(request, 500, message)
    return _alone(request, 500, {"status": 500, "shown": SHOWN[500], "message": message, "here": _here(request)})
