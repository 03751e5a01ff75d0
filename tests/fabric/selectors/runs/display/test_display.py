"""How events read: a row for each kind, and sentences with the numbers."""

from dataclasses import MISSING, fields
from enum import EnumType
from typing import Any, get_args, get_type_hints

import pytest

from fabric.core.events import (
    AttemptFailed,
    CallIssued,
    GateResult,
    ModelAnswered,
    ProposedCall,
    ReactionDecided,
    RetryScheduled,
    ReviewDecided,
    ReviewOpened,
    RunEnded,
    StageEntered,
    StageLeft,
    StepFailed,
    TripRecord,
)
from fabric.core.events.envelope import KINDS, Event, fact_class, fact_json
from fabric.core.events.parts import Check
from fabric.core.spec.policies.decision_table import Reaction
from fabric.core.values.branches import STOPPED
from fabric.core.values.flow import RunState, Stage, StageOutcome
from fabric.core.values.frozen import replace
from fabric.core.values.spending import UsualRate
from fabric.core.values.taxonomy import Cause, ErrorClass, Evidence, FailureType, Tier
from fabric.core.values.words import clock, dollars, duration, instant, words
from fabric.selectors.runs.display import EVENT_DISPLAY, choose_label, choose_tone, is_failure, write_sentence
from fabric.selectors.runs.display.decisions import DECIDED_AS, WAITS

TONES = {"neutral", "ok", "warn", "danger", "info", "human"}
PAST = {
    "took",
    "put",
    "began",
    "was",
    "were",
    "went",
    "kept",
    "sent",
    "had",
    "gave",
    "came",
    "left",
    "did",
    "could",
    "chose",
    "told",
    "undid",
    "withdrew",
    "wrote",
}
"""Verbs in the past tense that do not end in "ed"."""


def example(kind: str) -> Any:
    """A fact of that kind with something in each field that has no default."""
    cls = fact_class(kind)
    hints = get_type_hints(cls)
    return cls(**{field.name: value_of(hints[field.name]) for field in fields(cls) if field.default is MISSING})


def value_of(hint: Any) -> Any:
    known: dict[Any, Any] = {
        str: "reader",
        int: 1_800_000_000_000_000,
        float: 1.4,
        bool: False,
        Stage: Stage.PLAN,
        StageOutcome: StageOutcome.PASSED,
        Tier: Tier.BATCH,
        RunState: RunState.COMPLETED,
        Cause: Cause.TIMEOUT,
        ErrorClass: ErrorClass.DETERMINISTIC,
        FailureType: FailureType.PROVIDER,
        FailureType | None: None,
        int | None: None,
        tuple[str, ...]: ("approve", "reject"),
        tuple[int, ...]: (0, 1),
        tuple[UsualRate, ...]: (UsualRate(scope="run", usd_micros=20_000, tokens=900, runs=5),),
        TripRecord: TripRecord(mechanism="deadline", cause=Cause.RUN_DEADLINE, message="it has passed"),
    }
    if hint in known:
        return known[hint]
    return next(iter(hint)) if isinstance(hint, EnumType) else hint.__args__[0]


def vars_of(fact: Any) -> dict[str, Any]:
    return {name: getattr(fact, name) for name in fact.__struct_fields__}


def said(fact: Any) -> str:
    return write_sentence(fact.kind, fact_json(Event(1, 0, fact)))


def test_every_kind_has_its_row_and_no_other_has():
    assert set(EVENT_DISPLAY) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_is_whole_and_says_something(kind):
    row = EVENT_DISPLAY[kind]
    assert row.label
    assert row.icon.isidentifier()
    assert row.tone in TONES
    assert row.importance in (0, 1, 2, 3)
    sentence = said(example(kind))
    assert sentence.strip() == sentence
    assert "\n" not in sentence
    assert 2 <= len(sentence.split()) <= 20, sentence
    parts = row.parts(fact_json(Event(1, 0, example(kind))))
    assert parts.who
    assert parts.what
    assert (parts.what.split()[0] in PAST) or parts.what.split()[0].endswith("ed"), (
        f"{kind}: no past tense: {parts.what}"
    )
    assert choose_tone(kind, fact_json(Event(1, 0, example(kind)))) in TONES


def test_each_reason_for_a_wait_and_each_answer_has_its_words():
    assert set(WAITS) == set(get_args(get_type_hints(RetryScheduled)["source"]))
    assert set(DECIDED_AS) == set(get_args(get_type_hints(ReviewDecided)["verb"]))


