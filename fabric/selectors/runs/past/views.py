"""Read a run as of one of its events, by the engine's own fold: row, money, limits, reviews.

Labels and child runs are those of now, because no journal has them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fabric.core.mechanisms import budget, find_state
from fabric.core.people.actor import Actor
from fabric.core.people.eligibility import asked_words, list_reviewers
from fabric.core.reviews.agreement import build_review_rules
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.flow import Stage
from fabric.core.values.words import words
from fabric.models import Event
from fabric.runtime.journal import projection
from fabric.runtime.ports.batch_parts import list_names
from fabric.selectors.contents import line_for
from fabric.selectors.errors import Refused
from fabric.selectors.runs.lookup import RunView
from fabric.selectors.runs.margins.breakers import BreakerThen, list_breakers_then
from fabric.selectors.runs.margins.margin import Margin
from fabric.selectors.runs.margins.table import RETRIES, list_margins
from fabric.selectors.runs.story.fold import RunStory
from fabric.selectors.runs.story.parts import Lane, SpokenMessage
from fabric.selectors.stored_events import read_events
from fabric.selectors.workspaces.policies import spec_under

DECISIONS = frozenset({"reaction_decided", "review_decided"})
"""Kinds of events with a decision, by the decision table or by a person."""


@dataclass(frozen=True, slots=True)
class AskedThen:
    """A review that was open."""

    id: str
    reason: str
    who: str
    """Whom it asked, in words."""
    opened_at: int
    due_at: int


@dataclass(frozen=True, slots=True)
class Spoken:
    """A turn, a step or a person's message of the conversation so far. Its words are the content of its event."""

    seq: int
    who: str
    step: str
    """The turn or step in words."""
    state: str
    said: SpokenMessage | None = None
    """The message; None: it is an agent's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A run as of its event ``seq``. Instants are microseconds since the epoch, UTC; money is micro-dollars."""

    run: RunView
    """Its row as the event left it."""
    story: RunStory
    spec: FabricSpec
    seq: int
    last_seq: int
    """Its last event, as of now."""
    at: int
    cap_usd_micros: int
    reserved_usd_micros: int
    margins: tuple[Margin, ...]
    """Those that tripped, then the nearest to their limit. Empty: it had not started."""
    breakers: tuple[BreakerThen, ...]
    reviews: tuple[AskedThen, ...]
    conversation: tuple[Spoken, ...]
    """In order."""

    @property
    def retry_tokens(self) -> float | None:
        """Return the tokens left in the retry budget that had the least. None: it had not started."""
        return next((one.remaining for one in self.margins if one.key == RETRIES), None)

    @property
    def left_usd_micros(self) -> int:
        """Return what it could still spend; below 0 where it was over its cap."""
        return self.cap_usd_micros - self.run.cost_usd_micros - self.reserved_usd_micros


def require_event(run: RunView, seq: int) -> int:
    """Return ``seq``, which is one of the run's events. Raises Refused invalid."""
    if not run.last_seq:
        raise Refused(f"run {run.id} has no events yet: no worker has begun it", code="invalid", field="seq")
    if not 1 <= seq <= run.last_seq:
        message = f"run {run.id} has events 1 to {run.last_seq}, and no event {seq}: pick one of them"
        raise Refused(message, code="invalid", field="seq")
    return seq


