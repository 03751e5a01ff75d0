"""`run cancel --query`: acting on many runs from the command line."""

import pytest

from fabric.models import RunJob
from tests.fabric.management.console import command
from tests.fabric.services.runs.jobs.worlds import queue_runs, sent
from tests.fabric.services.world import actor, ran, small, store

__all__ = ["actor", "small", "store"]


def test_all_matching_runs_are_sent_it_and_a_refusal_is_told(actor, small):
    ended, ids = ran(actor, small), queue_runs(actor, small, 2)
    done = command("run", "cancel", "--query", f"fabric:{small}", "--reason", "too dear", "--yes")
    assert (done.code, done.out) == (
        1,
        f"run {ended.id} has already ended (completed), so it cannot be cancelled; start a new one if you need it again\n",
    )
    assert "3 of 3: 2 done, 1 refused" in done.err
    assert [sent(run_id) for run_id in ids] == [["cancel"]] * 2


def test_the_result_as_json(actor, small):
    queue_runs(actor, small, 2)
    done = command("run", "pause", "--query", "state:queued", "--yes", "--json")
    assert done.code == 0
    assert {name: done.last[name] for name in ("action", "state", "total", "done", "refused", "left")} == {
        "action": "pause", "state": "ended", "total": 2, "done": 2, "refused": 0, "left": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("cancel", "--query", ""), "cancel would act on 1 run, of which 1 can take it now; add --yes to do it"),
        (("retry", "--query", ""), "retry would act on 1 run, of which 0 can take it now; add --yes to do it"),
        (("cancel", "--query", "state:x", "--yes"), "at character 7 of the query"),
        (("terminate", "--query", "", "--yes"), "needs a reason"),
        (("pause", "0", "--query", "", "--yes"), "give either RUN or --query, not both"),
        (("pause",), "name a run, or give --query with the runs"),
    ],
)
def test_wrong_input_is_one_sentence_and_begins_nothing(actor, small, given, said):
    queue_runs(actor, small, 1)
    done = command("run", *given)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert len(done.err.splitlines()) == 1
    assert not RunJob.objects.exists()