def test_the_labels_are_told_apart():
    labels = [row.label for row in EVENT_DISPLAY.values()]
    assert len(set(labels)) == len(labels)


def test_what_a_newer_version_wrote_is_named_by_its_kind():
    assert write_sentence("agents_voted", {}) == "agents voted"
    assert choose_label("agents_voted") == "agents voted"
    assert choose_tone("agents_voted", {}) == "neutral"


def test_an_answer_has_its_tokens_and_its_money():
    answered = ModelAnswered(command_id="c", attempt=1, step_id="plan.0.e0.r0", verdict="output", input_tokens=412, output_tokens=96, cost_usd_micros=300)  # fmt: skip
    assert said(answered) == "The model answered (412 + 96 tokens, $0.0003)"
    calls = tuple(
        ProposedCall(call_id=str(n), tool=tool, args_hash="") for n, tool in enumerate(["read", "read", "find"])
    )
    proposed = ModelAnswered(command_id="c", attempt=1, step_id="s", verdict="calls", calls=calls)
    assert said(proposed) == "The model proposed 3 calls of read, find (0 + 0 tokens, $0)"
    rejected = ModelAnswered(command_id="c", attempt=1, step_id="s", verdict="rejected", problems=("it is empty",))
    assert said(rejected) == "The model gave an answer that cannot be used (0 + 0 tokens, $0): it is empty"
    assert choose_tone("model_answered", fact_json(Event(1, 0, rejected))) == "warn"


def test_a_retry_has_its_wait_and_where_that_came_from():
    retry = RetryScheduled(
        command_id="c", attempt=2, not_before=0, delay_s=1.4, source="retry_after", tokens_left=8_000
    )
    assert said(retry) == "The engine scheduled attempt 2 in 1.4 s (8.0 retries left): the provider asked for the wait"


@pytest.mark.parametrize("why", sorted(STOPPED))
def test_a_step_that_was_stopped_for_others_is_no_failure(why):
    stopped = StepFailed(step_id="fan_out.1.e0.r0", cause=Cause.PARTIAL_FAN_IN, message=why)
    told = fact_json(Event(1, 0, stopped))
    assert said(stopped) == f"Fan-out 2 was stopped: {STOPPED[why]}"
    assert (choose_label("step_failed", told), choose_tone("step_failed", told)) == ("Step stopped", "neutral")
    assert not is_failure("step_failed", told)
    own = fact_json(Event(1, 0, replace(stopped, message=f"the key was refused; {why}")))
    assert (choose_label("step_failed", own), choose_tone("step_failed", own)) == ("Step failed", "danger")
    assert is_failure("step_failed", own)


def test_a_failed_attempt_has_its_status():
    failed = AttemptFailed(command_id="c", attempt=1, step_id="s", error_class=ErrorClass.TRANSIENT_INFRA, cause=Cause.RATE_LIMIT, message="too many", status=429, retry_after_s=3.0, charged_usd_micros=20)  # fmt: skip
    assert said(failed) == "Attempt 1 failed (429, Retry-After 3.0 s, charged $0.00002): rate limit, too many"


def test_below_tau_is_two_numbers():
    trip = TripRecord(
        mechanism="escalation", cause=Cause.BELOW_TAU, message="...", evidence=Evidence(0.7, 0.55, "score")
    )
    decided = ReactionDecided(failure_type=None, tier=Tier.BATCH, table="t", rung=0, reaction=Reaction.ESCALATE, scope="stage:validate", spent=0, bound=None, cause=trip)  # fmt: skip
    assert said(decided) == "The engine chose escalate: below the needed score, 0.55 < 0.70"


def test_a_decision_says_how_often_it_may_be_taken():
    trip = TripRecord(mechanism="provider", cause=Cause.TIMEOUT, message="it took too long")
    decided = ReactionDecided(failure_type=FailureType.PROVIDER, tier=Tier.BATCH, table="t", rung=0, reaction=Reaction.RETRY, scope="call:x", spent=1, bound=5, cause=trip)  # fmt: skip
    assert said(decided) == "The engine chose retry (2 of 5): timeout, it took too long"


