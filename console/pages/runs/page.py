"""Works out a run's page from its view and its story: words, tones, margins, money.

A margin is drawn as its number, its bar, its tone and its words.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal
from urllib.parse import quote, urlencode

from django.urls import reverse
from django.utils.safestring import SafeString

from console.pages.runs.control import offered_holds
from console.pages.runs.inspector.decision import REACTION_ICONS
from console.pages.runs.money import Money, MoneyLine, build_money_line, money
from console.templatetags.figures import span, thousands, usd
from fabric.core.breaker.table import BreakerState
from fabric.core.people.eligibility import asked_words, list_reviewers
from fabric.core.reviews.agreement import build_review_rules
from fabric.core.schema.limits import Unit
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.stages import cell_at
from fabric.core.values.flow import ANSWERED, RunState, Stage
from fabric.core.values.taxonomy import FailureType
from fabric.core.values.units import JSON, US
from fabric.core.values.words import words
from fabric.selectors.runs.lookup import ADVISED, RunView, write_advice
from fabric.selectors.runs.margins.breakers import WORDS
from fabric.selectors.runs.margins.margin import Margin
from fabric.selectors.runs.margins.table import RETRIES, list_margins, rank_by_nearness, spend_rate
from fabric.selectors.runs.past.views import sum_reserved
from fabric.selectors.runs.story.figures import busy, waited_us
from fabric.selectors.runs.story.fold import RunStory
from fabric.selectors.runs.story.fork_choices import ForkChoice, list_fork_choices
from fabric.selectors.runs.story.tries import Decided, find_decision, shared_level, tried_words
from fabric.selectors.runs.story.trips import SHARED_BUDGETS, SPEND_RATE

NOTCHES_MAX = 10
"""A count up to here is drawn as so many notches."""


@dataclass(frozen=True, slots=True)
class Meter:
    """A margin as it is drawn: notches for a small count, a bar for everything else."""

    margin: Margin

    @property
    def main_value(self) -> str:
        """The value that is read first: a level, a count, a share, or the rest."""
        if self.margin.standing:
            return self.margin.standing
        match self.margin.unit:
            case Unit.RETRY_TOKENS:
                return f"{self.margin.remaining:g}"
            case _ if self.margin.counted:
                return thousands(round(self.margin.observed))
        share = round(100 * self.margin.share)
        return f"{share} %" if share < 1_000 else "over 999 %"

    @property
    def limit_words(self) -> str:
        """The limit beside the value."""
        match self.margin.unit:
            case Unit.RETRY_TOKENS:
                return f"of {self.margin.limit:g} left"
            case _ if self.margin.counted:
                return f"/ {thousands(round(self.margin.limit))}"
        return ""

    @property
    def trip_words(self) -> str:
        """That it tripped, and how often where that was more than once; empty when it did not."""
        fired = self.margin.fired
        if fired is None:
            return ""
        return "tripped" if fired.times == 1 else f"tripped {fired.times:,} ×"

    @property
    def says(self) -> str:
        """A sentence: what happened at the limit if it tripped, else what would happen there."""
        margin = self.margin
        where = f"{margin.where}: " if margin.where else ""
        if margin.fired is not None:
            stands = "" if self.amounts else f"; it is now {self.main_value} {self.limit_words}"
            return f"{where}{margin.fired.trip_words}{stands}"
        return "; ".join(part for part in (self.amounts, f"{where}{self._trip_number}{margin.at_limit}") if part)

    @property
    def _trip_number(self) -> str:
        """Return the number at which it happens, so a distant count does not read as reached. Breakers say it
        themselves.
        """
        if self.margin.shared is not None:
            return ""
        match self.margin.unit:
            case Unit.RETRY_TOKENS:
                return "at 0 "
            case _ if self.margin.counted:
                return f"at {thousands(round(self.margin.limit))} "
        return ""

    @property
    def amounts(self) -> str:
        """Amounts, where the share alone would not say it."""
        if self.margin.counted or self.margin.unit in (Unit.RETRY_TOKENS, Unit.COUNT_OR_SHARE):
            return ""
        return f"{_amount(self.margin, self.margin.observed)} of {_amount(self.margin, self.margin.limit)}"

    @property
    def percent(self) -> int:
        """Share of the limit, 0 to 100."""
        return max(0, min(100, round(100 * self.margin.share)))

    @property
    def notches(self) -> list[tuple[float, float, bool]]:
        """``(x, width, filled)`` in percent, where the limit is a small count."""
        count = round(self.margin.limit)
        if not self.margin.counted or count > NOTCHES_MAX:
            return []
        width = 100 / count
        return [(round(n * width + 0.6, 2), round(width - 1.2, 2), n < self.margin.observed) for n in range(count)]

    @property
    def tone(self) -> str:
        """Grey until it is near: the next one trips, or seven tenths of the way. Red at the limit and where a trip
        ended the run.
        """
        margin = self.margin
        if margin.fired is not None:
            return "danger" if margin.fired.ended else "warn"
        if margin.standing:
            return "warn" if margin.standing == WORDS[BreakerState.HALF_OPEN] else "danger"
        if margin.unit in (Unit.COUNT_OR_SHARE, Unit.USD_A_MINUTE):
            return "warn" if margin.share >= 0.7 else ""
        if margin.share > 1 or (margin.share == 1 and (margin.trips_at_limit or not margin.counted)):
            return "danger"
        if margin.counted and margin.limit <= NOTCHES_MAX:
            return "warn" if margin.observed and margin.remaining <= 1 else ""
        return "warn" if margin.share >= 0.7 else ""

    @property
    def icon(self) -> str:
        """A mark beside the colour."""
        if self.margin.fired is not None:
            return "flag"
        return {"danger": "xc", "warn": "alert"}.get(self.tone, "")

    @property
    def href(self) -> str:
        """The address of its other counts. Empty: the run's own page has them."""
        if self.margin.key in SHARED_BUDGETS.values():
            return f"{reverse('budgets')}#money"
        if self.margin.key == RETRIES and self.margin.where:
            return f"{reverse('budgets')}#retries"
        if self.margin.shared is None:
            return ""
        scope, kind = self.margin.shared
        return f"{reverse('breakers')}#{quote('-'.join(('b', scope, kind.partition(':')[2])))}"


