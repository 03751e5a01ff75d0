"""Errors as application/problem+json (RFC 9457): one table of what each status means, and one way to make the document.

Knows no framework, so that the bound on bodies can use it before Django sees a request.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MEDIA_TYPE = "application/problem+json"
REQUEST_ID = "X-Request-Id"
DOCS = "/api/v1/docs"
RETRY_AFTER = "2"
"""Seconds to wait for a database that is away."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a status means here."""

    slug: str
    """Ends the problem's ``type``, and is its heading's anchor in the documentation."""
    title: str
    otherwise: str
    """The sentence where nobody had a better one."""


KINDS: Mapping[int, Kind] = {
    400: Kind("unreadable", "Unreadable request", "The request could not be read: check its address, headers and body."),
    401: Kind("unauthenticated", "Not authenticated", "Send a bearer token, or sign in: this needs a caller."),
    403: Kind("not-allowed", "Not allowed", "This caller may not do this."),
    404: Kind("not-found", "Not found", f"There is nothing at this address; {DOCS} lists the addresses."),
    405: Kind("wrong-method", "Wrong method", "This address does not take this method; the Allow header lists those it takes."),
    409: Kind("conflict", "Conflict", "This contradicts what was done before."),
    413: Kind("too-large", "Too large", "The request is too large: send less."),
    415: Kind("wrong-media-type", "Not JSON", "The body must be JSON: send it with Content-Type: application/json."),
    422: Kind("invalid", "Invalid", "Something in the request is not acceptable; errors says what and where."),
    429: Kind("too-often", "Too many requests", "This caller asks too often: go on after as many seconds as the Retry-After header says."),
    500: Kind("broken", "Something broke here", "This request failed and the failure is in the server's log, under the request id; runs are not affected."),
    503: Kind("unavailable", "Not available right now", "The database does not answer right now: try again in a moment."),
}  # fmt: skip
"""Every status that an error of the API can have."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing that is wrong, and where: ``documents.0.name`` in the body, or a parameter's name; empty for the whole."""

    path: str
    message: str


@dataclass(slots=True)
class Problem(Exception):
    """Stops a request with a problem. Raised where the status is known; the handlers turn it into the answer."""

    status: int
    detail: str = ""
    errors: Sequence[FieldError] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    """More members of the document."""
    headers: Mapping[str, str] = field(default_factory=dict)


_safe_id = re.compile(r"[A-Za-z0-9._-]{8,64}")


def request_id(given: str | None) -> str:
    """The id of a request: the caller's own where it is fit for a log line, else a new one."""
    return given if given and _safe_id.fullmatch(given) else secrets.token_hex(8)


def sentence(text: str) -> str:
    """A service's sentence as it stands in a document."""
    line = " ".join(text.split())
    line = line[:1].upper() + line[1:]
    return line if line.endswith((".", "!", "?")) else f"{line}."


def document(problem: Problem, *, instance: str, request: str) -> dict[str, Any]:
    """The problem as JSON. ``instance``: the path that was asked for; ``request``: the request's id."""
    kind = KINDS[problem.status]
    body = {
        "type": f"{DOCS}#problem-{kind.slug}",
        "title": kind.title,
        "status": problem.status,
        "detail": sentence(problem.detail) if problem.detail else kind.otherwise,
        "instance": instance,
        "request_id": request,
    }
    if problem.errors:
        body["errors"] = [{"path": one.path, "message": sentence(one.message)} for one in problem.errors]
    return {**body, **problem.extra}


def encode(problem: Problem, *, instance: str, request: str) -> bytes:
    """The document's bytes. ASCII: what a caller sent may stand in it, fit for UTF-8 or not."""
    return json.dumps(document(problem, instance=instance, request=request)).encode()
