"""The operator's table gives roles to a person whom a provider sends, and a mail address keeps some out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fabric.adapters.people.oidc_answers import OidcClaims
from fabric.services.people.identities import _domain_wrong, roles_for

ADA = OidcClaims("1", "ada@example.org", "ada", "", frozenset({"engineers"}), 0, "")
GOOGLE = "https://accounts.google.com"
ISSUER = "https://login.example.org"
TABLE = (("engineers", "editor"), ("Ada@Example.org", "owner"), ("leads", "reviewer"), ("*", "viewer"))


@pytest.mark.parametrize(
    ("known", "roles"),
    [
        (ADA, {"editor", "owner", "viewer"}),
        (replace(ADA, groups=frozenset()), {"owner", "viewer"}),
        (replace(ADA, email=""), {"editor", "viewer"}),
        (replace(ADA, email="eve@example.org", groups=frozenset({"ada@example.org", "Ada@Example.org"})), {"viewer"}),
        (replace(ADA, email="eve@example.org", groups=frozenset({"Leads", "ENGINEERS"})), {"viewer"}),
        (replace(ADA, email="leads", groups=frozenset()), {"viewer"}),
    ],
    ids=[
        "both",
        "by mail",
        "by group",
        "a group that is called as a mail address",
        "groups in another case",
        "mail as a group",
    ],
)
def test_groups_and_mail_addresses_are_no_names_for_each_other(
    settings: Any, known: OidcClaims, roles: set[str]
) -> None:
    settings.FABRIC_OIDC_ROLES = TABLE
    assert roles_for(known) == roles


@pytest.mark.parametrize(
    ("issuer", "domains", "known", "said"),
    [
        (ISSUER, ("Example.org",), ADA, ""),
        (ISSUER, ("example.org",), replace(ADA, email="ada@example.com"), "people of example.com are not let in"),
        (ISSUER, ("example.org",), replace(ADA, email="ada@not-example.org"), "people of not-example.org"),
        (ISSUER, ("example.org",), replace(ADA, email=""), "did not confirm your mail address"),
        (ISSUER, (), ADA, "until FABRIC_OIDC_DOMAINS names the domains"),
        (GOOGLE, (), ADA, "until FABRIC_OIDC_DOMAINS names the domains"),
        (GOOGLE, ("example.org",), ADA, "did not confirm your mail address"),
        (GOOGLE, ("example.org",), replace(ADA, domain="example.org"), ""),
        (GOOGLE, ("example.org",), replace(ADA, domain="evil.example"), "people of evil.example"),
    ],
)
def test_a_domain_is_what_the_provider_answers_for(
    settings: Any, issuer: str, domains: tuple[str, ...], known: OidcClaims, said: str
) -> None:
    settings.FABRIC_OIDC_ISSUER, settings.FABRIC_OIDC_DOMAINS, settings.FABRIC_OIDC_ROLES = issuer, domains, TABLE
    found = _domain_wrong(known)
    assert said in found if said else found == ""