def _amount(margin: Margin, value: float) -> str:
    match margin.unit:
        case Unit.USD:
            return usd(round(value))
        case Unit.USD_A_MINUTE:
            return f"{usd(round(value))}/min"
        case Unit.SECONDS:
            return span(round(value * US))
    return thousands(round(value))


ALIKE_CHARS_MIN = 12
"""Characters without a number that a reason needs for a search for its like."""
MARGINS_SHOWN = 4
MARGINS_MAX = 8
PREFERRED = frozenset(
    {
        *("limits.hops", "limits.replans_per_stage", "retry.bucket", SPEND_RATE),
        "loop_detector.identical_threshold",
    }
)
"""Margins that the header prefers among those that are far, as it does a shared breaker that counted something. What
has a tone comes first.
"""

LAPSES = {
    "reject": "else it is rejected",
    "nothing": "longer without an answer",
    "error": "else the call fails",
    "next": "else the next reaction of its decision table follows",
}
"""Words for a review that expired, by its declared answer."""

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
        """Its left edge in a bar of five, percent."""
        return 20 * list(Stage).index(Stage(self.name))

    @property
    def tone(self) -> str:
        """Its tone."""
        return {"passed": "ok", "current": "info", "waiting": "human", "stopped": "danger", "ahead": "neutral"}[
            self.state
        ]

    @property
    def word(self) -> str:
        """The outcome of the stage."""
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
    """A run with everything that its panels say about it. ``story`` None: it is not folded yet, and what needs it says
    so.
    """

    run: RunView
    cap_usd_micros: int
    """Most that this run may spend."""
    outcome: dict[str, JSON] | None = None
    data: SafeString | str = ""
    """The outcome's data as a tree; empty where it has none."""
    story: RunStory | None = None
    spec: FabricSpec | None = None
    beside: Margin | None = None
    """State outside the run: the shared breaker that is nearest to opening."""

    @property
    def stages(self) -> list[StageMark]:
        """The five stages in order, as far as the run's row says."""
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
    def fired_count(self) -> int:
        """Number of protections that fired; None: unknown."""
        return 0 if self.story is None else sum(self.story.fired.values())

    # -- time ---------------------------------------------------------------------------------------------------------

    @property
    def took(self) -> int | None:
        """From the request to the end, microseconds; None while it goes on."""
        return None if self.run.ended_at is None else self.run.ended_at - self.run.created_at

    @cached_property
    def waited_us(self) -> int:
        """Microseconds in which it waited for a person and did nothing else, up to its last event."""
        return waited_us(self.story) if self.story is not None else 0

    @property
    def active(self) -> int | None:
        """Microseconds from its start to its last event, without the waits; None before it has begun."""
        if self.story is None or not self.story.started_at:
            return None
        return max(0, self.story.at - self.story.started_at - self.waited_us)

    @property
    def works(self) -> bool:
        """True while calls are out: then it is active without an event. A run of the past does not go on."""
        return self.run.as_of is None and self.story is not None and self.story.answers_until > self.story.at

    @property
    def at_ms(self) -> int:
        """When the last event was recorded, milliseconds since the epoch."""
        return 0 if self.story is None else self.story.at // 1_000

    @property
    def active_ms(self) -> int:
        """``active`` in milliseconds."""
        return (self.active or 0) // 1_000

    @property
    def waiting_since(self) -> int | None:
        """When the oldest open review was opened. None: no review is open."""
        return None if self.story is None or self.run.terminal else self.story.waiting_since

    @property
    def waited_before(self) -> int:
        """``waited`` without the wait that lasts: that one grows from second to second, and the page's
        script tells it.
        """
        since = self.waiting_since
        if self.story is None or since is None:
            return self.waited_us
        now = self.story.at
        beside = sum(max(0, min(end, now) - max(start, since)) for start, end in busy(self.story))
        return max(0, self.waited_us - (now - since - beside))

    @property
    def suspended_us(self) -> int | None:
        """The rest of a deadline that stands still, microseconds. None: it runs."""
        folded = self.story.run if self.story is not None else None
        return None if folded is None or folded.suspended is None else folded.suspended.run_remaining_us

    @property
    def waits_for(self) -> list[tuple[str, int, str, str]]:
        """``(who, until when, what becomes of it then, why)`` for each open review."""
        folded = self.story.run if self.story is not None else None
        if folded is None or self.run.terminal:
            return []
        found = [(asked_words(list_reviewers(build_review_rules(one))), one.fact) for one in folded.reviews.values()]
        ordered = sorted(found, key=lambda each: each[1].due_at)
        return [(who, fact.due_at, LAPSES[fact.on_expiry], fact.reason) for who, fact in ordered]

    @property
    def epochs_max(self) -> int | None:
        """Most epochs of a stage, the first included."""
        return None if self.spec is None else 1 + self.spec.policy.limits.replans_per_stage

    # -- money and margins --------------------------------------------------------------------------------------------

    @cached_property
    def money(self) -> Money | None:
        """Cost against the ceiling; None while the story is not folded."""
        if self.story is None:
            return None
        going = self.run.state in (RunState.RUNNING, RunState.QUEUED)
        return money(self.story, self.cap_usd_micros, going=going)

    @property
    def overrun(self) -> list[RungWord]:
        """The reactions at the ceiling: the cell of cost overruns in this tier."""
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
        """All margins: what fired, then the nearest; none while they cannot be worked out."""
        folded = self.story.run if self.story is not None else None
        if self.story is None or folded is None or self.spec is None or not folded.started_at:
            return []
        try:
            found = list_margins(folded, self.spec, self.story.at, self.story.tripped, self.story.tries.buckets)
            beside = [] if self.beside is None else [self.beside]
            return [Meter(one) for one in sorted([*found, *self._rate(), *beside], key=rank_by_nearness)]
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
        """The margins of the header, in order: those that fired or are near, then the preferred ones."""
        told = [meter for meter in self.meters if meter.tone]
        calm = [meter for meter in self.meters if not meter.tone]
        calm.sort(key=lambda one: one.margin.key not in PREFERRED and not (one.margin.shared and one.margin.observed))
        chosen = {id(one) for one in [*told[:MARGINS_MAX], *calm[: max(0, MARGINS_SHOWN - len(told))]]}
        return [meter for meter in self.meters if id(meter) in chosen]

    @property
    def no_margins(self) -> str:
        """The reason why there are no margins."""
        if self.story is None:
            return f"They are worked out from {self.run.last_seq:,} events and appear here in a moment."
        if self.story.run is None:
            seq, reason = next(iter(self.story.unreadable.items()))
            return f"They cannot be worked out: event {seq} could not be read ({reason})."
        return "The run has not started, so nothing is counted yet."

    @property
    def reserved_usd_micros(self) -> int:
        """The most that the calls in flight could still cost; 0 while the story is not folded."""
        return sum_reserved(self.run, self.story)

    @property
    def committed_usd_micros(self) -> int:
        """The sum of what is spent and reserved."""
        return self.run.cost_usd_micros + self.reserved_usd_micros

    @property
    def money_line(self) -> MoneyLine:
        """The amounts of the header."""
        unconfirmed = self.story.total.unconfirmed if self.story is not None else 0
        return build_money_line(
            spent=self.run.cost_usd_micros,
            unconfirmed=unconfirmed,
            reserved=self.reserved_usd_micros,
            cap=self.cap_usd_micros,
        )

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
        """Sentence of the end."""
        if self.run.state in ANSWERED:
            return "warn"
        return "neutral" if self.run.state is RunState.CANCELLED else "danger"

    # -- what may be done, how it ended -------------------------------------------------------------------------------

    @property
    def holds(self) -> list[str]:
        """The acts that the run's state allows: names in ``run_control.HOLDS``."""
        return offered_holds(self.run)

    @property
    def again(self) -> ForkChoice | None:
        """Where to try again from. None: it goes on, it finished, or nothing of it can be kept."""
        run, story = self.run, self.story
        if story is None or not run.terminal or run.state in ANSWERED or run.erased or not run.reads:
            return None
        return next((one for one in list_fork_choices(story) if one.kept_words), None)

    @property
    def saves_scenario(self) -> bool:
        """True: something went wrong that a scenario can replay."""
        bad = self.run.state in (RunState.STOPPED, RunState.FAILED, RunState.ABORTED, RunState.CANCELLED)
        return self.run.reads and bool(self.fired_count or self.run.recovered or bad)

    @property
    def partial(self) -> bool:
        """True: the outcome has only what existed when the run was stopped."""
        return self.outcome is not None and self.run.state not in ANSWERED

    @property
    def verdict(self) -> str:
        """The end of the run as the beginning of a sentence. The reason follows it."""
        return {
            RunState.COMPLETED: "The run completed.",
            RunState.STOPPED: "The run was stopped early.",
            RunState.FAILED: "The run could not finish.",
            RunState.ABORTED: "The run was aborted.",
            RunState.CANCELLED: "The run was cancelled.",
        }.get(self.run.state, "")

    @property
    def advice(self) -> str:
        """The advice for the run's cause. Empty: there is none."""
        return write_advice(self.run)

    @property
    def decision(self) -> Decided | None:
        """The decision that the run's reason names; None: the reader may not read it, or no failure decided the end."""
        if self.story is None or not self.run.reads or self.run.state not in ADVISED:
            return None
        return find_decision(self.story.tries.decisions, self.run.reason)

    @property
    def tried(self) -> str:
        """The attempts before the run failed, and what was not tried and why, in sentences. Empty: nothing is known."""
        return tried_words(self.decision, self.run.fabric_name) if self.decision else ""

    @property
    def shared_budget(self) -> str:
        """The address of the shared budget that refused something in the decision. Empty: none did."""
        decision, story = self.decision, self.story
        if decision is None or story is None:
            return ""
        if any(shared_level(one.trip) for one in decision.skipped):
            return f"{reverse('budgets')}#retries"
        tripped = (story.tripped[key].record for key in SHARED_BUDGETS.values() if key in story.tripped)
        return f"{reverse('budgets')}#money" if any(one.message == decision.message for one in tripped) else ""

    @property
    def others(self) -> str:
        """The address of the runs of this fabric with the same reason. Empty: the reason begins with a number."""
        same = re.split(r"[\d\"\\]", self.run.reason)[0].strip()
        if self.decision is None or len(same) < ALIKE_CHARS_MIN:
            return ""
        return f"{reverse('runs')}?{urlencode({'q': f'fabric:{self.run.fabric_name} why:{chr(34)}{same}{chr(34)}'})}"

    @property
    def reason(self) -> str:
        """The reason, where it says more than the verdict. It is whole if the journal was folded, else cut."""
        folded = self.story.run if self.story is not None else None
        whole = folded.reason if folded is not None and self.run.terminal else ""
        reason = (whole if whole.startswith(self.run.reason) else self.run.reason).strip()
        return "" if reason == "finished" else reason
