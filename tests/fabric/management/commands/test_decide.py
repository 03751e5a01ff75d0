"""`decide`: records the answer and hosts the run until it rests."""

import io

import pytest

from fabric.composition import engine as wiring
from fabric.models import Run
from fabric.selectors.reviews.answers import answers_sent
from fabric.selectors.reviews.lookup import get_review, list_open_reviews
from fabric.selectors.runs.lookup import run_events
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.reviews.decisions import decide_review
from fabric.worker.process.engine_lock import EngineLock
from tests.fabric.management.console import command, shown
from tests.fabric.services.world import CROWDED, PAYING, REPLACEABLE, ran


@pytest.fixture
def item(actor, doubtful) -> str:
    ran(actor, doubtful)
    (found,) = list_open_reviews(actor)
    return found.id


def test_an_approved_run_goes_on_to_its_end(actor, item):
    done = command("decide", item, "approve", *shown(item), "--message", "Fine.", "--json")
    assert (done.code, done.err) == (0, "")
    assert (done.last["state"], done.last["item"], done.last["verb"]) == ("completed", item, "approve")
    assert "40 dollars" in done.last["outcome"]["text"]
    assert get_review(actor, item).decided_by == "owner"


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
    done = command("decide", item, "approve", *shown(item), terminal=True)
    assert "Run started" not in done.err
    assert "owner approved the review" in done.err


def test_a_second_answer_is_told_who_was_first(item):
    command("decide", item, "approve", *shown(item))
    done = command("decide", item, "reject", "--message", "No.")
    assert done.code == 2
    assert f"review {item} was answered by owner at " in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nothing", "approve"), "there is no review 'nothing'"),
        (("ITEM", "perhaps"), "possible are: approve, edit, respond, reject"),
    ],
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
        done = command("decide", item, "approve", *shown(item), "--json")
    finally:
        elsewhere.give_back()
    assert (done.code, done.last["state"], done.last["recorded"]) == (0, "waiting", True)
    assert "the running engine continues run" in done.err
    assert Run.objects.get().state == "waiting"
    assert wiring.store().next_due_s() <= 0


def test_an_answer_is_taken_back_until_the_run_takes_it(item, actor, settings):
    elsewhere = EngineLock(settings.FABRIC_DATA)
    elsewhere.take()
    try:
        command("decide", item, "approve", *shown(item))
        done = [command("review", "undo", item, "--json") for _ in range(2)]
    finally:
        elsewhere.give_back()
    assert [one.code for one in done] == [0, 0]
    assert [(one.last["undone"], one.last["recorded"]) for one in done] == [("approve", True), ("approve", False)]
    assert "approve is undone for review" in done[0].err
    assert get_review(actor, item).open


def test_what_the_run_took_is_not_taken_back(item):
    command("decide", item, "approve", *shown(item))
    done = command("decide", item, "undo")
    assert (done.code, done.out) == (2, "")
    assert done.err.rstrip().endswith("approve; it can no longer be undone")


def test_an_answer_counts_at_once_and_the_run_goes_on_here(item, actor):
    asked = {"store": wiring.store(), "nudge": wiring.nudge(), "actor": actor, "review_id": item}
    decide_review(**asked, digest=get_review(actor, item).digest, verb="approve", undo_s=60)
    done = command("decide", item, "continue", "--json")
    assert (done.code, done.last["state"], done.last["recorded"]) == (0, "completed", True)


# -- new caps --------------------------------------------------------------------------------------------------------


@pytest.fixture
def crowded(actor) -> str:
    ran(actor, fabric_publish(actor=actor, source=CROWDED).name)
    (found,) = list_open_reviews(actor)
    return found.id


def test_an_approval_names_new_caps(actor, crowded):
    caps = ("--cap", "run", "2.50", "usd", "--cap", "stage:plan", "50000", "tokens")
    done = command(
        "decide",
        crowded,
        "approve",
        *shown(crowded),
        *caps,
        "--cap",
        "agent:planner",
        "40000",
        "tokens",
        "--json",
        "--message",
        "Yes.",
    )
    assert (done.code, done.last["state"]) == (3, "waiting")  # The next stage's tokens are asked about.
    run_id = get_review(actor, crowded).run_id
    raised = [row.summary for row in run_events(actor, run_id, limit=500) if row.kind.endswith("_raised")]
    assert raised == [
        "owner raised the run's cap from $1.00 to $2.50",
        "owner raised the cap of stage plan from 1,100 tokens to 50,000 tokens",
        "owner raised the cap of agent planner from 1,090 tokens to 40,000 tokens",
    ]


@pytest.mark.parametrize(
    ("cap", "said"),
    [
        (("run", "much", "usd"), "'much' is no amount of dollars"),
        (("run", "5", "euros"), "--cap run 5 euros: give an amount and its unit, such as `--cap run 2.50 usd`"),
        (("run", "2.5", "tokens"), "--cap run 2.5 tokens: give an amount and its unit"),
        (("stage:plan", "1100", "tokens"), "is not above the present one of 1,100 tokens"),
    ],
)
def test_a_cap_that_cannot_be_is_one_sentence_and_exit_code_2(crowded, cap, said):
    done = command("decide", crowded, "approve", *shown(crowded), "--message", "Yes.", "--cap", *cap)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_the_runs_money_is_named_once(crowded):
    done = command(
        "decide", crowded, "approve", *shown(crowded), "--cap", "run", "2", "usd", "--cap", "run", "3", "usd"
    )
    assert done.code == 2
    assert "named twice" in done.err


