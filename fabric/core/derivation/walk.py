"""The walk from trips to a reaction, written a second time: row, cell, rungs spent and passed over, the gravest of several.

It shares the table and the classification with ``ladder.py`` and nothing else. What the journal decides about a rung is derived (``RUNGS``).
Some rungs were judged on numbers that the journal has: a clock, a retry token, a cap. Those numbers are judged again (``numbers.py``).
The rest is taken as the journal recorded it, with the reason that stands there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fabric.core import events as ev
from fabric.core.decision_table import (
    DIRECT,
    GRAVITY,
    CountScope,
    Reaction,
    Rung,
)
from fabric.core.derivation import models, numbers
from fabric.core.derivation.asked import Asked, Rules, stage_of
from fabric.core.derivation.ledger import Ledger, last_word, passed_over_before, signature_of
from fabric.core.derivation.rungs import RUNGS, goes_back, is_poll, wait_named
from fabric.core.flow import Stage
from fabric.core.mechanisms import ORDER, failure_signature
from fabric.core.retry_layers import by_edge, unrouted
from fabric.core.signatures import effective_limit, visit_of
from fabric.core.taxonomy import CLASSIFY, Cause, Direct, FailureType, Tier

ENDS = frozenset({Reaction.HALT, Reaction.ABORT, Reaction.ESCALATE, Reaction.SURFACE, Reaction.SAFE_FALLBACK})
_RANK = {module.NAME: rank for rank, module in enumerate(ORDER)}


@dataclass(frozen=True, slots=True)
class Walked:
    """What the table says about one trip."""

    trip: ev.TripRecord
    row: FailureType | None
    index: int
    rung: Rung
    scope: str
    spent: int
    skipped: tuple[int, ...] = ()
    recorded: tuple[int, ...] = field(default=(), compare=False)
    """Of those passed over, the ones whose reason the journal does not hold the numbers of."""


def derive(ledger: Ledger, rules: Rules, fact: ev.ReactionDecided, at: int) -> tuple[Walked, Reaction]:
    """The walk that wins and the reaction, from what the decision recorded of its trips, its step and its call, when, and from all facts before it."""
    trips = sorted((fact.cause, *fact.causes), key=_stands)
    stands = next(n for n, trip in enumerate(trips) if trip is fact.cause)
    walks = [
        _walk(Asked(ledger, rules, fact, trip, ledger.tier, at), own=trip is fact.cause, behind=n > stands)
        for n, trip in enumerate(trips)
    ]
    won = min(walks, key=lambda walk: GRAVITY.index(walk.rung.reaction))
    return won, _final(ledger, rules, fact, won)


def repeats(ledger: Ledger, rules: Rules, fact: ev.ReactionDecided) -> bool:
    """Whether a failure, or a tool's error, had come back too often: its return is then a cause of its own.

    Since a person spoke it may come back as often as people are asked, and no more.
    """
    trips = (fact.cause, *fact.causes)
    limit, rounds = effective_limit(rules.spec.policy.failure_signature.limit), rules.spec.policy.humans.failure_rounds
    about = ledger.node(fact.step_id, stage_of(ledger, fact))
    keys = (signature_of(about, trip.cause, trip.message) for trip in trips if not came_back(trip))
    visit = visit_of(fact.command_id, fact.step_id)
    came = {key: ledger.signatures[key] + 1 for key in keys if key and not (visit and ledger.told.get(key) == visit)}
    if any(times >= limit for key, times in came.items() if key not in ledger.heard):
        return True
    if ledger.returned.get(fact.step_id, 0) >= limit:
        return True
    return any(times >= limit + rounds for times in (*came.values(), ledger.excused.get(fact.step_id, 0)))


def came_back(trip: ev.TripRecord) -> bool:
    """Whether it says that a failure came back. A port may give its cause as well: that is a failure like any, and so is a restart edge that is blocked."""
    return trip.mechanism == failure_signature.NAME and trip.cause is not Cause.RESTART_BLOCKED


def _stands(trip: ev.TripRecord) -> int:
    """Guard order; what no mechanism judged comes after, and a failure that came back after that."""
    return len(_RANK) + 1 if came_back(trip) else _RANK.get(trip.mechanism, len(_RANK))


def _walk(asked: Asked, *, own: bool, behind: bool) -> Walked:
    """What one trip leads to. ``own``: it is the one that was decided on; ``behind``: it stands after that one."""
    ledger, fact, trip = asked.ledger, asked.fact, asked.trip
    goes_to = CLASSIFY[trip.cause].goes_to
    if isinstance(goes_to, Direct):
        back = trip.cause is Cause.GOAL_UNMET and goes_back(asked)
        rung = Rung(reaction=Reaction.REPLAN if back else DIRECT[goes_to, ledger.tier])
        return Walked(trip, None, 0, rung, _scope(ledger, fact, CountScope.STAGE), 0)
    rungs = _rungs(asked, goes_to)
    # What the journal says of the cause that won it says of each that is its like: two calls of one answer that no budget has room for.
    own = own or (goes_to == fact.failure_type and trip.cause == fact.cause.cause)
    told = passed_over_before(ledger, fact) if own or goes_to == fact.failure_type else frozenset()
    skipped: list[int] = []
    recorded: list[int] = []
    for index, rung in enumerate(rungs):
        scope = _scope(ledger, fact, rung.counted_per)
        spent = ledger.uses[goes_to, index, scope]
        if index == len(rungs) - 1:
            break
        if rung.times is not None and spent >= rung.times and not _endless(asked, rung):
            continue
        applies = _applies(asked, rung)
        if applies is None:
            refused = _refused(asked, index) if own and index in told else None
            applies = refused is False or (
                index not in told if own else _milder(fact, rung, rungs[index + 1 :], behind=behind)
            )
            recorded += [] if applies or refused else [index]
        if applies:
            break
        skipped.append(index)
    return Walked(trip, goes_to, index, rung, scope, spent, tuple(skipped), tuple(recorded))


def _endless(asked: Asked, rung: Rung) -> bool:
    """Returns True for a wait that the endpoint named; those are not counted."""
    return rung.reaction is Reaction.WAIT_FOR_BREAKER and wait_named(asked)


def _refused(asked: Asked, index: int) -> bool | None:
    """Whether the numbers of a recorded refusal bear it out; None: it has none, or none that can be judged here."""
    told = next((one for one in asked.ledger.skipped if one.rung == index), None)
    if told is not None and told.weighed is not None:
        return models.refuses(asked, told.weighed, told.reaction)
    if told is None or told.trip is None:
        return None
    return numbers.refuses(numbers.Judged(asked.ledger.numbers, asked.policy, asked.ledger.tier, asked.at, told.trip))


def _milder(fact: ev.ReactionDecided, rung: Rung, after: tuple[Rung, ...], *, behind: bool) -> bool:
    """Of a trip that lost, a rung that the journal leaves open: it is taken to apply where it loses as well, to what was decided or to all that comes after it.

    What is as grave as what was decided loses to it where its trip stands behind: ties go to the mechanism that stands earlier.
    """
    own, decided = GRAVITY.index(rung.reaction), GRAVITY.index(fact.reaction)
    loses = own > decided or (own == decided and behind)
    return loses or own >= max(GRAVITY.index(one.reaction) for one in after)


def _rungs(asked: Asked, row: FailureType) -> tuple[Rung, ...]:
    return asked.rules.ladders.at(row, asked.tier, Stage(stage_of(asked.ledger, asked.fact))).rungs


def _applies(asked: Asked, rung: Rung) -> bool | None:
    step, row = asked.ledger.steps.get(asked.fact.step_id), CLASSIFY[asked.trip.cause]
    if (row.last_rung and not by_edge(rung)) or (step is not None and step.approved):
        return False
    if unrouted(rung, row.error_class):
        return False
    return is_poll(asked) if rung.poll else RUNGS[rung.reaction](asked)


def _scope(ledger: Ledger, fact: ev.ReactionDecided, per: CountScope) -> str:
    if per is CountScope.CALL and fact.command_id:
        return f"call:{fact.command_id}"
    if per is CountScope.CALL and fact.step_id:
        return f"step:{fact.step_id.rpartition('.r')[0]}"
    if per is CountScope.NODE and fact.step_id:
        return f"step:{fact.step_id.rpartition('.r')[0]}"
    if per is CountScope.STEP and fact.step_id:
        return f"step:{fact.step_id.partition('.e')[0]}"
    return f"stage:{stage_of(ledger, fact)}"


def _final(ledger: Ledger, rules: Rules, fact: ev.ReactionDecided, won: Walked) -> Reaction:
    """The rung's reaction, or what stands for it: an answer that was the last one is not tried again, a person is not asked for ever."""
    if last_word(ledger, fact) and won.rung.reaction not in ENDS:
        return Reaction.SURFACE
    # Of a child that ended in doubt there is no result to let pass: a person is asked about the step, as about any failure.
    unsure = won.trip.cause is Cause.BELOW_TAU and not fact.step_id
    if won.rung.reaction is not Reaction.ESCALATE or unsure:
        return won.rung.reaction
    step = ledger.steps.get(fact.step_id)
    stage = stage_of(ledger, fact)
    asked = ledger.rounds[f"{stage}.{step.branch}" if step is not None else stage]
    return Reaction.ABORT if asked >= rules.spec.policy.humans.failure_rounds else Reaction.ESCALATE


