"""When a run worked and when it only waited, from its story. Intervals of instants, microseconds since the epoch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fabric.selectors.run_story import RunStory

Interval = tuple[int, int]


def united(intervals: Iterable[Interval]) -> list[Interval]:
    """The intervals without overlaps, in order."""
    made: list[Interval] = []
    for start, end in sorted(intervals):
        if made and start <= made[-1][1]:
            made[-1] = (made[-1][0], max(made[-1][1], end))
        else:
            made.append((start, end))
    return made


def busy(story: RunStory) -> list[Interval]:
    """When something went on, without overlaps: a call was out, or a retry was near. Waits for a person, for a worker and for nothing are not.

    Worked out once for each state of a story: every picture of it begins with this.
    """
    seq, known = story.busy
    if seq != story.seq:
        known = united(_busy(story))
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


def waited(story: RunStory) -> int:
    """Microseconds in which the run waited for a person and did nothing else."""
    lanes = (wait for lane in story.lanes.values() for wait in lane.waits)
    stages = (wait for waits in story.stage_waits.values() for wait in waits)
    waits = united((wait.start, story.at if wait.end is None else wait.end) for wait in (*lanes, *stages))
    if not waits:
        return 0
    work = [one for one in busy(story) if one[1] > waits[0][0]]
    beside = sum(max(0, min(b, end) - max(a, start)) for start, end in waits for a, b in work)
    return sum(end - start for start, end in waits) - beside
