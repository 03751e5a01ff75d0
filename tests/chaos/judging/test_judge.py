"""The judge sees what it is there to see: one planted fault a verdict, beside a story in which nothing is wrong."""

from dataclasses import replace

import pytest

from simulator.booking import Entry
from tests.chaos.judging import judge
from tests.chaos.judging.judge import VERDICTS, Case, Kill
from tests.chaos.judging.shares import Shared

S = 1_000_000


def issued(command, attempt=1, at=0):
    return {"kind": "call_issued", "command_id": command, "attempt": attempt, "at": at * S}


def answered(command, attempt=1, at=0, kind="model_answered"):
    return {"kind": kind, "command_id": command, "attempt": attempt, "at": at * S}


def taken(fence, at=0):
    return {"kind": "ownership_taken", "fence": fence, "incarnation": "w", "at": at * S}


def done(n, command, attempt=1, at=0, run="r1", kind="model", applied=True, key="", **about):
    key = key or f"{run}/{command}"
    return Entry(n, at * S, kind, run, command, attempt, key, applied, about)


def ended(state="completed", at=9):
    return {"kind": "run_ended", "state": state, "at": at * S}


# Two calls; the worker was killed at 3 s, between the booking and its journal, and another one asked again under the same key.
JOURNAL = [
    issued("plan", at=1),
    answered("plan", at=2),
    issued("book", at=2),
    taken(2, at=5),
    issued("book", 2, at=5),
    answered("book", 2, at=6, kind="tool_answered"),
    ended(),
]
LEDGER = [
    done(1, "plan", at=1, usd_micros=100),
    done(2, "book", at=2, kind="book", id="b-1"),
    done(3, "book", 2, at=5, kind="book", applied=False),
]
# Of its budget 3 are booked for an attempt that no provider was paid for, and 500 are held beside what was spent.
BUDGET = Shared(
    scope="session:f:s",
    cap=1_000,
    spent=103,
    granted=500,
    overrun=0,
    hourly=False,
    held=500,
    used=103,
    runs=frozenset({"r1"}),
    booked={("r1", "plan", 1): 100, ("r1", "plan", 2): 3},
)
GOOD = Case(
    ledger=LEDGER,
    journals={"r1": JOURNAL},
    accepted=frozenset({"r1"}),
    states={"r1": "completed"},
    costs={"r1": 100},
    cap=1_000,
    shared=(BUDGET,),
    mutating=True,
    kills=(Kill(3 * S, 7, "effect.after", ("r1",)),),
    probes=(8, 8),
)


def with_entry(*more):
    return replace(GOOD, ledger=[*LEDGER, *more])


def failed(*entries):
    """The run failed after it had booked twice; then what is given was done."""
    second = done(4, "book2", at=6, kind="book", id="b-2")
    journal = [*JOURNAL[:-1], issued("book2", at=6), {"kind": "unwinding_started", "at": 7 * S}, ended("failed")]
    cancels = [issued(one.command, at=7) | {"kind": "compensation_issued"} for one in entries]
    return replace(
        GOOD, ledger=[*LEDGER, second, *entries], journals={"r1": [*journal, *cancels]}, states={"r1": "failed"}
    )


def cancel(n, booking, key="", applied=True):
    return done(n, f"comp.{n}", kind="cancel", id=booking, applied=applied, key=key)


UNWOUND = failed(cancel(5, "b-2"), cancel(6, "b-1"))

PLANTS = {
    "lost": [
        (replace(GOOD, states={"r1": "running"}), "run r1 was accepted and is running"),
        (replace(GOOD, accepted=frozenset({"r1", "r2"})), "run r2 was accepted and is not there"),
    ],
    "reexecuted": [
        (with_entry(done(4, "plan", at=1)), "attempt 1 of plan of run r1 was made 2 times"),
        (
            replace(
                GOOD,
                ledger=[*LEDGER, done(4, "plan", 2, at=4)],
                journals={"r1": [*JOURNAL, issued("plan", 2, at=4)]},
            ),
            "attempt 2 of plan of run r1 was made 2.000 s after attempt 1 was journaled",
        ),
        (
            replace(GOOD, ledger=[*LEDGER[:1], done(2, "book", at=8), *LEDGER[2:]]),  # A zombie's.
            "attempt 1 of book of run r1 was made 2.000 s after attempt 2 was journaled",
        ),
        (with_entry(done(4, "pay")), "attempt 1 of pay of run r1 was made without an intent"),
        (with_entry(done(4, "plan", run="r9")), "attempt 1 of plan of run r9 was made without an intent"),
    ],
    "compensations_missed": [
        (failed(cancel(5, "b-2")), "booking b-1 of run r1 (failed) stands"),
        (failed(cancel(5, "b-2", applied=False), cancel(6, "b-1")), "booking b-2 of run r1 (failed) stands"),
        (
            failed(cancel(5, "b-1"), cancel(6, "b-2")),
            "booking b-1 of run r1 was undone before b-2, which came after it",
        ),
    ],
    "compensations_repeated": [
        (
            failed(cancel(5, "b-2"), cancel(6, "b-1"), cancel(7, "b-2", applied=False)),
            "booking b-2 was undone under 2 keys",
        ),
        (
            replace(with_entry(cancel(4, "b-1")), journals={"r1": [*JOURNAL, issued("comp.4")]}),
            "booking b-1 of the completed run r1 was undone",
        ),
    ],
    "overspent": [
        (replace(GOOD, cap=99), "run r1 spent 100 of 99 micro-dollars"),
        (replace(GOOD, costs={"r1": 99}), "run r1 spent 100 micro-dollars and its journal knows of 99"),
        (
            replace(GOOD, shared=(BUDGET, replace(BUDGET, booked={}))),
            "session:f:s: attempt 1 of plan of run r1 cost 100, and it knows of 0",
        ),
    ],
    "stale_writes_accepted": [
        (replace(GOOD, stale=("run r1, fence 1",)), "run r1, fence 1"),
        (
            replace(GOOD, journals={"r1": [*JOURNAL, taken(2)]}),
            "the fences in the journal of run r1 go back: [2, 2]",
        ),
    ],
}


