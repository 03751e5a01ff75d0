"""Problems as Django's answers."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from console.api.problems import MEDIA_TYPE, REQUEST_ID, Problem, encode, request_id
from console.refused import sentence_kept


def id_of(request: HttpRequest) -> str:
    """The request's id: the same in the problem, in the header and in the log."""
    known: str | None = getattr(request, "api_request_id", None)
    if known is None:
        known = request_id(request.headers.get(REQUEST_ID))
        request.api_request_id = known  # type: ignore[attr-defined]
    return known


def problem_response(request: HttpRequest, problem: Problem) -> HttpResponse:
    """The answer that tells of a problem."""
    sentence_kept(request, problem.detail)
    body = encode(problem, instance=request.path, request=id_of(request))
    return HttpResponse(body, status=problem.status, content_type=MEDIA_TYPE, headers=dict(problem.headers))
