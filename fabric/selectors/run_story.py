"""A run's story: its journal folded into what a picture of it needs. Lanes of attempts, waits and back-offs, gates, trips, and money over time.

The fold is incremental: ``RunStory.add`` takes one event, ``run_story`` adds what the journal has beyond what a story knows already. A story is made
of headers alone, never of contents. Instants are microseconds since the epoch, UTC; money is micro-dollars.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping

from fabric.core.actor import Actor
from fabric.core.envelope import Event, UnknownEvent, from_row
from fabric.core.events.conversation import SpeakerChosen
from fabric.core.evolve import evolve
from fabric.core.run import Run
from fabric.models import Event as EventRow
from fabric.models import Run as RunRow
from fabric.selectors.contents import header_for, may_read
from fabric.selectors.errors import Refused
from fabric.selectors.reach import seen_by
from fabric.selectors.story_facts import TELL
from fabric.selectors.story_parts import UNTOLD, Bar, BarEnd, Lane, Said, Span, StageSpan, Tally, Tripped
from fabric.selectors.story_trips import Fired

US = 1_000_000
RATE_WINDOW_US = 60 * US
"""The spend rate looks back this far (semantics.md 4 "cost velocity")."""
POINTS_MAX = 256
"""Points of the money curve kept; when there are more, every second one goes."""
ROWS_A_READ = 2_000


class RunStory:
    """Everything that is drawn of one run, as of its event ``seq``."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.seq = 0
        self.at = 0
        """Instant of the last event: the "now" of everything drawn and projected, so that the same journal gives the same picture."""
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
        """Who speaks after a turn and why, with the event that says so, by the turn's step."""
        self.said: list[Said] = []
        """What people said to its conversation, in order."""
        self.handed: dict[str, str] = {}
        """Whom a step's agent handed over to, by step."""
        self.stage_waits: dict[str, list[Span]] = {}
        """Waits that belong to a stage and to no step."""
        self.stage_trips: dict[str, list[Tripped]] = {}
        self.epochs: list[tuple[int, int, str, str]] = []
        """``(instant, epoch, stage charged, reason)`` of each replan."""
        self.fired: Counter[str] = Counter()
        """How often each mechanism fired."""
        self.tripped: dict[str, Fired] = {}
        """The limits that tripped, by the name of their margin."""
        self.by_stage: dict[str, Tally] = {}
        self.by_agent: dict[str, Tally] = {}
        self.by_model: dict[str, Tally] = {}
        self.total = Tally()
        self.failed_attempts = 0
        self.points: list[tuple[int, int]] = []
        """``(instant, spent so far)`` whenever money was spent."""
        self.recent: deque[tuple[int, int]] = deque()
        """What was spent in the last minute: ``(instant, amount)``."""
        self.ownerships = 0
        self.busy: tuple[int, list[tuple[int, int]]] = (-1, [])
        """See ``run_time.busy``: with the seq that it is of."""
        self.made: dict[str, tuple[object, str]] = {}
        """What was made of it, by name: what it was made of, and the text. Whoever draws a story keeps his pictures here, and they go with it."""
        self._grain = 0
        """Least distance of two points of the money curve, microseconds."""
        self.open_bars: dict[str, Bar] = {}
        self.where: dict[str, str] = {}
        """Step by command id."""
        self.open_waits: dict[str, Span] = {}
        self.open_backoffs: dict[str, Span] = {}

    @property
    def kept(self) -> frozenset[str]:
        """Of a fork: the stages that it took over from its origin and does not pass itself, as long as it has not planned anew."""
        fork = None if self.run is None or self.epochs else self.run.control.forked
        return frozenset() if fork is None else frozenset(one.stage for one in fork.stages)

    def add(self, event: Event) -> None:
        """Folds one event; the journal's next."""
        self.seq, self.at = event.seq, event.at
        while self.recent and self.recent[0][0] < event.at - RATE_WINDOW_US:
            self.recent.popleft()
        if self.run is not None:
            try:
                self.run = evolve(self.run, event)
            except Exception as error:  # noqa: BLE001 - A damaged journal may break anywhere; the picture goes on without the margins.
                self._skipped(event.seq, f"does not fold: {error} ({type(error).__name__})")
        tell = TELL.get(event.fact.kind)
        if tell is not None:
            try:
                tell(self, event, event.fact)
            except Exception as error:  # noqa: BLE001 - As above: one odd fact must not cost the whole picture.
                self._skipped(event.seq, f"cannot be drawn: {error} ({type(error).__name__})")

    def skip(self, seq: int, at: int, reason: str) -> None:
        """Passes over an event that this program does not know."""
        self.seq, self.at = seq, at
        self._skipped(seq, reason)

    def _skipped(self, seq: int, reason: str) -> None:
        self.run = None
        self.unreadable_count += 1
        if len(self.unreadable) < 5:
            self.unreadable[seq] = reason

    @property
    def waiting_since(self) -> int | None:
        """When the oldest open question was put; None when nobody is waited for."""
        return min((wait.start for wait in self.open_waits.values()), default=None)

    def rate_usd_micros_per_min(self) -> int:
        """Spend rate over the last minute before the last event; over less when the run is younger, at least ten seconds."""
        spent = sum(amount for _, amount in self.recent)
        window = min(RATE_WINDOW_US, max(10 * US, self.at - self.started_at))
        return spent * 60 * US // window

    # -- for the facts -----------------------------------------------------------------------------------------------------

    def _charge(
        self, step_id: str, bar: Bar | None, tokens: int, cost: int, *, model: str, kinds: Mapping[str, int]
    ) -> None:
        kinds = kinds if sum(kinds.values()) == tokens else UNTOLD
        tool = bar is not None and bar.call == "tool"
        tallies = [self.total]
        lane = self.lanes.get(step_id)
        if lane is not None:
            tallies += [lane.tally, self.by_stage.setdefault(lane.stage, Tally())]
            tallies.append(self.by_agent.setdefault(lane.agent, Tally()))
        if model:
            tallies.append(self.by_model.setdefault(model, Tally()))
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


# -- reading -----------------------------------------------------------------------------------------------------------


def run_story(actor: Actor, run_id: str, known: RunStory | None = None) -> RunStory:
    """The run's story up to the end of its journal, without its sentences for who may not read contents: ``known``, if given, with what came since.

    ``known`` was told to a reader of the same right. Refused not_found.
    """
    row = RunRow.objects.filter(seen_by(actor, RunRow), id=run_id).values_list("fabric__name").first()
    if row is None:
        raise Refused(f"there is no run {run_id[:80]!r} in this workspace; look at the list of runs", code="not_found")
    story, reads = RunStory(run_id) if known is None else known, may_read(actor, row[0])
    rows = EventRow.objects.filter(run_id=run_id, workspace_id=actor.workspace_id, seq__gt=story.seq).order_by("seq")
    found = rows.values_list("seq", "kind", "version", "at", "header")
    for seq, kind, version, at, header in found.iterator(chunk_size=ROWS_A_READ):
        try:
            event = from_row(seq, kind, version, header_for(header, reads=reads))
        except (UnknownEvent, ValueError) as error:
            story.skip(seq, at, str(error))
        else:
            story.add(event)
    return story
