"""Publishing on the console: what would be published and what follows, a second person, what was published meanwhile, drills and history of a draft."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from fabric.core.values.taxonomy import FailureType, Tier
from fabric.models import ChangeRequest, Draft, Fabric, Member, Revision
from fabric.selectors.drafts.lookup import draft_get
from fabric.selectors.fabrics.lookup import fabric_revisions, revision_get
from fabric.services.actors import find_actor
from fabric.services.drafts import changes as drafts
from fabric.services.drafts.scheduled import publications_carry_out
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.fabrics.yaml.edits import PutEdit
from fabric.worker.process.duties import database_us
from simulator.drills.batches.batch import batch_drill
from simulator.drills.models.tables import Drill
from simulator.drills.services.drills import drill_ask
from tests.fabric.services.world import EYES, SMALL, published_by_two, ran
from tests.people import member, signed_in

CELL = "decision_table:\n  provider_failure:\n    batch: {rungs: [{reaction: retry, times: 1}, {reaction: wait_for_breaker, times: 1}, {reaction: abort}]}\n"
LAX = "decision_table:\n  provider_failure:\n    high_stakes: {rungs: [{reaction: surface}], deviation: A pilot.}\n"
PAGE = "/fabrics/small/draft/publish"


def text(response, status=200):
    assert response.status_code == status, response.content[:2_000]
    main = response.content.decode().partition("<main")[2].replace("<wbr>", "")
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", main)).split())


def button(response, name):
    """A button's attributes and words."""
    found = re.search(
        rf'<button type="submit"([^>]*id="{name}"[^>]*)>(.*?)</button>', response.content.decode(), re.DOTALL
    )
    assert found, name
    return found[1], " ".join(unescape(re.sub(r"<[^>]+>", " ", found[2])).split())


@pytest.fixture
def drafted(actor, small):
    """A draft of the published fabric with this text; its step."""

    def make(source, by=actor):
        drafts.draft_of_fabric(actor=by, name=small)
        return drafts.draft_replace(actor=by, name=small, step=0, text=source).step

    return make


@pytest.fixture
def ana(owner):
    return member("ana")


@pytest.fixture
def eyes(actor):
    """A published fabric to whose changes two people agree."""
    return published_by_two(actor, EYES).name


# -- what would be published -------------------------------------------------------------------------------------------


def test_the_page_says_what_is_published_and_what_follows(browser, actor, drafted):
    ran(actor, "small")
    drafted(SMALL.replace("A small fabric", "Another") + CELL + "# Said by its author.\n")
    page = browser.get(PAGE)
    shown = text(page)
    assert "2 places against r1" in shown
    assert "title changed A small fabric Another" in shown
    assert "decision_table.provider_failure.batch.rungs" in shown
    assert "put in: # Said by its author." in shown
    assert "Expected behaviour changes in 1 cell" in shown
    assert "retry → wait for breaker, skipped → abort → run aborted" in shown, "the words of a drill's page"
    assert "This draft has no drill yet." in shown
    attributes, words = button(page, "publish")
    assert (words.removesuffix(" Ctrl ↵"), "disabled" in attributes) == ("Publish as r2: new runs use it", False)


def test_runs_that_go_on_keep_theirs_and_are_counted(browser, actor, doubtful):
    ran(actor, doubtful)
    drafts.draft_of_fabric(actor=actor, name=doubtful)
    drafts.draft_change(actor=actor, name=doubtful, step=0, edits=[PutEdit(("title",), "Another")], what="title")
    _, words = button(browser.get(f"/fabrics/{doubtful}/draft/publish"), "publish")
    assert words.startswith("Publish as r2: new runs use it; 1 running run keeps r1")


def test_publishing_leads_to_the_fabric_and_a_run(browser, actor, drafted):
    step = drafted(SMALL.replace("A small fabric", "Another"))
    done = browser.post(PAGE, {"step": step, "act": "publish"}, follow=True)
    assert done.redirect_chain == [("/fabrics/small", 302)]
    assert "r2 of small is published: new runs use it." in text(done)
    assert 'href="/runs/start?fabric=small"' in done.content.decode()
    assert (revision_get(actor, "small").spec.title, Draft.objects.count()) == ("Another", 0)


