"""The state of a run's story, with what its facts do to it: bars that end, money that is spent."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping

from fabric.core.events.conversation import SpeakerChosen
from fabric.core.state.run import Run
from fabric.core.values.units import US
from fabric.selectors.runs.story.parts import (
    UNTOLD,
    Bar,
    BarEnd,
    CallSums,
    Lane,
    Span,
    SpokenMessage,
    StageSpan,
    Tripped,
)
from fabric.selectors.runs.story.tries import Tries
from fabric.selectors.runs.story.trips import Fired

RATE_WINDOW_US = 60 * US
"""The spend rate looks back this far (docs/specification/budgets.md)."""
POINTS_MAX = 256
"""Points of the money curve kept; when there are more, every second one goes."""


class StoryState:
    """Everything that is drawn of one run, as of its event ``seq``."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.seq = 0
        self.at = 0
        """Instant of the last event, the "now" of everything drawn: the same journal gives the same picture."""
        self.started_at = 0
        self.ended_at: int | None = None
        self.run: Run | None = Run(run_id)
        """The refolded run; None when an event could not be folded."""
        self.unreadable: dict[int, str] = {}
        """Events that this program does not know, by seq, with the reason; the story goes on without them."""
        self.unreadable_count = 0
        self.stages: list[StageSpan] = []
        self.lanes: dict[str, Lane] = {}
        self.chosen: dict[str, tuple[SpeakerChosen, int]] = {}
        """Next speaker and reason after each turn, with the deciding event, by the turn's step."""
        self.said: list[SpokenMessage] = []
        """Messages of people to its conversation, in order."""
        self.handed: dict[str, str] = {}
        """Whom a step's agent handed over to, by step."""
        self.stage_waits: dict[str, list[Span]] = {}
        """Waits that belong to a stage and to no step."""
        self.stage_trips: dict[str, list[Tripped]] = {}
        self.epochs: list[tuple[int, int, str, str]] = []
        """``(instant, epoch, stage charged, reason)`` of each replan."""
        self.fired: Counter[str] = Counter()
        """Number of times that each mechanism fired."""
        self.tripped: dict[str, Fired] = {}
        """The limits that tripped, by the name of their margin."""
        self.tries = Tries()
        self.by_stage: dict[str, CallSums] = {}
        self.by_agent: dict[str, CallSums] = {}
        self.by_model: dict[str, CallSums] = {}
        self.total = CallSums()
        self.failed_attempts = 0
        self.points: list[tuple[int, int]] = []
        """``(instant, spent so far)`` whenever money was spent."""
        self.recent: deque[tuple[int, int]] = deque()
        """Spending of the last minute: ``(instant, amount)``."""
        self.busy: tuple[int, list[tuple[int, int]]] = (-1, [])
        """The seq that it belongs to, and the result of ``figures.busy``."""
        self.made: dict[str, tuple[object, str]] = {}
        """Cached drawings by name: the input and the text. A drawing goes with its story."""
        self._grain = 0
        """Least distance of two points of the money curve, microseconds."""
        self.open_bars: dict[str, Bar] = {}
        self.where: dict[str, str] = {}
        """Step by command id."""
        self.open_waits: dict[str, Span] = {}
        self.open_backoffs: dict[str, Span] = {}

    @property
    def kept_stages(self) -> frozenset[str]:
        """The stages that a fork took over from its origin and does not pass itself. Empty after a new plan."""
        fork = None if self.run is None or self.epochs else self.run.control.forked
        return frozenset() if fork is None else frozenset(one.stage for one in fork.stages)

    def skip(self, seq: int, at: int, reason: str) -> None:
        """Passes over an event that this program does not know."""
        self.seq, self.at = seq, at
        self._skip_event(seq, reason)

    def _skip_event(self, seq: int, reason: str) -> None:
        self.run = None
        self.unreadable_count += 1
        if len(self.unreadable) < 5:
            self.unreadable[seq] = reason

    @property
    def waiting_since(self) -> int | None:
        """When the oldest open review was put. None: no review is open."""
        return min((wait.start for wait in self.open_waits.values()), default=None)

    @property
    def answers_until(self) -> int:
        """The last deadline of the calls that are out. 0: none is out, or the run ended."""
        return 0 if self.ended_at is not None else max((bar.due for bar in self.open_bars.values()), default=0)

    def rate_usd_micros_per_min(self) -> int:
        """Return the spend rate over the minute before the last event. A younger run counts at least ten seconds."""
        spent = sum(amount for _, amount in self.recent)
        window = min(RATE_WINDOW_US, max(10 * US, self.at - self.started_at))
        return spent * 60 * US // window

    # -- for the facts ------------------------------------------------------------------------------------------------

    def _charge(
        self, step_id: str, bar: Bar | None, tokens: int, cost: int, *, model: str, kinds: Mapping[str, int]
    ) -> None:
        kinds = kinds if sum(kinds.values()) == tokens else UNTOLD
        tool = bar is not None and bar.call == "tool"
        tallies = [self.total]
        lane = self.lanes.get(step_id)
        if lane is not None:
            tallies += [lane.tally, self.by_stage.setdefault(lane.stage, CallSums())]
            tallies.append(self.by_agent.setdefault(lane.agent, CallSums()))
        if model:
            tallies.append(self.by_model.setdefault(model, CallSums()))
        for tally in tallies:
            tally.add(tokens, cost, kinds, tool=bar.target if tool and bar is not None else "")
        if bar is not None:
            bar.tokens, bar.cost_usd_micros = tokens, cost
        if cost:
            self.recent.append((self.at, cost))
            self._note(self.total.cost_usd_micros)

    def _note(self, spent: int) -> None:
        """Adds a point to the money curve; the curve is kept to so many points, evenly spread over the run."""
        if len(self.points) > 1 and self.at - self.points[-2][0] < self._grain:
            self.points[-1] = (self.at, spent)
        else:
            self.points.append((self.at, spent))
        if len(self.points) > POINTS_MAX:
            self._grain = max(2 * self._grain, 2 * (self.at - self.points[0][0]) // POINTS_MAX)
            kept = self.points[:1]
            for point in self.points[1:-1]:
                if point[0] - kept[-1][0] >= self._grain:
                    kept.append(point)
            self.points = [*kept, self.points[-1]]

    def close(
        self,
        command_id: str,
        became: BarEnd,
        tokens: int = 0,
        cost: int = 0,
        kinds: Mapping[str, int] = UNTOLD,
    ) -> None:
        """Ends an attempt, with what it came to."""
        bar = self.open_bars.pop(command_id, None)
        step_id = self.where.get(command_id, "")
        if bar is not None:
            bar.end, bar.became = self.at, became
        model = bar.target if bar is not None and bar.call == "model" else ""
        self._charge(step_id, bar, tokens, cost, model=model, kinds=kinds)
