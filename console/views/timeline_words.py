"""The rows of a run's timeline in words: what the picture shows, for whoever does not see it."""

from __future__ import annotations

from console.templatetags.figures import span
from console.templatetags.said import inert
from fabric.core.flow import Stage
from fabric.core.words import words
from fabric.selectors.run_story import RunStory
from fabric.selectors.story_parts import Lane, Span, StageSpan, Tripped

STATE_WORDS = {"active": "running", "waiting": "waiting", "done": "done", "failed": "failed", "void": "superseded"}

KEPT = "kept from the run that this one goes on from"
"""Of a fork: why there is nothing to see of it here."""


def trip_told(trip: Tripped) -> str:
    """Which mechanism fired, why, and what was done."""
    return f"{words(trip.mechanism)}: {inert(trip.message)}; {words(trip.reaction)}"


NOTE_CHARS = 40


def trips_noted(trips: list[Tripped]) -> str:
    """What fired, in the few words that stand in the picture: the latest cause, how often, and what was done; empty when nothing fired."""
    if not trips:
        return ""
    latest = trips[-1]
    cause = words(latest.cause or latest.mechanism)
    times = sum(1 for trip in trips if trip.cause == latest.cause)
    note = f"{cause}{f' ×{times}' if times > 1 else ''} · {words(latest.reaction)}"
    return note if len(note) <= NOTE_CHARS else f"{note[: NOTE_CHARS - 1]}…"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _calls_told(lane: Lane) -> list[str]:
    models = sum(1 for bar in lane.bars if bar.call == "model")
    tools = sum(1 for bar in lane.bars if bar.call == "tool")
    children = len(lane.bars) - models - tools
    failed = sum(1 for bar in lane.bars if bar.became == "failed")
    counts = [_count(models, "model call")] if models else []
    counts += [_count(tools, "tool call")] if tools else []
    counts += [_count(children, "child run")] if children else []
    counts += [f"{failed:,} failed"] if failed else []
    counts += [_count(len(lane.backoffs), "back-off")] if lane.backoffs else []
    return counts


def _wait_told(wait: Span) -> str:
    who = inert(wait.word)
    return f"waits for {who}" if wait.end is None else f"waited {span(wait.end - wait.start)} for {who}"


def lane_told(story: RunStory, lane: Lane) -> str:
    """A step: its calls, waits and trips, and where it stands."""
    if lane.kept and lane.state == "done":
        return f"done, {KEPT}"
    parts = _calls_told(lane)
    parts += [_wait_told(wait) for wait in lane.waits[-3:]]
    parts += [trip_told(trip) for trip in lane.trips[-3:]]
    took = (story.at if lane.end is None else lane.end) - lane.start
    return ", ".join([*parts, f"{STATE_WORDS[lane.state]} after {span(took)}"])


GATES = {True: "passed", False: "failed", None: "not asked"}


def stage_told(story: RunStory, spans: list[StageSpan], lanes: list[Lane], trips: list[Tripped]) -> str:
    """A stage: each passage with its gates, the latest three."""
    parts = []
    for one in spans[-3:]:
        end = story.at if one.end is None else one.end
        begun = span(one.start - story.started_at)
        verb = f"ended after {span(end - one.start)}" if one.end is not None else f"running for {span(end - one.start)}"
        post = f", post-gate {GATES[one.post]}" if one.end is not None else ""
        parts.append(f"epoch {one.epoch + 1}: began at {begun}, {verb}, pre-gate {GATES[one.pre]}{post}")
    parts += [", ".join(_calls_told(lane)) for lane in lanes[-1:] if lane.stage != Stage.FAN_OUT and lane.bars]
    parts += [trip_told(trip) for trip in trips[-3:]]
    return "; ".join(parts)
