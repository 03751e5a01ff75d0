"""Reading single events out of a journal's rows: every span of them, in both directions, by kind, page by page."""

from __future__ import annotations

from itertools import product

import pytest

from fabric.core.events.envelope import EVENTS_MAX, FOLLOWING
from fabric.core.texts.notifications import CALLING, EVENTS
from fabric.models import Event
from fabric.selectors.reviews import history
from fabric.selectors.runs.export.bundle import DECISIONS
from fabric.selectors.stored_events import ROW, count_events, read_events, split_stored
from tests.fabric.services.world import ran


@pytest.fixture
def rows(actor, small):
    """Rows of a run that ended, some with several events."""
    found = Event.objects.filter(run_id=ran(actor, small).id)
    assert found.filter(more__gt=0).count() > 2
    return found


@pytest.fixture
def events(rows):
    """Each event of the run in order, read in the plainest way."""
    found = [event for row in rows.order_by("seq").values_list(*ROW) for event in split_stored(row)]
    assert [event.seq for event in found] == list(range(1, len(found) + 1))
    return found


@pytest.mark.parametrize("newest", [False, True])
@pytest.mark.parametrize("page", [1, 3, 500])
def test_every_span_is_read_whole(rows, events, newest, page):
    ends = range(len(events) + 2)
    for after, upto in product(ends, ends):
        wanted = [event for event in events if after < event.seq <= upto]
        found = list(read_events(rows, after=after, upto=upto, newest=newest, page=page))
        assert found == (wanted[::-1] if newest else wanted), (after, upto)


@pytest.mark.parametrize("kinds", [{"stage_entered"}, {"model_answered"}, {"call_issued", "run_ended"}])
def test_kinds_are_found_wherever_they_stand(rows, events, kinds):
    wanted = [event for event in events if event.kind in kinds]
    assert wanted
    assert list(read_events(rows, kinds=kinds)) == wanted
    assert list(read_events(rows, without=kinds)) == [event for event in events if event.kind not in kinds]


def test_contents_are_read_when_they_are_wanted(rows, events):
    found = list(read_events(rows, contents=True))
    assert [event.payload is not None for event in found] == [event.payload_hash != b"" for event in events]
    assert any(event.payload for event in found)
    assert all(event.payload is None for event in read_events(rows))


def test_events_are_counted(rows, events):
    assert count_events(rows) == len(events)
    assert count_events(rows.none()) == 0


def test_an_events_row_is_found_within_the_bound(rows, events):
    last = rows.order_by("-more").first()
    assert last.more < EVENTS_MAX
    assert [one.seq for one in read_events(rows, after=last.seq + last.more - 1, upto=last.seq + last.more)] == [
        last.seq + last.more
    ]


@pytest.mark.parametrize("kinds", [EVENTS, CALLING, history.KINDS, history.EARLIER_CONTENT_KINDS, DECISIONS])
def test_kinds_that_the_database_is_asked_for_begin_a_row(kinds):
    assert FOLLOWING.isdisjoint(kinds)
