"""A run as of an event, by the API; and its stories: equal to a fold from the beginning, from checkpoints that are bounded."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from console.live.stories import PastStories
from fabric.core.values.flow import RunState
from fabric.selectors.errors import Refused
from fabric.selectors.runs.lookup import run_get
from fabric.selectors.runs.past.views import build_past_run
from fabric.selectors.runs.story.fold import run_story
from tests.console.conftest import journaled
from tests.console.pages.runs.test_page import WORKER, fanned_out
from tests.fabric.selectors.journals import Teller

__all__ = ["journaled"]
ROW = ("state", "stage", "epoch", "cost_usd_micros", "tokens", "reason", "fired", "cause", "started_at", "ended_at", "deadline_at")  # fmt: skip


def told() -> Teller:
    teller = fanned_out().ask(WORKER, 1, "reader").fail(WORKER, 1).react("retry", "provider", step=WORKER)
    return teller.back_off(WORKER, 1, 1).wait(1).ask(WORKER, 1, "reader", 2).answer(WORKER, 1, attempt=2).end(RunState.FAILED)  # fmt: skip


def test_a_run_as_of_each_event_is_what_its_row_was_then(actor, journaled):
    teller, stories = told(), PastStories(every=4)
    run = run_get(actor, journaled(teller))
    for seq in [*range(1, run.last_seq + 1), *range(run.last_seq, 0, -1)]:
        cut = Teller()
        cut.events = teller.events[:seq]
        row = run_get(actor, journaled(cut))
        found = build_past_run(run, stories.read_story(actor, run, seq)).run
        assert {name: getattr(found, name) for name in ROW} == {name: getattr(row, name) for name in ROW}, seq


def test_from_a_checkpoint_the_story_is_that_of_a_fold_from_the_beginning(actor, journaled):
    run, stories = run_get(actor, journaled(told())), PastStories(every=4)
    stories.read_story(actor, run, run.last_seq)
    assert len(stories) == run.last_seq // 4
    for seq in range(1, run.last_seq + 1):
        kept, whole = stories.read_story(actor, run, seq), run_story(actor, run.id, upto=seq)
        assert kept.run == whole.run
        assert vars(kept) | {"run": None, "tries": None} == vars(whole) | {"run": None, "tries": None}


def test_a_look_reads_no_event_before_its_checkpoint(actor, journaled):
    run, stories = run_get(actor, journaled(told())), PastStories(every=4)
    stories.read_story(actor, run, 9)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        stories.read_story(actor, run, 8)
    assert len(queries) == 0
    with CaptureQueriesContext(connection) as queries:
        stories.read_story(actor, run, 9)
    assert len(queries) == 2


def test_a_look_folds_so_many_events_and_the_next_one_goes_on(actor, journaled):
    run, stories = run_get(actor, journaled(told())), PastStories(every=2, a_look=4)
    for upto in (4, 8, 12):
        with pytest.raises(Refused, match=f"was read up to event {upto} of {run.last_seq}: open it again") as refused:
            stories.read_story(actor, run, run.last_seq)
        assert refused.value.code == "unavailable"
    assert stories.read_story(actor, run, run.last_seq).seq == run.last_seq


def test_checkpoints_are_bounded(actor, journaled):
    run, stories = run_get(actor, journaled(told())), PastStories(every=2, bytes_max=1)
    assert stories.read_story(actor, run, run.last_seq).seq == run.last_seq
    assert len(stories) == 0


# -- the API -----------------------------------------------------------------------------------------------------------


def test_the_api_gives_the_run_as_of_an_event(actor, program, journaled):
    teller = told()
    run = run_get(actor, journaled(teller))
    issued = next(event.seq for event in teller.events if event.fact.kind == "attempt_failed") - 1
    then = program.get(f"/api/v1/runs/{run.id}/at", seq=issued).json()
    assert (then["seq"], then["last_seq"], then["kind"], then["state"]) == (
        issued,
        run.last_seq,
        "call_issued",
        "running",
    )
    assert then["reserved_usd_micros"] == 500
    assert then["spent_usd_micros"] + then["reserved_usd_micros"] + then["left_usd_micros"] == then["cap_usd_micros"]
    assert (then["retry_tokens"], then["reviews"]) == (10, [])
    assert [one["who"] for one in then["conversation"]] == ["planner", "reader"]
    assert then["breakers"] == [{"where": "provider scripted", "scope": "provider:scripted", "state": "closed"}]
    last = program.get(f"/api/v1/runs/{run.id}/at", seq=run.last_seq).json()
    assert (last["state"], last["spent_usd_micros"], last["retry_tokens"]) == ("failed", run.cost_usd_micros, 9)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({}, "Seq is missing"),
        ({"seq": "x"}, "Seq must be a whole number"),
        ({"seq": "0"}, "Seq is too small"),
        ({"seq": "99"}, "has events 1 to 13, and no event 99"),
    ],
)
def test_a_wrong_event_is_one_sentence(program, journaled, query, said):
    answer = program.get(f"/api/v1/runs/{journaled(told())}/at", **query)
    assert answer.status_code == 422
    assert said in answer.json()["detail"]