def test_a_version_shows_why_it_was_made(browser, actor, drafted):
    step = drafted(SMALL.replace("A small fabric", "Another"))
    assert 'name="message"' in browser.get(PAGE).content.decode()
    browser.post(PAGE, {"step": step, "act": "publish", "message": "The old one was <b>dull</b>."})
    _, (second, first) = fabric_revisions(actor, "small")
    assert (second.message, first.message) == ("The old one was <b>dull</b>.", "")
    shown = browser.get("/fabrics/small?tab=versions").content.decode()
    assert "The old one was &lt;b&gt;dull&lt;/b&gt;." in shown


def test_an_older_content_is_published_again_under_its_number(browser, actor, drafted):
    fabric_publish(actor=actor, source=SMALL.replace("A small fabric", "Second"))
    step = drafted(SMALL)
    assert button(browser.get(PAGE), "publish")[1].startswith("Publish again as r1")
    browser.post(PAGE, {"step": step, "act": "publish"})
    assert (revision_get(actor, "small").number, Revision.objects.count()) == (1, 2)


def test_errors_keep_it_and_lead_to_their_fields(browser, actor, drafted):
    step = drafted(SMALL.replace("model: script", "model: big"))
    page = browser.get(PAGE)
    assert "2 errors keep it from being published." in text(page)
    assert "disabled" in button(page, "publish")[0]
    assert re.search(r'href="/fabrics/small/draft\?part=\w+#f\.agents\.0\.model" data-problem', page.content.decode())
    refused = browser.post(PAGE, {"step": step, "act": "publish"})
    assert "no model is named 'big'" in text(refused, 422)
    assert Revision.objects.count() == 1


@pytest.mark.parametrize("source", ["", "name: [", "name: other\n", "- 1\n", "name: small\nagents: 7\n"])
def test_whatever_the_text_is_the_page_renders(browser, drafted, source):
    drafted(source)
    assert "disabled" in button(browser.get(PAGE), "publish")[0]
    assert browser.get("/fabrics/small/draft/history", headers={"HX-Request": "true"}).status_code == 200


def test_nothing_changed_is_nothing_to_publish(browser, drafted):
    step = drafted(SMALL)
    assert "This is the content of r1, which is published" in text(browser.get(PAGE))
    assert "has the content of r1" in text(browser.post(PAGE, {"step": step, "act": "publish"}), 409)


def test_an_older_page_publishes_nothing(browser, actor, drafted):
    step = drafted(SMALL.replace("A small fabric", "Seen"))
    drafts.draft_change(actor=actor, name="small", step=step, edits=[PutEdit(("title",), "Unseen")], what="title")
    assert "changed since this page was loaded" in text(browser.post(PAGE, {"step": step, "act": "publish"}), 409)
    assert Revision.objects.count() == 1


def test_a_new_fabric_is_published_from_its_draft(browser, actor):
    drafts.draft_begin(actor=actor, name="small", text=SMALL)
    page = browser.get(PAGE)
    assert "the first version of this fabric" in text(page)
    assert button(page, "publish")[1].startswith("Publish as r1")
    browser.post(PAGE, {"step": 0, "act": "publish"})
    assert Fabric.objects.get().published.number == 1


def test_deviations_are_shown_with_their_reasons(browser, drafted):
    drafted(SMALL + LAX)
    assert "Reason: A pilot." in text(browser.get(PAGE))


def test_who_may_not_publish_sees_a_button_that_says_for_whom_it_is(browser, ana, small):
    drafts.draft_of_fabric(actor=find_actor(ana), name=small)
    drafts.draft_change(actor=find_actor(ana), name=small, step=0, edits=[PutEdit(("title",), "Another")], what="title")
    Member.objects.filter(name="ana").update(roles="viewer")
    page = signed_in(ana).get(PAGE)
    assert 'disabled aria-describedby="lacks"' in button(page, "publish")[0]
    assert signed_in(ana).post(PAGE, {"step": 1, "act": "publish"}).status_code == 403


def test_the_statements_of_the_page_do_not_grow_with_runs(browser, actor, drafted):
    drafted(SMALL + CELL)
    counts = []
    for _ in range(2):
        browser.get(PAGE)
        with CaptureQueriesContext(connection) as asked:
            browser.get(PAGE)
        counts.append(len(asked.captured_queries))
        for _ in range(2):
            ran(actor, "small")
    assert counts[0] == counts[1]
    assert counts[0] <= 40