def build_past_run(run: RunView, story: RunStory) -> PastRun:
    """Return a run as of the last event of a story. ``run``: as it is now. Raises Refused conflict where an event could
    not be folded.
    """
    folded = story.run
    if folded is None or story.kinds.total() != story.seq:
        seq, why = next(iter(story.unreadable.items()), (0, ""))
        said = f"event {seq} could not be read ({why})" if seq else "events before it are missing from the journal"
        message = f"run {run.id} cannot be shown as of event {story.seq}: {said}"
        raise Refused(message, code="conflict", field="seq")
    row, spec = projection.columns(folded), spec_of(run, story)
    names = ("state", "stage", "epoch", "cost_usd_micros", "tokens", "recovered", "truncated", "cause", "failure")
    then = {name: getattr(row, name) for name in (*names, "started_at", "ended_at", "deadline_at")}
    reason = line_for(row.reason, reads=run.reads)
    past = replace(run, **then, reason=reason, fired=list_names(row.fired), last_seq=story.seq, as_of=story.seq)
    started = bool(folded.started_at)
    return PastRun(
        run=past,
        story=story,
        spec=spec,
        seq=story.seq,
        last_seq=run.last_seq,
        at=story.at,
        cap_usd_micros=find_cap(run, spec, story),
        reserved_usd_micros=sum_reserved(past, story),
        margins=tuple(list_margins(folded, spec, story.at, story.tripped, story.tries.buckets)) if started else (),
        breakers=tuple(list_breakers_then(past, spec, story.at)),
        reviews=tuple(list_reviews_then(story, reads=run.reads)),
        conversation=tuple(list_spoken(story)),
    )


def list_reviews_then(story: RunStory, *, reads: bool) -> list[AskedThen]:
    """Return the reviews that were open after the last event of a story, the most urgent first."""
    if story.run is None or story.ended_at is not None:
        return []
    found = [
        AskedThen(
            one.fact.review_id,
            line_for(one.fact.reason, reads=reads),
            asked_words(list_reviewers(build_review_rules(one))),
            one.at,
            one.fact.due_at,
        )
        for one in story.run.reviews.values()
    ]
    return sorted(found, key=lambda one: (one.due_at, one.id))


def list_spoken(story: RunStory) -> list[Spoken]:
    """Return the conversation of a story, in order. A step that takes no turns is a line from its first call on."""
    lines = [
        Spoken(seq, lane.agent, _name_step(lane), lane.state)
        for lane in story.lanes.values()
        if (seq := lane.opened or lane.kept or (lane.bars[0].seq if lane.bars else 0))
    ]
    for said in story.said:
        state = "refused" if said.refused else "read" if said.reader else "unread"
        lines.append(Spoken(said.seq, said.actor, "message", state, said))
    return sorted(lines, key=lambda one: one.seq)


def _name_step(lane: Lane) -> str:
    if lane.stage == Stage.FAN_OUT:
        return f"turn {lane.branch + 1}" if lane.hears is not None else f"brief {lane.branch + 1}"
    return words(lane.stage)


def decisions_around(actor: Actor, run: RunView, seq: int) -> tuple[int | None, int | None]:
    """Return the events of the decisions before and after an event. None: there is none."""
    rows = Event.objects.filter(run_id=run.id, workspace_id=actor.workspace_id)
    before = next(read_events(rows, upto=seq - 1, kinds=DECISIONS, newest=True), None) if seq > 1 else None
    after = next(read_events(rows, after=seq, kinds=DECISIONS), None)
    return (before.seq if before else None), (after.seq if after else None)


# -- also of a run as it is now ----------------------------------------------------------------------------------------


def spec_of(run: RunView, story: RunStory | None) -> FabricSpec:
    """Return the run's revision under the policy that it goes by, as far as its story is known."""
    number = 0 if story is None or story.run is None else story.run.policy
    return spec_under(run.revision_id, run.workspace_id, number, run.tier)


def find_cap(run: RunView, spec: FabricSpec, story: RunStory | None) -> int:
    """Return the most that a run may spend, as far as its story is known."""
    ledger = budget.State() if story is None or story.run is None else find_state(story.run.guards, budget)
    cap = budget.cap(spec.policy.budget, ledger)
    return cap if run.cap_usd_micros is None else min(cap, run.cap_usd_micros)


def sum_reserved(run: RunView, story: RunStory | None) -> int:
    """Return the most that the calls in flight could still cost; 0 while the story is not folded."""
    folded = None if story is None else story.run
    if folded is None or run.terminal:
        return 0
    return sum(held.usd_micros for held in find_state(folded.guards, budget).reserved.values())
