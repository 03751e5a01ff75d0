"""What a run's page shows, worked out from its view and its story: words, tones, margins, money. The same for whoever looks."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from django.utils.safestring import SafeString

from console.views.inspect_decision import REACTION_ICONS
from console.views.meters import Meter
from console.views.run_control import offered
from console.views.run_money import Money, money
from fabric.core.agreeing import asked_of
from fabric.core.eligibility import asked_words, wanted
from fabric.core.flow import ANSWERED, RunState, Stage
from fabric.core.spec import FabricSpec
from fabric.core.spec_stages import cell_at
from fabric.core.taxonomy import FailureType
from fabric.core.words import words
from fabric.selectors.advice import advice_of
from fabric.selectors.margin import Margin
from fabric.selectors.run_margins import by_nearness, margins_of, spend_rate
from fabric.selectors.run_story import RunStory
from fabric.selectors.run_time import busy, waited
from fabric.selectors.runs import RunView
from fabric.selectors.story_trips import SPEND_RATE
from fabric.selectors.workspace_policies import spec_under

JSON = Any
MARGINS_SHOWN = 6
MARGINS_MAX = 9
ALWAYS_SHOWN = frozenset({"hops", "identical calls", "replans", "retry tokens", "spend rate"})
"""Margins that the header has however far they are, as it has a shared breaker that counted something; the nearest others fill it up, and what has a tone is
never left out."""

LAPSES = {
    "reject": "else it is rejected",
    "nothing": "and longer if nobody answers",
    "error": "else the call fails",
    "next": "else the next reaction of its decision table follows",
}
"""What becomes of a question that nobody answered in time, by what it declared."""

log = logging.getLogger(__name__)

StageState = Literal["passed", "current", "waiting", "stopped", "ahead"]

VIEWS = (
    ("timeline", "Timeline"),
    ("events", "Events"),
    ("graph", "Graph"),
    ("protections", "Protections"),
    ("cost", "Cost"),
    ("io", "Input and output"),
)
"""The tabs of a run's page: the name in the address, and the word."""


@dataclass(frozen=True, slots=True)
class StageMark:
    """One stage of the five as lists show it."""

    name: str
    state: StageState

    @property
    def x(self) -> int:
        """Where it begins in a bar of five, percent."""
        return 20 * list(Stage).index(Stage(self.name))

    @property
    def tone(self) -> str:
        """Its tone."""
        return {"passed": "ok", "current": "info", "waiting": "human", "stopped": "danger", "ahead": "neutral"}[
            self.state
        ]

    @property
    def word(self) -> str:
        """What has become of it."""
        return {
            "passed": "passed",
            "current": "in progress",
            "waiting": "waits for a person",
            "stopped": "ended here",
            "ahead": "not reached",
        }[self.state]

    @property
    def icon(self) -> str:
        """Its icon."""
        return {"passed": "check", "current": "run", "waiting": "human", "stopped": "x", "ahead": "minus"}[self.state]


@dataclass(frozen=True, slots=True)
class RungWord:
    """A rung of a ladder that has not been climbed: what would be done, and how often."""

    icon: str
    word: str
    times: int | None
    last: bool


