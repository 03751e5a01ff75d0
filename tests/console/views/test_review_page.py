"""The page of one question: why it stopped, what follows, the typed form with its difference, and what becomes of it after an answer."""

from __future__ import annotations

import html
import re

import pytest

from fabric.models import Escalation, Inbox
from fabric.selectors.escalations import escalations_open
from fabric.services.fabrics import fabric_publish
from tests.fabric.services.world import COSTLY, ran


@pytest.fixture
def doubt(actor, doubtful):
    return escalations_open(actor, ran(actor, doubtful).id)[0]


@pytest.fixture
def payment(actor, paying):
    return escalations_open(actor, ran(actor, paying).id)[0]


def text_of(answer):
    return html.unescape(" ".join(re.sub("<[^>]+>", " ", answer.content.decode()).split()))


def send(browser, item, verb, *, way="decision", scripted=False, **fields):
    data = {"page": "review", "verb": verb, "digest": item.digest, **fields}
    headers = {"HX-Request": "true"} if scripted else {}
    return browser.post(f"/reviews/{item.id}/{way}", data, headers=headers)


def typed(to="Ana", usd="90", **more):
    """The fields of the payment's arguments, in the order of their schema."""
    return {"typed": "1", "e-0": to, "e-1": usd, **more}


def decisions(item):
    return [bytes(row.body) for row in Inbox.objects.filter(run_id=item.run_id, input_id__startswith="decision")]


def test_it_says_why_the_stage_stopped_gate_by_gate(browser, doubt):
    page = browser.get(f"/reviews/{doubt.id}").content.decode()
    gates = re.findall(r'<path class="gate (\w+)".*?<span>(\w+)<span class="vh">', page, flags=re.DOTALL)
    assert gates == [
        ("pass", "schema"),
        ("pass", "policy"),
        ("pass", "invariants"),
        ("pass", "grounding"),
        ("fail", "confidence"),
    ]
    assert "0.55 &lt; tau 0.7" in page


def test_it_says_what_follows_from_each_answer(browser, doubt):
    said = text_of(browser.get(f"/reviews/{doubt.id}"))
    assert "The run goes on with this result." in said
    assert re.search(r"[Rr]esumes at \w+(,| with) \$[\d.]+.*? 2 replans left", said)
    assert "The run ends as aborted. It may be forked from seq" in said
    assert "Held for" in said
    assert doubt.digest[:8] in said


def test_it_says_what_becomes_of_it_in_time(browser, doubt):
    page = browser.get(f"/reviews/{doubt.id}").content.decode()
    rows = re.search(r'<table class="due-t">.*?</table>', page, flags=re.DOTALL)
    assert rows
    assert re.findall(r"<td>(?:<span[^>]*>.*?</svg>)?([^<]+)<", rows[0]) == [
        "opened",
        "reminder",
        "passed on to owner",
        "Rejected by the system",
    ]


def test_the_form_is_made_of_the_tools_schema(browser, payment):
    page = browser.get(f"/reviews/{payment.id}").content.decode()
    assert 'name="e-0" value="Ana"' in page
    assert re.search(r'name="e-1" value="90".*?inputmode="numeric"', page, flags=re.DOTALL)
    assert "integer, at most 100, required" in page
    assert 'name="edited"' not in page


def test_an_edit_keeps_its_types(browser, payment):
    done = send(browser, payment, "edit", **typed(usd="12"))
    assert done.headers["Location"] == f"/reviews/{payment.id}"
    (body,) = decisions(payment)
    assert b'"edited":{"to":"Ana","usd":12}' in body
    said = text_of(browser.get(f"/reviews/{payment.id}"))
    assert "You edited this" in said
    assert "Undo" in said


def test_what_does_not_fit_is_said_at_its_field_and_nothing_is_lost(browser, payment):
    for scripted in (False, True):
        refused = send(browser, payment, "edit", message="Less.", scripted=scripted, **typed(to="Ben", usd="many"))
        assert refused.status_code == 422
        page = refused.content.decode()
        assert re.search(r'name="e-1" value="many"[^>]*aria-invalid="true" aria-describedby="e-e-1"', page)
        assert "Give a whole number" in page
        assert 'name="e-0" value="Ben"' in page
        assert "Less.</textarea>" in page
        assert ("<!doctype" in page) is not scripted
    assert decisions(payment) == []


def test_what_the_schema_refuses_is_said_at_its_field(browser, payment):
    refused = send(browser, payment, "edit", **typed(usd="400"))
    assert refused.status_code == 422
    page = html.unescape(refused.content.decode())
    field = re.search(r'<label for="e-1">.*?</div>\s*</div>', page, flags=re.DOTALL)
    assert field
    assert "100" in re.sub("<[^>]+>", "", field[0].partition('id="e-e-1"')[2])


