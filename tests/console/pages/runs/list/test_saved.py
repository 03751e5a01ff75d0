"""Saved views and columns in the browser, without JavaScript."""

from __future__ import annotations

import re

from django.db import connection
from django.test.utils import CaptureQueriesContext

from console.pages.runs.list.saved import COLUMN_WORDS
from fabric.models import SavedView
from fabric.selectors.runs.saved_views import COLUMNS
from fabric.services.runs.saved_views import view_save
from tests.fabric.services.runs.jobs.worlds import queue_runs
from tests.people import member, signed_in


def headings(page: str) -> list[str]:
    table = page[page.index("runs-list") :]
    head = table[table.index("<thead>") : table.index("</thead>")]
    found = re.findall(r'<th scope="col"[^>]*>(.*?)</th>', head, flags=re.DOTALL)
    return [re.sub(r"<svg.*?</svg>|<[^>]+>", " ", text).split()[0] for text in found]


def test_every_column_has_its_word():
    assert set(COLUMN_WORDS) == set(COLUMNS)


def test_a_view_is_saved_and_becomes_a_tab(browser, actor, small):
    queue_runs(actor, small, 1)
    answer = browser.post("/runs/views", {"name": "Queued <now>", "q": "state:queued", "sort": ""})
    assert (answer.status_code, answer["Location"]) == (302, "/runs?q=state%3Aqueued")
    page = browser.get(answer["Location"]).content.decode()
    assert re.search(r'<a href="/runs\?q=state%3Aqueued" aria-current="page">Queued &lt;now&gt;', page)
    assert "is saved" in page


def test_a_wrong_name_keeps_what_was_typed(browser, actor, small):
    view_save(actor=actor, name="Mine")
    answer = browser.post("/runs/views", {"name": "mine", "q": "state:failed", "with_columns": "1", "column": "cost"})
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "A view of yours is named" in page
    assert 'name="q" value="state:failed"' in page
    assert 'name="column" value="cost"' in page
    assert browser.post("/runs/views", {"name": " "}).status_code == 422
    assert SavedView.objects.count() == 1


def test_views_are_renamed_and_deleted(browser, actor):
    saved = view_save(actor=actor, name="Mine")
    assert browser.post(f"/runs/views/{saved.id}", {"act": "rename", "name": ""}).status_code == 422
    browser.post(f"/runs/views/{saved.id}", {"act": "rename", "name": "Other"})
    assert 'value="Other"' in browser.get("/runs/views").content.decode()
    browser.post(f"/runs/views/{saved.id}", {"act": "delete"})
    assert "No view is saved" in browser.get("/runs/views").content.decode()
    assert browser.post(f"/runs/views/{saved.id}", {"act": "delete"}).status_code == 404


def test_a_shared_view_is_offered_to_others_without_its_buttons(browser, actor, small):
    view_save(actor=actor, name="Ours", query="state:queued", shared=True)
    vera = signed_in(member("vera", "viewer"))
    listed = vera.get("/runs").content.decode()
    assert 'title="Shared by owner">Ours' in listed
    assert "shared with the workspace" not in listed
    assert "Rename" not in vera.get("/runs/views").content.decode()
    assert vera.post("/runs/views", {"name": "x", "shared": "1"}).status_code == 403


def test_columns_are_chosen_and_kept_also_in_the_news(browser, actor, small):
    (run_id,) = queue_runs(actor, small, 1)
    assert headings(browser.get("/runs").content.decode()) == [
        "Select", "State", "Run", "Fabric", "Stages", "Started", "Cost", "Tokens", "Protections",
    ]  # fmt: skip
    answer = browser.post("/runs/columns", {"column": ["state", "cost", "nothing"], "q": "state:queued"})
    assert answer["Location"] == "/runs?q=state%3Aqueued"
    page = browser.get("/runs").content.decode()
    assert headings(page) == ["Select", "State", "Run", "Cost"]
    row = page[page.index(f'<tr id="run-{run_id}"') :].partition("</tr>")[0]
    assert [name for name in COLUMNS if f"c-{name}" in row] == ["state", "cost"]
    news = browser.get("/runs/news", {"seen": f"{run_id}.99"}).content.decode()
    assert ("c-cost" in news, "c-tokens" in news) == (True, False)


def test_the_columns_of_a_view_apply_while_it_is_shown(browser, actor, small):
    queue_runs(actor, small, 1)
    view_save(actor=actor, name="Money", query="state:queued", columns=["cost"])
    assert headings(browser.get("/runs?q=state:queued").content.decode()) == ["Select", "Run", "Cost"]
    assert len(headings(browser.get("/runs?q=tier:interactive").content.decode())) == 9


def test_saved_views_and_columns_cost_one_statement_each(browser, actor):
    def read_tables() -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            assert browser.get("/runs").status_code == 200
        sql = [one["sql"] for one in captured]
        return [
            table for one in sql for table in ("fabric_saved_view", "fabric_column_choice") if f'FROM "{table}"' in one
        ]

    assert sorted(read_tables()) == ["fabric_column_choice", "fabric_saved_view"]
    for number in range(9):
        view_save(actor=actor, name=f"View {number}", query="state:failed", sort="", columns=(), shared=number % 2 == 0)
    assert sorted(read_tables()) == ["fabric_column_choice", "fabric_saved_view"]
