"""The events card of a run's page: densities, filters and windows by the address; one event; the journal as a file."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from urllib.parse import urlencode

import pytest
from django.test import AsyncClient

from fabric.core.events import InputIgnored
from fabric.core.events.envelope import KINDS, split_row
from fabric.models import Event, Run
from fabric.selectors.runs.export import bundle as event_export
from fabric.selectors.runs.lookup import run_events
from tests.console.pages.runs.journals import every_kind, journal, tight
from tests.fabric.services.world import ran
from tests.servers.unguarded import unguarded


@pytest.fixture
def page(browser):
    """The run's page for an address, as text."""

    def get(run_id, **given):
        answer = browser.get(f"/runs/{run_id}", given)
        assert answer.status_code == 200
        return tight(answer.content.decode())

    return get


@pytest.fixture
def many(actor, small):
    noise = [(InputIgnored(input_kind="x", reason=f"number {n}"), None) for n in range(1, 451)]
    return journal(actor, ran(actor, small).id, noise, state="completed")


def rows(page):
    return [int(seq) for seq in re.findall(r'<tr[^>]* data-seq="(\d+)"', page)]


def link(page, pattern):
    found = re.search(rf'<a[^>]*href="([^"]+)"[^>]*>(?:<svg[^>]*><use[^>]*/></svg>)?{pattern}', page)
    return found and found[1].replace("&amp;", "&").partition("#")[0]


def test_compact_is_what_a_page_opens_with(page, actor, small):
    run = ran(actor, small)
    compact, full = rows(page(run.id)), rows(page(run.id, events="full"))
    assert full == list(range(1, run.last_seq + 1))
    assert 0 < len(compact) < len(full)


def test_raw_rows_can_be_copied_by_an_auditor(page, actor, small):
    run = ran(actor, small)
    shown = page(run.id, events="raw")
    stored = Event.objects.get(run_id=run.id, seq=1)
    assert bytes(stored.hash).hex() in shown
    for header in split_row(1, stored.kind, stored.version, bytes(stored.header)):
        assert header[3].decode().replace('"', "&quot;") in shown


def test_windows_of_200_both_ways(browser, page, many):
    seen, address = [], f"/runs/{many}?events=full"
    while address:
        shown = tight(browser.get(address).content.decode())
        seen = rows(shown) + seen
        assert len(rows(shown)) <= 200
        earlier = re.search(r'id="events-earlier"><a href="([^"#]+)', shown)
        address = earlier and earlier[1].replace("&amp;", "&")
    assert seen == list(range(1, 451))
    forwards, address = [], f"/runs/{many}?events=full&after=0"
    while address:
        shown = tight(browser.get(address).content.decode())
        forwards += rows(shown)
        address = link(shown, "Later events")
    assert forwards == list(range(1, 451))


def test_the_address_keeps_the_whole_state(browser, many):
    given = {"view": "events", "events": "full", "q": "number 4", "kind": "input_ignored"}
    shown = browser.get(f"/runs/{many}", given).content.decode()
    assert rows(shown)[-2:] == [449, 450]
    raw = link(shown, "Raw")
    assert all(urlencode({name: value}) in raw for name, value in (given | {"events": "raw"}).items())
    assert re.search(r'name="q" value="number 4"', shown)
    assert '<option value="input_ignored" selected>' in shown
    assert "kind=" not in link(shown, "Clear")
    assert "q=number+4" in re.search(r'class="seq" href="([^"]+)"', shown)[1]


def test_what_the_address_says_wrongly_is_left_out_and_named(page, many):
    shown = page(many, stage="nowhere", events="loud", before="x1", after="-3")
    for wrong in (
        "stage &#x27;nowhere&#x27;",
        "events &#x27;loud&#x27;",
        "before &#x27;x1&#x27;",
        "after &#x27;-3&#x27;",
    ):
        assert wrong in shown
    assert page(many, before="9999999999", q="x" * 5_000, kind="\x00", agent="<b>")


def test_nothing_matches(page, many):
    assert "No events match" in page(many, q="zebra")
    assert "No events here" in page(many, events="full", before="1")


def test_a_gap_is_a_red_row_between_its_neighbours(page, many):
    with unguarded():
        Event.objects.filter(run_id=many, seq__in=[301, 302]).delete()
    shown = page(many, events="full")
    assert "Events 301 to 302 are missing from the journal" in shown
    assert shown.index('data-seq="300"') < shown.index("301 to 302") < shown.index('data-seq="303"')


def test_delta_is_the_time_since_the_row_above(page, actor, small):
    run_id = journal(actor, ran(actor, small).id, every_kind(), step_us=72_000_000, state="completed")
    shown = page(run_id, events="full")
    assert re.findall(r'<td class="num delta">([^<]*)</td>', shown)[:3] == ["–", "1 m 12 s", "1 m 12 s"]


def test_an_event_of_the_address_is_shown_beside_the_list(page, actor, small):
    run = ran(actor, small)
    assert "<h3>Request</h3>" in page(run.id, event="1")
    for nothing in ("0", "999", "x", "99999999999999999999", "٣"):
        beside = page(run.id, event=nothing).partition('id="inspector"')[2]
        assert "Key events <span>" in beside
        assert "<h3>Request</h3>" not in beside


