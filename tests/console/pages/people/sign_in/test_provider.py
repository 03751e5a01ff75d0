"""A browser comes back from a provider: it counts only if it asked, by its state, not long ago, once. The provider itself: tests/peers/test_oidc.py."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.test import RequestFactory

from console.pages.people.sign_in.provider import _is_ours

pytestmark = pytest.mark.django_db
ISSUER = "https://login.example.org"


@pytest.fixture(autouse=True)
def _issuer(settings: Any) -> None:
    settings.FABRIC_OIDC_ISSUER = ISSUER


def asked(ago_s: int = 0) -> dict[str, Any]:
    return {
        "state": "s" * 43,
        "nonce": "n",
        "verifier": "v",
        "at": time.time_ns() // 1_000 - ago_s * 1_000_000,
        "to": "",
    }


def came(**given: str) -> Any:
    return RequestFactory().get("/login/sso/back", {"state": "s" * 43, "code": "c", **given})


def test_what_was_asked_for_counts_once():
    assert [_is_ours(came(), asked()) for _ in range(2)] == [True, False]


@pytest.mark.parametrize(("ago_s", "good"), [(890, True), (901, False)])
def test_a_quarter_of_an_hour_is_enough(ago_s, good):
    assert _is_ours(came(), asked(ago_s)) is good


@pytest.mark.parametrize("given", [{"state": "t" * 43}, {"state": ""}, {"state": "ß"}, {"iss": "https://evil.example"}])
def test_another_state_and_another_provider_are_not_ours(given):
    assert not _is_ours(came(**given), asked())
    assert _is_ours(came(iss=ISSUER), asked()), "what was refused did not use it up"


def test_who_asked_for_nothing_is_not_let_in():
    assert not _is_ours(came(), {})