def test_stages_name_their_agents_and_what_their_gates_found():
    assert (
        said(StageEntered(stage=Stage.PLAN, epoch=0, deadline_at=0, agents=("planner",))) == "Plan began with planner"
    )
    wide = StageEntered(stage=Stage.FAN_OUT, epoch=1, deadline_at=0, agents=("reader", "reader", "checker"))
    assert said(wide) == "Fan-out began with 3 branches for reader, checker (replan 1)"
    gate = GateResult(gate="post", score=0.9, tau=0.7)
    assert (
        said(StageLeft(stage=Stage.VALIDATE, epoch=0, outcome=StageOutcome.PASSED, gate=gate))
        == "Validate passed (score 0.90 of 0.70 needed)"
    )
    failed = GateResult(
        gate="pre", cause=Cause.BUDGET_GATE, checks=(Check(name="budget", result="failed", problems=("it is spent",)),)
    )
    entered = StageEntered(stage=Stage.FAN_IN, epoch=0, deadline_at=0, gate=failed)
    assert said(entered) == "Fan-in began: pre-gate, it is spent"
    assert choose_tone("stage_entered", fact_json(Event(1, 0, entered))) == "warn"


def test_a_call_says_who_asks_what_and_for_how_much_at_most():
    issued = CallIssued(command_id="c", attempt=2, call="model", step_id="s", agent="reader", target="gpt", turn=3, deadline_at=0, key="k", reserved_usd_micros=120_000)  # fmt: skip
    assert said(issued) == "reader asked gpt (turn 3, attempt 2, at most $0.12)"


def test_people_are_named_and_so_is_the_system():
    assert said(ReviewDecided(review_id="x", verb="approve", actor="rosa")) == "rosa approved the review"
    expired = ReviewDecided(review_id="x", verb="reject", actor="system", system=True)
    assert said(expired) == "The system rejected the review: no one answered in time"
    opened = ReviewOpened(review_id="x", item="failure", reason="too dear", failure_type=None, stage=Stage.PLAN, step_id="", scope="plan", required_role="finance", verbs=("approve",), digest="d", remind_at=0, onward_at=0, due_at=1_800_000_000_000_000)  # fmt: skip
    assert said(opened) == "The engine asked finance: too dear"
    listed = replace(opened, required_role="reviewer", reviewers=("ann", "legal"))
    assert said(listed) == "The engine asked ann or legal: too dear"


def test_no_sentence_has_an_instant_in_it():
    """A stored sentence cannot be put into the reader's own time."""
    for kind in KINDS:
        fact = example(kind)
        late = {name: 1_800_000_000_000_000 for name in vars_of(fact) if name.endswith("_at")}
        sentence = said(type(fact)(**vars_of(fact) | late))
        assert "UTC" not in sentence, kind
        assert "2027" not in sentence, kind


@pytest.mark.parametrize(
    ("state", "recovered", "tone", "sentence"),
    [
        (RunState.COMPLETED, True, "ok", "The run completed after recovery: why"),
        (RunState.FAILED, False, "danger", "The run failed: why"),
        (RunState.ABORTED, True, "danger", "The run was aborted: why"),
        (RunState.CANCELLED, False, "warn", "The run was cancelled: why"),
    ],
)
def test_an_end_has_its_tone(state, recovered, tone, sentence):
    ended = RunEnded(state=state, reason="why", reaction="x", recovered=recovered)
    assert said(ended) == sentence
    assert choose_tone("run_ended", fact_json(Event(1, 0, ended))) == tone


def test_long_reasons_are_cut_and_line_breaks_taken_out():
    sentence = said(RunEnded(state=RunState.FAILED, reason="a\nb " * 500, reaction="surface"))
    assert "\n" not in sentence
    assert sentence.endswith("...")
    assert len(sentence) < 270


def test_values_in_words():
    assert [dollars(micros) for micros in (0, 1, 300, 99_999, 100_000, 1_234_567)] == [
        "$0",
        "$0.000001",
        "$0.0003",
        "$0.099999",
        "$0.10",
        "$1.23",
    ]
    assert [duration(seconds) for seconds in (0, 0.0004, 0.04, 0.9997, 1.4, 12, 119, 180, 9_000, 86_400)] == [
        "0 ms",
        "0.4 ms",
        "40 ms",
        "1.0 s",
        "1.4 s",
        "12 s",
        "119 s",
        "3 min",
        "2.5 h",
        "24 h",
    ]
    assert (clock(1_800_000_000_000_000), instant(1_800_000_000_000_000)) == ("08:00:00", "2027-01-15 08:00 UTC")
    assert (words("fan_out"), words("below_tau")) == ("fan-out", "below tau")