# -- a second person ---------------------------------------------------------------------------------------------------


def test_a_second_person_is_asked_and_agrees(browser, actor, eyes, ana):
    drafts.draft_of_fabric(actor=actor, name=eyes)
    step = drafts.draft_replace(actor=actor, name=eyes, step=0, text=EYES.replace("A small fabric", "Another")).step
    page = browser.get(PAGE)
    assert button(page, "publish")[1].startswith("Ask a second person")
    assert "You cannot approve it yourself." in text(page)
    assert "needs two people" in text(browser.post(PAGE, {"step": step, "act": "publish"}), 409).lower()
    browser.post(PAGE, {"step": step, "act": "request", "message": "The old one was <b>dull</b>."})
    asked = ChangeRequest.objects.get(state="open")
    here = f"/fabrics/small/requests/{asked.id}"
    assert "You asked for a second person" in text(browser.get(PAGE))
    assert "You asked for a second person" in text(browser.get("/fabrics/small/draft"))
    mine = browser.get(here)
    assert 'data-style="full"' in mine.content.decode().partition("Requested ")[2][:80]
    assert "You cannot approve your own change." in text(mine)
    assert 'id="approve"' not in mine.content.decode()
    theirs = signed_in(ana)
    assert "One change waits for your approval" in text(theirs.get("/"))
    assert f'href="{here}"' in theirs.get("/").content.decode()
    assert "1 for you to decide" in text(theirs.get("/runs"))
    assert "for your approval" not in text(browser.get("/")), "who asked cannot approve it"
    assert "owner asks for a second person" in text(theirs.get("/fabrics"))
    assert "owner asks for a second person" in text(theirs.get("/fabrics/small"))
    shown = theirs.get(here)
    assert "The old one was <b>dull</b>." in text(shown)
    assert "title changed A small fabric Another" in text(shown)
    assert button(shown, "approve")[1] == "Approve and publish r2"
    done = theirs.post(here, {"act": "approve", "digest": asked.digest}, follow=True)
    assert "r2 of small is published, requested by owner." in text(done)
    assert revision_get(actor, eyes).spec.title == "Another"
    assert fabric_revisions(actor, eyes)[1][0].message == "The old one was <b>dull</b>."
    assert "published 2" in re.sub(r"[^a-z0-9 ]", "", text(browser.get(here)).lower()) or "as r2" in text(
        browser.get(here)
    )
    assert Draft.objects.count() == 0


def test_who_asked_agrees_by_no_form(browser, actor, eyes, ana):
    drafts.draft_of_fabric(actor=actor, name=eyes)
    step = drafts.draft_replace(actor=actor, name=eyes, step=0, text=SMALL).step
    browser.post(PAGE, {"step": step, "act": "request"})
    asked = ChangeRequest.objects.get(state="open")
    here = f"/fabrics/small/requests/{asked.id}"
    for act in ("approve", "reject"):
        sent = {"act": act, "digest": asked.digest, "reason": "Fine."}
        assert "cannot approve it" in text(browser.post(here, sent), 403)
    assert browser.post(here, {"act": "withdraw"}).status_code == 302
    assert "Withdrawn" in text(browser.get(here))


def test_a_rejection_has_a_reason_that_its_author_reads(browser, actor, eyes, ana):
    drafts.draft_of_fabric(actor=actor, name=eyes)
    step = drafts.draft_replace(actor=actor, name=eyes, step=0, text=SMALL).step
    browser.post(PAGE, {"step": step, "act": "request"})
    here = f"/fabrics/small/requests/{ChangeRequest.objects.get(state='open').id}"
    theirs = signed_in(ana)
    assert "Say why it is rejected" in text(theirs.post(here, {"act": "reject", "reason": " "}), 422)
    theirs.post(here, {"act": "reject", "reason": "Keep the eyes."})
    assert "ana rejected your request: Keep the eyes." in text(browser.get(PAGE))
    assert "Keep the eyes." in text(browser.get("/fabrics/small/draft"))


