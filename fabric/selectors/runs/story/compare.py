"""Compares two runs: aligned by stage and step, with the first place where they differ. Money is micro-dollars."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fabric.core.people.actor import Actor
from fabric.core.values.flow import RunState, Stage
from fabric.models import Run
from fabric.models.runs.run import ASKED_FOR
from fabric.selectors.reach import match_visible
from fabric.selectors.runs.story.fold import RunStory
from fabric.selectors.runs.story.parts import CallSums, Lane, Tripped

Place = tuple[int, int]
"""Number of the stage, and of the branch in it; branch -1: the stage itself."""


@dataclass(frozen=True, slots=True)
class StepFacts:
    """One run at one place, in its newest plan."""

    name: str
    state: str
    """A word: its outcome, or where it stands."""
    why: str
    """The last reaction to a failure there. Empty: none failed."""
    calls: int
    failed: int
    cost_usd_micros: int
    took_us: int
    seq: int
    """The event to look at first."""

    def differs(self, other: StepFacts) -> bool:
        """Return True where the two went another way. Cost and time alone do not count."""
        return (self.name, self.state, self.why, self.failed) != (other.name, other.state, other.why, other.failed)


@dataclass(frozen=True, slots=True)
class ComparedStep:
    """One place of two runs. None: the run was not there."""

    place: Place
    left: StepFacts | None
    right: StepFacts | None

    @property
    def differs(self) -> bool:
        """True where the two went another way."""
        if self.left is None or self.right is None:
            return self.left is not self.right
        return self.left.differs(self.right)


def list_steps(story: RunStory) -> dict[Place, StepFacts]:
    """Return what a run did at each place that it reached, in its newest plan."""
    newest = story.epochs[-1][1] if story.epochs else 0
    found: dict[Place, StepFacts] = {}
    for number, stage in enumerate(Stage):
        lanes = [lane for lane in story.lanes.values() if (lane.stage, lane.epoch) == (stage, newest)]
        spans = [one for one in story.stages if (one.stage, one.epoch) == (stage, newest)]
        if spans:
            end = story.at if spans[-1].end is None else spans[-1].end
            trips = story.stage_trips.get(stage, []) + ([] if stage is Stage.FAN_OUT else _trips(lanes))
            sums, failed = _sums(lanes)
            found[number, -1] = StepFacts(
                stage,
                spans[-1].outcome or "running",
                trips[-1].reaction if trips else "",
                sums.calls,
                failed,
                sums.cost_usd_micros,
                end - spans[0].start,
                trips[-1].seq if trips else spans[-1].seq,
            )
        if stage is Stage.FAN_OUT:
            found |= {(number, branch): _step(story, lanes, branch) for branch in sorted({one.branch for one in lanes})}
    return found


def _step(story: RunStory, lanes: list[Lane], branch: int) -> StepFacts:
    own = [lane for lane in lanes if lane.branch == branch]
    last, trips, (sums, failed) = own[-1], _trips(own), _sums(own)
    end = story.at if last.end is None else last.end
    seq = trips[-1].seq if trips else last.bars[-1].seq if last.bars else last.kept
    reaction = trips[-1].reaction if trips else ""
    return StepFacts(
        last.agent, last.state, reaction, sums.calls, failed, sums.cost_usd_micros, end - own[0].start, seq
    )


def _trips(lanes: Iterable[Lane]) -> list[Tripped]:
    return sorted((trip for lane in lanes for trip in lane.trips), key=lambda trip: trip.seq)


def _sums(lanes: list[Lane]) -> tuple[CallSums, int]:
    sums = CallSums(calls=sum(lane.tally.calls for lane in lanes))
    for lane in lanes:
        sums.add(lane.tally.tokens, lane.tally.cost_usd_micros)
    return sums, sum(bar.became == "failed" for lane in lanes for bar in lane.bars)


def compare_steps(left: dict[Place, StepFacts], right: dict[Place, StepFacts]) -> list[ComparedStep]:
    """Return the places of both in the order of the flow."""
    return [ComparedStep(place, left.get(place), right.get(place)) for place in sorted(left.keys() | right.keys())]


def find_last_good(actor: Actor, fabric_id: str, but: str) -> str:
    """Return the id of the fabric's latest run that completed, other than ``but``. Empty: there is none."""
    rows = Run.objects.filter(match_visible(actor, Run), ASKED_FOR, fabric_id=fabric_id, state=RunState.COMPLETED.value)
    found = rows.exclude(id=but).order_by("-created_at").values_list("id", flat=True).first()
    return str(found or "")
