"""Workers killed around what undoes a booking: real processes, one death a place; each booking of a run that failed is undone, once, the last first."""

import pytest

from tests.chaos.campaign import Campaign, Order
from tests.chaos.faults.failpoints import UNDOING_PLACES, ticket
from tests.chaos.faults.test_put_away import until
from tests.chaos.installation import Plan, installed
from tests.chaos.judging import judge
from tests.chaos.judging.remembered import counted
from tests.chaos.processes.effects import BOOKED
from tests.chaos.processes.starter import FAIL

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def case():
    """A run that fails loses its worker at each place, one after the other, and one more run is cancelled: all that is known after that."""
    with installed(Plan()) as made:
        campaign = Campaign(Order(Plan(), 1.0, None, (), 1), made, lambda said: None)
        for deaths, place in enumerate(UNDOING_PLACES, 1):
            ticket(made.folder, place).touch()
            key = f"{FAIL}{place}"
            made.start(key)
            until(lambda deaths=deaths: len(made.kills) == deaths)
            until(lambda key=key: made.rows.read_states().get(made.runs[key]) == "aborted")
        made.start("stands")
        until(lambda: made.rows.read_states().get(made.runs.get("stands", "")) == "completed")
        made.start("booked")
        until(lambda: made.runs.get("booked"))
        made_of = made.runs["booked"]
        until(lambda: any(entry.kind == "book" and entry.run == made_of for entry in made.ledger()))
        made.cancel(made_of)
        until(lambda: made.rows.read_states()[made_of] == "cancelled")
        yield campaign.case()


def test_a_worker_died_at_each_place_around_a_compensation(case):
    assert [kill.place for kill in case.kills] == list(UNDOING_PLACES)


def test_each_booking_is_undone_once_and_the_last_first(case):
    for run in case.accepted:
        booked = [entry.about["id"] for entry in case.ledger if entry.run == run and entry.kind == "book"]
        undone = [one.about["id"] for one in case.ledger if one.run == run and one.kind == "cancel" and one.applied]
        if case.states[run] == "completed":
            assert (undone, len(booked)) == ([], len(BOOKED))
            continue
        assert undone == booked[::-1]
        assert len(booked) == len(BOOKED) or case.states[run] == "cancelled"
        assert booked


def test_nothing_that_must_never_be_was_found(case):
    found = {name: verdict(case) for name, verdict in judge.VERDICTS.items()}
    assert found == {name: [] for name in judge.VERDICTS}
    assert judge.ended_otherwise(case) == []
    assert judge.asked(case) == {}


def test_what_was_interrupted_was_sent_again_under_the_same_key(case):
    interrupted = [
        fact for facts in case.journals.values() for fact in facts if fact["kind"] == "compensation_interrupted"
    ]
    assert interrupted
    keys = {}
    for entry in case.ledger:
        if entry.kind == "cancel":
            keys.setdefault((entry.run, entry.command), set()).add(entry.key)
    assert {len(used) for used in keys.values()} == {1}


def test_what_each_run_wrote_to_the_fabrics_memory_stands_once_or_was_taken_back(case):
    written = {one.run: one for one in case.memory}
    assert set(written) == case.accepted
    assert len(case.memory) == len(written)
    assert {run: one.undone for run, one in written.items()} == {
        run: case.states[run] != "completed" for run in case.accepted
    }
    assert counted(case.memory)["taken_back"] == len(UNDOING_PLACES) + 1