# -- other tiers -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Otherwise:
    """What another tier would have done about the same failure, met as often."""

    tier: Tier
    reaction: Reaction
    rung: int
    times: int | None
    rungs: tuple[Rung, ...]
    """Its ladder; one rung for a direct reaction."""


def otherwise(ledger: Ledger, rules: Rules, fact: ev.ReactionDecided) -> list[Otherwise]:
    """The other tiers' reactions at the same count of this row's failures about the same thing. ``ledger``: before the decision."""
    goes_to = CLASSIFY[fact.cause.cause].goes_to
    others = [tier for tier in Tier if tier != fact.tier]
    if isinstance(goes_to, Direct):
        said = [(tier, DIRECT[goes_to, tier]) for tier in others]
        return [Otherwise(tier, one, 0, None, (Rung(reaction=one),)) for tier, one in said]
    left = ledger.rows[goes_to, ledger.about(fact.step_id, fact.scope)]
    return [_otherwise(Asked(ledger, rules, fact, fact.cause, tier), goes_to, left) for tier in others]


def _otherwise(asked: Asked, row: FailureType, left: int) -> Otherwise:
    rungs = _rungs(asked, row)
    for index, rung in enumerate(rungs):
        last = index == len(rungs) - 1
        if last or (_applies(asked, rung) is not False and left < (rung.times or 0)):
            return Otherwise(asked.tier, rung.reaction, index, rung.times, rungs)
        if _applies(asked, rung) is not False:
            left -= rung.times or 0
    raise AssertionError("a ladder without a last rung")  # Ladder's validator rules this out
