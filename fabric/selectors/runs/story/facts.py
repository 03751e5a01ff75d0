"""Fold each kind of fact into a run's picture: one function a kind. A kind without one changes nothing there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fabric.core.events.envelope import Event
from fabric.core.mechanisms import retry_budget
from fabric.core.people.eligibility import asked_words, first_asked
from fabric.core.values.branches import stopped_words
from fabric.core.values.command_ids import read_epoch
from fabric.core.values.cost import count_by_kind
from fabric.core.values.flow import ANSWERED, Stage
from fabric.selectors.contents import fact_shown
from fabric.selectors.runs.display import write_sentence
from fabric.selectors.runs.story.parts import Bar, BarEnd, CallSums, Lane, Span, SpokenMessage, StageSpan, Tripped
from fabric.selectors.runs.story.state import StoryState
from fabric.selectors.runs.story.tries import Decided, shared_level, skip_of
from fabric.selectors.runs.story.trips import Fired, margin_key

Folds = Callable[[StoryState, Event, Any], None]
_FOLDS: dict[str, Folds] = {}


def _register(*kinds: str) -> Callable[[Folds], Folds]:
    def register(function: Folds) -> Folds:
        _FOLDS.update(dict.fromkeys(kinds, function))
        return function

    return register


def _read_gate(gate: Any) -> bool | None:
    return None if gate is None else gate.cause is None


@_register("run_started")
def _run_started(story: StoryState, event: Event, fact: Any) -> None:
    story.started_at = event.at


@_register("stage_entered")
def _stage_entered(story: StoryState, event: Event, fact: Any) -> None:
    span = StageSpan(fact.stage, fact.epoch, event.at, event.seq, len(fact.agents), pre=_read_gate(fact.gate))
    story.stages.append(span)
    for branch, agent in enumerate(fact.agents):
        name = f"{fact.stage}.{branch}.e{fact.epoch}.r0"
        story.lanes[name] = Lane(name, fact.stage, branch, fact.epoch, 0, agent, event.at)


@_register("stage_left")
def _stage_left(story: StoryState, event: Event, fact: Any) -> None:
    for span in reversed(story.stages):
        if span.stage == fact.stage and span.epoch == fact.epoch:
            span.end, span.end_seq = event.at, event.seq
            span.outcome, span.post = fact.outcome, _read_gate(fact.gate)
            break
    for lane in story.lanes.values():
        if lane.stage == fact.stage and lane.epoch == fact.epoch and lane.end is None:
            lane.end = event.at
            lane.state = "void" if lane.state == "active" else lane.state


@_register("replanned")
def _tell_replan(story: StoryState, event: Event, fact: Any) -> None:
    reason = f"{fact.reason}, handed over to {fact.planner}" if fact.planner else fact.reason
    story.epochs.append((event.at, fact.epoch, fact.stage, reason))
    for lane in story.lanes.values():
        if lane.end is None:
            lane.end, lane.state = event.at, "void"
    for span in story.stages:
        if span.end is None:
            span.end, span.outcome = event.at, "replan"
    _end_backoffs(story, event.at)


def _end_backoffs(story: StoryState, at: int) -> None:
    for backoff in story.open_backoffs.values():
        backoff.end = min(at, backoff.end or at)
    story.open_backoffs.clear()


@_register("run_ended")
def _run_ended(story: StoryState, event: Event, fact: Any) -> None:
    story.ended_at = event.at
    for span in story.stages:
        if span.end is None:
            span.end, span.outcome = event.at, "ended"
    for lane in story.lanes.values():
        if lane.end is None:
            lane.end = event.at
            lane.state = "void" if lane.state in ("active", "waiting") else lane.state
    for bar in story.open_bars.values():
        bar.end, bar.became = event.at, "let_go"
    story.open_bars.clear()
    for wait in story.open_waits.values():
        wait.end = event.at
    story.open_waits.clear()
    _end_backoffs(story, event.at)


@_register("run_ending")
def _run_ending(story: StoryState, event: Event, fact: Any) -> None:
    _end_backoffs(story, event.at)


@_register("step_opened")
def _step_opened(story: StoryState, event: Event, fact: Any) -> None:
    epoch = read_epoch(fact.step_id)
    again = Lane(fact.step_id, fact.stage, fact.branch, epoch, fact.round, fact.agent, event.at)
    for lane in story.lanes.values():
        if (lane.stage, lane.branch, lane.epoch) == (fact.stage, fact.branch, epoch):
            again.hears, again.opened = lane.hears, lane.opened
        if lane.stage == fact.stage and lane.branch == fact.branch and lane.end is None:
            lane.end, lane.state = event.at, "failed" if lane.state == "waiting" else lane.state
    story.lanes[fact.step_id] = again


@_register("turn_opened")
def _turn_opened(story: StoryState, event: Event, fact: Any) -> None:
    epoch = read_epoch(fact.step_id)
    lane = Lane(fact.step_id, Stage.FAN_OUT, fact.branch, epoch, 0, fact.agent, event.at)
    lane.hears, lane.opened = fact.hears, event.seq
    story.lanes[fact.step_id] = lane
    for said in story.said:
        if not said.reader and not said.refused:
            said.reader, said.turn, said.read_seq = fact.agent, fact.branch + 1, event.seq


@_register("person_said")
def _person_said(story: StoryState, event: Event, fact: Any) -> None:
    story.said.append(SpokenMessage(event.seq, event.at, fact.actor, *_turns(story)))


@_register("input_ignored")
def _input_ignored(story: StoryState, event: Event, fact: Any) -> None:
    if fact.input_kind == "person_spoke":
        story.said.append(SpokenMessage(event.seq, event.at, "", *_turns(story), refused=fact.reason))


def _turns(story: StoryState) -> tuple[int, int]:
    """The newest epoch, and the turns that have begun in it."""
    newest = story.epochs[-1][1] if story.epochs else 0
    turns = (lane for lane in story.lanes.values() if lane.epoch == newest and lane.hears is not None)
    return newest, len({lane.branch for lane in turns})


@_register("speaker_chosen")
def _speaker_chosen(story: StoryState, event: Event, fact: Any) -> None:
    story.chosen[fact.step_id] = (fact, event.seq)


@_register("handed_off")
def _tell_handoff(story: StoryState, event: Event, fact: Any) -> None:
    story.handed[fact.step_id] = fact.to_agent


@_register("call_issued")
def _call_issued(story: StoryState, event: Event, fact: Any) -> None:
    bar = Bar(fact.call, fact.target, event.at, event.seq, fact.attempt, due=fact.deadline_at)
    story.open_bars[fact.command_id] = bar
    story.where[fact.command_id] = fact.step_id
    backoff = story.open_backoffs.pop(fact.command_id, None)
    if backoff is not None:
        backoff.end = event.at
    story.total.calls += 1
    if fact.call == "model":
        story.by_model.setdefault(fact.target, CallSums()).calls += 1
    lane = story.lanes.get(fact.step_id)
    if lane is not None:
        before = next((one for one in reversed(lane.bars) if one.call == "model"), None)
        if fact.call == "model" and fact.attempt > 1 and before is not None and before.target != fact.target:
            bar.instead_of = before.target
        lane.bars.append(bar)
        lane.tally.calls += 1
        story.by_stage.setdefault(lane.stage, CallSums()).calls += 1
        story.by_agent.setdefault(lane.agent, CallSums()).calls += 1


@_register("child_spawned")
def _child_spawned(story: StoryState, event: Event, fact: Any) -> None:
    bar = Bar("child", "child run", event.at, event.seq, 1, due=fact.deadline_at)
    story.open_bars[fact.command_id] = bar
    story.where[fact.command_id] = fact.step_id
    tallies = [story.total]
    lane = story.lanes.get(fact.step_id)
    if lane is not None:
        lane.bars.append(bar)
        tallies += [lane.tally, story.by_stage.setdefault(lane.stage, CallSums())]
        tallies.append(story.by_agent.setdefault(lane.agent, CallSums()))
    for tally in tallies:
        tally.children += 1


@_register("child_answered")
def _child_answered(story: StoryState, event: Event, fact: Any) -> None:
    became: BarEnd = "let_go" if fact.late else "done" if fact.state in ANSWERED else "failed"
    story.close(fact.command_id, became, fact.tokens, fact.cost_usd_micros)
    if became == "done":
        _end_lane(story, fact.step_id)
    story.where.pop(fact.command_id, None)


@_register("model_answered")
def _model_answered(story: StoryState, event: Event, fact: Any) -> None:
    became: BarEnd = "failed" if fact.verdict == "rejected" else "done"
    kinds = count_by_kind(fact.input_tokens, fact.output_tokens, fact.parts)
    story.close(fact.command_id, became, fact.input_tokens + fact.output_tokens, fact.cost_usd_micros, kinds)
    if fact.verdict == "output":
        _end_lane(story, fact.step_id)
    story.where.pop(fact.command_id, None)


@_register("tool_answered")
def _tool_answered(story: StoryState, event: Event, fact: Any) -> None:
    story.close(fact.command_id, "failed" if fact.error else "done", 0, fact.cost_usd_micros)
    lane = story.lanes.get(fact.step_id)
    if lane is not None and not lane.agent:  # The engine asked, for an oracle.
        _end_lane(story, fact.step_id)
    story.where.pop(fact.command_id, None)


@_register("input_requested")
def _input_requested(story: StoryState, event: Event, fact: Any) -> None:
    story.close(fact.command_id, "done", 0, fact.cost_usd_micros)
    story.where.pop(fact.command_id, None)


@_register("output_accepted")
def _output_accepted(story: StoryState, event: Event, fact: Any) -> None:
    _end_lane(story, fact.step_id)


@_register("output_kept")
def _output_kept(story: StoryState, event: Event, fact: Any) -> None:
    _end_lane(story, fact.step_id)
    if lane := story.lanes.get(fact.step_id):
        lane.kept = event.seq


def _end_lane(story: StoryState, step_id: str) -> None:
    lane = story.lanes.get(step_id)
    if lane is not None:
        lane.end, lane.state, lane.answered = story.at, "done", True


@_register("attempt_failed")
def _attempt_failed(story: StoryState, event: Event, fact: Any) -> None:
    kinds = count_by_kind(fact.input_tokens, fact.output_tokens, fact.parts)
    story.failed_attempts += 1
    story.tries.attempts[fact.command_id] = fact.attempt
    story.close(fact.command_id, "failed", fact.charged_tokens, fact.charged_usd_micros, kinds)
    story.total.unconfirmed += 0 if fact.billed else fact.charged_usd_micros


@_register("attempt_interrupted")
def _attempt_interrupted(story: StoryState, event: Event, fact: Any) -> None:
    story.failed_attempts += 1
    story.tries.attempts[fact.command_id] = fact.attempt
    story.close(fact.command_id, "failed", fact.charged_tokens, fact.charged_usd_micros)
    story.total.unconfirmed += fact.charged_usd_micros


@_register("call_aborted")
def _call_aborted(story: StoryState, event: Event, fact: Any) -> None:
    backoff = story.open_backoffs.pop(fact.command_id, None)
    if backoff is not None:
        backoff.end = min(event.at, backoff.end or event.at)
    story.close(fact.command_id, "let_go", fact.charged_tokens, fact.charged_usd_micros)
    story.total.unconfirmed += fact.charged_usd_micros
    story.where.pop(fact.command_id, None)


@_register("retry_scheduled")
def _retry_scheduled(story: StoryState, event: Event, fact: Any) -> None:
    lane = story.lanes.get(story.where.get(fact.command_id, ""))
    _note_buckets(story, fact)
    backoff = Span(event.at, fact.not_before, event.seq, f"attempt {fact.attempt}")
    story.open_backoffs[fact.command_id] = backoff
    if lane is not None:
        lane.backoffs.append(backoff)


@_register("node_retry_scheduled")
def _node_retry_scheduled(story: StoryState, event: Event, fact: Any) -> None:
    lane = story.lanes.get(fact.step_id)
    _note_buckets(story, fact)
    backoff = Span(event.at, fact.not_before, event.seq, f"attempt {fact.attempt} of {fact.attempts}")
    story.open_backoffs[fact.step_id] = backoff
    if lane is not None:
        lane.backoffs.append(backoff)


def _note_buckets(story: StoryState, fact: Any) -> None:
    story.tries.buckets |= {one.bucket: one.level / retry_budget.UNITS for one in fact.buckets}


@_register("rung_skipped")
def _rung_skipped(story: StoryState, event: Event, fact: Any) -> None:
    story.tries.skipped.append(skip_of(fact))
    if fact.trip is not None and fact.trip.mechanism == retry_budget.NAME:
        key = margin_key(fact.trip)
        before = story.tripped.get(key)
        story.tripped[key] = Fired(1 if before is None else before.times + 1, fact.trip, fact.reaction)
    if level := shared_level(fact.trip):
        story.tries.buckets[level[0]] = level[1]


@_register("step_failed")
def _step_failed(story: StoryState, event: Event, fact: Any) -> None:
    lane = story.lanes.get(fact.step_id)
    backoff = story.open_backoffs.pop(fact.step_id, None)
    if backoff is not None:
        backoff.end = min(event.at, backoff.end or event.at)
    if lane is not None:
        lane.stopped = stopped_words(fact.cause, fact.message)
        lane.end, lane.state = event.at, "stopped" if lane.stopped else "failed"


@_register("reaction_decided")
def _reaction_decided(story: StoryState, event: Event, fact: Any) -> None:
    for cause in (fact.cause, *fact.causes):
        story.fired[cause.mechanism] += 1
        key = margin_key(cause)
        if key:
            before = story.tripped.get(key)
            story.tripped[key] = Fired(1 if before is None else before.times + 1, cause, fact.reaction)
    cycle = tuple(str(one) for one in fact.cause.evidence.details.get("cycle", ()))
    sentence = write_sentence(fact.kind, fact_shown(event))
    cause = fact.cause
    attempts, waited = story.tries.attempts.get(fact.command_id, 0), _waited_us(story, fact.command_id)
    decided = Decided(event.seq, cause.cause, cause.message, attempts, waited, tuple(story.tries.skipped))
    story.tries.decisions.append(decided)
    story.tries.skipped.clear()
    trip = Tripped(event.at, event.seq, cause.mechanism, fact.reaction, cause.message, sentence, cause.cause, cycle)
    lane = story.lanes.get(fact.step_id or fact.command_id.rpartition(".t")[0])
    if lane is not None:
        lane.trips.append(trip)
    else:
        kind, _, name = fact.scope.partition(":")
        stage = name.partition(".")[0] if kind in ("stage", "step", "call") else ""
        known = stage if stage in tuple(Stage) else (story.stages[-1].stage if story.stages else Stage.PLAN)
        story.stage_trips.setdefault(known, []).append(trip)


def _waited_us(story: StoryState, command_id: str) -> int:
    lane = story.lanes.get(command_id.rpartition(".t")[0])
    if lane is None or story.tries.attempts.get(command_id, 0) < 2:
        return 0
    begun = next((bar.start for bar in reversed(lane.bars) if bar.attempt == 1), lane.start)
    ended = (min(one.end or story.at, story.at) - one.start for one in lane.backoffs if one.start >= begun)
    return sum(max(0, took) for took in ended)


@_register("review_opened")
def _review_opened(story: StoryState, event: Event, fact: Any) -> None:
    wait = Span(event.at, None, event.seq, asked_words(first_asked(fact.required_role, fact.reviewers)))
    story.open_waits[fact.review_id] = wait
    lane = story.lanes.get(fact.step_id)
    if lane is not None:
        lane.waits.append(wait)
        lane.state, lane.end = "waiting", None
    else:
        story.stage_waits.setdefault(fact.stage, []).append(wait)


@_register("review_decided", "review_withdrawn")
def _review_closed(story: StoryState, event: Event, fact: Any) -> None:
    wait = story.open_waits.pop(fact.review_id, None)
    if wait is None:
        return
    wait.end = event.at
    for lane in story.lanes.values():
        if lane.state == "waiting" and lane.waits and lane.waits[-1] is wait:
            lane.end, lane.state = event.at, "done" if lane.answered else "void"


FOLDS: Mapping[str, Folds] = _FOLDS
"""The table."""
