"""The outermost layer of the API: gives every request an id, bounds its body, and sees that every error is a problem document."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from console.api.problems import DOCS, KINDS, MEDIA_TYPE, REQUEST_ID, RETRY_AFTER, Problem
from console.api.responses import id_of, problem_response
from console.body_limit import body_max, too_large

ROOT = "/api/"
KEPT = ("Allow", "Retry-After", "WWW-Authenticate")
"""Headers of an error that say what to do about it, whoever made it."""


class ApiMiddleware:
    """Wraps everything, so that what Django itself refuses (a bad host, a missing page, a failure) is told in the API's way too."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request."""
        if not request.path.startswith(ROOT) or request.path == DOCS:
            return self._get_response(request)
        response = self._answer(request)
        if response.status_code >= 400 and response.headers.get("Content-Type") != MEDIA_TYPE:
            response = _retold(request, response)
        response.headers[REQUEST_ID] = id_of(request)
        response.headers["Cache-Control"] = "no-store"
        return response

    def _answer(self, request: HttpRequest) -> HttpResponse:
        limit = body_max(request.method or "", request.path)
        body = request.read(limit + 1)
        if len(body) > limit:
            return problem_response(request, Problem(413, too_large(limit)))
        # Django would hold it to the bound of a form, which is smaller than what may be attached here.
        request._body = body
        return self._get_response(request)


def _retold(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    status = response.status_code if response.status_code in KINDS else 500 if response.status_code >= 500 else 400
    headers = {name: response.headers[name] for name in KEPT if name in response.headers}
    if status == 503:
        headers.setdefault("Retry-After", RETRY_AFTER)
    return problem_response(request, Problem(status, headers=headers))
