"""Signing in by the provider of identities that the operator named (OpenID Connect)."""

from __future__ import annotations

import hmac
import logging
import secrets
import time
from urllib.parse import urlsplit

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_safe

from console.client_address import address_of
from console.signed_in import SSO
from console.views import errors
from console.views.login import AFTER, is_other, let_in, next_of, too_often
from fabric.adapters.oidc import OidcAway, OidcRefused
from fabric.selectors.errors import Refused
from fabric.services.identities import person_in, provider
from fabric.services.sign_in_trail import sign_in_failed
from fabric.services.sign_in_tries import of_address, try_begin, try_forgive
from fabric.services.used_once import use_once

log = logging.getLogger(__name__)

ASKED = "sso_asked"
ASKED_S = 900
"""So long somebody may take at the provider."""
AWAY = "The provider of identities does not answer as it should, so nobody can sign in by it: try again in a minute, or ask the operator."
NOT_DONE = "The provider of identities did not sign you in: begin once more on the page of signing in."
US = 1_000_000


@never_cache
@require_safe
def begin(request: HttpRequest) -> HttpResponse:
    """Leads to the provider; ``?again=1``: it has to see who is signed in anew. 404: there is none; 503: it does not answer."""
    found = provider()
    if found is None:
        raise Http404
    again = request.user.is_authenticated
    asked = {name: secrets.token_urlsafe(32) for name in ("state", "nonce", "verifier")}
    try:
        address = found.address(back=_back(), **asked, again=again)
    except OidcAway as error:
        return _away(request, error)
    request.session[ASKED] = {
        **asked,
        "at": time.time_ns() // 1_000,
        "to": next_of(request) or request.session.get(AFTER, ""),
    }
    return HttpResponseRedirect(address)


@never_cache
@sensitive_variables("code", "asked", "known")
@require_safe
def back(request: HttpRequest) -> HttpResponse:
    """Where the provider leads back to. 403: it did not sign in, or who it knows has no place here; 503: it does not answer."""
    asked = request.session.pop(ASKED, None) or {}
    found, code = provider(), request.GET.get("code", "")
    counted = of_address(address_of(request))
    if wait := try_begin(counted):
        sign_in_failed(name="", address=address_of(request), how="too_often")
        return too_often(errors.page(request, 429, f"Too many sign-ins were tried: go on in {wait} s."), wait)
    if found is None or not code or not _is_ours(request, asked):
        log.warning("a sign-in by the provider was refused: %s", request.GET.get("error", "not asked for here")[:100])
        sign_in_failed(name="", address=address_of(request), how="oidc")
        return errors.page(request, 403, NOT_DONE, errors.NO_MEMBER)
    try:
        known = found.exchange(code, back=_back(), nonce=asked["nonce"], verifier=asked["verifier"])
        user = person_in(known)
    except OidcAway as error:
        return _away(request, error)
    except OidcRefused as error:
        log.warning("a sign-in by the provider was refused: %s", error)
        sign_in_failed(name="", address=address_of(request), how="oidc")
        return errors.page(request, 403, NOT_DONE, errors.NO_MEMBER)
    except Refused as refusal:
        return errors.page(request, 403, refusal.message, errors.NO_MEMBER)
    if is_other(request, user):
        return errors.page(request, 403, "Somebody else is signed in in this browser: sign out first.")
    try_forgive(counted)
    seen = min(known.auth_time * US, time.time_ns() // 1_000)
    return let_in(request, user, SSO, to=asked["to"], fresh_at=seen)


def _is_ours(request: HttpRequest, asked: dict[str, str]) -> bool:
    """Whether this browser asked for it, not long ago, and for the first time."""
    if not asked or int(asked["at"]) < time.time_ns() // 1_000 - ASKED_S * US:
        return False
    given = request.GET.get("state", "")
    fits = hmac.compare_digest(given.encode("utf-8", "surrogatepass"), asked["state"].encode())
    # RFC 9207: a provider that names itself has to be the one that was asked.
    if request.GET.get("iss", settings.FABRIC_OIDC_ISSUER) != settings.FABRIC_OIDC_ISSUER:
        return False
    return fits and use_once(f"sso:{given}", for_s=ASKED_S)


def _away(request: HttpRequest, error: OidcAway) -> HttpResponse:
    log.error("the provider of identities at %s: %s", urlsplit(settings.FABRIC_OIDC_ISSUER).netloc, error)
    return errors.page(request, 503, AWAY)


def _back() -> str:
    return settings.FABRIC_PUBLIC_URL.rstrip("/") + reverse("login-sso-back")