@pytest.mark.parametrize("case", [GOOD, UNWOUND], ids=["good", "unwound"])
def test_nothing_is_said_where_nothing_is_wrong(case):
    assert {name: verdict(case) for name, verdict in VERDICTS.items()} == {name: [] for name in VERDICTS}


def test_each_verdict_has_a_planted_fault():
    assert set(PLANTS) == set(VERDICTS)


@pytest.mark.parametrize(
    ("name", "case", "sentence"), [(name, *plant) for name, plants in PLANTS.items() for plant in plants]
)
def test_a_planted_fault_is_seen_and_no_other_verdict_speaks(name, case, sentence):
    said = {verdict: judge_(case) for verdict, judge_ in VERDICTS.items() if judge_(case)}
    assert said == {name: [sentence]}
    assert judge.line(case, is_void=False)[name] == 1


def test_a_booking_made_after_an_earlier_one_was_undone_belongs_to_another_unwinding():
    replanned = [done(4, "comp", kind="cancel", id="b-1"), done(5, "again", kind="book", id="b-2"), cancel(6, "b-2")]
    intents = [issued("comp"), issued("again"), issued("comp.6")]
    unwound = {"kind": "unwinding_started", "at": 0}
    case = replace(
        GOOD, ledger=[*LEDGER, *replanned], journals={"r1": [*JOURNAL, *intents, unwound]}, states={"r1": "failed"}
    )
    assert [name for name, verdict in VERDICTS.items() if verdict(case)] == []


def test_bookings_that_are_no_mutations_are_not_undone():
    case = replace(failed(), mutating=False)
    assert judge.compensations_missed(case) == []


# -- runs that were put away -----------------------------------------------------------------------------------------

AWAY = {"kind": "run_quarantined", "claims": 6, "at": 9 * S}
PUT_AWAY = [answered("plan", at=2), *(taken(fence, at=fence) for fence in (3, 4, 5, 6, 7)), AWAY]


def killed(*at, run="r1"):
    return tuple(Kill(second * S, 7, "random", (run,)) for second in at)


def test_a_run_whose_owners_died_one_after_the_other_is_put_away_rightly():
    assert judge.put_away(replace(GOOD, journals={"r1": PUT_AWAY}, kills=killed(3, 4, 5, 6, 7))) == []
    waited = [*PUT_AWAY[:-1], AWAY | {"claims": 7}]
    assert judge.put_away(replace(GOOD, journals={"r1": waited}, kills=killed(3, 4, 5, 6, 7))) == []


@pytest.mark.parametrize(
    ("kills", "died"),
    [
        ((), 0),
        (killed(3, 4, 5, 6), 4),
        (killed(1, 3, 4, 5, 6), 4),  # Before it last got on.
        (killed(3, 4, 5, 6, 10), 4),  # After it was put away.
        (killed(3, 4, 5, 6, 7, run="r2"), 0),
    ],
)
def test_a_run_that_was_put_away_without_that_many_deaths_is_told(kills, died):
    said = f"run r1 was quarantined at claim 6, and {died} owners died or were parted from it since it got on"
    assert judge.put_away(replace(GOOD, journals={"r1": PUT_AWAY}, kills=kills)) == [said]


def test_an_owner_that_lived_on_without_the_run_counts_as_one_that_died():
    case = replace(GOOD, journals={"r1": PUT_AWAY}, kills=killed(3, 4, 5, 6))
    assert judge.put_away(replace(case, parted=killed(7))) == []
    assert judge.put_away(replace(case, parted=killed(7, run="r2"))) != []


