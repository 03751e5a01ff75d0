"""Signs people in by the operator's identity provider (OpenID Connect)."""

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

from console.pages.people.sign_in.views import AFTER, finish_sign_in, is_other, read_next, too_often
from console.site.access.sessions import SSO
from console.site.errors import pages as errors
from console.site.requests.client_address import build_address
from fabric.adapters.people.oidc_answers import OidcAway, OidcRefused
from fabric.core.values.units import US
from fabric.selectors.errors import Refused
from fabric.services.people.identities import person_in, provider
from fabric.services.people.sign_in.attempts import address_subject, sign_in_failed, try_begin, try_forgive
from fabric.services.people.sign_in.single_use import use_once

log = logging.getLogger(__name__)

ASKED = "sso_asked"
ASKED_S = 900
"""Seconds that a person may take at the provider."""
AWAY = "Your organisation's sign-in does not respond correctly: try again in a minute, or ask the operator."
NOT_DONE = "Your organisation did not sign you in: start again on the sign-in page."


@never_cache
@require_safe
def begin(request: HttpRequest) -> HttpResponse:
    """Redirect to the identity provider. ``?again=1``: the provider has to authenticate the person anew.

    404: no provider is set. 503: it does not answer.
    """
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
        "to": read_next(request) or request.session.get(AFTER, ""),
    }
    return HttpResponseRedirect(address)


@never_cache
@sensitive_variables("code", "asked", "known")
@require_safe
def back(request: HttpRequest) -> HttpResponse:
    """Handle the provider's redirect back.

    403: the provider signed no person in, or that person is no member. 503: the provider does not answer.
    """
    asked = request.session.pop(ASKED, None) or {}
    found, code = provider(), request.GET.get("code", "")
    counted = address_subject(build_address(request))
    if wait := try_begin(counted):
        sign_in_failed(name="", address=build_address(request), how="too_often")
        return too_often(errors.page(request, 429, f"Too many sign-ins were tried: try again in {wait} s."), wait)
    if found is None or not code or not _is_ours(request, asked):
        log.warning("a sign-in by the provider was refused: %s", request.GET.get("error", "not asked for here")[:100])
        sign_in_failed(name="", address=build_address(request), how="oidc")
        return errors.page(request, 403, NOT_DONE, errors.NO_MEMBER)
    try:
        known = found.exchange(code, back=_back(), nonce=asked["nonce"], verifier=asked["verifier"])
        user = person_in(known)
    except OidcAway as error:
        return _away(request, error)
    except OidcRefused as error:
        log.warning("a sign-in by the provider was refused: %s", error)
        sign_in_failed(name="", address=build_address(request), how="oidc")
        return errors.page(request, 403, NOT_DONE, errors.NO_MEMBER)
    except Refused as refusal:
        return errors.page(request, 403, refusal.message, errors.NO_MEMBER)
    if is_other(request, user):
        return errors.page(request, 403, "Another person is signed in in this browser: sign out first.")
    try_forgive(counted)
    seen = min(known.auth_time * US, time.time_ns() // 1_000)
    return finish_sign_in(request, user, SSO, to=asked["to"], fresh_at=seen)


def _is_ours(request: HttpRequest, asked: dict[str, str]) -> bool:
    """Return True if this browser requested the sign-in, recently, and uses it for the first time."""
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
