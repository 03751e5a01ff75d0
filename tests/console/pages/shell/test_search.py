"""The search page, and its results in the palette."""

from __future__ import annotations

import re

import pytest

from console.pages.shell.frame import offered_places, places
from fabric.selectors.models.breakers import list_breaker_views
from fabric.services.models.catalogue import models_list
from tests.console.pages.runs.test_views import queued
from tests.fabric.services.world import ran

SCRIPTED = {"HX-Request": "true"}


def test_nothing_asked(browser):
    page = browser.get("/search")
    assert page.status_code == 200
    assert b"four characters of an id" in page.content


def test_nothing_found(browser):
    page = browser.get("/search?q=zzzz")
    assert page.status_code == 200
    assert b"Nothing that you may read matches <q>zzzz</q>" in page.content


def test_results_are_grouped_and_lead_somewhere(browser, actor, doubtful):
    run = ran(actor, doubtful)
    page = browser.get("/search?q=notes").content.decode()
    assert f'href="/runs/{run.id}"' in page
    assert "Waiting for a person" in page
    page = browser.get("/search?q=doubtful").content.decode()
    assert 'href="/fabrics/doubtful"' in page
    assert ">Fabrics</h2>" in page


def test_scenarios_breakers_models_and_members_are_found_by_name(browser, actor, doubtful):
    breaker, model = list_breaker_views(actor)[0].name, models_list(actor).models[0].spec.name
    names = {"scenario": "loop", "breaker": breaker, "model": model, "member": actor.name}
    for kind, name in names.items():
        page = browser.get("/search", {"q": name}, headers=SCRIPTED).content.decode()
        assert re.search(rf'palette-elsewhere-\d+" href="/[^"]+".*?<small>{kind}</small>', page, re.DOTALL), kind
    assert "Elsewhere" not in browser.get("/search?q=ow", headers=SCRIPTED).content.decode()


def test_a_fabric_that_is_found_offers_what_its_viewer_may_do(browser, actor, doubtful):
    page = browser.get("/search?q=doubtful", headers=SCRIPTED).content.decode()
    acts = re.findall(r'palette-act-\d+" href="([^"]+)".*?<span>([^<]+)</span>', page, re.DOTALL)
    assert acts == [
        ("/runs/start?fabric=doubtful", "Start a run of doubtful"),
        ("/fabrics/doubtful#edit", "Edit doubtful"),
        ("/drills/coverage?fabric=doubtful", "Drill doubtful"),
    ]


def test_a_review_is_found_by_its_id(browser, actor, doubtful):
    run = ran(actor, doubtful)
    key = browser.get(f"/runs/{run.id}").content.decode().split('id="review-')[1].split('"')[0]
    page = browser.get(f"/search?q={key[:8]}").content.decode()
    assert f'href="/reviews/{key}"' in page


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("x" * 300, "has 300 characters, 200 are looked at"),
        ("a%00b", "a character that no text has"),
        ("a+" * 20, "has 20 words"),
    ],
)
def test_what_cannot_be_searched_for_is_a_sentence_beside_the_field(browser, asked, said):
    page = browser.get(f"/search?q={asked}")
    assert page.status_code == 422
    assert said in page.content.decode()
    assert b'aria-invalid="true"' in page.content
    within = browser.get(f"/search?q={asked}", headers=SCRIPTED)
    assert within.status_code == 200
    assert said in within.content.decode()


def test_more_than_twenty(browser, actor, small):
    for n in range(21):
        queued(actor, small, f"request {n}")
    page = browser.get("/search?q=request").content.decode()
    assert page.partition("Elsewhere</h2>")[0].count("<tr>") == 21  # The head, and twenty.
    assert "the first 20, there are more" in page
    assert "the first 20" in browser.get("/search?q=request", headers=SCRIPTED).content.decode()


def test_the_palette_gets_rows_and_no_page(browser, actor, small):
    run_id = queued(actor, small, "runs like this")
    rows = browser.get("/search?q=runs", headers=SCRIPTED)
    text = rows.content.decode()
    assert "<html" not in text
    assert text.count('role="option"') == 3
    assert 'href="/runs"' in text
    assert 'href="/runs/stops"' in text
    assert f'href="/runs/{run_id}"' in text
    assert {"HX-Request", "Cookie"} <= set(rows.headers["Vary"].split(", "))
    assert "No results" in browser.get("/search?q=zzzz", headers=SCRIPTED).content.decode()
    everywhere = browser.get("/search?q=", headers=SCRIPTED).content.decode()
    assert everywhere.count('role="option"') == len(places(rows=offered_places(staff=True)))


def test_what_a_run_is_called_is_inert(browser, actor, small):
    queued(actor, small, "<script>alert(1)</script> \u202eevil")
    for headers in ({}, SCRIPTED):
        page = browser.get("/search?q=evil", headers=headers).content.decode()
        assert "<script>alert" not in page
        assert "\u202e" not in page
        assert "⟨U+202E⟩" in page


@pytest.mark.parametrize("method", ["post", "put", "delete"])
def test_it_only_reads(browser, method):
    assert getattr(browser, method)("/search").status_code == 405
