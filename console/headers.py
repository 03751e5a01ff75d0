"""Response headers that keep what a model or a tool wrote from acting in the reader's browser."""

import secrets
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

CONTENT_SECURITY_POLICY = "; ".join(  # noqa: FLY002 - One directive a line.
    [
        "default-src 'none'",
        # Only elements that carry this answer's nonce run, and what they load.
        "script-src 'nonce-{nonce}' 'strict-dynamic'",
        "style-src 'self'",
        # These two are what stops text from carrying data out of the page.
        "img-src 'self'",
        "connect-src 'self'",
        "font-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "object-src 'none'",
    ]
)
PERMISSIONS_POLICY = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"


class SafeHeadersMiddleware:
    """Sets the Content-Security-Policy (no inline script or style, no other origin) unless a view has set its own.

    Templates find the nonce of their script elements in ``request.csp_nonce``; it is new for every answer.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request, with the headers."""
        nonce = secrets.token_urlsafe(16)
        request.csp_nonce = nonce  # type: ignore[attr-defined]
        response = self._get_response(request)
        response.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY.format(nonce=nonce))
        response.headers.setdefault("Permissions-Policy", PERMISSIONS_POLICY)
        return response
