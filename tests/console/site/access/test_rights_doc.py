"""docs/reference/rights.md is made of the tables of the product: who may do what by which address, and which scope a token wants for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from django.test import Client

from console.site.access.callers import ANY_CALLER, SCOPES
from console.site.access.fabric_roles import FABRIC_OF, OTHER_NAMES
from console.site.access.policies import ROUTES, Policy
from console.site.access.rights import CHANGES, FURTHER_RIGHTS, LOOKS, rights_for, roles_for
from fabric.core.people.roles import MEANS, RIGHTS, Right, Role
from fabric.core.people.scopes import MEANS as SCOPE_MEANS
from fabric.core.people.scopes import NEEDS, Scope
from tests.console.site.access import test_actors as test_access
from tests.people import member, token_of

PAGE = Path(__file__).resolve().parents[4] / "docs" / "reference" / "rights.md"
WRITE = "WRITE_DOCS"
"""Set this variable when running this test to write the page anew."""
HEAD = """# Rights

Who may do what by which address. [Roles](../specification/roles.md) says what the roles and rights mean, and where a
role holds (`editor@payments-*`).

To let a member read contents for once, an owner gives `reader@` the fabric, and takes it back afterwards. The audit
stream has both (`member_roles_set`). A role has no end of its own. One that comes from a group of your identity provider
ends there, within 5 minutes.

This page is made from `fabric/core/people/roles.py`, `fabric/core/people/scopes.py`, `console/site/access/policies.py`,
`console/site/access/rights.py` and `console/site/access/callers.py` by `tests/console/site/access/test_rights_doc.py`.
`tests/console/site/access/test_rights.py` holds the program to it, and
`tests/console/site/access/test_need_to_know.py` to the column *at*.
"""
WHO = {Policy.PUBLIC: "everyone", Policy.ACCOUNT: "who is signed in", Policy.STAFF: "staff and owners"}


def methods(route: str) -> list[str]:
    """The methods that an address takes, HEAD with GET."""
    if ROUTES[route] is Policy.API:
        return [method for method in ("GET", "POST") if (route, method) in SCOPES] or ["GET"]
    return ["GET"] * (route in LOOKS) + ["POST"] * (route in CHANGES)


def cells() -> Iterator[tuple[str, str]]:
    """Every address with every method that it takes."""
    return ((route, method) for route in sorted(ROUTES) for method in methods(route))


def allowed(route: str, method: str) -> frozenset[Role]:
    """The roles that the door lets through; everyone where no right decides."""
    if ROUTES[route] is Policy.STAFF:
        return frozenset({Role.OWNER})
    return roles_for(route, method)


def at(route: str) -> str:
    names = set(next(one for one in test_access.patterns() if one.name == route).pattern.converters)
    return "a fabric" if names & set(FABRIC_OF) or ("name" in names and route not in OTHER_NAMES) else "the workspace"


def row(route: str, method: str) -> str:
    rights, said = rights_for(route, method), CHANGES.get(route, "") if method == "POST" else ""
    why = said if isinstance(said, str) else ""
    may = allowed(route, method)
    who = ", ".join(role for role in Role if role in may) if rights else WHO.get(ROUTES[route], why or "every member")
    scope = SCOPES.get((route, method), "") if ROUTES[route] is Policy.API else ""
    scope = scope or ("any" if route in ANY_CALLER else "")
    right = " or ".join(rights) + (f", and {FURTHER_RIGHTS[route]}" if route in FURTHER_RIGHTS else "")
    return f"| `{route}` | {method} | {at(route)} | {right} | {who} | {scope} |"


def counted(pages: list[tuple[str, str]], api: list[tuple[str, str]]) -> str:
    there = len(pages) + len(api)
    refused = sum(len(Role) - len(allowed(*one)) for one in (*pages, *api))
    return (
        f"{len(ROUTES)} addresses with {there} methods ({len(pages)} of pages, {len(api)} of the API), and {len(Role)} roles:\n"
        f"{there * len(Role):,} cells, {refused:,} of which are a 403 at the door. {len(SCOPES)} operations, each with one of "
        f"{len(Scope)} scopes:\n{len(SCOPES) * (len(Scope) - 1):,} cells in which a token with every other scope is a 403. "
        "Every other method is a 405."
    )


def page() -> str:
    found = list(cells())
    pages, api = ([one for one in found if (ROUTES[one[0]] is Policy.API) is door] for door in (False, True))
    lines = [
        HEAD,
        counted(pages, api),
        "\n## Roles\n\n| role | |\n|---|---|",
        *(f"| {role} | {MEANS[role]} |" for role in Role),
        "\n## Rights\n\n| right | who has it |\n|---|---|",
        *(f"| {right} | {', '.join(role for role in Role if role in RIGHTS[right])} |" for right in Right),
        "\n## Scopes of tokens\n\n| scope | lets a token | within the rights |\n|---|---|---|",
        *(f"| {scope} | {SCOPE_MEANS[scope]} | {' or '.join(NEEDS[scope]) or 'of every member'} |" for scope in Scope),
    ]
    for title, part in (("Pages", pages), ("API", api)):
        lines += [
            f"\n## {title}\n\n| address | method | at | right | who | scope |\n|---|---|---|---|---|---|",
            *(row(*one) for one in part),
        ]
    return "\n".join(lines) + "\n"


def test_the_page_is_as_the_tables_are():
    made = page()
    if os.environ.get(WRITE):
        PAGE.write_text(made)
    assert PAGE.read_text() == made, f"write it anew: {WRITE}=1 pytest tests/console/site/access/test_rights_doc.py"


def test_every_scope_is_wanted_somewhere_and_says_what_it_is():
    assert set(SCOPES.values()) == set(Scope) == set(SCOPE_MEANS) == set(NEEDS)


def test_a_scope_carries_what_its_operations_want():
    """No operation wants a right that no token with its scope could have."""
    alone = {
        (route, right)
        for (route, method), scope in SCOPES.items()
        for right in rights_for(route, method)
        if NEEDS[scope] and right not in NEEDS[scope]
    }
    assert alone == set()


def test_a_token_opens_no_page(transactional_db):
    """A bearer token is for the API: on every page its caller is unknown."""
    secret = token_of(member("vera", "owner"), "all")
    program = Client(HTTP_HOST="127.0.0.1", HTTP_AUTHORIZATION=f"Bearer {secret}")
    assert program.get("/api/v1/fabrics").status_code == 200
    for route, policy in ROUTES.items():
        if policy in (Policy.SIGNED_IN, Policy.ACCOUNT, Policy.STAFF):
            answer = program.get(test_access.address(route))
            assert answer.status_code == 302, route
            assert answer.headers["Location"].startswith("/login"), route
