"""Reading runs: pages by keyset, outcomes, events, one workspace at a time, no query a row."""

import json

import pytest

from fabric.core.values.flow import RunState
from fabric.models import Event, Run
from fabric.runtime.ports.journal import Document
from fabric.selectors.errors import Refused
from fabric.selectors.runs.lookup import run_events, run_get, run_outcome, runs_list
from fabric.services.actors import owner_actor
from fabric.services.runs.start import run_start
from tests.fabric.services.world import NOTES, ran
from tests.servers.unguarded import unguarded


@pytest.fixture
def started(store, nudge, actor, small) -> list[str]:
    """Seven runs that no worker has begun; the middle five of one instant."""
    ids = [run_start(store=store, nudge=nudge, actor=actor, fabric=small, text=f"Request {n}").run_id for n in range(7)]
    Run.objects.filter(id__in=ids[1:6]).update(created_at=1_800_000_000_000_000)
    Run.objects.filter(id=ids[0]).update(created_at=1_700_000_000_000_000)
    Run.objects.filter(id=ids[6]).update(created_at=1_900_000_000_000_000)
    return ids


def test_pages_follow_one_another_without_gap_or_repetition(actor, started):
    whole = runs_list(actor)
    assert whole[0].id == started[6]
    assert whole[-1].id == started[0]
    for size in (1, 2, 3, 7):
        pages, before = [], None
        while page := runs_list(actor, limit=size, before=before):
            assert len(page) <= size
            pages += page
            before = page[-1].cursor
        assert pages == whole


def test_a_list_is_one_query_and_a_run_two(actor, started, django_assert_num_queries):
    with django_assert_num_queries(1):
        assert len(runs_list(actor)) == 7
    with django_assert_num_queries(2):
        view = run_get(actor, started[0])
    assert (view.fabric_name, view.fabric_title, view.revision_number) == ("small", "A small fabric", 1)
    assert view.documents == ()


def test_a_list_may_be_of_one_state(actor, small, started):
    done = ran(actor, small)
    assert [view.id for view in runs_list(actor, state="completed", limit=1)] == [done.id] or len(started) == 7
    assert {view.state for view in runs_list(actor, state="completed")} == {RunState.COMPLETED}
    assert runs_list(actor, state="aborted") == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"state": "done"}, "state"), ({"before": "yesterday"}, "before"), ({"before": "9" * 40 + ".x"}, "before"), ({"before": "1."}, "before")],
)  # fmt: skip
def test_what_a_list_does_not_understand(actor, changes, field):
    with pytest.raises(Refused) as caught:
        runs_list(actor, **changes)
    assert (caught.value.code, caught.value.field) == ("invalid", field)


def test_another_workspaces_runs_are_not_there(actor, stranger, small):
    run = ran(actor, small)
    assert runs_list(stranger) == []
    for read in (run_get, run_outcome, run_events):
        for wrong in (run.id, "nothing", "\0"):
            with pytest.raises(Refused) as caught:
                read(stranger, wrong)
            assert caught.value.code == "not_found"


def test_an_outcome_is_what_the_last_stage_left(actor, small):
    run = ran(actor, small)
    outcome = run_outcome(actor, run.id)
    assert outcome is not None
    assert set(outcome) == {"text", "citations", "gaps", "partial"}
    assert outcome["partial"] is False
    assert "40 dollars" in outcome["text"]
    assert outcome["citations"] == ["notes.md"]


def test_there_is_no_outcome_before_the_end_nor_after_an_erasure(actor, small, started):
    assert run_outcome(actor, started[0]) is None
    run = ran(actor, small)
    Event.objects.filter(run_id=run.id).update(payload=None)
    assert run_outcome(actor, run.id) is None


def test_a_waiting_run_has_no_outcome_yet(actor, doubtful):
    run = ran(actor, doubtful)
    assert run.state is RunState.WAITING
    assert run_outcome(actor, run.id) is None


def test_events_come_in_order_with_fact_content_and_sentence(actor, small, django_assert_num_queries):
    run = ran(actor, small)
    with django_assert_num_queries(2):
        events = run_events(actor, run.id)
    assert [event.seq for event in events] == list(range(1, run.last_seq + 1))
    first, last = events[0], events[-1]
    assert (first.kind, first.source, first.fact["fabric"], first.fact["kind"]) == (
        "run_started",
        "caller/owner",
        "small",
        "run_started",
    )
    assert first.content["text"] == "What do the notes say?"
    assert (last.kind, last.destination) == ("run_ended", "caller/")
    assert last.summary == "The run completed: finished"
    answered = next(event for event in events if event.kind == "model_answered")
    assert answered.summary.startswith("The model answered (")
    assert all(event.summary for event in events)
    assert json.dumps([event.fact for event in events])


def test_events_are_read_from_a_cursor_on(actor, small):
    run = ran(actor, small)
    whole = run_events(actor, run.id)
    assert run_events(actor, run.id, after=3, limit=4) == whole[3:7]
    assert run_events(actor, run.id, after=run.last_seq) == []


def test_an_event_of_a_newer_version_is_shown_by_its_kind(actor, small):
    run = ran(actor, small)
    with unguarded():
        Event.objects.filter(run_id=run.id, seq=1).update(kind="agents_voted")
    event = run_events(actor, run.id, limit=1)[0]
    assert (event.kind, event.fact) == ("agents_voted", {})
    assert "is not known to this version" in event.summary


def test_documents_are_named_in_the_order_they_were_attached(actor, small):
    run = ran(actor, small, documents=(Document("z.md", "Last."), NOTES))
    assert run_get(owner_actor(), run.id).documents == ("z.md", "notes.md")
