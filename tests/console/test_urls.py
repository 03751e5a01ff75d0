"""The address of a page begins with the noun of the room that serves it (docs/design.md)."""

from __future__ import annotations

from collections.abc import Iterator

from django.urls import URLPattern

from console.urls import urlpatterns

PROBES = "clusters and load balancers probe it by this name"
SIGN_IN = "people and password managers know it, and a provider of identities has it in its settings"
ELSEWHERE = {
    ("", "overview"): "the first page",
    ("login", "people"): SIGN_IN,
    ("logout", "people"): SIGN_IN,
    ("fabrics", "drafts"): "a draft belongs to one fabric, whose page leads to it",
    ("fabrics", "memories"): "a memory belongs to one fabric, whose page leads to it",
    ("runs", "scenarios"): "one run becomes a scenario",
    ("search", "shell"): "a browser may keep it as an address to search at",
    ("livez", "installation"): PROBES,
    ("readyz", "installation"): PROBES,
    ("healthz", "installation"): PROBES,
}
"""First segments with the rooms that serve them, where the room has another name, and why."""


def pages() -> Iterator[tuple[str, str]]:
    """Yield the first segment and the room of each page."""
    for one in urlpatterns:
        if isinstance(one, URLPattern):
            room = one.callback.__module__.removeprefix("console.pages.").partition(".")[0]
            yield str(one.pattern).partition("/")[0], room


def test_the_address_of_a_page_begins_with_the_noun_of_its_room():
    assert {room for _, room in pages()} >= {"runs", "people", "workspaces"}
    assert {page for page in pages() if page[0] != page[1]} == set(ELSEWHERE)
