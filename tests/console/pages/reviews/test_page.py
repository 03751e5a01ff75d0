"""The page of one review: why it stopped, what follows, the typed form with its difference, and what becomes of it after an answer."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest

from fabric.core.values.fingerprint import encode
from fabric.models import FollowUpClosure, Inbox, Notification, Review, Run
from fabric.runtime.ports.batch_parts import names_text
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.reviews.queue import Tab, queue_page
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.reviews.follow_ups import close_follow_up
from tests.fabric.services.world import COSTLY, GIVEN_UP, PAYING, ran
from tests.people import member, signed_in


@pytest.fixture
def doubt(actor, doubtful):
    return list_open_reviews(actor, ran(actor, doubtful).id)[0]


@pytest.fixture
def payment(actor, paying):
    return list_open_reviews(actor, ran(actor, paying).id)[0]


def text_of(answer):
    return html.unescape(" ".join(re.sub("<[^>]+>", " ", answer.content.decode()).split()))


def send(browser, item, verb, *, way="decision", scripted=False, **fields):
    data = {"verb": verb, "digest": item.digest, **fields}
    headers = {"HX-Request": "true"} if scripted else {}
    return browser.post(f"/reviews/{item.id}/{way}", data, headers=headers)


def typed(to="Ana", usd="90", **more):
    """The fields of the payment's arguments."""
    return {"typed": "[{}, []]", "f.to": to, "f.usd": usd, **more}


def decisions(item):
    return [bytes(row.body) for row in Inbox.objects.filter(run_id=item.run_id, input_id__startswith="decision")]


def test_it_says_why_the_stage_stopped_gate_by_gate(browser, doubt):
    page = browser.get(f"/reviews/{doubt.id}").content.decode()
    gates = re.findall(r'<path class="gate (\w+)".*?<span>(\w+)<span class="vh">', page, flags=re.DOTALL)
    assert gates == [
        ("pass", "schema"),
        ("wait", "policy"),
        ("wait", "invariants"),
        ("wait", "grounding"),
        ("fail", "confidence"),
    ]
    assert "0.55, needed 0.7" in page
    assert page.count("<small>not configured</small>") == 3


def test_it_shows_the_evidence_and_where_all_of_it_stands(browser, doubt):
    page = browser.get(f"/reviews/{doubt.id}").content.decode()
    box = re.search(r'<section class="card" aria-labelledby="h-evidence".*?</section>', page, flags=re.DOTALL)
    assert box
    assert "0.55, needed 0.7" in box[0]
    assert re.search(rf'href="/runs/{doubt.run_id}\?view=events&amp;event=\d+"', box[0])
    assert "Contents are withheld" not in box[0]


def test_it_says_what_follows_from_each_answer(browser, doubt):
    said = text_of(browser.get(f"/reviews/{doubt.id}"))
    assert "The run continues with this result." in said
    assert re.search(r"[Rr]esumes at \w+(,| with) \$[\d.]+.*? 2 replans left", said)
    assert "The run ends as aborted. You can fork it from event" in said
    assert "Held for" in said
    assert doubt.digest[:8] in said


def test_it_says_what_becomes_of_it_in_time(browser, doubt):
    page = browser.get(f"/reviews/{doubt.id}").content.decode()
    rows = re.search(r'<table class="due-t">.*?</table>', page, flags=re.DOTALL)
    assert rows
    assert re.findall(r"<td>(?:<span[^>]*>.*?</svg>)?([^<]+)<", rows[0]) == [
        "opened",
        "reminder",
        "escalated to owner",
        "Rejected by the system",
    ]


def test_the_form_is_made_of_the_tools_schema(browser, payment):
    page = browser.get(f"/reviews/{payment.id}").content.decode()
    assert 'name="f.to" value="Ana"' in page
    assert re.search(r'name="f.usd" value="90".*?inputmode="numeric"', page, flags=re.DOTALL)
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
        assert re.search(r'name="f.usd" value="many"[^>]*aria-invalid="true" aria-describedby="e.usd"', page)
        assert "Give a whole number" in page
        assert 'name="f.to" value="Ben"' in page
        assert "Less.</textarea>" in page
        assert ("<!doctype" in page) is not scripted
    assert decisions(payment) == []