def test_a_change_of_the_draft_voids_the_request_and_says_so(browser, actor, eyes, ana):
    drafts.draft_of_fabric(actor=actor, name=eyes)
    step = drafts.draft_replace(actor=actor, name=eyes, step=0, text=SMALL).step
    browser.post(PAGE, {"step": step, "act": "request"})
    asked = ChangeRequest.objects.get(state="open")
    browser.post("/fabrics/small/draft?part=basics", {"step": step, "part": "basics", "f.title": "Third"})
    assert "Your request was voided: the draft was changed" in text(browser.get("/fabrics/small/draft"))
    refused = signed_in(ana).post(f"/fabrics/small/requests/{asked.id}", {"act": "approve", "digest": asked.digest})
    assert "This request was voided" in text(refused, 409)


def test_what_was_agreed_to_is_what_was_shown(browser, actor, eyes, ana):
    asked = drafts.draft_of_fabric(actor=actor, name=eyes)
    step = drafts.draft_replace(actor=actor, name=asked.name, step=0, text=SMALL).step
    browser.post(PAGE, {"step": step, "act": "request"})
    here = f"/fabrics/small/requests/{ChangeRequest.objects.get(state='open').id}"
    theirs = signed_in(ana)
    assert "about another content" in text(theirs.post(here, {"act": "approve", "digest": "0" * 32}), 409)
    assert theirs.post(here, {"act": "approve"}).status_code == 422
    assert Revision.objects.count() == 1


# -- what was published meanwhile --------------------------------------------------------------------------------------


def test_two_authors_one_after_the_other(browser, actor, ana, small):
    """The second is told, brings it in and chooses; nothing of either is lost."""
    theirs, of_ana = signed_in(ana), find_actor(ana)
    for who in (actor, of_ana):
        drafts.draft_of_fabric(actor=who, name=small)
    hers = [PutEdit(("title",), "Of ana"), PutEdit(("policy", "tau"), 0.9)]
    step = drafts.draft_change(actor=of_ana, name=small, step=0, edits=hers, what="two").step
    drafts.draft_change(
        actor=actor,
        name=small,
        step=0,
        edits=[PutEdit(("title",), "Mine"), PutEdit(("description",), "Said.")],
        what="two",
    )
    assert theirs.post(PAGE, {"step": step, "act": "publish"}).status_code == 302
    shown = text(browser.get("/fabrics/small/draft"))
    assert "r2 was published since your draft began" in shown
    page = browser.get(PAGE)
    assert "r2 was published by ana" in text(page)
    assert "disabled" in button(page, "publish")[0]
    assert "erge the published version first" in text(browser.post(PAGE, {"step": 1, "act": "publish"}), 409)
    merge = browser.get("/fabrics/small/draft/merge")
    shown = text(merge)
    assert "policy.tau" in shown
    assert "title was A small fabric Yours Mine ana's Of ana" in shown
    unchosen = browser.post("/fabrics/small/draft/merge", {"step": 1, "base": 2})
    assert "Say of 1 place which side to keep" in text(unchosen, 409)
    assert draft_get(actor, small).base == 1
    done = browser.post("/fabrics/small/draft/merge", {"step": 1, "base": 2, "c.title": "mine"}, follow=True)
    assert "r2 is in your draft" in text(done)
    draft = draft_get(actor, small)
    assert (draft.base, draft.moved) == (2, False)
    browser.post(PAGE, {"step": draft.step, "act": "publish"})
    spec = revision_get(actor, small).spec
    assert (spec.title, spec.policy.tau, spec.description) == ("Mine", 0.9, "Said.")


def test_nothing_to_bring_in_says_so(browser, drafted):
    drafted(SMALL)
    assert "There is nothing to bring in" in text(browser.get("/fabrics/small/draft/merge")).replace("there", "There")


# -- drills and history ------------------------------------------------------------------------------------------------


def test_the_draft_is_drilled_from_here_and_its_cells_are_shown(browser, actor, drafted):
    step = drafted(SMALL + CELL)
    asked = browser.post("/fabrics/small/draft/drills", {"step": step, "cells": "changed"})
    assert asked.headers["Location"] == f"{PAGE}#draft-drills"
    going = text(browser.get(PAGE))
    assert "0 of 1 done" in going
    part = browser.get("/fabrics/small/draft/drills", headers={"HX-Request": "true"}).content.decode()
    assert 'hx-trigger="every 1s"' in part
    (row,) = Drill.objects.all()
    batch_drill(row.batch, "h")
    part = browser.get("/fabrics/small/draft/drills", headers={"HX-Request": "true"}).content.decode()
    assert "every 1s" not in part
    assert f'href="/drills/{row.id}"' in part
    assert "<b>1 of 24 cells</b> do what the table says; 23 need a re-run" in part
    again = browser.post(
        "/fabrics/small/draft/drills", {"step": step + 1, "cells": "all"}, headers={"HX-Request": "true"}
    )
    assert (again.status_code, b"changed since" in again.content) == (409, True)


