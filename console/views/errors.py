"""What is shown when something was not done: one sentence and one next step."""

from __future__ import annotations

from collections.abc import Mapping

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from fabric.selectors.errors import Code, Refused

STATUS: Mapping[Code, int] = {
    "not_found": 404,
    "invalid": 422,
    "conflict": 409,
    "unavailable": 503,
    "too_large": 413,
    "forbidden": 403,
}
"""HTTP status of each refusal."""

TITLES: Mapping[int, str] = {
    400: "That request could not be read",
    401: "Signed out",
    403: "Not allowed",
    404: "Not here",
    409: "Already decided",
    410: "This link no longer works",
    413: "Too large",
    422: "That could not be done",
    500: "Something broke here",
    503: "Not available right now",
}


def page(request: HttpRequest, status: int, message: str) -> HttpResponse:
    """An error page; for a request made by the page's script, the sentence alone, which the script shows in place."""
    if request.headers.get("HX-Request"):
        return HttpResponse(message, status=status, content_type="text/plain; charset=utf-8")
    known = {"status": status, "title": TITLES.get(status, TITLES[400]), "message": message}
    return render(request, "errors/page.html", known, status=status)


def refused(request: HttpRequest, refusal: Refused) -> HttpResponse:
    """The page of a refusal that no view showed in a better place."""
    return page(request, STATUS[refusal.code], refusal.message)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's 400."""
    if isinstance(exception, RequestDataTooBig):
        return page(request, 413, "The form is larger than 256 KB: a request may have 64 KB, attach the rest as files.")
    return page(request, 400, "The browser sent something that is no form: reload the page and try again.")


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's 403."""
    return page(request, 403, "Your account may not see or do this.")


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form without its token: from another site, or from before a sign-in or sign-out."""
    return page(
        request, 403, "The form was made before you signed in or out: go back, reload the page and send it again."
    )


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's 404."""
    return page(request, 404, "There is no such page: the address may be mistyped, or what it named was removed.")


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's 500: no template context is trusted to work."""
    return page(request, 500, "This page failed and the failure is in the server's log; runs are not affected.")
