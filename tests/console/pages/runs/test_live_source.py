"""The database as the hub's source."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.live.reader import RunKey
from console.pages.runs.live_source import DatabaseSource, head, panels
from fabric.models import Review
from fabric.selectors.errors import Refused
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.runs.lookup import run_get
from tests.fabric.services.world import ran


def test_rows_and_head(actor, small):
    run = ran(actor, small)
    key = RunKey(actor.workspace_id, run.id)
    batch = DatabaseSource().read(key, 3, 4)
    assert [row.seq for row in batch.rows] == [4, 5, 6, 7]
    assert batch.head.seq == run.last_seq
    assert batch.head.ended
    assert [panel.name for panel in batch.head.panels] == ["head", "ask", "talk", "outcome", "timeline"]


def test_a_run_is_not_read_through_another_workspace(actor, small, stranger):
    run = ran(actor, small)
    with pytest.raises(Refused):
        DatabaseSource().read(RunKey(stranger.workspace_id, run.id), 0, 10)
    assert DatabaseSource().reach([RunKey(stranger.workspace_id, run.id)]) == {}


def test_how_far_journals_reach(actor, small):
    run = ran(actor, small)
    key = RunKey(actor.workspace_id, run.id)
    assert DatabaseSource().reach([key, RunKey(actor.workspace_id, "gone")]) == {key: run.last_seq}


def test_a_write_by_another_connection_is_noticed(actor, small):
    source = DatabaseSource()
    assert source.may_have_changed()
    assert not source.may_have_changed()
    ran(actor, small)  # The store writes on a connection of its own.
    assert source.may_have_changed()
    assert not source.may_have_changed()


def test_a_panel_has_a_version_for_its_content(actor, doubtful):
    run = ran(actor, doubtful)
    view, reviews = run_get(actor, run.id), list_open_reviews(actor, run.id)
    first, again = panels(actor, view, reviews), panels(actor, view, reviews)
    assert first == again
    answered = panels(actor, view, [])
    assert [a.name for a, b in zip(first, answered, strict=True) if a.version != b.version] == ["ask"]


def test_panels_are_drawn_again_when_the_run_goes_on_otherwise_and_when_it_has_ended(actor, doubtful, small):
    """While it goes on as it did, those there are will do: the reader asks for new ones in its own time."""
    source = DatabaseSource()
    waiting = ran(actor, doubtful)
    key = RunKey(actor.workspace_id, waiting.id)
    first = source.read(key, 0, 10).head
    again = source.read(key, 0, 10, first).head
    assert again.panels is first.panels
    assert again.drawn == first.drawn == waiting.last_seq
    answered = source.read(key, 0, 10, replace(first, mark="another")).head
    assert answered.panels is not first.panels
    ended = ran(actor, small)
    key = RunKey(actor.workspace_id, ended.id)
    first = source.read(key, 0, 10).head
    assert source.read(key, 0, 10, first).head.panels is not first.panels


def test_a_review_that_is_answered_is_another_mark(actor, doubtful):
    run = ran(actor, doubtful)
    before = head(actor, run.id)
    Review.objects.filter(run_id=run.id).update(decided_at=1)
    assert head(actor, run.id).mark != before.mark
