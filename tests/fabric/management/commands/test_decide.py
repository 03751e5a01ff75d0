"""`decide`: records the answer and hosts the run until it rests."""

import pytest

from fabric import wiring
from fabric.adapters.engine_lock import EngineLock
from fabric.models import Run
from fabric.selectors.escalations import escalation_get, escalations_open
from fabric.services.escalations import escalation_decide
from tests.fabric.management.console import command
from tests.fabric.services.world import ran


@pytest.fixture
def item(actor, doubtful) -> str:
    ran(actor, doubtful)
    (found,) = escalations_open(actor)
    return found.id


def test_an_approved_run_goes_on_to_its_end(actor, item):
    done = command("decide", item, "approve", "--message", "Fine.", "--json")
    assert (done.code, done.err) == (0, "")
    assert (done.last["state"], done.last["item"], done.last["verb"]) == ("completed", item, "approve")
    assert "40 dollars" in done.last["outcome"]["text"]
    assert escalation_get(actor, item).decided_by == "owner"


def test_a_rejected_run_is_aborted(item):
    done = command("decide", item, "reject", "--message", "No.")
    assert done.code == 1
    assert "aborted: owner rejected it" in done.out.splitlines()[-1]


@pytest.mark.parametrize("message", [(), ("--message", ""), ("--message", " \n")], ids=["none", "empty", "blank"])
def test_a_rejection_says_why_as_everywhere(item, message):
    done = command("decide", item, "reject", *message)
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines() == ["a rejection needs a reason: say why in the message, it is kept with the run"]
    assert Run.objects.get().state == "waiting"


def test_only_what_is_new_is_told_on_a_terminal(item):
    done = command("decide", item, "approve", terminal=True)
    assert "Run started" not in done.err
    assert "approved by owner" in done.err


def test_a_second_answer_is_told_who_was_first(item):
    command("decide", item, "approve")
    done = command("decide", item, "reject", "--message", "No.")
    assert done.code == 2
    assert f"item {item} was answered by owner at " in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [(("nothing", "approve"), "there is no item 'nothing'"), (("ITEM", "perhaps"), "possible are: approve, reject")],
)
def test_bad_input_is_one_sentence_and_exit_code_2(item, words, said):
    done = command("decide", *(item if word == "ITEM" else word for word in words))
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert len(done.err.splitlines()) == 1


def test_with_an_engine_elsewhere_the_answer_is_only_recorded(item, settings):
    # The lock is what says that there is one: it is held by this process, on another open file.
    elsewhere = EngineLock(settings.FABRIC_DATA)
    elsewhere.take()
    try:
        done = command("decide", item, "approve", "--json")
    finally:
        elsewhere.give_back()
    assert (done.code, done.last["state"], done.last["recorded"]) == (0, "waiting", True)
    assert "the running engine goes on with run" in done.err
    assert Run.objects.get().state == "waiting"
    assert wiring.store().next_due_s() <= 0


def test_an_answer_is_taken_back_until_the_run_takes_it(item, actor, settings):
    elsewhere = EngineLock(settings.FABRIC_DATA)
    elsewhere.take()
    try:
        command("decide", item, "approve")
        done = [command("decide", item, "undo", "--json") for _ in range(2)]
    finally:
        elsewhere.give_back()
    assert [one.code for one in done] == [0, 0]
    assert [(one.last["undone"], one.last["recorded"]) for one in done] == [("approve", True), ("approve", False)]
    assert "approve is taken back for item" in done[0].err
    assert escalation_get(actor, item).open


def test_what_the_run_took_is_not_taken_back(item):
    command("decide", item, "approve")
    done = command("decide", item, "undo")
    assert (done.code, done.out) == (2, "")
    assert done.err.rstrip().endswith("approve; it cannot be taken back any more")


def test_an_answer_counts_at_once_and_the_run_goes_on_here(item, actor):
    asked = {"store": wiring.store(), "nudge": wiring.nudge(), "actor": actor, "escalation_id": item}
    escalation_decide(**asked, verb="approve", undo_s=60)
    done = command("decide", item, "continue", "--json")
    assert (done.code, done.last["state"], done.last["recorded"]) == (0, "completed", True)
