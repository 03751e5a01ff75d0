"""A run's page as of an event: what it was then, links to other events, nothing live, and one sentence for a wrong event."""

from __future__ import annotations

import re
import time

import pytest

from fabric.composition import engine as wiring
from fabric.core.breaker.table import BreakerState, Standing
from fabric.core.spec.policies.breakers import BreakerScope
from fabric.core.values.flow import RunState, Stage
from fabric.selectors.models.breakers import list_breaker_views
from fabric.services.runs.start import run_start
from fabric.worker.nudges.listener import NullNudge
from tests.console.pages.runs.journals import tight
from tests.console.pages.runs.test_page import WORKER, fanned_out
from tests.fabric.selectors.journals import Teller
from tests.fabric.selectors.models.breaker_rows import change
from tests.people import member, signed_in


def past(browser, run_id, seq, query="", status=200, **headers):
    answer = browser.get(f"/runs/{run_id}?as_of={seq}{query}", headers=headers)
    assert answer.status_code == status
    return tight(answer.content.decode())


def asked() -> Teller:
    """A review that was open from its eighth event to its ninth, and a run that ended."""
    teller = fanned_out().ask(WORKER, 1, "reader").wait(2).answer(WORKER, 1)
    return teller.put_to("owner", Stage.FAN_OUT, WORKER).wait(5).decided().leave(Stage.FAN_OUT).end(RunState.COMPLETED)


def seq_of(teller: Teller, kind: str) -> int:
    return next(event.seq for event in teller.events if event.fact.kind == kind)


def test_it_says_which_event_of_how_many_when_and_leads_back_to_now(browser, journaled):
    run_id = journaled(asked())
    page = past(browser, run_id, 2)
    assert "As of event <b>2</b> of 12, <time" in page
    assert f'<a href="/runs/{run_id}">Back to now</a>' in page
    assert 'min="1" max="12" step="1" value="2"' in page


def test_it_is_not_live(browser, journaled):
    run_id = journaled(fanned_out().ask(WORKER, 1, "reader"))
    for view in ("timeline", "graph", "protections", "cost"):
        page = past(browser, run_id, 5, f"&view={view}").partition('id="scrub"')[2].partition('id="frame"')[0]
        assert "hx-ws" not in page
        assert '"every' not in page
        assert "data-grows" not in page
        assert f'href="/runs/{run_id}?as_of=4' in page


def test_its_review_is_open_from_its_question_to_its_answer(browser, journaled):
    teller = asked()
    run_id, opened = journaled(teller), seq_of(teller, "review_opened")
    for seq, told in ((opened - 1, False), (opened, True), (opened + 1, False)):
        page = past(browser, run_id, seq)
        assert ("<b>owner</b> until" in page) is told
        assert ("No review was open." in page) is not told
    assert "Waiting for a person" in past(browser, run_id, opened).partition("Stage</dt>")[0]


def test_money_is_reserved_while_the_call_is_out_and_then_spent(browser, journaled):
    teller = fanned_out().ask(WORKER, 1, "reader").wait(2).answer(WORKER, 1).end(RunState.FAILED)
    run_id, issued = journaled(teller), 7
    assert teller.events[issued - 1].fact.kind == "call_issued"
    assert "$0.0001</b> spent · $0.0005 reserved · $0.9994 left of $1.0000" in past(browser, run_id, issued)
    assert "$0.0002</b> spent · $0.9998 left of $1.0000" in past(browser, run_id, issued + 1)


def test_links_lead_to_the_first_and_last_event_and_to_the_decisions_around(browser, journaled):
    teller = fanned_out().ask(WORKER, 1, "reader").fail(WORKER, 1).react("retry", "provider", step=WORKER)
    teller.back_off(WORKER, 1, 1).wait(2).put_to("owner", Stage.FAN_OUT, WORKER).decided().end(RunState.FAILED)
    run_id, decisions = journaled(teller), (seq_of(teller, "reaction_decided"), seq_of(teller, "review_decided"))
    here, last = decisions[0] + 1, len(teller.events)
    found = re.findall(r'<a class="btn s" href="/runs/[^?"]+\?as_of=(\d+)"[^>]*>.*?</svg>([^<]+)</a>', past(browser, run_id, here))  # fmt: skip
    assert {word: int(seq) for seq, word in found} == {
        "First": 1, "Previous decision": decisions[0], "Previous": here - 1, "Next": here + 1, "Next decision": decisions[1], "Last": last,
    }  # fmt: skip
    at_the_end = past(browser, run_id, last)
    assert re.findall(r'aria-disabled="true">.*?</svg>([^<]+)</span>', at_the_end) == ["Next", "Next decision", "Last"]


