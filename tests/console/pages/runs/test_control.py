"""The pages that take hold of a run, and the one that forks it: usable without a script, and they say first what follows."""

import re
from html import unescape

import pytest

from console.pages.runs.control import HOLDS
from fabric.composition import engine as wiring
from fabric.core.values.flow import TERMINAL, RunState
from fabric.management.run_follower import Following
from fabric.models import Inbox, Run
from fabric.selectors.runs.lookup import run_get
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.runs.control import run_pause
from fabric.services.runs.start import run_start
from tests.console.pages.runs.journals import tight
from tests.fabric.services.world import HeardNudge, ran, sample


@pytest.fixture
def run_id(actor, small):
    """A run that no worker has claimed."""
    return run_start(
        store=wiring.store(), nudge=HeardNudge(), actor=actor, fabric=small, text="What do the notes say?"
    ).run_id


def test_every_state_has_its_ways_out_and_no_ended_run_has_any():
    for state in RunState:
        offered = {name for name, hold in HOLDS.items() if state in hold.rule.states}
        assert bool(offered) == (state not in TERMINAL)
        assert ("resume" in offered) == (state is RunState.PAUSED)
        assert "terminate" in offered or state in TERMINAL


@pytest.mark.parametrize("name", HOLDS)
def test_the_page_says_what_follows_before_anything_is_done(browser, actor, run_id, name):
    if name == "resume":
        run_pause(store=wiring.store(), nudge=HeardNudge(), actor=actor, run_id=run_id)
        Following(actor, run_id).to_rest()
    page = unescape(browser.get(f"/runs/{run_id}/{name}").content.decode())
    assert all(sentence in page for sentence in HOLDS[name].follows)
    assert HOLDS[name].button in page
    assert not Inbox.objects.filter(run_id=run_id, input_id__startswith=name).exists()


@pytest.mark.parametrize("name", ["pause", "resume", "terminate"])
def test_it_is_done_and_told_on_the_run_s_page(browser, run_id, name):
    for one in ("pause", "resume") if name == "resume" else (name,):
        answer = browser.post(f"/runs/{run_id}/{one}", {"reason": "not before noon"}, follow=True)
    assert answer.redirect_chain == [(f"/runs/{run_id}", 302)]
    assert HOLDS[name].done in answer.content.decode()


def test_a_termination_without_a_reason_is_refused_beside_the_field(browser, run_id):
    answer = browser.post(f"/runs/{run_id}/terminate", {"reason": " "})
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "needs a reason" in page
    assert 'aria-invalid="true" aria-describedby="e-reason"' in page


def test_a_paused_run_says_by_whom_and_offers_to_resume_it(browser, actor, run_id):
    browser.post(f"/runs/{run_id}/pause", {"reason": "not before noon"})
    Following(actor, run_id).to_rest()
    page = browser.get(f"/runs/{run_id}").content.decode()
    assert "Paused by owner: not before noon. No new call starts" in page
    assert f'href="/runs/{run_id}/resume"' in page
    assert f'href="/runs/{run_id}/pause"' not in page


@pytest.mark.parametrize("name", HOLDS)
def test_a_run_that_has_ended_is_told_so(browser, actor, small, name):
    run = ran(actor, small)
    page = browser.get(f"/runs/{run.id}/{name}").content.decode()
    assert f"This run has ended: there is nothing left to {name}." in page
    assert HOLDS[name].button not in page
    assert browser.post(f"/runs/{run.id}/{name}", {"reason": "x"}).status_code == 409


# -- forking -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def origin(actor, small):
    return ran(actor, small)


def start_key(page):
    found = re.search(r'name="start_key" value="([^"]+)"', page)
    assert found
    return found[1]


def test_what_is_kept_of_a_debate_are_turns(browser, actor):
    fabric = fabric_publish(actor=actor, source=sample("vendor-debate").replace("delay_s: 0.3", "delay_s: 0")).name
    run = ran(actor, fabric)
    assert run.state is RunState.COMPLETED
    page = browser.get(f"/runs/{run.id}/fork/{run.last_seq - 2}").content.decode()
    assert re.search(r"Reused: [a-z, -]+, with \d+ done turns\.", page)


def test_the_page_says_what_is_kept_and_shows_what_stands_there(browser, origin):
    page = browser.get(f"/runs/{origin.id}/fork/{origin.last_seq - 2}").content.decode()
    assert "Reused: plan, fan-out, fan-in, validate, with 1 done branch." in page
    assert "Run again: finalize and what follows." in page
    assert "What do the notes say?" in page
    assert start_key(page) != start_key(browser.get(f"/runs/{origin.id}/fork/1").content.decode())


def test_it_begins_with_the_plan_where_nothing_was_settled(browser, origin):
    page = browser.get(f"/runs/{origin.id}/fork/1").content.decode()
    assert "Nothing was settled at that event, so it starts with the plan." in page