def test_a_run_that_was_put_away_for_its_journal_is_told_however_many_died():
    journal = [*PUT_AWAY[:-1], AWAY | {"damage": "event 3 is missing"}]
    found = judge.put_away(replace(GOOD, journals={"r1": journal}, kills=killed(3, 4, 5, 6, 7)))
    assert found == ["run r1 was quarantined: event 3 is missing"]


def test_deaths_are_counted_anew_after_a_run_was_let_go_on():
    journal = [*PUT_AWAY, {"kind": "run_released_from_quarantine", "at": 11 * S}, AWAY | {"at": 12 * S}]
    found = judge.put_away(replace(GOOD, journals={"r1": journal}, kills=killed(3, 4, 5, 6, 7)))
    assert found == ["run r1 was quarantined at claim 6, and 0 owners died or were parted from it since it got on"]


# -- how runs ended --------------------------------------------------------------------------------------------------


def withheld(run="r1"):
    return done(9, "lead", run=run, withheld=True)


@pytest.mark.parametrize(
    ("state", "changed", "said"),
    [
        ("completed", {}, []),
        ("running", {}, []),  # That is another verdict's.
        ("cancelled", {"cancelled": frozenset({"r1"})}, []),
        ("completed", {"cancelled": frozenset({"r1"})}, []),
        ("aborted", {"ledger": [withheld()]}, []),
        ("cancelled", {"ledger": [withheld()], "cancelled": frozenset({"r1"})}, []),
        ("cancelled", {}, ["run r1 is cancelled, and not completed"]),
        ("aborted", {"cancelled": frozenset({"r1"})}, ["run r1 is aborted, and not cancelled or completed"]),
        ("aborted", {"ledger": [withheld("r2")]}, ["run r1 is aborted, and not completed"]),
        ("completed", {"ledger": [withheld()]}, ["run r1 is completed, and not aborted"]),
        ("failed", {"ledger": [withheld()]}, ["run r1 is failed, and not aborted"]),
    ],
)
def test_a_run_ends_as_it_was_to(state, changed, said):
    assert judge.ended_otherwise(replace(GOOD, states={"r1": state}, **changed)) == said


def test_what_was_undone_is_counted_once():
    assert judge.undone(UNWOUND) == 2
    assert judge.undone(failed(cancel(5, "b-2"), cancel(6, "b-2", applied=False))) == 1


# -- what arrives once -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, []),
        ({"states": {"r1": "completed", "r2": "running"}}, ["run r2 is there, and no start of it was confirmed"]),
        ({"journals": {"r1": [*JOURNAL, ended()]}}, ["run r1 has 2 times run_ended"]),
        (
            {"journals": {"r1": [{"kind": "cancel_accepted"}] * 2, "r2": [{"kind": "cancel_accepted"}]}},
            ["run r1 has 2 times cancel_accepted"],
        ),
        (
            {"journals": {"r1": [{"kind": "review_decided", "review_id": one} for one in ("e1", "e2", "e2")]}},
            ["run r1 has 2 times review_decided"],
        ),
        (
            {"ledger": [done(4, "send", kind="notice"), done(5, "send", 2, kind="notice")]},
            ["the notice of run r1 was sent 2 times"],
        ),
        ({"ledger": [done(4, "send", kind="notice"), done(5, "send", run="r2", kind="notice")]}, []),
    ],
)
def test_what_arrived_more_than_once_is_told(changed, said):
    assert judge.not_once(replace(GOOD, **changed)) == said


# -- figures ---------------------------------------------------------------------------------------------------------


def test_a_kill_counts_as_between_when_something_was_done_whose_result_is_not_journaled():
    assert judge.between_effect_and_commit(GOOD) == 1
    others = Kill(3 * S, 8, "random", ("r2",))
    assert judge.between_effect_and_commit(replace(GOOD, kills=(others,))) == 0
    before = Kill(1 * S, 7, "random", ("r1",))
    assert judge.between_effect_and_commit(replace(GOOD, kills=(before,))) == 0
    journaled = [*JOURNAL, answered("book", 1, at=8)]
    assert judge.between_effect_and_commit(replace(GOOD, journals={"r1": journaled})) == 0


def test_an_effect_counts_for_the_first_kill_after_it():
    later = Kill(4 * S, 9, "random", ("r1",))
    assert judge.between_effect_and_commit(replace(GOOD, kills=(*GOOD.kills, later))) == 1


def test_a_run_recovers_with_its_next_event():
    assert judge.recoveries_s(GOOD) == [2.0]
    line = judge.line(GOOD, is_void=False)
    assert (line["recovery_p50_s"], line["recovery_max_s"]) == (2.0, 2.0)
    assert judge.line(replace(GOOD, kills=()), is_void=False)["recovery_p50_s"] is None


