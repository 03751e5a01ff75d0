"""Shows errors as pages: one sentence and one next step."""

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

from console.site.errors.problems import sentence_kept
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


class ErrorLook(NamedTuple):
    """Look of the page of a status."""

    title: str
    word: str
    tone: str
    icon: str
    step: str
    """Label of the button for the next step."""
    to: str
    """Route name of the next step; empty for this page again."""


AGAIN = ("Try again", "")
ERROR_LOOKS: Mapping[int, ErrorLook] = {
    400: ErrorLook("That request could not be read", "Not done", "neutral", "xc", "Overview", "overview"),
    401: ErrorLook("Signed out", "Signed out", "neutral", "lock", "Sign in", "login"),
    403: ErrorLook("Not allowed", "No permission", "neutral", "lock", "Overview", "overview"),
    404: ErrorLook("This page does not exist", "Not found", "neutral", "unknown", "Search", "search"),
    405: ErrorLook("Not taken here", "Not done", "neutral", "xc", "Overview", "overview"),
    409: ErrorLook("Already decided", "Not done", "warn", "alert", "Reviews", "reviews"),
    410: ErrorLook("This link no longer works", "Used up", "neutral", "lock", "Sign in", "login"),
    413: ErrorLook("Too large", "Not done", "neutral", "xc", "Start a run", "start"),
    422: ErrorLook("That could not be done", "Not done", "warn", "alert", "Overview", "overview"),
    429: ErrorLook("Too often", "Not done", "warn", "wait", "Sign in", "login"),
    500: ErrorLook("Something broke here", "Failed", "danger", "alert", *AGAIN),
    503: ErrorLook("Not available right now", "Not available", "warn", "plug", *AGAIN),
}
"""Look of each status."""
OUTSIDE = {"login", ""}
"""Next steps that strangers may take; for any other they are asked to sign in."""


DRILLS_RUN = ErrorLook("The run of a drill", "Not done", "drill", "drill", "Drill runs", "drills-runs")
"""Page of an act that is not possible on a drill's run, for any status."""

STALE = ErrorLook("Sign in again", "Not done", "warn", "lock", "Sign in again", "login")
"""Page of an act that needs a fresh sign-in. After it, the user returns to the page where they were."""

NO_MEMBER = ErrorLook("No member here", "No permission", "neutral", "lock", "Sign in again", "login")
"""Page for a signed-in user who is no member of the workspace. It has no frame, which would show the workspace."""


def page(request: HttpRequest, status: int, message: str, shown: ErrorLook | None = None) -> HttpResponse:
    """Return an error page: inside the frame if signed in; for the page's script the sentence alone.

    ``shown``: replaces the look of the status.
    """
    sentence_kept(request, message)
    if request.headers.get("HX-Request"):
        return HttpResponse(message, status=status, content_type="text/plain; charset=utf-8")
    shown = shown or ERROR_LOOKS.get(status, ERROR_LOOKS[400])
    known = {"status": status, "shown": shown, "message": message, "here": _here(request), "query": ""}
    if shown is STALE:
        known["query"] = f"?{urlencode({'again': 1, 'next': _read_referrer(request)})}"
    try:
        inside = getattr(request, "user", None) is not None and request.user.is_authenticated
    except DatabaseError:
        return _alone(request, status, known)
    if inside and shown is not NO_MEMBER and _has_readable_fields(request):
        return render(request, "site/errors/page.html", known, status=status)
    if shown.to not in OUTSIDE and not inside:
        known["shown"] = shown._replace(step="Sign in", to="login")
    return _alone(request, status, known)


def _has_readable_fields(request: HttpRequest) -> bool:
    """Return True if the frame can be drawn, which reads the fields of the address."""
    try:
        return request.GET is not None
    except TooManyFieldsSent:
        return False


def _alone(request: HttpRequest, status: int, known: Mapping[str, object]) -> HttpResponse:
    """Return the page without the frame, and without any database access."""
    nonce = {"csp_nonce": getattr(request, "csp_nonce", "")}
    return HttpResponse(render_to_string("site/errors/alone.html", {**known, **nonce}), status=status)


def _here(request: HttpRequest) -> str:
    """Return the address of the request if repeating it is harmless, else the start page."""
    return request.get_full_path() if request.method in ("GET", "HEAD") else "/"


def _read_referrer(request: HttpRequest) -> str:
    """Return the path of our page that sent the request."""
    came = urlsplit(request.headers.get("Referer", ""))
    own = came.netloc == request.get_host() and came.path.startswith("/")
    return came.path if own else "/"


def render_refusal(request: HttpRequest, refusal: Refused) -> HttpResponse:
    """Return the page of a refusal that no view has handled."""
    return page(request, STATUS[refusal.code], refusal.message, STALE if refusal.field == SIGN_IN else None)


def not_allowed(request: HttpRequest, allowed: str) -> HttpResponse:
    """Return a page for Django's 405, which has no text. ``allowed``: the methods that the address takes."""
    takes = f": it takes {allowed}" if allowed else ""
    answer = page(request, 405, f"This address does not take {str(request.method)[:20]}{takes}. Nothing was changed.")
    answer.headers["Allow"] = allowed
    return answer


def database_away(request: HttpRequest, error: Exception) -> HttpResponse:
    """Return 503 with the advice to try again, because the database did not answer properly."""
    # Not the path: that of a sign-in link or an invitation holds its token.
    route = request.resolver_match.view_name if request.resolver_match else "no page"
    log.error("%s %s: the database did not answer: %s", request.method, route, error)
    message = "The database does not respond. Runs continue from their last event when it is back."
    if request.headers.get("HX-Request"):
        return page(request, 503, message)
    shown = ERROR_LOOKS[503]._replace(title="The database is away")
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
    """Return the page for a form without its token: from another site, or from before a sign-in or sign-out."""
    return page(
        request, 403, "The form was made before you signed in or out: go back, reload the page and send it again."
    )


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's 404."""
    return page(request, 404, "Page not found: the address may be mistyped, or its object was removed.")


def server_error(request: HttpRequest) -> HttpResponse:
    """Return Django's 500. Nothing but the page itself is trusted to work."""
    message = "This page failed and the failure is in the server's log; runs are not affected."
    if request.headers.get("HX-Request"):
        return page(request, 500, message)
    return _alone(request, 500, {"status": 500, "shown": ERROR_LOOKS[500], "message": message, "here": _here(request)})