def test_a_publication_says_which_verdicts_it_makes_stale(browser, actor, drafted):
    asked = drill_ask(actor=actor, fabric="small", cells=[(FailureType.PROVIDER, Tier.BATCH)])
    batch_drill(asked.batch, "h")
    drafted(SMALL + CELL)
    assert "1 of 1 drill verdicts about r1 go stale: provider failure" in text(browser.get(PAGE))


def test_history_is_a_part_and_a_page(browser, actor, drafted):
    drafted(SMALL + CELL)
    part = browser.get("/fabrics/small/draft/history", headers={"HX-Request": "true"})
    assert b"There are no runs yet" in part.content
    assert b"<main" not in part.content
    ran(actor, "small")
    assert "The last 1 run recorded no failure." in text(browser.get("/fabrics/small/draft/history"))


def test_failures_of_the_past_are_decided_again(browser, actor):
    failing = SMALL.replace(
        "    provider: scripted\n",
        "    provider: scripted\n    options: {fail: {cause: auth, times: 99, status: 401}}\n",
    )
    fabric_publish(actor=actor, source=failing)
    ran(actor, "small")
    drafts.draft_of_fabric(actor=actor, name="small")
    table = "decision_table:\n  provider_failure:\n    interactive: {rungs: [{reaction: surface}]}\n"
    drafts.draft_replace(actor=actor, name="small", step=0, text=failing + table)
    shown = text(browser.get("/fabrics/small/draft/history"))
    assert re.search(r"\d+ of \d+ recorded failures would be decided differently", shown)


# -- versions ----------------------------------------------------------------------------------------------------------


def test_an_older_version_is_published_again_from_its_tab(browser, actor, small):
    fabric_publish(actor=actor, source=SMALL.replace("A small fabric", "Second"))
    assert "Roll back to r1" in text(browser.get("/fabrics/small?tab=versions"))
    done = browser.post("/fabrics/small/revert", {"number": 1, "expect": 2, "act": "revert"}, follow=True)
    assert "r1 of small is published again" in text(done)
    assert revision_get(actor, small).number == 1
    late = browser.post("/fabrics/small/revert", {"number": 2, "expect": 2, "act": "revert"})
    assert "has revision 1 published" in text(late, 409)


def test_an_older_version_of_what_two_agree_to_is_asked_for(browser, actor, eyes):
    published_by_two(actor, EYES.replace("A small fabric", "Second"))
    assert "A second person must approve" in text(browser.get("/fabrics/small?tab=versions"))
    alone = browser.post("/fabrics/small/revert", {"number": 1, "expect": 2, "act": "revert"})
    assert "Ask a second person" in text(alone, 409)
    done = browser.post("/fabrics/small/revert", {"number": 1, "expect": 2, "act": "request"}, follow=True)
    assert "Waits for a second person" in text(done)
    assert revision_get(actor, eyes).number == 2


def test_any_two_versions_are_compared(browser, actor, small):
    for title in ("Second", "Third"):
        fabric_publish(actor=actor, source=SMALL.replace("A small fabric", title))
    shown = text(browser.get("/fabrics/small/compare?before=1&after=3"))
    assert "r1 against r3" in shown
    assert "title changed A small fabric Third" in shown
    assert "Second" in text(browser.get("/fabrics/small/compare"))
    assert browser.get("/fabrics/small/compare?before=9&after=3").status_code == 404
    assert browser.get("/fabrics/small/compare?before=x").status_code == 404


def test_a_comparison_shows_the_message_of_each_version(browser, actor, small):
    source = SMALL.replace("A small fabric", "Second")
    fabric_publish(actor=actor, source=source, message="Because of <audit>.")
    shown = text(browser.get("/fabrics/small/compare?before=1&after=2"))
    assert "by owner No message." in shown
    assert "by owner Because of <audit>." in shown
    assert "r2 (published): Because of <audit>." in shown


