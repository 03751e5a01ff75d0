"""Receives browsers' reports about the content security policy.

Anyone may send anything to this address, so it believes little and keeps nothing.
"""

from __future__ import annotations

import json
import logging
import re
from typing import Any
from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, resolve
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from console.site.requests import throttle
from console.site.requests.body_limit import REPORT_MAX

log = logging.getLogger(__name__)
AT_ONCE_MAX = 5
"""Number of reports of one request that are logged."""
KINDS = ("application/csp-report", "application/reports+json", "application/json")
_directive = re.compile(r"[a-z-]{3,40}")
_keyword = re.compile(r"[a-z-]{3,30}")
_host = re.compile(r"[a-z0-9.:\[\]-]{1,100}")


@csrf_exempt
@never_cache
@require_POST
def csp_reports(request: HttpRequest) -> HttpResponse:
    """Write a log line for each report: the directive, the blocked host or kind, and the page's route.

    204: always. 413: too large. 415: wrong type. 429: too often. No address, name, program or text of a visitor is
    logged.
    """
    if request.content_type not in KINDS:
        return HttpResponse(status=415)
    raw = request.body if int(request.META.get("CONTENT_LENGTH") or 0) <= REPORT_MAX else b"x" * (REPORT_MAX + 1)
    if len(raw) > REPORT_MAX:
        return HttpResponse(status=413)
    if wait := throttle.count_request(throttle.REPORTS, "all"):
        return HttpResponse(status=429, headers={"Retry-After": str(wait)})
    for directive, stopped, page in _parse_reports(raw):
        log.warning("the content policy (%s) stopped %s on the page %s", directive, stopped, page)
    return HttpResponse(status=204)


def _parse_reports(raw: bytes) -> list[tuple[str, str, str]]:
    """Return directive, blocked host or kind, and page of each valid report. Source: W3C CSP3 5.5, Reporting API 1."""
    try:
        said = json.loads(raw)
    except (ValueError, RecursionError):
        return []
    listed = said if isinstance(said, list) else [said]
    found = []
    for one in listed[:AT_ONCE_MAX]:
        body = (one.get("body") or one.get("csp-report")) if isinstance(one, dict) else None
        if isinstance(body, dict):
            found.append(
                (
                    _find_match(
                        _directive,
                        _first_value(body, "effectiveDirective", "effective-directive", "violated-directive"),
                    ),
                    _blocked_source(_first_value(body, "blockedURL", "blocked-uri")),
                    _page(_first_value(body, "documentURL", "document-uri")),
                )
            )
    return found


def _first_value(body: dict[str, Any], *names: str) -> str:
    return next((value for name in names if isinstance(value := body.get(name), str)), "")


def _find_match(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.match(text.lower())
    return found[0] if found else "unknown"


def _blocked_source(address: str) -> str:
    """Return scheme and host; without them its kind, such as inline or eval."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return "unknown"
    if parts.scheme in ("http", "https") and _host.fullmatch(host):
        return f"{parts.scheme}://{host}"
    return _find_match(_keyword, parts.scheme or address)


def _page(address: str) -> str:
    """Return the name of its route: an address may name a run, or hold a token."""
    try:
        return resolve(urlsplit(address).path).view_name
    except (Resolver404, ValueError):
        return "unknown"
