"""Takes each decision of a run again, under a draft's table and limits in place of the pinned ones.

The past of the run is taken as recorded. How often each rung was used is counted as the draft would have used it. So it
is exact up to the first decision that differs. After that the run would have gone another way: the rest says what the
draft makes of failures that it might never have met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from dataclasses import replace as with_fields

from fabric.auditor.comparison import CompiledOf
from fabric.auditor.ledger import DecisionCase, Ledger, note
from fabric.auditor.walk import Walked, ask_engine, comes_back, says_came_back, walk_ladder
from fabric.core import events as ev
from fabric.core.events.envelope import Event
from fabric.core.ladders.ladder import RungCase
from fabric.core.mechanisms import failure_signature
from fabric.core.rules.signatures import effective_limit
from fabric.core.spec.policies.decision_table import Accompaniment, Reaction, Rung
from fabric.core.state.context import CompiledFabric
from fabric.core.state.run import Run
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Cause, Evidence, FailureType, Tier

NO_FAILURE = "no failure"
"""The draft's word for a failure that came back too often for the earlier rules, and not for its own."""
NO_TEAM = "the draft has no worker that runs this topology of its own"


@dataclass(frozen=True, slots=True)
class Redecision:
    """One recorded decision, and the decision of other rules."""

    seq: int
    at: int
    fact: ev.ReactionDecided
    was: Rung | None
    """The rung that was taken, where the rules of then are at hand."""
    row: FailureType | None = None
    """The row of the new decision; None: a direct reaction, or none."""
    index: int = 0
    """The rung, from 0."""
    rung: Rung | None = None
    """None: no failure would have come of it, or it cannot be decided again."""
    reaction: Reaction | None = None
    assumed: bool = False
    """True: the journal cannot say that the rung would have applied, since it was not tried then."""
    why_not: str = ""
    """The reason why it cannot be decided again; empty: it was."""

    @property
    def differs(self) -> bool:
        """True where the draft has another reaction, role, accompaniment or word to the planner."""
        if self.why_not:
            return False
        if self.rung is None or self.reaction != self.fact.reaction:
            return True
        if set(self.rung.with_) != set(self.fact.accompanies):
            return True
        return self.was is not None and _read_options(self.was, self.reaction) != _read_options(
            self.rung, self.reaction
        )


def _read_options(rung: Rung, reaction: Reaction) -> tuple[str, bool]:
    """Return role and critic of a rung, as far as that reaction looks at them."""
    asks = reaction is Reaction.ESCALATE or Accompaniment.FOLLOW_UP in rung.with_
    return rung.role if asks else "", rung.critic and reaction is Reaction.REPLAN


def redecide(
    events: Iterable[Event], tier: Tier, draft: Callable[[str], CompiledFabric | None], then: CompiledOf
) -> Iterator[Redecision]:
    """Decide every recorded failure of a run under the draft's rules, in order.

    ``draft`` takes the worker whose topology a team's run has, empty for the fabric's own.
    It gives None where the draft has no such worker. ``then`` gives the rules that the run pinned.
    Raises ValueError for an event that does not follow.
    """
    ledger = Ledger(Run("", tier=tier))
    for event in events:
        fact, counted = event.fact, event
        if isinstance(fact, ev.ReactionDecided):
            run = ledger.run
            pinned = then(run.topology, fact.table, run.policy)
            one, as_counted = _redecide(ledger, event, fact, draft(run.topology), pinned)
            yield one
            counted = replace(event, fact=as_counted)
        note(ledger, counted)


def _redecide(
    ledger: Ledger, event: Event, fact: ev.ReactionDecided, compiled: CompiledFabric | None, then: CompiledFabric | None
) -> tuple[Redecision, ev.ReactionDecided]:
    """Return the decision, and the fact as it is counted from here on."""
    was = None if then is None else _find_rung(DecisionCase(ledger, then, fact, event.at))
    if compiled is None:
        return Redecision(event.seq, event.at, fact, was, why_not=NO_TEAM), fact
    case = DecisionCase(ledger, compiled, fact, event.at)
    if missing := _describe_missing(case):
        return Redecision(event.seq, event.at, fact, was, why_not=missing), fact
    met = _limit_causes(case)
    if met is None:
        return Redecision(event.seq, event.at, fact, was), fact
    seen = with_fields(ledger, skipped=list(_list_skipped_rungs(case, then)))
    case = DecisionCase(seen, compiled, met, event.at)
    won = walk_ladder(case)
    choice, reaction = won.choice, won.reaction
    assumed = reaction != fact.reaction and _is_open(case, won)
    found = Redecision(
        event.seq, event.at, fact, was, choice.failure_type, choice.rung_index, choice.rung, reaction, assumed
    )
    return found, replace(fact, failure_type=choice.failure_type, rung=choice.rung_index, scope=choice.scope)


def _find_rung(then: DecisionCase) -> Rung | None:
    fact = then.fact
    if fact.failure_type is None or then.compiled.table_version != fact.table:
        return None
    return then.compiled.ladders.find_ladder(fact.failure_type, fact.tier, then.stage).rungs[fact.rung]


def _describe_missing(case: DecisionCase) -> str:
    """Return the sentence about an agent or model that the draft has no more; empty: it has all."""
    spec, step, call = case.spec, case.step, case.ledger.model_call(case.fact.command_id)
    agents = {step.agent} - {""} if step is not None else set()
    if missing := agents - {agent.name for agent in spec.agents}:
        return f"the draft has no agent {min(missing)} any more"
    asked = {call.target} if call is not None else set()
    models = asked | ({step.model, step.stands_for} - {""} if step is not None else set())
    if missing := models - {model.name for model in spec.models}:
        return f"the draft has no model {min(missing)} any more"
    return ""


def _limit_causes(case: DecisionCase) -> ev.ReactionDecided | None:
    """Return the decision with the causes that the draft's limit on returns leaves it; None: it has none."""
    again, came = comes_back(case), any(map(says_came_back, case.trips))
    if again == came:
        return case.fact
    if again:
        limit = effective_limit(case.spec.policy.failure_signature.limit)
        evidence = Evidence(limit, limit, "failures", "run")
        message = failure_signature.came_back("", limit, limit, case.fact.cause.message)
        trip = ev.TripRecord(
            mechanism=failure_signature.NAME, cause=Cause.REPEATED_FAILURE, message=message, evidence=evidence
        )
        return replace(case.fact, causes=(*case.fact.causes, trip))
    left = [trip for trip in case.trips if not says_came_back(trip)]
    return replace(case.fact, cause=left[0], causes=tuple(left[1:])) if left else None


def _list_skipped_rungs(case: DecisionCase, then: CompiledFabric | None) -> Iterator[ev.RungSkipped]:
    """Yield the rungs that were passed over then, wherever their reactions stand in the draft's ladder."""
    tier, stage = case.ledger.run.tier, case.stage
    for one in case.ledger.skipped:
        rungs = case.compiled.ladders.find_ladder(one.failure_type, tier, stage).rungs
        if then is not None and then.ladders.find_ladder(one.failure_type, tier, stage).rungs == rungs:
            yield one
            continue
        yield from (replace(one, rung=n) for n, rung in enumerate(rungs) if rung.reaction == one.reaction)


def _is_open(case: DecisionCase, won: Walked) -> bool:
    """Return True where the journal leaves open that the rung which won applies."""
    choice = won.choice
    if choice.failure_type is None or choice.rung.times is None:
        return False
    failure = case.failure((won.cause,))
    rung = RungCase(failure.trips[0], choice.failure_type, choice.rung_index, choice.rung, choice.spent)
    return ask_engine(case.work(), failure, rung) is None