# -- edits -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def call(actor) -> str:
    ran(actor, fabric_publish(actor=actor, source=PAYING).name, documents=())
    (found,) = list_open_reviews(actor)
    return found.id


def written(tmp_path, text):
    path = tmp_path / "payload.json"
    path.write_text(text)
    return str(path)


def test_a_call_is_made_with_what_a_file_says(actor, call, tmp_path, settings):
    elsewhere = EngineLock(settings.FABRIC_DATA)
    elsewhere.take()
    try:
        done = command(
            "decide", call, "edit", *shown(call), "--payload", written(tmp_path, '{"to": "Ana", "usd": 40}'), "--json"
        )
    finally:
        elsewhere.give_back()
    assert (done.code, done.last["verb"], done.last["recorded"]) == (0, "edit", True)
    (sent,) = answers_sent(get_review(actor, call))
    assert sent.decision.edited == {"to": "Ana", "usd": 40}


def test_or_with_what_comes_on_standard_input(actor, call, settings, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"to: Ana\nusd: 41\n")))
    elsewhere = EngineLock(settings.FABRIC_DATA)
    elsewhere.take()
    try:
        done = command("decide", call, "edit", *shown(call), "--payload", "-")
    finally:
        elsewhere.give_back()
    assert done.code == 0
    (sent,) = answers_sent(get_review(actor, call))
    assert sent.decision.edited == {"to": "Ana", "usd": 41}


class Typing(io.TextIOWrapper):
    """A person's input at a terminal, to its end."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("typed", [False, True], ids=["from a file", "at a terminal"])
def test_an_edit_without_a_digest_shows_both_versions_and_decides_nothing(actor, call, tmp_path, monkeypatch, typed):
    """A person who types the payload has ended the input that an answer would come on."""
    text = '{"to": "Ana", "usd": 41}'
    payload = "-" if typed else written(tmp_path, text)
    if typed:
        monkeypatch.setattr("sys.stdin", Typing(io.BytesIO(text.encode())))
    done = command("decide", call, "edit", "--payload", payload)
    assert (done.code, done.out) == (2, "")
    asked, yours = done.err.split("your version")
    assert ("usd: 90" in asked, "usd: 41" in yours) == (True, True), done.err
    assert "nothing is decided: to edit what is shown above, name it with --digest" in yours
    assert "[y/N]" not in done.err
    assert answers_sent(get_review(actor, call)) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{\n  "to": "Ana",\n  "usd": 400\n}', "payload.json, line 3, column 10, usd: 400 is greater than the maximum"),
        ('{"to": "Ana"}', 'payload.json, line 1, column 1: "usd" is a required property'),
        ("[]", "payload.json, line 1, column 1: a JSON object is wanted"),
        ('{"to": "Ana",\n "usd": 4, "usd": 5}', "payload.json, line 2, column "),
        ('{"to": "Ana"', "payload.json, line "),
        ("\0", "payload.json: "),
    ],
)
def test_what_is_wrong_with_a_payload_names_file_line_and_path(call, tmp_path, text, said):
    done = command("decide", call, "edit", *shown(call), "--payload", written(tmp_path, text))
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert Run.objects.get().state == "waiting"


def test_a_payload_that_is_not_there_or_not_wanted(call, tmp_path):
    missing = command("decide", call, "edit", *shown(call), "--payload", str(tmp_path / "nothing.json"))
    assert (missing.code, "nothing.json cannot be read" in missing.err) == (2, True)
    assert "give it with --payload FILE" in command("decide", call, "edit", *shown(call)).err
    assert "goes with edit" in command("decide", call, "approve", *shown(call), "--payload", "x").err
    large = command("decide", call, "edit", *shown(call), "--payload", written(tmp_path, '"' + "x" * 65_000 + '"'))
    assert "at most 64,000 are taken" in large.err


def test_another_tool_is_called_in_its_place(actor, tmp_path):
    run = ran(actor, fabric_publish(actor=actor, source=REPLACEABLE).name)
    (item,) = list_open_reviews(actor, run.id)
    payload = written(tmp_path, '{"expression": "2 * 45"}')
    refused = command("decide", item.id, "edit", *shown(item.id), "--tool", "teleport", "--payload", payload)
    assert (refused.code, refused.out) == (2, "")
    assert "'teleport' may not be called in place of this one; there are: calculator" in refused.err
    done = command("decide", item.id, "edit", *shown(item.id), "--tool", "calculator", "--payload", payload, "--json")
    assert (done.code, done.last["state"]) == (0, "completed")
    issued = [row.fact for row in run_events(actor, run.id, limit=500) if row.kind == "call_issued"]
    assert [fact["target"] for fact in issued if fact["call"] == "tool"] == ["calculator"]