class TestOneEvent:
    def test_a_page_and_a_fragment(self, browser, actor, small):
        run = ran(actor, small)
        whole = browser.get(f"/runs/{run.id}/events/1")
        assert b"<!doctype html>" in whole.content
        part = browser.get(f"/runs/{run.id}/events/1", headers={"HX-Request": "true"})
        assert b"<!doctype html>" not in part.content
        assert "HX-Request" in part.headers["Vary"]

    def test_the_next_and_the_one_before_within_the_filter(self, browser, actor, small):
        run_id = journal(actor, ran(actor, small).id, every_kind())
        third = KINDS.index("reaction_decided") + 1
        shown = browser.get(f"/runs/{run_id}/events/{third}?failed=1").content.decode()
        before, after = (re.search(rf'id="event-{way}" href="([^"]+)"', shown)[1] for way in ("previous", "following"))
        assert before.endswith(f"/events/{KINDS.index('attempt_interrupted') + 1}?failed=1")
        assert after.endswith(f"/events/{KINDS.index('step_failed') + 1}?failed=1")

    def test_there_is_a_way_back_into_the_list(self, browser, actor, small):
        run = ran(actor, small)
        back = link(browser.get(f"/runs/{run.id}/events/4?events=full").content.decode(), "Show it in its list")
        shown = browser.get(back).content.decode()
        assert rows(shown)[-1] == 4
        assert 'data-shown="4"' in shown

    @pytest.mark.parametrize("seq", ["0", "999", "99999999999999999999"])
    def test_no_such_event(self, browser, actor, small, seq):
        run = ran(actor, small)
        for path in (f"events/{seq}", f"events/{seq}/json?path="):
            assert browser.get(f"/runs/{run.id}/{path}").status_code == 404

    def test_a_foreign_run_is_not_here(self, browser, actor, small, stranger):
        run = ran(actor, small)
        Run.objects.filter(id=run.id).update(workspace_id=stranger.workspace_id)
        for path in ("events/1", "events/1/json", "events.ndjson", "events.ndjson?form=readable"):
            assert browser.get(f"/runs/{run.id}/{path}").status_code == 404


class TestFile:
    def test_it_is_streamed_and_named_after_the_run(self, browser, actor, small):
        run = ran(actor, small)
        client = AsyncClient(HTTP_HOST="127.0.0.1")
        client.cookies = browser.cookies

        async def scene():
            answer = await client.get(f"/runs/{run.id}/events.ndjson?form=journal")
            return answer, b"".join([part async for part in answer])

        answer, body = asyncio.run(scene())
        assert answer.streaming
        assert answer.headers["Content-Type"] == "application/x-ndjson"
        assert answer.headers["Content-Disposition"] == f'attachment; filename="run-{run.id}.journal.ndjson"'
        rows = [json.loads(line) for line in body.splitlines()]
        assert [seq for row in rows for seq in range(row["seq"], row["seq"] + row["more"] + 1)] == list(
            range(1, run.last_seq + 1)
        )

    def test_a_page_is_read_when_the_last_has_gone_out(self, browser, many, monkeypatch):
        monkeypatch.setattr(event_export, "PAGE", 50)
        client = AsyncClient(HTTP_HOST="127.0.0.1")
        client.cookies = browser.cookies
        read = []
        original = event_export.EventLines.next_page
        monkeypatch.setattr(event_export.EventLines, "next_page", lambda self: read.append(1) or original(self))

        async def scene():
            answer = await client.get(f"/runs/{many}/events.ndjson")
            parts = answer.__aiter__()
            first = await anext(parts)
            return first, len(read)

        first, pages = asyncio.run(scene())
        assert len(first.splitlines()) == 50
        assert pages == 1

    def test_a_form_that_there_is_none_of(self, browser, many):
        answer = browser.get(f"/runs/{many}/events.ndjson?form=pdf")
        assert answer.status_code == 422
        assert b"journal, readable" in answer.content


def test_the_filter_has_the_kinds_of_this_run_with_their_numbers(browser, actor, small):
    run = ran(actor, small)
    page = browser.get(f"/runs/{run.id}").content.decode()
    options = dict(
        re.findall(
            r'<option value="(\w+)"[^>]*>([^<]+)</option>', page.partition('name="kind"')[2].partition("</select>")[0]
        )
    )
    there = Counter(event.kind for event in run_events(actor, run.id))
    assert set(options) == set(there)
    assert options["call_issued"].endswith(f"({there['call_issued']})")
    asked = browser.get(f"/runs/{run.id}?kind=review_opened").content.decode()
    assert '<option value="review_opened" selected>Review opened (0)</option>' in asked


def test_a_call_and_its_answer_are_one_panel(browser, actor, small):
    """Prompt, answer and use stand together, whichever of the two events is picked."""
    run = ran(actor, small)
    events = run_events(actor, run.id)
    issued = next(event for event in events if event.kind == "call_issued")
    answered = next(event for event in events if event.kind == "model_answered")
    for seq, other in ((issued.seq, answered.seq), (answered.seq, issued.seq)):
        page = browser.get(f"/runs/{run.id}/events/{seq}", headers={"HX-Request": "true"}).content.decode()
        heads = re.findall(r"<h3>(\w+)", page)
        assert {"Prompt", "Output", "Used"} <= set(heads), heads
        assert f"/runs/{run.id}/events/{other}" in page.partition("<h3>Used")[2].partition("</section>")[0]
        assert page.count("<dt>cost</dt>") == 1
        assert re.search(r"<dt>tokens</dt>\s*<dd><span class=\"wrap\">[\d,]+ in, [\d,]+ out", page)