def test_what_the_schema_refuses_is_said_at_its_field(browser, payment):
    refused = send(browser, payment, "edit", **typed(usd="400"))
    assert refused.status_code == 422
    page = html.unescape(refused.content.decode())
    field = re.search(r'<label for="f.usd">.*?</div>\s*</div>', page, flags=re.DOTALL)
    assert field
    assert "100" in re.sub("<[^>]+>", "", field[0].partition('id="e.usd"')[2])


def test_nothing_changed_is_no_edit_and_something_changed_is_no_approval(browser, payment):
    refused = send(browser, payment, "edit", **typed())
    assert refused.status_code == 422
    assert b"You changed nothing" in refused.content
    refused = send(browser, payment, "approve", **typed(usd="12"))
    assert refused.status_code == 422
    assert b"You changed the content" in refused.content
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
    assert 'name="f.usd" value="12"' in page
    assert 'id="v-edit" checked' in page
    assert "1 of 2 fields" in text_of(whole)
    assert decisions(payment) == [], "it was looked at, and nothing was recorded"


def test_what_was_taken_back_stands_in_the_form_again(browser, payment):
    send(browser, payment, "edit", message="Less.", **typed(usd="12"))
    send(browser, payment, "", way="undo")
    page = browser.get(f"/reviews/{payment.id}").content.decode()
    assert "You withdrew your answer." in page
    assert 'name="f.usd" value="12"' in page
    assert 'id="v-edit" checked' in page
    assert "Less.</textarea>" in page
    assert "1 of 2 fields" in re.sub("<[^>]+>", "", page)


def test_the_next_one_comes_up_where_that_is_asked(browser, actor, payment, doubtful):
    other = list_open_reviews(actor, ran(actor, doubtful).id)[0]
    first, second = sorted((payment, other), key=lambda item: (item.due_at, item.id))
    done = send(browser, first, "approve", advance="1")
    assert done.headers["Location"] == f"/reviews/{second.id}?decided={first.id}"
    page = browser.get(done.headers["Location"]).content.decode()
    assert f'action="/reviews/{first.id}/undo"' in page
    assert "<b>You approved</b>" in page
    assert 'name="advance" value="1" checked' in page, "it is remembered"
    scripted = send(browser, second, "approve", scripted=True)
    assert scripted.headers["HX-Redirect"] == f"/reviews/{second.id}"
    assert 'name="advance" value="1" checked' not in browser.get(f"/reviews/{second.id}").content.decode()


