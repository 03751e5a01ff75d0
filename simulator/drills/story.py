"""The story of a drill, for whoever draws it: out of the journals of its runs, bounded, as JSON.

Instants are virtual seconds since the run was started. ``story_of`` takes the worlds of a cell or of a scenario; ``told`` takes the events of any run.

``{"undisturbed": {...}, "disturbed": {...}}``, and of each run: ``total_s``, ``state``, ``cost_usd_micros``, ``cap_usd_micros``, ``stages``, ``segments``,
``decisions``, ``moments``, ``folded`` (how many of each were left out); the undisturbed one has no decisions and no moments. Readers bear the absence of any of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fabric.core.decision_table import Accompaniment
from fabric.core.envelope import Event, from_row
from fabric.core.run import Run
from fabric.core.words import dollars, words
from fabric.selectors.contents import event_without_sentences
from fabric.selectors.run_story import RunStory
from fabric.selectors.story_parts import Bar
from simulator.drills.evidence import ENDS, evidence_of, seconds
from simulator.drills.moments import moments_of
from simulator.drills.observed import first
from simulator.kernel.world import World

JSON = Any
Segment = dict[str, JSON]
US = 1_000_000
KINDS = frozenset({"model", "tool", "child", "failed", "let_go", "backoff", "breaker", "human", "unwinding"})
"""What a segment can be: an attempt by whom it went to, or by what became of it; a wait; an unwinding."""
STAGES_MAX, SEGMENTS_MAX, DECISIONS_MAX, MOMENTS_MAX = 40, 240, 80, 120
"""Of one run; what is more is left out of the middle, with its count."""


def story_of(world: World | None, before: World | None) -> dict[str, JSON]:
    """The story of a drill. ``before``: the world that nothing disturbed; ``world``: the disturbed one; None: there was none."""
    journals = [_journal(one) if one is not None else ([], 0) for one in (before, world)]
    return story_of_journals(journals[0][0], journals[1][0], max(cap for _, cap in journals))


def story_of_journals(before: Sequence[Event], during: Sequence[Event], cap_usd_micros: int) -> dict[str, JSON]:
    """The same out of journals; an empty one is of a run that there was not."""
    found: dict[str, JSON] = {}
    if before:
        ghost = told(before, cap_usd_micros)
        found["undisturbed"] = {name: part for name, part in ghost.items() if name not in ("decisions", "moments")}
    if during:
        found["disturbed"] = told(during, cap_usd_micros)
    return found


def _journal(world: World, run: Run | None = None) -> tuple[list[Event], int]:
    run = run or first(world)
    events = [from_row(row.seq, row.kind, row.version, row.header) for row in world.store.rows(run.id)]
    return events, world.watch.compiled(run.id).spec.policy.budget.run_usd_micros


def told(events: Sequence[Event], cap_usd_micros: int) -> dict[str, JSON]:
    """The story of one run, by its journal. ``cap_usd_micros``: what it may spend."""
    story = RunStory("")
    story.run = None  # Nothing of the folded run is told, and folding it takes most of the time.
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
        "moments": (list(moments_of(events, spent, start)), MOMENTS_MAX),
    }
    cuts = {name: _bounded(found, most) for name, (found, most) in parts.items()}
    return {
        "total_s": _s((story.ended_at or story.at) - start),
        "state": str(end.state) if end is not None and end.kind == "run_ended" else "",
        "cost_usd_micros": story.total.cost_usd_micros,
        "cap_usd_micros": cap_usd_micros,
        **{name: kept for name, (kept, _) in cuts.items()},
        "folded": {name: left for name, (_, left) in cuts.items() if left},
    }


def _bounded(found: list[Segment], most: int) -> tuple[list[Segment], int]:
    """The first and the last of them, and how many between were left out."""
    if len(found) <= most:
        return found, 0
    half = most // 2
    return [*found[:half], *found[-half:]], len(found) - 2 * half


def _s(micros: int) -> float:
    return round(max(0, micros) / US, 3)


# -- what a picture is drawn from --------------------------------------------------------------------------------------


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
    found = [*_bars(story, start), *_waits(story, events, start), *_unwinding(events, start)]
    return sorted(found, key=lambda one: (one["start_s"], one["seq"]))


def _segment(kind: str, start_s: float, end_s: float, seq: int, said: str) -> Segment:
    return {"kind": kind, "start_s": start_s, "end_s": max(start_s, end_s), "seq": seq, "said": said}


def _bars(story: RunStory, start: int) -> Iterator[Segment]:
    for lane in story.lanes.values():
        for bar in lane.bars:
            end = story.at if bar.end is None else bar.end
            kind = {"failed": "failed", "let_go": "let_go"}.get(bar.became, bar.call)
            yield _segment(
                kind, _s(bar.start - start), _s(end - start), bar.seq, _bar_said(bar, lane.agent, lane.stage)
            )


def _bar_said(bar: Bar, agent: str, stage: str) -> str:
    became = {"open": "still out", "done": "answered", "failed": "failed", "let_go": "let go"}[bar.became]
    again = f", attempt {bar.attempt}" if bar.attempt > 1 else ""
    cost = f", {dollars(bar.cost_usd_micros)}" if bar.cost_usd_micros else ""
    return f"{agent or words(stage)} calls {bar.target}{again}: {became}{cost}"


def _waits(story: RunStory, events: Sequence[Event], start: int) -> Iterator[Segment]:
    again = (event for event in events if event.fact.kind in ("retry_scheduled", "node_retry_scheduled"))
    sources = {event.seq: getattr(event.fact, "source", "backoff") for event in again}
    due = {event.seq: getattr(event.fact, "due_at", 0) for event in events if event.fact.kind == "escalation_opened"}
    for lane in story.lanes.values():
        for one in lane.backoffs:
            end = min(one.end or story.at, story.at)
            breaker = sources.get(one.seq) == "breaker"
            said = f"{'waits for the breaker' if breaker else 'back-off'} {seconds((end - one.start) / US)}, then {one.word}"
            yield _segment("breaker" if breaker else "backoff", _s(one.start - start), _s(end - start), one.seq, said)
    waits = [wait for lane in story.lanes.values() for wait in lane.waits]
    waits += [wait for found in story.stage_waits.values() for wait in found]
    for one in waits:
        end = story.at if one.end is None else one.end
        asked = _segment("human", _s(one.start - start), _s(end - start), one.seq, f"{one.word} is asked")
        if due.get(one.seq):
            asked["due_s"] = _s(due[one.seq] - start)
        yield asked


def _unwinding(events: Sequence[Event], start: int) -> Iterator[Segment]:
    begun: Event | None = None
    for event in events:
        if event.fact.kind == "unwinding_started":
            begun = event
        elif event.fact.kind == "unwinding_finished" and begun is not None:
            many = len(getattr(begun.fact, "order", ()))
            said = f"what was done is undone, newest first: {many}"
            yield _segment("unwinding", _s(begun.at - start), _s(event.at - start), begun.seq, said)
            begun = None


def _decisions(events: Sequence[Event], spent: Sequence[int], cap: int, start: int) -> list[Segment]:
    found: list[Segment] = []
    for n, event in enumerate(events):
        fact: Any = event.fact
        if fact.kind == "escalation_opened" and fact.item == "ticket":
            found.append(_ticket(event, found, start))
        if fact.kind not in ("reaction_decided", "rung_skipped"):
            continue
        after = _until(events[n + 1 :])
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
                "evidence": evidence_of(event, after, (spent[n], cap)),
                "unread": evidence_of(event_without_sentences(event), after, (spent[n], cap)),
            }
        )
    return found


def _ticket(event: Event, before: Sequence[Segment], start: int) -> Segment:
    """What was left with the decision before it."""
    fact: Any = event.fact
    left = {"seq": event.seq, "at_s": _s(event.at - start), "what": "left", "reaction": str(Accompaniment.TICKET)}
    evidence = f"left for {fact.required_role}, nobody waits for it"
    of = {"row": str(fact.failure_type or ""), "rung": before[-1]["rung"] if before else 0, "use": None, "bound": None}
    return {**left, **of, "evidence": evidence, "unread": evidence}


def _until(events: Sequence[Event]) -> list[Event]:
    """Those up to the next decision."""
    found: list[Event] = []
    for event in events:
        if event.fact.kind in ENDS:
            break
        found.append(event)
    return found
