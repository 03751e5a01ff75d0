"""A run's events over the API."""

from __future__ import annotations

from uuid import uuid4

import pytest

from console.api.shapes.common import instant
from fabric.models import Event, Run
from fabric.selectors.runs.export import bundle
from tests.fabric.services.world import ran
from tests.servers.unguarded import unguarded


@pytest.fixture
def ended(small, actor):
    """A run that has ended."""
    return ran(actor, small)


@pytest.fixture
def address(ended):
    return f"/api/v1/runs/{ended.id}/events"


def test_all_of_them_in_order(program, ended, address):
    page = program.get(address).json()
    assert [event["payload"]["seq"] for event in page["events"]] == list(range(1, ended.last_seq + 1))
    assert (page["next_after"], page["last_seq"]) == (ended.last_seq, ended.last_seq)
    assert (page["more"], page["ended"], page["state"]) == (False, True, "completed")


def test_each_in_its_envelope(program, ended, address):
    first, *_, last = program.get(address).json()["events"]
    assert first["id"] == f"{ended.id}.1"
    assert {event["trace_id"] for event in (first, last)} == {ended.trace_id}
    assert first["payload"]["kind"] == "run_started"
    assert first["content"]["text"] == "What do the notes say?"
    assert (last["payload"]["kind"], last["payload"]["state"]) == ("run_ended", "completed")
    assert ended.created_at <= first["timestamp"] <= last["timestamp"]
    assert first["source"]["layer"]
    assert (first["seq"], first["kind"]) == (first["payload"]["seq"], first["payload"]["kind"]) == (1, "run_started")
    assert first["at"] == instant(first["timestamp"])
    assert last["summary"] == "The run completed: finished"


def test_a_page_at_a_time_misses_nothing_and_repeats_nothing(program, ended, address):
    seen, after, ends = [], 0, []
    while not (ends and ends[-1]):
        page = program.get(address, after=after, limit=7).json()
        seen += [event["payload"]["seq"] for event in page["events"]]
        after = page["next_after"]
        ends.append(page["ended"])
    assert seen == list(range(1, ended.last_seq + 1))
    assert len(ends) > 1


def test_after_the_last_there_is_nothing(program, ended, address):
    page = program.get(address, after=ended.last_seq + 5).json()
    assert (page["events"], page["next_after"], page["more"], page["ended"]) == ([], ended.last_seq + 5, False, True)


def test_contents_may_be_left_out(program, address):
    page = program.get(address, content="omit").json()
    assert {event["content"] is None for event in page["events"]} == {True}
    assert any(event["payload"]["content_ref"] for event in page["events"])


def test_an_erased_content_is_null(program, ended, address):
    Event.objects.filter(run_id=ended.id).update(payload=None)
    page = program.get(address).json()
    assert len(page["events"]) == ended.last_seq
    assert {event["content"] is None for event in page["events"]} == {True}


def test_what_a_newer_version_wrote_does_not_hide_the_rest(program, ended, address):
    with unguarded():
        Event.objects.filter(run_id=ended.id, seq=4).update(kind="teleported")
    events = program.get(address).json()["events"]
    assert len(events) == ended.last_seq
    assert events[3]["payload"]["kind"] == events[3]["kind"] == events[3]["summary"] == "teleported"


def test_a_page_ends_where_its_contents_grow_large(program, ended, address, monkeypatch):
    monkeypatch.setattr(bundle, "CONTENT_BYTES_MAX", 1)
    page = program.get(address).json()
    assert (page["more"], page["ended"]) == (True, False)
    assert 0 < len(page["events"]) < ended.last_seq


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ({"after": -1}, "after"),
        ({"after": 2**31}, "after"),
        ({"after": "x"}, "after"),
        ({"after": ""}, "after"),
        ({"limit": 0}, "limit"),
        ({"limit": 1001}, "limit"),
        ({"wait": 21}, "wait"),
        ({"wait": "1.5"}, "wait"),
        ({"content": "some"}, "content"),
        ({"offset": 3}, "offset"),
    ],
)
def test_what_is_wrong_is_said_where_it_is(program, address, query, path):
    answer = program.get(address, **query)
    assert answer.status_code == 422
    assert [error["path"] for error in answer.json()["errors"]] == [path]


def test_a_thousand_are_allowed(program, address):
    assert program.get(address, limit=1000).status_code == 200


def test_of_an_unknown_run(program):
    assert program.get(f"/api/v1/runs/{uuid4()}/events").status_code == 404


CALLER = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "baggage": "team=acme"}


def test_a_run_continues_the_trace_of_its_caller(program, small):
    run_id = program.post("/api/v1/runs", {"fabric": "small", "text": "What?"}, headers=CALLER).json()["id"]
    run = Run.objects.get(id=run_id)
    assert run.trace_id == "0af7651916cd43dd8448eb211c80319c"
    assert run.trace_context.split("\n") == ["b7ad6b7169203331", "01", "", "team=acme"]
    with_no_trace = program.post("/api/v1/runs", {"fabric": "small", "text": "What?"}, headers={"traceparent": "x"})
    assert with_no_trace.status_code == 201
    assert with_no_trace.json()["trace_id"] != run.trace_id
