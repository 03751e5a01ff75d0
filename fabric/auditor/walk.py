"""The auditor walks the engine's ladder again, on the run that the journal folds to.

1. The recorded causes become the failure again, in guard order.
2. The engine's ladder chooses (``reactions.decide``). A sentence of the engine against a rung holds.
3. Some rungs depend on facts outside the journal: shared budgets, other agents at work, a withheld call.
   There the auditor believes the journal, unless its own numbers contradict it (``numbers.py``, ``models.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from fabric.auditor import models, numbers
from fabric.auditor.ledger import DecisionCase, find_subject, list_passed_over
from fabric.core import events as ev
from fabric.core.budgets.grants import Lacking
from fabric.core.decision.work import Work
from fabric.core.ladders import ladder, routing
from fabric.core.ladders.choice import Choice, Why
from fabric.core.ladders.ladder import RungCase
from fabric.core.mechanisms import ORDER, failure_signature
from fabric.core.reactions import react
from fabric.core.rules.signatures import effective_limit
from fabric.core.spec.policies.decision_table import DIRECT, GRAVITY, Reaction, Rung
from fabric.core.spec.topologies.conversation import is_conversation
from fabric.core.state.context import MissingContent
from fabric.core.state.failure import Failure
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import CLASSIFY, Cause, Direct, FailureType, Tier

OPEN = frozenset(
    {
        Reaction.INJECT,
        Reaction.RETRY,
        Reaction.RETRY_NODE,
        Reaction.WAIT_FOR_BREAKER,
        Reaction.HANDOVER,
        Reaction.FALLBACK_MODEL,
        Reaction.CHEAPER_MODEL,
    }
)
"""Reactions that the engine may refuse for reasons outside the journal."""
BY_GRAPH = frozenset({Reaction.ROUTE, Reaction.GO_BACK})
"""Reactions that a conversation's graph decides about."""
AS_RECORDED = "the journal says so"
_RANK = {module.NAME: rank for rank, module in enumerate(ORDER)}


@dataclass(slots=True)
class Walk:
    """One walk judges each rung for the engine's ladder."""

    case: DecisionCase
    trips: tuple[ev.TripRecord, ...]
    """In guard order."""
    believed: dict[int, list[int]] = field(default_factory=dict)
    """By trip: rungs that the journal records as skipped, without a number that confirms it."""

    def judge(self, work: Work, failure: Failure, one: RungCase) -> Why:
        """Return the reason against a rung, or an empty text where it applies."""
        why = ask_engine(work, failure, one)
        if why is not None:
            return why
        fact = self.case.fact
        place = next(n for n, trip in enumerate(failure.trips) if trip is one.trip)
        decisive = next(n for n, trip in enumerate(self.trips) if trip is fact.cause)
        # Two calls of one answer that no budget has room for are alike.
        like = one.failure_type == fact.failure_type and one.trip.cause == fact.cause.cause
        if place != decisive and not like:
            return "" if self._is_milder(failure, one, behind=place > decisive) else AS_RECORDED
        told = one.index in self._recorded_rungs
        refused = self._confirms_refusal(one.index) if told else None
        if refused is False or not told:
            return ""
        if refused is None:
            self.believed.setdefault(place, []).append(one.index)
        return AS_RECORDED

    @property
    def _recorded_rungs(self) -> frozenset[int]:
        """Return the rungs that are recorded as skipped; before a last word, which records none, all of them."""
        case = self.case
        if react.has_last_word(case.ledger.run, case.failure(())):
            return frozenset(range(case.fact.rung))
        return frozenset(list_passed_over(case.ledger))

    def _confirms_refusal(self, index: int) -> bool | None:
        """Return True if the numbers of a recorded refusal confirm it; None: it has no such numbers."""
        case = self.case
        told = next((one for one in case.ledger.skipped if one.rung == index), None)
        if told is not None and told.weighed is not None:
            return models.judge_refusal(case, told.weighed, told.reaction)
        if told is None or told.trip is None:
            return None
        run = case.ledger.run
        return numbers.judge_refusal(numbers.Refusal(case.ledger.numbers, case.policy, run.tier, case.at, told.trip))

    def _is_milder(self, failure: Failure, one: RungCase, *, behind: bool) -> bool:
        """Return True if an open rung of a losing trip may apply without changing the decision.

        It loses to the decision, or to all rungs after it. The earlier mechanism wins a tie.
        """
        case, own = self.case, GRAVITY.index(one.rung.reaction)
        decided = GRAVITY.index(Reaction(case.fact.reaction))
        after = case.compiled.ladders.find_ladder(one.failure_type, case.ledger.run.tier, failure.stage).rungs[
            one.index + 1 :
        ]
        loses = own > decided or (own == decided and behind)
        return loses or own >= max(GRAVITY.index(rung.reaction) for rung in after)