def test_while_there_is_no_database_nothing_recovers():
    (at, until) = GOOD.kills[0].at, GOOD.kills[0].at + 2 * S
    away = ((at - 3 * S, at + S // 2), (until - S // 4, until + 9 * S), (until + S, until + 2 * S))
    assert judge.recoveries_s(replace(GOOD, away=away)) == [1.25]


def test_why_a_run_asked_a_person_is_counted_by_what_it_asked():
    tripped = {"kind": "reaction_decided", "cause": {"cause": "timeout"}, "at": 0}
    about = {"kind": "review_opened", "item": "failure", "failure_type": "provider_failure", "at": 0}
    put_away = about | {"item": "quarantine", "failure_type": None, "reason": "it was claimed 6 times"}
    journals = {
        "r1": [*JOURNAL, tripped, about | {"reason": "no answer within 20.0 s"}],
        "r2": [tripped, about | {"reason": "no answer within 9 s"}, put_away],
    }
    assert judge.asked(replace(GOOD, journals=journals)) == {
        "failure / provider_failure / timeout: no answer within # s": 2,
        "quarantine: it was claimed # times": 1,
    }
    assert judge.asked(GOOD) == {}


def test_a_takeover_is_timed_by_the_next_owner_of_what_the_killed_one_had_out():
    assert judge.takeovers_s(GOOD) == [2.0]
    finished = [*JOURNAL[:2], answered("plan", at=4), *JOURNAL[3:]]  # Its answer was on the way to the journal.
    assert judge.takeovers_s(replace(GOOD, journals={"r1": finished})) == []
    assert judge.takeovers_s(replace(GOOD, kills=())) == []


@pytest.mark.parametrize(("at", "out"), [(0, 0), (1, 1), (2, 1), (4, 1), (5, 1), (6, 0)])
def test_the_calls_that_are_out_at_an_instant(at, out):
    assert judge.calls_out(GOOD, at * S) == out


def test_a_call_that_failed_or_was_interrupted_is_not_out():
    for kind in ("attempt_failed", "attempt_interrupted"):
        journal = [issued("plan", at=1), answered("plan", at=2, kind=kind)]
        assert judge.calls_out(replace(GOOD, journals={"r1": journal, "r2": JOURNAL}), 2 * S) == 1


def test_the_line():
    assert list(judge.line(GOOD, is_void=True)) == [
        "kills",
        "kills_between_effect_and_commit",
        "runs",
        "lost",
        "reexecuted",
        "compensations_missed",
        "compensations_repeated",
        "overspent",
        "stale_writes_accepted",
        "stale_writes_refused",
        "void",
        "recovery_p50_s",
        "recovery_max_s",
    ]


def test_what_makes_a_run_void():
    assert judge.void(GOOD, least_between=1) == []
    assert judge.void(GOOD, least_between=5) == [
        "1 kills came between an effect and its commit; 5 are needed",
    ]
    tired = replace(GOOD, probes=(20, 18))
    assert judge.void(tired, least_between=0) == [
        "18 of 20 runs that were started in quiet phases completed; 95 % are needed"
    ]
    assert judge.void(replace(tired, late=("probe-0-1: run r waits",)), least_between=0)[1:] == [
        "probe-0-1: run r waits"
    ]
    assert judge.void(replace(GOOD, probes=(20, 19)), least_between=0) == []
    assert len(judge.void(replace(GOOD, probes=(0, 0)), least_between=0)) == 1
    assert judge.void(replace(GOOD, ledger=()), least_between=0) == ["nothing happened outside"]
    assert judge.void(GOOD, least_between=0, unseen=["blind"]) == ["blind"]


def test_a_late_run_says_what_it_waited_for():
    def issued(command, attempt, at):
        return {"kind": "call_issued", "command_id": command, "attempt": attempt, "at": at}

    assert judge.describe_wait("r", "queued", (), 0) == "run r is queued, and no worker has begun it"
    answered = {"kind": "model_answered", "command_id": "plan", "attempt": 1, "at": 2_000_000}
    facts = [issued("plan", 1, 1_000_000), answered, issued("book", 2, 3_000_000)]
    assert (
        judge.describe_wait("r", "running", facts, 13_000_000)
        == "run r is running; last fact, 10.0 s ago: call_issued; calls out: book (attempt 2)"
    )
    shut = {
        "kind": "attempt_failed",
        "command_id": "book",
        "attempt": 2,
        "at": 4_000_000,
        "message": "its breaker is open",
    }
    waits = {"kind": "retry_scheduled", "command_id": "book", "attempt": 3, "at": 4_500_000}
    assert (
        judge.describe_wait("r", "running", [*facts, shut, waits], 14_500_000)
        == "run r is running; last fact, 10.0 s ago: retry_scheduled; last failure, 10.5 s ago: its breaker is open"
    )
