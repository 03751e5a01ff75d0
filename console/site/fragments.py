"""Answers the part of a page that changes, which the page requests each second."""

from __future__ import annotations

import hashlib

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified

SHARED_S = 0.9
"""Seconds for which all viewers of a workspace share a rendering: a little less than the page's second."""


def fresh_part(request: HttpRequest, html: str, now: int) -> HttpResponse:
    """Answer with the part, or with 304 if the page has it already. ``now``: microseconds since the epoch."""
    tag = f'"{hashlib.sha256(html.encode()).hexdigest()[:32]}"'
    same = request.headers.get("If-None-Match") == tag
    response = HttpResponseNotModified() if same else HttpResponse(html)
    for name, value in {"ETag": tag, "Now-Ms": str(now // 1_000), "Vary": "HX-Request, Cookie"}.items():
        response.headers[name] = value
    return response
