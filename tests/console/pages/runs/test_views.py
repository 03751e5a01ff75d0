"""A run's page, an event, cancelling."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest

from fabric.composition import engine as wiring
from fabric.models import Inbox, Run
from fabric.runtime.ports.journal import Document
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.runs.start import run_start
from fabric.worker.nudges.listener import NullNudge
from tests.fabric.services.world import SMALL, ran

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> [x](javascript:alert(3)) \u202eevil\u202c \x1b[31mred\x1b[0m z\u200bw"


def queued(actor, fabric, text="What do the notes say?"):
    return run_start(store=wiring.store(), nudge=NullNudge(), actor=actor, fabric=fabric, text=text).run_id


def test_a_queued_run(browser, actor, small):
    run_id = queued(actor, small)
    page = browser.get(f"/runs/{run_id}").content.decode()
    assert "Queued" in page
    assert page.count("not reached") == 5
    assert f"/live/runs/{run_id}?after=0&amp;panels=" in page
    assert "Cancel…" in page


def test_a_finished_run(browser, actor, small):
    run = ran(actor, small)
    assert run.state == "completed"
    page = browser.get(f"/runs/{run.id}?events=full").content.decode()
    assert "Completed" in page
    assert ">Result</h2>" in page
    assert "40 dollars" in page
    assert page.count("data-seq=") == run.last_seq + 1  # A row each, and the badge.
    assert "hx-ws:connect" not in page
    assert "Cancel…" not in page


def test_a_recovered_run_does_not_look_like_a_clean_one(browser, actor, small):
    run = ran(actor, small)
    Run.objects.filter(id=run.id).update(recovered=True)
    assert "Completed after recovery" in browser.get(f"/runs/{run.id}").content.decode()


def test_one_event(browser, actor, small):
    run = ran(actor, small)
    page = browser.get(f"/runs/{run.id}/events/1")
    assert b"<!doctype html>" in page.content
    assert b"run_started" in page.content
    part = browser.get(f"/runs/{run.id}/events/1", headers={"HX-Request": "true"})
    assert b"<!doctype html>" not in part.content
    assert "HX-Request" in part.headers["Vary"]


@pytest.mark.parametrize("path", ["", "/cancel", "/review", "/events/1"])
def test_an_unknown_and_a_foreign_run_are_not_here(browser, actor, stranger, path):
    fabric_publish(actor=stranger, source=SMALL)
    foreign = queued(stranger, "small")
    unknown, theirs = browser.get(f"/runs/{uuid4()}{path}"), browser.get(f"/runs/{foreign}{path}")
    assert unknown.status_code == theirs.status_code == 404
    assert "What do the notes say" not in theirs.content.decode()


@pytest.mark.parametrize("path", ["/runs/nonsense", "/runs/1", "/runs/%00", "/nowhere"])
def test_no_such_page(browser, path):
    answer = browser.get(path)
    assert answer.status_code == 404
    assert b"This page does not exist" in answer.content


@pytest.mark.parametrize("seq", ["0", "999", "99999999999999999999"])
def test_no_such_event(browser, actor, small, seq):
    assert browser.get(f"/runs/{queued(actor, small)}/events/{seq}").status_code == 404


def test_cancelling_asks_first(browser, actor, small):
    run_id = queued(actor, small)
    asked = browser.get(f"/runs/{run_id}/cancel")
    assert b"unning calls are abandoned" in asked.content
    assert not Inbox.objects.filter(run_id=run_id, input_id="cancel").exists()
    done = browser.post(f"/runs/{run_id}/cancel", {"reason": "changed my mind"})
    assert done.headers["Location"] == f"/runs/{run_id}"
    assert b"changed my mind" in bytes(Inbox.objects.get(run_id=run_id, input_id="cancel").body)
    assert b"is being cancelled" in browser.get(f"/runs/{run_id}").content
    again = browser.post(f"/runs/{run_id}/cancel", follow=True)
    assert b"was being cancelled already" in again.content


def test_a_run_that_ended_cannot_be_cancelled(browser, actor, small):
    run = ran(actor, small)
    answer = browser.post(f"/runs/{run.id}/cancel")
    assert answer.status_code == 409
    assert b"already ended" in answer.content


def test_a_reason_that_is_too_long_is_kept(browser, actor, small):
    answer = browser.post(f"/runs/{queued(actor, small)}/cancel", {"reason": "y" * 1_001})
    assert answer.status_code == 422
    assert b"y" * 1_001 in answer.content


def test_what_people_and_models_wrote_is_inert(browser, actor, small):
    run = ran(actor, small, text=HOSTILE, documents=(Document("notes.md", HOSTILE),))
    pages = [browser.get(f"/runs/{run.id}"), browser.get("/runs")]
    pages += [browser.get(f"/runs/{run.id}/events/{seq}") for seq in range(1, run.last_seq + 1)]
    shown = "".join(page.content.decode() for page in pages)
    assert "<script>alert" not in shown
    assert "<img" not in shown
    assert 'href="javascript:' not in shown
    for hidden in ("\u202e", "\x1b", "\u200b"):
        assert hidden not in shown
    assert "⟨U+202E⟩" in shown
    assert "⟨U+001B⟩" in shown


def test_every_script_carries_the_nonce_of_its_answer(browser, small):
    seen = set()
    for _ in range(2):
        answer = browser.get("/runs/start")
        policy = answer.headers["Content-Security-Policy"]
        nonce = re.search(r"script-src 'nonce-([^']+)' 'strict-dynamic'", policy)
        assert nonce
        scripts = re.findall(r"<script\b[^>]*>", answer.content.decode())
        assert scripts
        assert all(f'nonce="{nonce[1]}"' in script and "src=" in script for script in scripts)
        seen.add(nonce[1])
    assert len(seen) == 2