@dataclass(frozen=True)
class RunPage:
    """A run with everything that its panels say about it. ``story`` None: it is not folded yet, and what needs it says so."""

    run: RunView
    cap_usd_micros: int
    """Most that this run may spend."""
    outcome: dict[str, JSON] | None = None
    data: SafeString | str = ""
    """The outcome's data as a tree; empty where it has none."""
    story: RunStory | None = None
    spec: FabricSpec | None = None
    beside: Margin | None = None
    """What is no run's to know: the shared breaker that is nearest to opening."""

    @property
    def stages(self) -> list[StageMark]:
        """The five, in order, as far as the run's row tells: what lies behind its stage has passed in this epoch."""
        order = list(Stage)
        if self.run.state in ANSWERED:
            return [StageMark(stage, "passed") for stage in order]
        if not self.run.stage:
            return [StageMark(stage, "ahead") for stage in order]
        here = order.index(Stage(self.run.stage))
        now: StageState = "current"
        if self.run.terminal:
            now = "stopped"
        elif self.run.state in (RunState.WAITING, RunState.QUARANTINED):
            now = "waiting"
        return [StageMark(s, "passed" if n < here else now if n == here else "ahead") for n, s in enumerate(order)]

    @property
    def fired(self) -> int:
        """How often protections fired, as far as it is known."""
        return 0 if self.story is None else sum(self.story.fired.values())

    # -- time ------------------------------------------------------------------------------------------------------------

    @property
    def took(self) -> int | None:
        """From the request to the end, microseconds; None while it goes on."""
        return None if self.run.ended_at is None else self.run.ended_at - self.run.created_at

    @cached_property
    def waited(self) -> int:
        """Microseconds in which it waited for a person and did nothing else, up to its last event."""
        return waited(self.story) if self.story is not None else 0

    @property
    def active(self) -> int | None:
        """Microseconds from its start to its last event, without the waits; None before it has begun."""
        if self.story is None or not self.story.started_at:
            return None
        return max(0, self.story.at - self.story.started_at - self.waited)

    @property
    def waiting_since(self) -> int | None:
        """When the oldest open question was put; None when nobody is waited for."""
        return None if self.story is None or self.run.terminal else self.story.waiting_since

    @property
    def waited_before(self) -> int:
        """``waited`` without the wait that lasts: that one grows from second to second, and the page's script tells it."""
        since = self.waiting_since
        if self.story is None or since is None:
            return self.waited
        now = self.story.at
        beside = sum(max(0, min(end, now) - max(start, since)) for start, end in busy(self.story))
        return max(0, self.waited - (now - since - beside))

    @property
    def suspended_us(self) -> int | None:
        """What is left of a deadline that stands still, microseconds; None while it runs."""
        folded = self.story.run if self.story is not None else None
        return None if folded is None or folded.suspended is None else folded.suspended.run_remaining_us

    @property
    def waits_for(self) -> list[tuple[str, int, str, str]]:
        """``(who, until when, what becomes of it then, why)`` for each open question."""
        folded = self.story.run if self.story is not None else None
        if folded is None or self.run.terminal:
            return []
        found = [(asked_words(wanted(asked_of(one))), one.fact) for one in folded.questions.values()]
        ordered = sorted(found, key=lambda each: each[1].due_at)
        return [(who, fact.due_at, LAPSES[fact.on_expiry], fact.reason) for who, fact in ordered]

    @property
    def epochs_max(self) -> int | None:
        """Most epochs of a stage, the first included."""
        return None if self.spec is None else 1 + self.spec.policy.limits.replans_per_stage

    # -- money and margins -----------------------------------------------------------------------------------------------

    @cached_property
    def money(self) -> Money | None:
        """Cost against the ceiling; None while the story is not folded."""
        if self.story is None:
            return None
        going = self.run.state in (RunState.RUNNING, RunState.QUEUED)
        return money(self.story, self.cap_usd_micros, going=going)

    @property
    def overrun(self) -> list[RungWord]:
        """What is done when the ceiling is reached: the cell of cost overruns in this tier."""
        if self.spec is None:
            return []
        rungs = cell_at(self.spec, FailureType.COST_OVERRUN, self.run.tier, self.run.stage).rungs
        last = len(rungs) - 1
        return [
            RungWord(REACTION_ICONS[rung.reaction], words(rung.reaction), rung.times, n == last)
            for n, rung in enumerate(rungs)
        ]

    @cached_property
    def meters(self) -> list[Meter]:
        """All margins: what tripped, then the nearest; none while they cannot be worked out."""
        folded = self.story.run if self.story is not None else None
        if self.story is None or folded is None or self.spec is None or not folded.started_at:
            return []
        try:
            found = margins_of(folded, self.spec, self.story.at, self.story.tripped)
            beside = [] if self.beside is None else [self.beside]
            return [Meter(one) for one in sorted([*found, *self._rate(), *beside], key=by_nearness)]
        except Exception:
            log.exception("the margins of run %s could not be worked out", self.run.id)
            return []

    def _rate(self) -> list[Margin]:
        """The spend rate as a margin, while money is being spent."""
        going, story = self.run.state in (RunState.QUEUED, RunState.RUNNING), self.story
        if story is None or story.run is None or self.spec is None or not going or SPEND_RATE in story.tripped:
            return []  # A rate that tripped stands among the margins as it was then.
        rate = spend_rate(story.run, self.spec.policy, story.rate_usd_micros_per_min())
        return [] if rate is None else [rate]

    @property
    def nearest(self) -> list[Meter]:
        """The margins of the header, in their order: some are always there, and what tripped or is near a limit always is."""
        margins = [meter.margin for meter in self.meters]
        chosen = {one.name for one in margins if one.name in ALWAYS_SHOWN or (one.shared and one.observed)}
        for meter in self.meters:
            if len(chosen) < MARGINS_SHOWN or (meter.tone and len(chosen) < MARGINS_MAX):
                chosen.add(meter.margin.name)
        return [meter for meter in self.meters if meter.margin.name in chosen]

    @property
    def no_margins(self) -> str:
        """Why there are no margins to show."""
        if self.story is None:
            return f"They are worked out from {self.run.last_seq:,} events and appear here in a moment."
        if self.story.run is None:
            seq, reason = next(iter(self.story.unreadable.items()))
            return f"They cannot be worked out: event {seq} could not be read ({reason})."
        return "The run has not begun: nothing has been counted yet."

    @property
    def cost_tone(self) -> str:
        """Grey until the cap is near."""
        spent = 100 * self.run.cost_usd_micros // self.cap_usd_micros if self.cap_usd_micros else 0
        return "danger" if spent >= 90 else "warn" if spent >= 70 else "neutral"

    @property
    def to_spare(self) -> int | None:
        """Microseconds between the end and the deadline, below 0 when it had passed; None while the run goes on."""
        return None if self.run.ended_at is None else self.run.deadline_at - self.run.ended_at

    @property
    def tone(self) -> str:
        """Of the sentence that says how it ended."""
        if self.run.state in ANSWERED:
            return "warn"
        return "neutral" if self.run.state is RunState.CANCELLED else "danger"

    # -- what may be done, how it ended ----------------------------------------------------------------------------------

    @property
    def holds(self) -> list[str]:
        """What may be done with it as it stands: names in ``run_control.HOLDS``."""
        return offered(self.run)

    @property
    def partial(self) -> bool:
        """Whether the outcome is only what there was when the run was stopped."""
        return self.outcome is not None and self.run.state not in ANSWERED

    @property
    def verdict(self) -> str:
        """How it ended, in a sentence's beginning; the reason follows it."""
        return {
            RunState.COMPLETED: "The run has finished.",
            RunState.STOPPED: "The run was stopped early.",
            RunState.FAILED: "The run could not finish.",
            RunState.ABORTED: "The run was aborted.",
            RunState.CANCELLED: "The run was cancelled.",
        }.get(self.run.state, "")

    @property
    def advice(self) -> str:
        """The advice for the run's cause; empty: there is none."""
        return advice_of(self.run)

    @property
    def reason(self) -> str:
        """Why, where it says more than the verdict: whole, where the journal has been folded; the row's is cut for lists."""
        folded = self.story.run if self.story is not None else None
        whole = folded.reason if folded is not None and self.run.terminal else ""
        reason = (whole if whole.startswith(self.run.reason) else self.run.reason).strip()
        return "" if reason == "finished" else reason


def spec_of(run: RunView, story: RunStory | None) -> FabricSpec:
    """The run's revision under the policy that it goes by, as far as its story is known."""
    number = 0 if story is None or story.run is None else story.run.policy
    return spec_under(run.revision_id, run.workspace_id, number, run.tier)
