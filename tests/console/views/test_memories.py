"""What a fabric remembers, on its pages: empty, full, one key, and deleting it without a script."""

import re
from html import unescape
from uuid import uuid4

import pytest

from console.views.memories import GLANCE_CHARS
from fabric.models import AuditLine, MemoryEntry
from fabric.selectors.fabrics import fabric_get
from fabric.services import memories
from fabric.services.fabrics import fabric_publish
from tests.console.bad_input import remember
from tests.fabric.services.test_memories import REMEMBERING

TAB = "/fabrics/remembering?tab=memory"
PAGE = "/fabrics/remembering/memory/notes"


def text(response):
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", response.content.decode())).split())


@pytest.fixture
def fabric_id(actor):
    fabric_publish(actor=actor, source=REMEMBERING)
    return fabric_get(actor, "remembering").id


def test_a_fabric_without_memories_says_how_to_have_one(browser, small):
    assert "This fabric remembers nothing" in text(browser.get(f"/fabrics/{small}?tab=memory"))


def test_an_empty_memory_says_who_may_do_what_and_that_nothing_stands_there(browser, fabric_id):
    shown = text(browser.get(TAB))
    assert "notes 0 of 100 keys · 30 days" in shown
    assert "write reader read reader delete no agent" in shown
    assert "Nothing stands here yet" in shown
    assert "scratch of each run: it ends with the run" in shown


def test_each_key_stands_with_its_version_and_links_to_the_run_that_wrote_it(browser, fabric_id):
    run_id = str(uuid4())
    remember(fabric_id, "a/b c", run_id=run_id, version=7, value='"<b>bold</b>"')
    remember(fabric_id, "z", value=f'"{"x" * 500}"')
    remember(fabric_id, "undone", undone_at=5)
    response = browser.get(TAB)
    shown = text(response)
    assert "2 of 100 keys" in shown
    assert re.search(r"a/b c .*<b>bold</b>.* 7 reader in", shown)
    assert f'href="/runs/{run_id}"'.encode() in response.content
    assert b"<b>bold" not in response.content
    assert "x" * (GLANCE_CHARS + 1) not in shown
    assert "undone" not in shown
    link = re.search(r'href="(/fabrics/remembering/memory/notes\?key=a[^"]*)"', response.content.decode())[1]
    assert "version 7" in text(browser.get(unescape(link)))


def test_without_a_key_the_page_is_the_fabrics_own(browser, fabric_id):
    assert browser.get(PAGE)["Location"] == TAB
    assert browser.get("/fabrics/remembering/memory/nosuch").status_code == 404
    assert browser.get(f"{PAGE}?key=nosuch").status_code == 404


def test_a_key_is_deleted_with_a_reason(browser, fabric_id):
    remember(fabric_id)
    assert "needed, kept in the audit stream" in text(browser.get(f"{PAGE}?key=budget"))
    sent = {"key": "budget", "version": 1}
    refused = browser.post(PAGE, {**sent, "reason": " "})
    assert refused.status_code == 422
    assert "Deleting what a fabric remembers needs a reason" in text(refused)
    stale = browser.post(PAGE, {**sent, "version": 2, "reason": "It is wrong."})
    assert (stale.status_code, "changed meanwhile" in text(stale), "It is wrong." in text(stale)) == (409, True, True)
    assert browser.post(PAGE, {**sent, "reason": "It is wrong."})["Location"] == TAB
    shown = text(browser.get(TAB))
    assert "budget is deleted: no run reads it any more." in shown
    assert "Nothing stands here yet" in shown
    assert not MemoryEntry.objects.exclude(value="").exists()
    assert AuditLine.objects.filter(kind="memory_deleted").count() == 1


def test_who_may_only_look_has_no_button_and_is_refused(browser, fabric_id, monkeypatch):
    remember(fabric_id)
    monkeypatch.setattr(memories, "OPERATORS", frozenset({"nobody"}))
    response = browser.get(f"{PAGE}?key=budget")
    assert "This is for operators and the owner" in text(response)
    assert b"btn danger" not in response.content
    assert browser.post(PAGE, {"key": "budget", "version": 1, "reason": "No."}).status_code == 403