def test_who_was_faster_is_said_and_the_edit_is_kept(browser, payment):
    Review.objects.filter(id=payment.id).update(
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


def test_a_review_that_the_system_closed_and_one_that_was_withdrawn(browser, payment):
    rows = Review.objects.filter(id=payment.id)
    rows.update(decided_at=payment.due_at, verb="reject", decided_by="system", by_system=True)
    said = text_of(browser.get(f"/reviews/{payment.id}"))
    assert "Rejected by the system" in said
    assert "No one answered in time." in said
    rows.update(verb="withdrawn", decided_by="the run ended", by_system=False)
    assert "No longer needed: the run ended." in text_of(browser.get(f"/reviews/{payment.id}"))


def test_a_new_cap_is_offered_with_the_approval(browser, actor):
    (item,) = list_open_reviews(actor, ran(actor, fabric_publish(actor=actor, source=COSTLY).name).id)
    page = browser.get(f"/reviews/{item.id}").content.decode()
    assert 'name="cap_usd"' in page
    assert "high-stakes regulated" in page


def test_unknown_and_foreign_ones_are_not_here(browser, stranger):
    for address in ("/reviews/0123456789abcdef", "/reviews/0123456789abcdef/changes"):
        assert browser.get(address).status_code in (404, 405)
    assert browser.post("/reviews/0123456789abcdef/changes", {}).status_code == 404


# -- follow-ups ------------------------------------------------------------------------------------------------------


@pytest.fixture
def follow_up(actor):
    """A run that has ended with its first call, and the rows that it leaves."""
    ran(actor, fabric_publish(actor=actor, source=GIVEN_UP).name)
    return queue_page(actor, Tab.FOLLOW_UPS).rows[0].review


def close(browser, item, *, scripted=False, **fields):
    return browser.post(f"/reviews/{item.id}/close", fields, headers={"HX-Request": "true"} if scripted else {})


def test_a_follow_up_has_a_button_for_each_way_to_close_it_that_says_what_follows(browser, follow_up):
    page = browser.get(f"/reviews/{follow_up.id}")
    buttons = re.findall(
        r'<button type="submit" name="how" value="(\w+)".*?</button>', page.content.decode(), re.DOTALL
    )
    assert buttons == ["close", "fork"]
    said = text_of(page)
    assert "no run changes" in said
    assert re.search(r"From event \d+: It keeps nothing and does plan and what follows anew\.", said)
    assert b'name="verb"' not in page.content


@pytest.mark.parametrize("how", ["close", ""])
def test_it_is_closed_with_a_note(browser, follow_up, how):
    done = close(browser, follow_up, message="Asked the supplier.", how=how)
    assert done.headers["Location"] == f"/reviews/{follow_up.id}"
    said = text_of(browser.get(done.headers["Location"]))
    assert "The follow-up is closed. No run was changed." in said
    assert "Closed by owner" in said
    assert "Asked the supplier." in said
    assert [run.origin_run_id for run in Run.objects.all()] == [None]
    assert 'name="how"' not in browser.get(f"/reviews/{follow_up.id}").content.decode()


def test_it_is_closed_with_a_run_that_goes_on(browser, follow_up):
    done = close(browser, follow_up, scripted=True, message="Again.", how="fork", seq="2")
    assert done.headers["HX-Redirect"] == f"/reviews/{follow_up.id}"
    (fork,) = Run.objects.exclude(id=follow_up.run_id)
    assert (fork.origin_run_id, FollowUpClosure.objects.get().fork_run_id) == (follow_up.run_id, fork.id)
    page = browser.get(f"/reviews/{follow_up.id}").content.decode()
    assert "a new run continues from event 2" in page
    assert f'href="/runs/{fork.id}"' in page
    assert close(browser, follow_up, message="Again.", how="fork", seq="2").status_code == 302, "twice is once"
    assert Run.objects.count() == 2


@pytest.mark.parametrize("scripted", [False, True])
@pytest.mark.parametrize(
    ("fields", "status", "place", "said"),
    [
        ({"message": " ", "how": "close"}, 422, "e-message", "say what became of it"),
        ({"message": "x" * 4_001}, 413, "e-message", "make it shorter"),
        ({"message": "Kept.", "how": "fork"}, 422, "e-seq", "Give the event"),
        ({"message": "Kept.", "how": "fork", "seq": "two"}, 422, "e-seq", "such as 12"),
        ({"message": "Kept.", "how": "fork", "seq": "9999"}, 422, "e-seq", "no event 9999"),
        ({"message": "Kept.", "how": "throw"}, 422, "e-how", "Close the follow-up"),
    ],
)
def test_what_is_wrong_with_a_closing_is_said_at_its_field_and_nothing_is_lost(
    browser, follow_up, fields, status, place, said, scripted
):
    refused = close(browser, follow_up, scripted=scripted, **fields)
    assert refused.status_code == status
    page = html.unescape(refused.content.decode())
    assert said in page.partition(f'id="{place}"')[2].partition("</div>")[0]
    assert f"{fields['message'].strip()}</textarea>" in page
    assert ("<!doctype" in page) is not scripted
    assert not FollowUpClosure.objects.exists()
    assert Run.objects.count() == 1


def test_who_was_faster_with_a_follow_up_is_said_and_the_note_is_kept(browser, actor, follow_up):
    close_follow_up(actor=replace(actor, name="ana"), review_id=follow_up.id, note="Mine.")
    for scripted in (False, True):
        refused = close(browser, follow_up, scripted=scripted, message="No, mine.", how="fork", seq="2")
        assert refused.status_code == 409
        said = text_of(refused)
        assert "was closed by ana at" in said
        assert "No, mine." in said
    assert Run.objects.count() == 1


def test_who_may_not_close_a_follow_up_or_start_a_run_reads_who_may(follow_up):
    viewer, reviewer = (signed_in(member(name, role)) for name, role in (("vera", "viewer"), ("rita", "reviewer")))
    Review.objects.filter(id=follow_up.id).update(asked=names_text(["reviewer"]))
    page = viewer.get(f"/reviews/{follow_up.id}").content.decode()
    assert "You cannot close this:" in page
    assert f'action="/reviews/{follow_up.id}/close"' not in page
    assert close(viewer, follow_up, message="No.").status_code == 403
    page = text_of(reviewer.get(f"/reviews/{follow_up.id}"))
    assert "You cannot close this:" not in page
    assert "Starting a run is for" in page
    assert close(reviewer, follow_up, message="No.", how="fork", seq="2").status_code == 403
    assert close(reviewer, follow_up, message="Seen.").status_code == 302


def test_a_review_is_not_closed_like_a_follow_up(browser, payment):
    refused = close(browser, payment, message="Done.")
    assert refused.status_code == 422
    assert "is no follow-up" in text_of(refused)


# -- who was told ----------------------------------------------------------------------------------------------------


def notified(item, number, **more):
    """A notification of a review, as a worker left it."""
    row = {
        "id": f"{number:032x}", "workspace_id": item.workspace_id, "run_id": item.run_id, "seq": number, "told": "review",
        "channel": "email", "target": f"t{number}", "shown": f"ops{number}@example.org", "at": item.opened_at,
        "made_at": item.opened_at, "next_at": item.opened_at, "content": encode({"review_id": item.id}),
    }  # fmt: skip
    return Notification.objects.create(**row | more)


def test_it_says_who_was_told_how_and_what_became_of_it(browser, doubt, payment):
    assert "No notification was sent." in text_of(browser.get(f"/reviews/{doubt.id}"))
    notified(doubt, 1, state="sent", attempts=1, sent_at=doubt.opened_at)
    notified(
        doubt, 2, channel="webhook", told="reminder", attempts=3, error="https://hooks.example.org answered HTTP 503"
    )
    notified(doubt, 3, state="failed", attempts=16, error="mailbox unknown")
    notified(payment, 4, shown="elsewhere@example.org")
    page = text_of(browser.get(f"/reviews/{doubt.id}")).partition("Notifications")[2].partition("History")[0]
    for said in (
        "Sent", "ops1@example.org by e-mail: review", "1 attempt",
        "Trying again", "ops2@example.org by webhook: reminder of a review", "3 attempts", "answered HTTP 503",
        "Not sent", "16 attempts", "mailbox unknown",
    ):  # fmt: skip
        assert said in page, said
    assert "elsewhere" not in page
    assert page.count("Send again") == 2
    looking = signed_in(member("vera", "viewer")).get(f"/reviews/{doubt.id}")
    assert "Send again" not in text_of(looking)
    assert "mailbox unknown" in text_of(looking)


def test_it_is_sent_again_from_there(browser, doubt, payment):
    failed = notified(doubt, 3, state="failed", attempts=16, error="mailbox unknown")
    again = f"/notifications/{failed.id}/resend"
    assert signed_in(member("vera", "viewer")).post(again, {"review": doubt.id}).status_code == 403
    done = browser.post(again, {"review": doubt.id})
    assert done.headers["Location"] == f"/reviews/{doubt.id}"
    assert Notification.objects.get().state == "waiting"
    Notification.objects.update(state="sent")
    refused = browser.post(again, {"review": doubt.id})
    assert refused.status_code == 409
    assert "was sent already" in text_of(refused)
    assert 'id="decision"' in refused.content.decode(), "it is the page of the review"
    assert browser.post(again, {"review": "none"}).status_code == 404


def test_a_call_that_a_rule_asks_about_says_the_rule(browser, actor):
    ruled = PAYING.replace("effect: irreversible", "effect: idempotent\n    approve_when: args.usd > 50")
    item = list_open_reviews(actor, ran(actor, fabric_publish(actor=actor, source=ruled).name).id)[0]
    said = text_of(browser.get(f"/reviews/{item.id}"))
    assert "wants to call pay, whose rule asks for a person's word: args.usd > 50" in said
    assert re.search(r"rule args\.usd > 50", said)
    fabric = text_of(browser.get("/fabrics/paying?tab=agents"))
    assert "needs a review when args.usd > 50" in fabric
