"""Builds the story of a drill from the journals of its runs, bounded, as JSON for its drawing.

Instants are virtual seconds since the run was started. ``build_story`` takes the worlds of a cell or of a scenario;
``story_of_run`` takes the events of any run.

The story is ``{"undisturbed": {...}, "disturbed": {...}}``. Each run has ``total_s``, ``state``, ``cost_usd_micros``,
``cap_usd_micros``, ``stages``, ``segments``, ``decisions``, ``moments``, ``folded`` (number of each left out). A moment
is a landmark, with the run's state then. The undisturbed run has no decisions and no moments. Readers accept the
absence of any of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fabric.core.events.envelope import Event, fact_json, list_events
from fabric.core.spec.policies.decision_table import Accompaniment
from fabric.core.state.run import Run
from fabric.core.values.units import JSON, US
from fabric.core.values.words import dollars
from fabric.selectors.contents import event_without_sentences
from fabric.selectors.runs.display import DETAILS, EVENT_DISPLAY, choose_tone, write_sentence
from fabric.selectors.runs.story.fold import RunStory
from simulator.scenarios.baseline.work import first_run
from simulator.scenarios.stories.evidence import ENDS, write_evidence
from simulator.world.world import World

Segment = dict[str, JSON]
KINDS = frozenset({"model", "tool", "child", "failed", "let_go", "backoff", "breaker", "human", "unwinding"})
"""Kinds of segments: an attempt by its target or its end; a wait; an unwinding."""
STAGES_MAX, SEGMENTS_MAX, DECISIONS_MAX, MOMENTS_MAX = 40, 240, 80, 120
"""Limits of one run; surplus ones are left out of the middle, and counted."""


def build_story(world: World | None, before: World | None) -> dict[str, JSON]:
    """Return the story of a drill. ``before``: the undisturbed world. ``world``: the disturbed one; None without
    one.
    """
    journals = [_journal(one) if one is not None else ([], 0) for one in (before, world)]
    return story_of_journals(journals[0][0], journals[1][0], max(cap for _, cap in journals))


def story_of_journals(before: Sequence[Event], during: Sequence[Event], cap_usd_micros: int) -> dict[str, JSON]:
    """Return the story of two journals; an empty journal means that there was no run."""
    found: dict[str, JSON] = {}
    if before:
        ghost = story_of_run(before, cap_usd_micros)
        found["undisturbed"] = {name: part for name, part in ghost.items() if name not in ("decisions", "moments")}
    if during:
        found["disturbed"] = story_of_run(during, cap_usd_micros)
    return found


def _journal(world: World, run: Run | None = None) -> tuple[list[Event], int]:
    run = run or first_run(world)
    events = list_events(world.store.rows(run.id))
    return events, world.watch.find_fabric(run.id).spec.policy.budget.run_usd_micros


def story_of_run(events: Sequence[Event], cap_usd_micros: int) -> dict[str, JSON]:
    """Return the story of one run, by its journal. ``cap_usd_micros``: its cap."""
    story = RunStory("")
    story.run = None  # The story needs nothing of the folded run, and folding takes most of the time.
    spent: list[int] = []
    for event in events:
        story.add(event)
        spent.append(story.total.cost_usd_micros)
    start = story.started_at or (events[0].at if events else 0)
    end: Any = events[-1].fact if events else None
    parts = {
        "stages": (_stages(story, start), STAGES_MAX),
        "segments": (_segments(story, events, start), SEGMENTS_MAX),
        "decisions": (_decisions(events, spent, cap_usd_micros, start), DECISIONS_MAX),
        "moments": (list(list_moments(events, spent, start)), MOMENTS_MAX),
    }
    cuts = {name: _bound_segments(found, most) for name, (found, most) in parts.items()}
    return {
        "total_s": _s((story.ended_at or story.at) - start),
        "state": str(end.state) if end is not None and end.kind == "run_ended" else "",
        "cost_usd_micros": story.total.cost_usd_micros,
        "cap_usd_micros": cap_usd_micros,
        **{name: kept for name, (kept, _) in cuts.items()},
        "folded": {name: left for name, (_, left) in cuts.items() if left},
    }


def _bound_segments(found: list[Segment], most: int) -> tuple[list[Segment], int]:
    """Return the first and last segments, and the number left out between."""
    if len(found) <= most:
        return found, 0
    half = most // 2
    return [*found[:half], *found[-half:]], len(found) - 2 * half


def _s(micros: int) -> float:
    return round(max(0, micros) / US, 3)


# -- what a picture is drawn from ------------------------------------------------------------------------------------


def _stages(story: RunStory, start: int) -> list[Segment]:
    at = story.at
    return [
        {
            "stage": str(one.stage),
            "epoch": one.epoch,
            "start_s": _s(one.start - start),
            "end_s": _s((at if one.end is None else one.end) - start),
            "seq": one.seq,
            "outcome": one.outcome,
        }
        for one in story.stages
    ]


def _segments(story: RunStory, events: Sequence[Event], start: int) -> list[Segment]:
    acts = {event.seq: event for event in events}
    found = [*_bars(story, acts, start), *_waits(story, acts, start), *_segment_unwinding(events, start)]
    return sorted(found, key=lambda one: (one["start_s"], one["seq"]))


def _segment(kind: str, start_s: float, end_s: float, begun: Event, became: str = "") -> Segment:
    """Return a stretch of time, named by the event that it began with. No reason is in it, for a reason may quote a
    content.
    """
    act = EVENT_DISPLAY[begun.fact.kind].parts(fact_json(begun)).act
    said = f"{act}: {became}" if became else act
    return {"kind": kind, "start_s": start_s, "end_s": max(start_s, end_s), "seq": begun.seq, "said": said}


def _bars(story: RunStory, events: Mapping[int, Event], start: int) -> Iterator[Segment]:
    for lane in story.lanes.values():
        for bar in lane.bars:
            end = story.at if bar.end is None else bar.end
            kind = {"failed": "failed", "let_go": "let_go"}.get(bar.became, bar.call)
            became = {"open": "still out", "done": "answered", "failed": "failed", "let_go": "abandoned"}[bar.became]
            cost = f", {dollars(bar.cost_usd_micros)}" if bar.cost_usd_micros else ""
            yield _segment(kind, _s(bar.start - start), _s(end - start), events[bar.seq], became + cost)


def _waits(story: RunStory, events: Mapping[int, Event], start: int) -> Iterator[Segment]:
    for lane in story.lanes.values():
        for one in lane.backoffs:
            begun, end = events[one.seq], min(one.end or story.at, story.at)
            kind = "breaker" if getattr(begun.fact, "source", "") == "breaker" else "backoff"
            yield _segment(kind, _s(one.start - start), _s(end - start), begun)
    waits = [wait for lane in story.lanes.values() for wait in lane.waits]
    waits += [wait for found in story.stage_waits.values() for wait in found]
    for one in waits:
        begun, end = events[one.seq], story.at if one.end is None else one.end
        asked = _segment("human", _s(one.start - start), _s(end - start), begun)
        if due := getattr(begun.fact, "due_at", 0):
            asked["due_s"] = _s(due - start)
        yield asked


def _segment_unwinding(events: Sequence[Event], start: int) -> Iterator[Segment]:
    begun: Event | None = None
    for event in events:
        if event.fact.kind == "unwinding_started":
            begun = event
        elif event.fact.kind == "unwinding_finished" and begun is not None:
            yield _segment("unwinding", _s(begun.at - start), _s(event.at - start), begun)
            begun = None


def _decisions(events: Sequence[Event], spent: Sequence[int], cap: int, start: int) -> list[Segment]:
    found: list[Segment] = []
    for n, event in enumerate(events):
        fact: Any = event.fact
        if fact.kind == "review_opened" and fact.item == "follow_up":
            found.append(_get_follow_up(event, found, start))
        if fact.kind not in ("reaction_decided", "rung_skipped"):
            continue
        after = _events_until_decision(events[n + 1 :])
        skipped = fact.kind == "rung_skipped"
        found.append(
            {
                "seq": event.seq,
                "at_s": _s(event.at - start),
                "what": "skipped" if skipped else "decided",
                "row": str(fact.failure_type or ""),
                "rung": fact.rung,
                "reaction": str(fact.reaction),
                "use": None if skipped else fact.spent + 1,
                "bound": None if skipped else fact.bound,
                "evidence": write_evidence(event, after, (spent[n], cap)),
                "unread": write_evidence(event_without_sentences(event), after, (spent[n], cap)),
            }
        )
    return found


def _get_follow_up(event: Event, before: Sequence[Segment], start: int) -> Segment:
    """Return the segment of a follow-up that was left with the decision before it."""
    fact: Any = event.fact
    left = {"seq": event.seq, "at_s": _s(event.at - start), "what": "left", "reaction": str(Accompaniment.FOLLOW_UP)}
    evidence = f"left for {fact.required_role}, no run waits for it"
    of = {"row": str(fact.failure_type or ""), "rung": before[-1]["rung"] if before else 0, "use": None, "bound": None}
    return {**left, **of, "evidence": evidence, "unread": evidence}


def _events_until_decision(events: Sequence[Event]) -> list[Event]:
    """Return the events up to the next decision."""
    found: list[Event] = []
    for event in events:
        if event.fact.kind in ENDS:
            break
        found.append(event)
    return found


def list_moments(events: Sequence[Event], spent: Sequence[int], start: int) -> Iterator[dict[str, JSON]]:
    """Yield the landmarks of a journal. ``spent``: micro-dollars after each event. ``start``: instant of second 0."""
    so_far = _SoFar()
    for event, cost in zip(events, spent, strict=True):
        so_far.add(event)
        probe = event.fact.kind == "call_issued" and so_far.breaker == "half_open"
        if event.fact.kind in DETAILS and not probe:
            continue
        fact = fact_json(event)
        yield {
            "seq": event.seq,
            "at_s": round(max(0, event.at - start) / US, 3),
            "kind": event.fact.kind,
            "said": write_sentence(event.fact.kind, fact),
            "unread": write_sentence(event.fact.kind, fact_json(event_without_sentences(event))),
            "tone": choose_tone(event.fact.kind, fact),
            "stage": so_far.stage,
            "epoch": so_far.epoch,
            "spent_usd_micros": cost,
            "retries": so_far.retries,
            "tokens_left": so_far.tokens_left,
            "breaker": so_far.breaker,
        }


class _SoFar:
    """State of a run up to an event."""

    def __init__(self) -> None:
        self.stage, self.epoch, self.retries = "", 0, 0
        self.tokens_left: float | None = None
        """Retry tokens left in the run's own bucket; None if it has taken none yet."""
        self.breaker = ""
        """``open``, ``half_open`` or ``closed``; empty if no breaker was met."""

    def add(self, event: Event) -> None:
        fact: Any = event.fact
        match fact.kind:
            case "stage_entered":
                self.stage, self.epoch = str(fact.stage), fact.epoch
            case "replanned":
                self.epoch = fact.epoch
            case "retry_scheduled":
                self.tokens_left = fact.tokens_left / 1_000
                if fact.source == "breaker":
                    self.breaker = "open"
                elif fact.source != "named":
                    self.retries += 1
            case "node_retry_scheduled":
                self.retries, self.tokens_left = self.retries + 1, fact.tokens_left / 1_000
            case "attempt_failed" if fact.breaker_wait_s is not None:
                self.breaker = "open"
            case "call_issued" if self.breaker == "open":
                self.breaker = "half_open"
            case "model_answered" if self.breaker:
                self.breaker = "closed"
            case "attempt_failed" if self.breaker == "half_open":
                self.breaker = "open"