def test_a_fork_is_started_once_however_often_the_button_is_pressed(browser, actor, origin):
    key = start_key(browser.get(f"/runs/{origin.id}/fork/1").content.decode())
    form = {"what": "request", "value": "What is the deadline?", "start_key": key}
    first, second = (browser.post(f"/runs/{origin.id}/fork/1", form) for _ in range(2))
    assert first.status_code == second.status_code == 302
    assert first.headers["Location"] == second.headers["Location"]
    forked = first.headers["Location"].rpartition("/")[2]
    assert run_get(actor, forked).title == "What is the deadline?"
    Following(actor, forked).to_rest()
    page = browser.get(f"/runs/{forked}").content.decode()
    assert f"event 1 of run {origin.id}" in page


def test_an_edit_that_does_not_fit_is_refused_beside_the_field_and_kept(browser, origin):
    seq = origin.last_seq - 2
    for value, said in (
        ("{", "is no JSON"),
        ('{"goal": "x"}', "does not fit"),
        (" ", "Write the new value."),
    ):
        answer = browser.post(f"/runs/{origin.id}/fork/{seq}", {"what": "plan", "value": value, "start_key": "k"})
        page = answer.content.decode()
        assert answer.status_code == 422
        assert said in page
        assert 'id="e-value"' in page
    assert Run.objects.count() == 1


def test_an_event_that_cannot_be_forked_has_a_page_that_says_why(browser, origin):
    for seq, status, said in ((origin.last_seq, 409, "nothing is left to do"), (999, 422, "no event 999")):
        answer = browser.get(f"/runs/{origin.id}/fork/{seq}")
        assert (answer.status_code, said in answer.content.decode()) == (status, True)


def test_an_event_offers_the_fork(browser, origin):
    page = browser.get(f"/runs/{origin.id}/events/3").content.decode()
    assert f'href="/runs/{origin.id}/fork/3"' in page


HALF = """\
name: half
title: Half
description: One of its two workers is refused.
models:
  - {name: quick, provider: scripted, price: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}}
  - {name: shut, provider: scripted, options: {delay_s: 0.3, fail: {cause: auth, times: 99, status: 401}}, price: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}}
agents:
  - {name: reader, model: quick, instructions: Read.}
  - {name: checker, model: shut, instructions: Check.}
topology:
  workers: [reader, checker]
  plan: {goal: Read., briefs: [{agent: reader, title: Read, instructions: Read it.}, {agent: checker, title: Check, instructions: Check it.}], exit_criteria: [Read.]}
policy: {budget: {run_usd_micros: 1000000}}
reviewers: [owner]
"""


@pytest.fixture
def half(actor):
    """A run of which one branch came back, and the other failed."""
    run = ran(actor, fabric_publish(actor=actor, source=HALF).name)
    assert run.state is RunState.FAILED
    return run


def test_a_failed_run_is_tried_again_from_where_it_failed(browser, half):
    page = tight(browser.get(f"/runs/{half.id}").content.decode())
    link = rf'href="/runs/{half.id}/fork/{half.last_seq}" data-press="try-again"[^>]*>.*?Try again from fan-out…</a>'
    assert re.search(link, page)
    offered = browser.get(f"/runs/{half.id}/fork/{half.last_seq}").content.decode()
    again = browser.post(
        f"/runs/{half.id}/fork/{half.last_seq}", {"what": "", "value": "", "start_key": start_key(offered)}
    )
    assert re.fullmatch(r"/runs/[0-9a-f-]{36}", again.headers["Location"])
    assert "Try again from" not in browser.get(again.headers["Location"]).content.decode()


def test_stages_to_start_from_say_what_they_keep_and_what_that_saves(browser, half):
    page = tight(browser.get(f"/runs/{half.id}/fork/{half.last_seq}").content.decode())
    choices = re.findall(
        r'<a href="/runs/[^/]+/fork/(\d+)"( aria-current="true")?><b>([^<]+)</b><span class="sec">([^<]+)</span><span class="muted">(?:saves (\$[\d.]+))?',
        page,
    )
    assert [(bool(here), stage, kept) for _, here, stage, kept, _ in choices] == [
        (True, "fan-out", "keeps plan, 1 finished branch"),
        (False, "fan-out", "keeps plan"),
        (False, "plan", "keeps nothing"),
    ]
    assert choices[0][4] > "$0.0000"
    assert [saved for *_, saved in choices[1:]] == ["", ""]  # The plan is fixed: it cost nothing.
    for seq, _, stage, kept, _ in choices:
        other = browser.get(f"/runs/{half.id}/fork/{seq}").content.decode()
        assert f"Run again: {stage} and what follows." in other
        assert ("Reused: plan" in other) == ("plan" in kept)
