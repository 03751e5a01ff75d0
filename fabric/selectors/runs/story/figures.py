"""Counts a run's story: its working time, and the tokens of a run, stage, agent or model by their kinds.

Tokens are in words and in money.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fabric.core.values.cost import TOKEN_KINDS, Price
from fabric.selectors.runs.display.calls import PART_WORDS
from fabric.selectors.runs.story.fold import RunStory
from fabric.selectors.runs.story.parts import CallSums

Interval = tuple[int, int]


def unite_intervals(intervals: Iterable[Interval]) -> list[Interval]:
    """The intervals without overlaps, in order."""
    made: list[Interval] = []
    for start, end in sorted(intervals):
        if made and start <= made[-1][1]:
            made[-1] = (made[-1][0], max(made[-1][1], end))
        else:
            made.append((start, end))
    return made


def busy(story: RunStory) -> list[Interval]:
    """Return the intervals in which a call was out or a retry was near. Waits for people and for workers do not count.

    Worked out once for each state of a story: every picture of it begins with this.
    """
    seq, known = story.busy
    if seq != story.seq:
        known = unite_intervals(_busy(story))
        story.busy = (story.seq, known)
    return known


def _busy(story: RunStory) -> Iterator[Interval]:
    for lane in story.lanes.values():
        for bar in lane.bars:
            yield bar.start, story.at if bar.end is None else bar.end
        for backoff in lane.backoffs:
            yield backoff.start, min(backoff.end or story.at, story.at)
    for stage in story.stages:
        yield stage.start, stage.start
        if stage.end is not None:
            yield stage.end, stage.end


def waited_us(story: RunStory) -> int:
    """Microseconds in which the run waited for a person and did nothing else."""
    lanes = (wait for lane in story.lanes.values() for wait in lane.waits)
    stages = (wait for waits in story.stage_waits.values() for wait in waits)
    waits = unite_intervals((wait.start, story.at if wait.end is None else wait.end) for wait in (*lanes, *stages))
    if not waits:
        return 0
    work = [one for one in busy(story) if one[1] > waits[0][0]]
    beside = sum(max(0, min(b, end) - max(a, start)) for start, end in waits for a, b in work)
    return sum(end - start for start, end in waits) - beside


KIND_WORDS: Mapping[str, str] = MappingProxyType({kind: PART_WORDS.get(kind, kind) for kind in TOKEN_KINDS})
UNTOLD_WORDS = "kind not known"


@dataclass(frozen=True, slots=True)
class KindShare:
    """One kind of a run's tokens."""

    name: str
    tokens: int
    cost: int | None
    """Micro-dollars at the prices of the run's revision; None: a model that used it has no price at hand."""


def part_words(tally: CallSums) -> str:
    """Return the kinds beside input and output: ``9,000 from the cache, 300 reasoning``. Empty: there are none."""
    return ", ".join(f"{tally.kinds[kind]:,} {says}" for kind, says in PART_WORDS.items() if tally.kinds[kind])


def kind_shares(story: RunStory, prices: Mapping[str, Price]) -> list[KindShare]:
    """Return the token kinds that the run used, then tokens of no known kind, then the cost of tools."""
    total = story.total
    tools = [KindShare(f"calls of {name}", 0, cost) for name, cost in total.tools.items()]
    found = [
        KindShare(KIND_WORDS[kind], total.kinds[kind], _cost(story, kind, prices))
        for kind in TOKEN_KINDS
        if total.kinds[kind]
    ]
    if not total.untold:
        return [*found, *tools]
    known = [one.cost for one in found if one.cost is not None]
    of_models = total.cost_usd_micros - total.tools.total()
    rest = max(0, of_models - sum(known)) if len(known) == len(found) else None
    return [*found, KindShare(UNTOLD_WORDS, total.untold, rest), *tools]


def _cost(story: RunStory, kind: str, prices: Mapping[str, Price]) -> int | None:
    used = {name: tally.kinds[kind] for name, tally in story.by_model.items() if tally.kinds[kind]}
    if sum(used.values()) != story.total.kinds[kind] or not used.keys() <= prices.keys():
        return None
    return sum(prices[name].costs_by_kind({kind: tokens})[kind] for name, tokens in used.items())
