"""Makes errors as application/problem+json (RFC 9457): the table of statuses, the document, and Django's answer.

The table and the document know no framework, so that the limit on bodies can use them before Django sees a request. The
sentence of a refusal is kept with its request, for later readers such as the audit trail.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest, HttpResponse

from console.site.sentences import sentence

MEDIA_TYPE = "application/problem+json"
REQUEST_ID = "X-Request-Id"
DOCS = "/api/v1/docs"
RETRY_AFTER = "2"
"""Seconds to wait for a database that is away."""


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """Meaning of a status."""

    slug: str
    """End of the problem's ``type``, and anchor of its heading in the documentation."""
    title: str
    otherwise: str
    """Sentence of an error without a better one."""


KINDS: Mapping[int, ProblemKind] = {
    400: ProblemKind("unreadable", "Unreadable request", "The request could not be read: check its address, headers and body."),
    401: ProblemKind("unauthenticated", "Not authenticated", "Send a bearer token, or sign in: this needs a caller."),
    403: ProblemKind("not-allowed", "Not allowed", "This caller may not do this."),
    404: ProblemKind("not-found", "Not found", f"There is nothing at this address; {DOCS} lists the addresses."),
    405: ProblemKind("wrong-method", "Wrong method", "This address does not take this method; the Allow header lists those it takes."),
    409: ProblemKind("conflict", "Conflict", "This conflicts with an earlier change."),
    413: ProblemKind("too-large", "Too large", "The request is too large: send less."),
    415: ProblemKind("wrong-media-type", "Not JSON", "The body must be JSON: send it with Content-Type: application/json."),
    422: ProblemKind("invalid", "Invalid", "The request is invalid; errors lists each problem with its place."),
    429: ProblemKind("too-often", "Too many requests", "Too many requests: wait for the seconds in the Retry-After header."),
    500: ProblemKind("broken", "Something broke here", "This request failed and the failure is in the server's log, under the request id; runs are not affected."),
    503: ProblemKind("unavailable", "Not available right now", "The database does not answer right now: try again in a moment."),
}  # fmt: skip
"""Every status that an error of the API can have."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """An error and its place: ``documents.0.name`` in the body, or a parameter's name; empty for the whole request."""

    path: str
    message: str
    start: int | None = None
    """Position of the mistake in a text, from 0; None: the whole is wrong. ``end``: the position after it."""
    end: int | None = None


@dataclass(slots=True)
class Problem(Exception):
    """Stops a request with a problem. It is raised where the status is known; handlers turn it into the answer."""

    status: int
    detail: str = ""
    errors: Sequence[FieldError] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further members of the document."""
    headers: Mapping[str, str] = field(default_factory=dict)


_safe_id = re.compile(r"[A-Za-z0-9._-]{8,64}")


def request_id(given: str | None) -> str:
    """Return the id of a request. It is the caller's own if that is fit for a log line, else a new one."""
    return given if given and _safe_id.fullmatch(given) else secrets.token_hex(8)


def write_line(text: str) -> str:
    """Return a service's sentence on one line, as a document contains it."""
    return sentence(" ".join(text.split()))


def document(problem: Problem, *, instance: str, request: str) -> dict[str, Any]:
    """Return the problem as JSON. ``instance``: the requested path. ``request``: the request's id."""
    kind = KINDS[problem.status]
    body = {
        "type": f"{DOCS}#problem-{kind.slug}",
        "title": kind.title,
        "status": problem.status,
        "detail": write_line(problem.detail) if problem.detail else kind.otherwise,
        "instance": instance,
        "request_id": request,
    }
    if problem.errors:
        body["errors"] = [_write_error(one) for one in problem.errors]
    return {**body, **problem.extra}


def _write_error(error: FieldError) -> dict[str, Any]:
    place = {} if error.start is None else {"start": error.start, "end": error.end}
    return {"path": error.path, "message": write_line(error.message), **place}


def encode(problem: Problem, *, instance: str, request: str) -> bytes:
    """Return the document's bytes. They are ASCII, because the caller's text in it may not be valid UTF-8."""
    return json.dumps(document(problem, instance=instance, request=request)).encode()


def build_id(request: HttpRequest) -> str:
    """Return the request's id, which the problem, the header and the log share."""
    known: str | None = getattr(request, "api_request_id", None)
    if known is None:
        known = request_id(request.headers.get(REQUEST_ID))
        request.api_request_id = known  # type: ignore[attr-defined]
    return known


def problem_response(request: HttpRequest, problem: Problem) -> HttpResponse:
    """Return the response of a problem."""
    sentence_kept(request, problem.detail)
    body = encode(problem, instance=request.path, request=build_id(request))
    return HttpResponse(body, status=problem.status, content_type=MEDIA_TYPE, headers=dict(problem.headers))


_KEPT = "fabric_refused"


def sentence_kept(request: HttpRequest, message: str) -> None:
    """Keep the sentence with the request."""
    setattr(request, _KEPT, message)


def write_sentence(request: HttpRequest, response: HttpResponse) -> str:
    """Return the sentence of the refusal; empty if none was kept."""
    return str(getattr(request, _KEPT, "") or getattr(response, _KEPT, ""))
