"""Sets response headers that stop the text of models and tools from acting in the reader's browser."""

import secrets
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

REPORTS = "/installation/csp-reports"
"""Address to which browsers report violations of the policy."""
CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'none'",
        # Only elements with this answer's nonce run, and what they load.
        "script-src 'nonce-{nonce}' 'strict-dynamic'",
        "style-src 'self'",
        # These two stop text from carrying data out of the page.
        "img-src 'self'",
        "connect-src 'self'",
        "font-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "object-src 'none'",
        # A text becomes elements by the policy of static/shell/trusted.js alone, and never a script.
        "require-trusted-types-for 'script'",
        "trusted-types fabric",
        # Both: the second where a browser knows it, the first where it does not.
        f"report-uri {REPORTS}",
        "report-to csp",
    ]
)
PERMISSIONS_POLICY = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"


class SafeHeadersMiddleware:
    """Sets the Content-Security-Policy, unless a view has set its own.

    It allows no inline script or style, no other origin, and no text as a script. Templates read the nonce of their
    script elements from ``request.csp_nonce``; it is new for every answer.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request, with the headers."""
        nonce = secrets.token_urlsafe(16)
        request.csp_nonce = nonce  # type: ignore[attr-defined]
        response = self._get_response(request)
        response.headers.setdefault("Reporting-Endpoints", f'csp="{REPORTS}"')
        response.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY.format(nonce=nonce))
        response.headers.setdefault("Permissions-Policy", PERMISSIONS_POLICY)
        return response
