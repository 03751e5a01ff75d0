"""No page has a serious or critical accessibility finding: light and dark, wide and narrow, empty and full.

The pages are the route table's: a new one is looked at without being named here, or says below why it is no page.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from console.access import ROUTES, Policy
from tests.e2e.asked import asked

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

VENDOR = Path(__file__).parent / "vendor"
AXE = "axe-4.14.1.min.js"
SIZES = [(1440, 900), (390, 844)]

NO_PAGE = {
    "healthz": "JSON for supervisors",
    "logout": "a POST",
    "decide": "a POST",
    "login-link": "looked at signed out, in its own test",
    "frame": "a part of every page",
    "run-question": "a part of a run's page",
    "run-event-json": "JSON of one event",
    "run-events-download": "a file",
    "runs-news": "a part of the list of runs",
    "overview-live": "a part of the overview",
    "overview-card": "a part of the overview",
    "fabric-yaml": "a file",
    "api-docs": "the reference of the API, drawn by others' script",
}
"""Routes that are no page of ours, and what they are instead."""
ALSO = ("/search?q=ledger", "/search?q=zzzz", f"/search?q={'x' * 201}", "/nothing")
"""States of pages that no route names."""


def patterns(within: URLResolver | None = None) -> list[URLPattern]:
    found: list[URLPattern] = []
    for item in (within or get_resolver()).url_patterns:
        found += patterns(item) if isinstance(item, URLResolver) else [item]
    return found


def pages(known: dict[str, object]) -> list[str]:
    """Addresses of all pages whose arguments are known."""
    found = []
    for pattern in patterns():
        assert pattern.name
        if pattern.name not in NO_PAGE and ROUTES[pattern.name] in (Policy.PUBLIC, Policy.SIGNED_IN, Policy.STAFF):
            names = list(pattern.pattern.converters)
            if set(names) <= set(known):
                found.append(reverse(pattern.name, kwargs={name: known[name] for name in names}))
    return found


KNOWN = {"run_id": "019a1f3c-5d20-7c11-9a5e-4c81d7e20b1f", "seq": 3, "name": "doubtful", "number": 1}


def test_every_route_is_a_page_that_is_looked_at_or_says_why_it_is_none():
    assert set(NO_PAGE) <= set(ROUTES)
    needed = {
        name: set(pattern.pattern.converters)
        for pattern in patterns()
        if (name := pattern.name) not in NO_PAGE and ROUTES[str(name)] is not Policy.API
    }
    assert {name: needs - set(KNOWN) for name, needs in needed.items() if needs - set(KNOWN)} == {}


@pytest.fixture(scope="module")
def axe() -> str:
    listed = dict(line.split()[::-1] for line in (VENDOR / "CHECKSUMS.sha256").read_text().splitlines())
    for name, digest in listed.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest, name
    assert AXE in listed
    return (VENDOR / AXE).read_text()


def findings(page, axe: str) -> list[str]:
    """What is serious or critical on the page as it stands."""
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']}).then(result => result.violations)")
    return [
        f"{one['id']} ({one['impact']}): {node['html'][:160]}: {node['failureSummary'].splitlines()[-1].strip()}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"][:3]
    ]


def looked_at(visitor, axe: str, addresses: list[str]) -> dict[str, list[str]]:
    """Findings by address and theme."""
    page, found = visitor.page, {}
    for address in addresses:
        page.goto(address)
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            found[f"{address} {theme}"] = findings(page, axe)
    return {where: what for where, what in found.items() if what}


def test_a_finding_is_found(visit, axe):
    """The instrument works: a page that is made worse is found to be worse."""
    page = visit().page
    page.evaluate(
        "document.querySelector('#top-q').removeAttribute('aria-label'), document.querySelector('#top-q').removeAttribute('placeholder')"
    )
    assert any(one.startswith("label (critical)") for one in findings(page, axe))


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_an_installation_where_nothing_has_happened(visit, axe, width, height):
    visitor = visit(viewport={"width": width, "height": height})
    assert looked_at(visitor, axe, pages({"name": "doubtful", "number": 1})) == {}


@pytest.fixture(scope="module")
def run_id(installation) -> str:
    """Runs of each kind: one that has ended, one that waits for a person, whose id this is."""
    asked(installation, "research-desk", "What is the ledger's deadline?")
    return asked(installation, "doubtful", "Which ledger is due?")


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_an_installation_where_much_has_happened(visit, axe, run_id, width, height):
    visitor = visit(viewport={"width": width, "height": height})
    assert looked_at(visitor, axe, [*pages({**KNOWN, "run_id": run_id}), *ALSO]) == {}


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_dialogs(visit, axe, run_id, width, height):
    page = visit(viewport={"width": width, "height": height}).page
    page.keyboard.press("Control+k")
    page.keyboard.type("ledger")
    page.locator("#palette-found a[id^=palette-run]").first.wait_for()
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        assert findings(page, axe) == []
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        assert findings(page, axe) == []


def test_strangers(installation, chromium, axe):
    context = chromium.new_context(base_url=installation.base, reduced_motion="reduce")
    page = context.new_page()
    for address in ("/login", installation.login_link(), "/login/used", "/nothing"):
        page.goto(address)
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            assert findings(page, axe) == [], address
    context.close()
