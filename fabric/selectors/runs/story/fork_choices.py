"""Say where a run can be tried again from: its stages, with what a new run keeps and saves. Pure functions of a story.

Money is micro-dollars.
"""

from __future__ import annotations

from dataclasses import dataclass

from fabric.core.stages.forks import find_fork_point
from fabric.core.values.flow import Stage
from fabric.core.values.words import count, words
from fabric.selectors.runs.story.fold import RunStory


@dataclass(frozen=True, slots=True)
class ForkChoice:
    """One event to start a new run from."""

    seq: int
    stage: Stage
    """First stage of the new run."""
    kept: tuple[Stage, ...]
    branches: int
    """Finished branches of that stage that are kept."""
    saves_usd_micros: int
    """Cost of what is kept."""

    @property
    def kept_words(self) -> str:
        """The parts that the new run keeps: ``plan, 1 finished branch``. Empty: nothing."""
        branches = [count(self.branches, "finished branch", "finished branches")] if self.branches else []
        return ", ".join([*(words(stage) for stage in self.kept), *branches])


def list_fork_choices(story: RunStory) -> list[ForkChoice]:
    """Return the choices, the one that keeps most first. Empty: the journal does not fold, or no stage was reached."""
    if story.run is None or not story.seq:
        return []
    point = find_fork_point(story.run)
    if point.stage is None:
        return []
    newest = story.epochs[-1][1] if story.epochs else 0
    order = list(Stage)
    begun = {one.stage: one.seq for one in story.stages if one.epoch == newest}
    done = {branch for branch, _, _ in point.branches} if point.stage is Stage.FAN_OUT else set()
    choices = [_choose(story, newest, story.seq, point.stage, done)]
    for stage in reversed(order[: order.index(point.stage) + 1]):
        same = stage is point.stage and not done
        if stage in begun and not same:
            choices.append(_choose(story, newest, begun[stage], stage, set()))
    return choices


def _choose(story: RunStory, epoch: int, seq: int, stage: Stage, done: set[int]) -> ForkChoice:
    order = list(Stage)
    before = tuple(order[: order.index(stage)])
    spent = sum(
        lane.tally.cost_usd_micros
        for lane in story.lanes.values()
        if lane.epoch == epoch and (lane.stage in before or (lane.stage == stage and lane.branch in done))
    )
    return ForkChoice(seq, stage, before, len(done), spent)
