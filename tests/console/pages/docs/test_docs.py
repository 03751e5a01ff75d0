"""The documents as pages: each is served, each link leads somewhere, words are found, and each page of the console has its help."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.urls import reverse

from console.pages.docs import library
from console.pages.docs.library import FOLDER, INDEX, KINDS, RESULTS_MAX, documents, heading_anchor, search_documents
from console.pages.docs.markup import document_address, document_markup
from console.pages.docs.page_help import PAGE_HELP, help_address
from console.site.access.rights import LOOKS

pytestmark = pytest.mark.django_db


def test_every_document_is_a_page_with_its_title_once(browser):
    for name, one in documents().items():
        if name == INDEX:
            continue
        page = browser.get(reverse("docs-page", args=[name])).content.decode()
        assert page.count("<h1") == 1, name
        assert "<script" not in document_markup(name), name
        assert one.kind in KINDS, name


def test_links_between_documents_lead_to_a_document_and_a_heading():
    broken = []
    for name, one in documents().items():
        for target in re.findall(r"\]\(([^)\s]+)\)", one.source):
            path, _, anchor = target.partition("#")
            if "://" in target or (path and not path.endswith(".md")):
                continue
            beside = (Path(name).parent / path.removesuffix(".md")).as_posix() if path else name
            found = documents().get(_normal(beside))
            outside = (FOLDER / name).parent.joinpath(path).resolve().is_file()
            known = found is not None and (not anchor or anchor in {part.anchor for part in found.sections})
            if not known and (found is not None or not outside):
                broken.append(f"{name}: {target}")
    assert broken == []


def _normal(path: str) -> str:
    return Path("/", path).resolve().relative_to("/").as_posix()


def test_pictures_of_documents_are_served(browser):
    named = {
        name
        for one in documents().values()
        for name in re.findall(r"!\[[^]]*\]\([^)]*?([\w-]+\.(?:svg|png))\)", one.source)
    }
    assert named
    for name in named:
        answer = browser.get(reverse("docs-picture", args=[name]))
        assert answer.status_code == 200, name
        assert answer.getvalue()


@pytest.mark.parametrize("name", ["..%2f..%2fpyproject.toml", "none.svg", "tiers.txt"])
def test_nothing_but_pictures_of_the_folder_is_served(browser, name):
    assert browser.get(f"/docs/pictures/{name}").status_code == 404


@pytest.mark.parametrize("name", ["nothing", "../README", "how-to/../../pyproject", "README"])
def test_a_document_that_is_not_there_is_not_found(browser, name):
    assert browser.get(f"/docs/{name}").status_code == 404


def test_a_stranger_is_sent_to_sign_in(client):
    for address in ("/docs", "/docs/concepts/tiers", "/docs/pictures/tiers.svg"):
        assert client.get(address).status_code == 302


def test_search_finds_the_document_that_a_word_names_first():
    assert search_documents("webhook")[0].document.name == "how-to/alert-by-webhook"
    assert search_documents("BACK up restore")[0].document.name == "how-to/back-up-and-restore"


def test_search_wants_every_word_and_is_bounded():
    assert search_documents("webhook zzzz") == []
    assert search_documents("") == []
    assert len(search_documents("a")) == RESULTS_MAX


def test_the_page_of_results_shows_the_word_and_keeps_the_query(browser):
    page = browser.get("/docs", {"q": "<b>webhook"}).content.decode()
    assert "No section has all of these words" in page
    assert 'value="&lt;b&gt;webhook"' in page
    assert "<mark>webhook</mark>" in browser.get("/docs", {"q": "webhook"}).content.decode()


def test_headings_in_fenced_code_are_no_sections():
    sections = library._split_sections("# One\n\n```\n# not one\n```\n\n## Two\ntext\n## Two\n")
    assert [(one.title, one.anchor) for one in sections] == [("One", "one"), ("Two", "two"), ("Two", "two-1")]
    assert heading_anchor("What `FABRIC_DATA` is: 2") == "what-fabric_data-is-2"


PAGES_OF_THEIR_OWN = ("frame", "healthz", "livez", "readyz", "logout", "login", "csp")
"""First words of routes that are no pages within the frame."""


def test_every_page_has_its_help():
    first = {name.partition("-")[0] for name in LOOKS} - set(PAGES_OF_THEIR_OWN)
    assert sorted(first - set(PAGE_HELP)) == []


def test_every_row_of_help_names_a_document_that_is_there():
    assert {name for name in PAGE_HELP.values() if not document_address(f"{name}.md")} == set()


def test_every_row_of_help_belongs_to_a_route():
    routes = set(LOOKS)
    first = {name.partition("-")[0] for name in routes}
    assert {name for name in PAGE_HELP if name not in routes and name not in first} == set()


def test_pages_link_to_their_help(browser):
    for address, route in (("/", "overview"), ("/runs", "runs"), ("/people/members", "members")):
        assert f'href="{help_address(route)}" aria-label="Help with this page"' in browser.get(address).content.decode()


def test_code_that_scrolls_sideways_can_have_the_focus(browser):
    page = browser.get("/docs/reference/scripted").content.decode()
    assert '<pre tabindex="0" role="group" aria-label="Code">' in page
    assert "<pre>" not in page