def ask_engine(work: Work, failure: Failure, one: RungCase) -> str | None:
    """Return the engine's sentence against a rung, empty where it applies; None where no journal has the reason."""
    reaction = one.rung.reaction
    if reaction in BY_GRAPH and not is_conversation(work.compiled_fabric.spec.topology):
        return routing.NO_TURN
    withheld = reaction is Reaction.INJECT and bool(failure.step_id) and failure.issued is None
    try:
        why = ladder.why_not(work, replace(failure, blocked=withheld), one)
    except (Lacking, MissingContent):
        return None
    if isinstance(why, str) and (why or reaction not in OPEN):
        return why
    return None


@dataclass(frozen=True, slots=True)
class Walked:
    """The choice of the ladder, made again."""

    cause: ev.TripRecord
    choice: Choice
    believed: tuple[int, ...] = ()
    """Rungs that only the journal records as skipped."""

    @property
    def reaction(self) -> Reaction:
        """The reaction that follows."""
        return self.choice.rung.reaction


def walk_ladder(case: DecisionCase) -> Walked:
    """Return the choice that the recorded causes lead to, from all facts before the decision."""
    trips = tuple(sorted(case.trips, key=_guard_place))
    walk, failure = Walk(case, trips), case.failure(trips)
    choice = react.decide(case.work(), failure, walk.judge)
    place = next(n for n, trip in enumerate(failure.trips) if trip is choice.trip)
    return Walked(trips[place], choice, tuple(walk.believed.get(place, ())))


def comes_back(case: DecisionCase) -> bool:
    """Return True where a failure, or a tool's error, had come back too often."""
    ledger, policy = case.ledger, case.spec.policy
    failure = case.failure(tuple(trip for trip in case.trips if not says_came_back(trip)))
    if len(react.add_return(case.work(), failure).trips) > len(failure.trips):
        return True
    limit, step_id = effective_limit(policy.failure_signature.limit), case.fact.step_id
    if ledger.returned.get(step_id, 0) >= limit:
        return True
    return ledger.excused.get(step_id, 0) >= limit + policy.humans.failure_rounds


def says_came_back(trip: ev.TripRecord) -> bool:
    """Return True for the trip of a failure that came back. A blocked restart edge is no such trip."""
    return trip.mechanism == failure_signature.NAME and trip.cause is not Cause.RESTART_BLOCKED


def _guard_place(trip: ev.TripRecord) -> int:
    """Return the place in guard order. Trips of no mechanism follow, then repeated failures."""
    return len(_RANK) + 1 if says_came_back(trip) else _RANK.get(trip.mechanism, len(_RANK))


# -- other tiers -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Otherwise:
    """The reaction of another tier to an equal failure, met as often."""

    tier: Tier
    reaction: Reaction
    rung: int
    times: int | None
    rungs: tuple[Rung, ...]
    """Its ladder; one rung for a direct reaction."""


def compare_tiers(case: DecisionCase) -> list[Otherwise]:
    """Return the other tiers' reactions at the same count of this row's failures about the same thing."""
    fact = case.fact
    goes_to = CLASSIFY[fact.cause.cause].goes_to
    others = [tier for tier in Tier if tier != fact.tier]
    if isinstance(goes_to, Direct):
        said = [(tier, DIRECT[goes_to, tier]) for tier in others]
        return [Otherwise(tier, one, 0, None, (Rung(reaction=one),)) for tier, one in said]
    return [_otherwise(case, tier, goes_to) for tier in others]


def _otherwise(case: DecisionCase, tier: Tier, row: FailureType) -> Otherwise:
    left = case.ledger.rows[row, find_subject(case.fact)]
    rungs = case.compiled.ladders.find_ladder(row, tier, case.stage).rungs
    for index, rung in _list_applicable(case, tier, row):
        if index == len(rungs) - 1 or left < (rung.times or 0):
            return Otherwise(tier, rung.reaction, index, rung.times, rungs)
        left -= rung.times or 0
    raise AssertionError("a ladder without a last rung")  # Ladder's validator rules this out


def _list_applicable(case: DecisionCase, tier: Tier, row: FailureType) -> Iterator[tuple[int, Rung]]:
    """Yield the applicable rungs of another tier's ladder, and its last one."""
    work, failure = case.work(tier), case.failure((case.fact.cause,))
    rungs = case.compiled.ladders.find_ladder(row, tier, case.stage).rungs
    for index, rung in enumerate(rungs):
        one = RungCase(failure.trips[0], row, index, rung, 0)
        if index == len(rungs) - 1 or not ask_engine(work, failure, one):
            yield index, rung