def test_the_conversation_so_far_has_what_had_begun(browser, journaled):
    run_id = journaled(asked())
    assert "reader" not in past(browser, run_id, 3).partition('id="h-spoken"')[2].partition("</section>")[0]
    assert '">reader</a><span class="sec">brief 1: ' in past(browser, run_id, 7)


def test_a_shared_breaker_stands_as_it_stood_then(browser, actor, small, journaled):
    earlier, later = journaled(fanned_out()), Teller()
    later.at = time.time_ns() // 1_000 + 60_000_000
    (one,) = [one for one in list_breaker_views(actor) if one.over == BreakerScope.PROVIDER]
    assert 'provider scripted <span class="sec">closed' in past(browser, earlier, 3)
    change(one, Standing(state=BreakerState.OPEN, trips=1, signal="timeout", failures=3))
    assert 'provider scripted <span class="sec">closed' in past(browser, earlier, 3)
    assert 'provider scripted <span class="sec">open' in past(browser, journaled(later.start().planned()), 3)


def test_the_script_gets_the_changing_part_alone(browser, journaled):
    page = past(browser, journaled(asked()), 3, **{"HX-Request": "true"})
    assert page.startswith('<div id="past" data-event="3">')
    assert "<html" not in page


def test_contents_are_masked_for_who_may_not_read_them(browser, journaled):
    teller = asked()
    run_id, opened = journaled(teller), seq_of(teller, "review_opened")
    assert "it failed" in past(browser, run_id, opened)
    assert "What do the notes say?" in past(browser, run_id, opened)
    viewer = past(signed_in(member("vera", "viewer")), run_id, opened)
    assert "it failed" not in viewer
    assert "What do the notes say?" not in viewer
    assert "(withheld)" in viewer


@pytest.mark.parametrize("given", ["abc", "", "-1", "1.5", "²", "9" * 30, "0", "13"])
def test_a_wrong_event_is_named_in_one_sentence(browser, journaled, given):
    page = past(browser, journaled(asked()), given, status=422)
    assert "has events 1 to 12, and no event" in page or "is no number of an event; write as_of=7" in page


def test_a_run_without_events_has_no_past(browser, actor, small):
    run_id = run_start(store=wiring.store(), nudge=NullNudge(), actor=actor, fabric=small, text="Go.").run_id
    assert "has no events yet: no worker has begun it" in past(browser, run_id, 1, status=422)


def test_a_view_that_the_past_has_not_is_named(browser, journaled):
    assert "there are: timeline, graph, protections, cost" in past(
        browser, journaled(asked()), 1, "&view=io", status=422
    )


def test_an_event_that_cannot_be_read_hides_what_follows_and_nothing_before(browser, journaled):
    run_id = journaled(fanned_out(), extra=(("of_tomorrow", 1, b"{}"),))
    assert "As of event <b>6</b> of 7" in past(browser, run_id, 6)
    assert "cannot be shown as of event 7: event 7 could not be read" in past(browser, run_id, 7, status=409)


def test_a_gap_hides_what_follows(browser, journaled):
    teller = asked()
    del teller.events[9]
    run_id = journaled(teller)
    assert "As of event <b>9</b>" in past(browser, run_id, 9)
    assert "events before it are missing from the journal" in past(browser, run_id, 11, status=409)


def test_pages_lead_to_it(browser, journaled):
    run_id = journaled(asked())
    assert f'href="/runs/{run_id}?as_of=12"' in browser.get(f"/runs/{run_id}").content.decode()
    assert f'href="/runs/{run_id}?as_of=4"' in browser.get(f"/runs/{run_id}/events/4").content.decode()