def test_nothing_changed_is_no_edit_and_something_changed_is_no_approval(browser, payment):
    refused = send(browser, payment, "edit", **typed())
    assert refused.status_code == 422
    assert b"You changed nothing" in refused.content
    refused = send(browser, payment, "approve", **typed(usd="12"))
    assert refused.status_code == 422
    assert b"You changed what is asked about" in refused.content
    assert decisions(payment) == []
    assert send(browser, payment, "approve", **typed()).status_code == 302


def test_no_answer_picked(browser, payment):
    refused = send(browser, payment, "")
    assert refused.status_code == 422
    assert b"Pick an answer." in refused.content


def test_an_edit_is_compared_before_it_is_sent(browser, payment):
    part = send(browser, payment, "edit", way="changes", scripted=True, **typed(usd="12"))
    assert part.status_code == 200
    assert "<!doctype" not in part.content.decode()
    assert "1 of 2 fields" in text_of(part)
    assert '<li class="add">' in part.content.decode()
    whole = send(browser, payment, "edit", way="changes", **typed(usd="12"))
    assert whole.status_code == 200
    page = whole.content.decode()
    assert 'name="e-1" value="12"' in page
    assert 'id="v-edit" checked' in page
    assert "1 of 2 fields" in text_of(whole)
    assert decisions(payment) == [], "it was looked at, and nothing was recorded"


def test_what_was_taken_back_stands_in_the_form_again(browser, payment):
    send(browser, payment, "edit", message="Less.", **typed(usd="12"))
    send(browser, payment, "", way="undo")
    page = browser.get(f"/reviews/{payment.id}").content.decode()
    assert "You took your answer back." in page
    assert 'name="e-1" value="12"' in page
    assert 'id="v-edit" checked' in page
    assert "Less.</textarea>" in page
    assert "1 of 2 fields" in re.sub("<[^>]+>", "", page)


def test_the_next_one_comes_up_where_that_is_asked(browser, actor, payment, doubtful):
    other = escalations_open(actor, ran(actor, doubtful).id)[0]
    first, second = sorted((payment, other), key=lambda item: (item.due_at, item.id))
    done = send(browser, first, "approve", advance="1")
    assert done.headers["Location"] == f"/reviews/{second.id}?decided={first.id}"
    page = browser.get(done.headers["Location"]).content.decode()
    assert f'action="/reviews/{first.id}/undo"' in page
    assert 'name="advance" value="1" checked' in page, "it is remembered"
    scripted = send(browser, second, "approve", scripted=True)
    assert scripted.headers["HX-Redirect"] == f"/reviews/{second.id}"
    assert 'name="advance" value="1" checked' not in browser.get(f"/reviews/{second.id}").content.decode()


def test_who_was_faster_is_said_and_the_edit_is_kept(browser, payment):
    Escalation.objects.filter(id=payment.id).update(
        decided_at=payment.opened_at + 1, verb="approve", decided_by="ana", by_system=False
    )
    for scripted in (False, True):
        refused = send(browser, payment, "edit", message="Too much.", scripted=scripted, **typed(usd="12"))
        assert refused.status_code == 409
        said = text_of(refused)
        assert "was answered by ana at" in said
        assert "You wanted to edit" in said
        assert "1 of 2 fields" in said
        assert "Too much." in said
        assert b'name="verb"' not in refused.content


def test_a_question_that_the_system_closed_and_one_that_was_withdrawn(browser, payment):
    rows = Escalation.objects.filter(id=payment.id)
    rows.update(decided_at=payment.due_at, verb="reject", decided_by="system", by_system=True)
    said = text_of(browser.get(f"/reviews/{payment.id}"))
    assert "Rejected by the system" in said
    assert "Nobody answered in time." in said
    rows.update(verb="withdrawn", decided_by="the run ended", by_system=False)
    assert "It no longer mattered: the run ended." in text_of(browser.get(f"/reviews/{payment.id}"))


def test_a_new_cap_is_offered_with_the_approval(browser, actor):
    (item,) = escalations_open(actor, ran(actor, fabric_publish(actor=actor, source=COSTLY).name).id)
    page = browser.get(f"/reviews/{item.id}").content.decode()
    assert 'name="cap_usd"' in page
    assert "high-stakes regulated" in page


def test_unknown_and_foreign_ones_are_not_here(browser, stranger):
    for address in ("/reviews/0123456789abcdef", "/reviews/0123456789abcdef/changes"):
        assert browser.get(address).status_code in (404, 405)
    assert browser.post("/reviews/0123456789abcdef/changes", {}).status_code == 404