# -- at a time ---------------------------------------------------------------------------------------------------------


def test_a_publication_is_scheduled_in_the_authors_zone_and_cancelled(browser, actor, drafted):
    step = drafted(SMALL.replace("A small fabric", "Another"))
    browser.cookies["zone"] = "Europe/Berlin"
    assert "Time of a scheduled publication Europe/Berlin" in text(browser.get(PAGE))
    noon = (datetime.now(UTC) + timedelta(days=40)).replace(hour=11, minute=0, second=0, microsecond=0)
    local = noon.astimezone(ZoneInfo("Europe/Berlin"))
    given = {"step": step, "act": "schedule", "publish_at": f"{local:%Y-%m-%dT%H:%M}", "message": "At noon."}
    done = browser.post(PAGE, given, follow=True)
    assert f"It is published at {noon:%Y-%m-%d %H:%M} UTC, unless it no longer passes then." in text(done)
    assert "A change of the draft cancels it." in text(done)
    assert "disabled" not in button(done, "publish")[0]
    (row,) = ChangeRequest.objects.all()
    assert row.publish_at == int(noon.timestamp()) * 1_000_000
    shown = text(browser.get("/fabrics/small"))
    assert "A change of owner is published" in shown
    assert "Scheduled by owner, over r1" in text(browser.get("/fabrics/small?tab=versions"))
    assert "asks for a second person" not in text(browser.get("/fabrics"))
    page = browser.get(f"/fabrics/small/requests/{row.id}")
    assert button(page, "withdraw")[1] == "Cancel the publication"
    browser.post(f"/fabrics/small/requests/{row.id}", {"act": "withdraw"})
    assert ChangeRequest.objects.get().state == "withdrawn"
    assert "A change of owner is published" not in text(browser.get("/fabrics/small"))


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("", "'' is no date and time: write it as 2026-12-01T18:00."),
        ("soon", "'soon' is no date and time: write it as 2026-12-01T18:00."),
        ("2001-01-01T10:00", "2001-01-01 10:00 UTC is past: choose a later time."),
        ("2900-01-01T10:00", "2900-01-01 10:00 UTC is more than a year away: choose an earlier time."),
    ],
)
def test_a_time_that_is_none_keeps_the_form(browser, actor, drafted, at, said):
    step = drafted(SMALL.replace("A small fabric", "Another"))
    page = browser.post(PAGE, {"step": step, "act": "schedule", "publish_at": at, "message": "Kept."})
    assert said in text(page, 422)
    assert "Kept." in text(page, 422)
    assert f'name="publish_at" value="{at}"' in page.content.decode()
    assert not ChangeRequest.objects.exists()


def test_a_publication_that_failed_stands_on_the_fabrics_page(browser, actor, drafted):
    step = drafted(SMALL.replace("A small fabric", "Another"))
    soon = f"{datetime.now(UTC) + timedelta(hours=1):%Y-%m-%dT%H:%M}"
    browser.post(PAGE, {"step": step, "act": "schedule", "publish_at": soon})
    fabric_publish(actor=actor, source=SMALL.replace("A small fabric", "Third"))
    assert "The publication of owner is stale" in text(browser.get("/fabrics/small"))
    publications_carry_out(now=database_us() + 7_200_000_000)
    shown = text(browser.get("/fabrics/small"))
    assert "The publication of owner failed" in shown
    assert "r2 is published by now, and this is a change of r1" in shown
    assert "It was not published" in text(browser.get(PAGE))
    (row,) = ChangeRequest.objects.all()
    assert "Not published" in text(browser.get(f"/fabrics/small/requests/{row.id}"))


def test_where_two_agree_no_time_is_asked_for(browser, actor, eyes):
    drafts.draft_of_fabric(actor=actor, name=eyes)
    drafts.draft_change(actor=actor, name=eyes, step=0, edits=[PutEdit(("title",), "Another")], what="title")
    assert 'name="publish_at"' not in browser.get(f"/fabrics/{eyes}/draft/publish").content.decode()
    alone = browser.post(
        f"/fabrics/{eyes}/draft/publish",
        {"step": 1, "act": "schedule", "publish_at": f"{datetime.now(UTC) + timedelta(hours=1):%Y-%m-%dT%H:%M}"},
    )
    assert "needs two people" in text(alone, 409)
