"""Refuses plain http to an installation with an https address, and requests to `localhost` from other machines.

The proxy that ends TLS marks each request (``SECURE_PROXY_SSL_HEADER``). A request without the mark came round the
proxy. The machine itself is admitted: its programs and supervisors use 127.0.0.1 (OWASP ASVS 5.0 12.2.1).
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.http.request import split_domain_port

from console.site.errors import pages as errors
from console.site.errors.problems import Problem, problem_response

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""Names by which a machine reaches itself."""
IN_THE_CLEAR = "This installation accepts only https: use {address}. Change any password or token that you sent here, because it was not encrypted."
NOT_HERE = (
    "This installation has another name: ask for {address}; a proxy in front of it has to hand on the Host header."
)
HEALTH = frozenset({"/healthz", "/livez", "/readyz"})
"""Addresses for health checks, by any of our names; they reveal nothing useful to a stranger."""


class PlainHttpMiddleware:
    """Serves https by the public name and the machine itself, redirects readers to https, and refuses the rest.

    It is not used if the public address is http.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        if not settings.FABRIC_PUBLIC_URL.startswith("https://"):
            raise MiddlewareNotUsed
        self._get_response = get_response
        self._address = settings.FABRIC_PUBLIC_URL.rstrip("/")

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request."""
        if request.path in HEALTH:
            return self._get_response(request)
        inside = split_domain_port(request.get_host())[0] in LOOPBACK
        if inside and (request.is_secure() or not _is_loopback(str(request.META.get("REMOTE_ADDR", "")))):
            return _refusal_page(request, 400, NOT_HERE.format(address=self._address))
        if inside or request.is_secure():
            return self._get_response(request)
        if request.method in ("GET", "HEAD") and "Authorization" not in request.headers:
            return HttpResponsePermanentRedirect(self._address + request.get_full_path())
        return _refusal_page(request, 403, IN_THE_CLEAR.format(address=self._address))


def _refusal_page(request: HttpRequest, status: int, message: str) -> HttpResponse:
    if request.path.startswith("/api/"):
        return problem_response(request, Problem(status, message))
    return errors.page(request, status, message)


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
