"""The pages of a fabric's memories: empty, full, one key, and deleting it without a script."""

import re
from html import unescape
from uuid import uuid4

import pytest

from console.pages.memories.views import BECAME, GLANCE_CHARS
from fabric.models import AuditLine, MemoryEntry
from fabric.selectors.fabrics.lookup import fabric_get
from fabric.selectors.memories.lookup import EntryFate
from fabric.services.fabrics.revisions import fabric_publish
from tests.console.bad_input import remember
from tests.fabric.services.memories.test_changes import REMEMBERING
from tests.people import member, signed_in

TAB = "/fabrics/remembering?tab=memory"
PAGE = "/fabrics/remembering/memory/notes"


def text(response):
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", response.content.decode())).split())


@pytest.fixture
def fabric_id(actor):
    fabric_publish(actor=actor, source=REMEMBERING)
    return fabric_get(actor, "remembering").id


def test_a_fabric_without_memories_says_how_to_have_one(browser, small):
    assert "This fabric has no memory" in text(browser.get(f"/fabrics/{small}?tab=memory"))


def test_an_empty_memory_says_who_may_do_what_and_that_nothing_stands_there(browser, fabric_id):
    shown = text(browser.get(TAB))
    assert "notes 0 of 100 keys · 30 days" in shown
    assert "write reader read reader delete no agent" in shown
    assert "Empty. Values that runs" in shown
    assert "scratch one per run; it ends with the run" in shown


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


def test_a_key_that_no_database_could_hold_is_looked_up_as_it_would_be_kept(browser, fabric_id):
    """With a NUL in it a key is no text to PostgreSQL: the page never hands it on as it came, which on SQLite would do no harm and find nothing."""
    assert browser.get(PAGE, {"key": "bud\0get"}).status_code == 404
    remember(fabric_id, "bud\ufffdget", value='"kept"')
    assert "kept" in text(browser.get(PAGE, {"key": "bud\0get"}))


def test_a_key_is_deleted_with_a_reason(browser, fabric_id):
    remember(fabric_id)
    assert "required; kept in the audit stream" in text(browser.get(f"{PAGE}?key=budget"))
    sent = {"key": "budget", "version": 1}
    refused = browser.post(PAGE, {**sent, "reason": " "})
    assert refused.status_code == 422
    assert "Deleting what a fabric remembers needs a reason" in text(refused)
    stale = browser.post(PAGE, {**sent, "version": 2, "reason": "It is wrong."})
    assert (stale.status_code, "changed meanwhile" in text(stale), "It is wrong." in text(stale)) == (409, True, True)
    assert browser.post(PAGE, {**sent, "reason": "It is wrong."})["Location"] == TAB
    shown = text(browser.get(TAB))
    assert "budget is deleted. No run reads it any more." in shown
    assert "Empty. Values that runs" in shown
    assert not MemoryEntry.objects.exclude(value="").exists()
    assert AuditLine.objects.filter(kind="memory_deleted").count() == 1


def test_who_may_only_look_has_no_button_and_is_refused(owner, fabric_id):
    remember(fabric_id)
    browser = signed_in(member("vera", "viewer"))
    response = browser.get(f"{PAGE}?key=budget")
    assert "This is for operators and the owner" in text(response)
    assert b">Delete budget</button>" not in response.content
    assert browser.post(PAGE, {"key": "budget", "version": 1, "reason": "No."}).status_code == 403


WRITTEN = {"act": "write", "key": "office", "version": 0, "value": '{"open": "9-17"}', "reason": "Told by the office."}


def test_a_key_is_written_by_hand_and_its_history_says_by_whom(browser, fabric_id):
    assert browser.post(PAGE, WRITTEN)["Location"] == TAB
    assert "office is written. New runs read it." in text(browser.get(TAB))
    again = WRITTEN | {"version": 1, "value": '"closed"', "reason": "It moved."}
    assert browser.post(PAGE, again)["Location"] == TAB
    shown = text(browser.get(f"{PAGE}?key=office"))
    assert re.search(
        r"2 entries.* 2 current closed owner : It moved\. .* 1 replaced .* owner : Told by the office\.", shown
    )
    assert [line.kind for line in AuditLine.objects.filter(kind="memory_written")] == ["memory_written"] * 2


@pytest.mark.parametrize(
    ("other", "status", "said"),
    [
        ({"value": "{"}, 422, "This is no JSON"),
        ({"value": " "}, 422, "Give a value as JSON"),
        ({"reason": ""}, 422, "Writing what a fabric remembers needs a reason"),
        ({"key": "-"}, 422, "takes no such entry"),
        ({"key": ""}, 422, "The form was incomplete"),
        ({"version": 3}, 409, "changed meanwhile"),
        ({"value": f'"{"x" * 10_001}"'}, 413, "at most 10,000 are kept"),
    ],
)
def test_what_is_wrong_with_a_writing_stands_in_the_form_with_what_was_typed(browser, fabric_id, other, status, said):
    response = browser.post(PAGE, WRITTEN | other)
    assert (response.status_code, said in text(response)) == (status, True)
    if other.get("reason") != "":
        assert "Told by the office." in text(response)
    assert not MemoryEntry.objects.exists()


def test_a_deleted_key_shows_its_history_and_can_be_written_anew(browser, fabric_id):
    remember(fabric_id)
    browser.post(PAGE, {"key": "budget", "version": 1, "reason": "It is wrong."})
    response = browser.get(f"{PAGE}?key=budget")
    shown = text(response)
    assert "Empty: no run reads it." in shown
    assert re.search(r"2 deleted a deletion owner : It is wrong\. .* 1 replaced erased reader in", shown)
    assert b">Delete budget</button>" not in response.content
    assert browser.post(PAGE, WRITTEN | {"key": "budget"})["Location"] == TAB


def test_the_ledger_is_a_file(browser, fabric_id):
    remember(fabric_id)
    response = browser.post(f"{PAGE}/export")
    assert response["Content-Disposition"] == 'attachment; filename="remembering.notes.ndjson"'
    assert b'"became": "stands"' in b"".join(response.streaming_content)
    assert browser.get(f"{PAGE}/export").status_code == 405
    assert AuditLine.objects.filter(kind="memory_exported").count() == 1


def test_each_fate_of_an_entry_has_its_words():
    assert set(BECAME) == set(EntryFate)
