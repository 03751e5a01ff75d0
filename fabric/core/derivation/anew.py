"""The decisions of a run, taken again under other rules: what a draft of its fabric would have done about each failure that was recorded.

It is the derivation of ``walk.py`` with the draft's table and limits in place of those that the run pinned. What the run was is taken as recorded; how often
each rung was used is counted as the draft would have used it. So it is exact up to the first decision of a run that differs. From there on the run would have
gone another way. What follows says what the draft makes of failures that it might never have met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from dataclasses import replace as with_fields

from fabric.core import events as ev
from fabric.core.decision_table import Accompaniment, Reaction, Rung
from fabric.core.derivation import ledger as ledgers
from fabric.core.derivation import numbers, purse
from fabric.core.derivation.asked import Asked, Rules, stage_of
from fabric.core.derivation.compare import RulesOf
from fabric.core.derivation.ledger import Ledger, noted
from fabric.core.derivation.rungs import RUNGS
from fabric.core.derivation.walk import Walked, came_back, derive, repeats
from fabric.core.envelope import Event
from fabric.core.flow import Stage
from fabric.core.frozen import replace
from fabric.core.mechanisms import failure_signature
from fabric.core.signatures import effective_limit
from fabric.core.taxonomy import Cause, FailureType, Tier
from fabric.core.verdict import Evidence

KINDS: frozenset[str] = frozenset(
    {"reaction_decided", "rung_skipped", *ledgers.TAKES, *numbers.TAKES, *purse.TAKES},
)
"""Kinds of events that a decision hangs on: the others need not be read."""
NO_FAILURE = "no failure"
"""What the draft makes of a failure that came back often enough for the rules of then, and not for its own."""


@dataclass(frozen=True, slots=True)
class Anew:
    """One recorded decision, and what other rules make of it."""

    seq: int
    at: int
    fact: ev.ReactionDecided
    was: Rung | None
    """The rung that was taken, where the rules of then are at hand."""
    row: FailureType | None
    """Of the decision as it would be; None: a direct reaction, or none."""
    index: int
    """The rung, from 0."""
    rung: Rung | None
    """None: no failure would have come of it, or it cannot be decided again."""
    reaction: Reaction | None
    assumed: bool = False
    """Whether the journal cannot say that the rung would have applied: it was not tried then."""
    why_not: str = ""
    """Why it cannot be decided again; empty: it was."""

    @property
    def differs(self) -> bool:
        """Whether something else would have been done: another reaction, other things with it, another person asked, another word to the planner."""
        if self.why_not:
            return False
        if self.rung is None or self.reaction != self.fact.reaction:
            return True
        if set(self.rung.with_) != set(self.fact.accompanies):
            return True
        return self.was is not None and _said(self.was, self.reaction) != _said(self.rung, self.reaction)


def _said(rung: Rung, reaction: Reaction) -> tuple[str, bool]:
    """What a rung says beside its reaction, as far as that reaction looks at it."""
    asks = reaction is Reaction.ESCALATE or Accompaniment.TICKET in rung.with_
    return rung.role if asks else "", rung.critic and reaction is Reaction.REPLAN


def decided_anew(
    events: Iterable[Event], tier: Tier, draft: Callable[[str], Rules | None], then: RulesOf
) -> Iterator[Anew]:
    """Every decision of a run in order, under the draft's rules. ``events``: at least those of ``KINDS``. ``draft``: takes the worker whose topology a nested
    child runs, empty for the fabric's own; None: the draft has no such worker. ``then``: the rules that the run pinned.
    """
    ledger = Ledger(tier)
    for event in events:
        fact = event.fact
        if isinstance(fact, ev.ReactionDecided):
            one = _anew(ledger, event, draft(ledger.topology), then(ledger.topology, fact.table, ledger.policy))
            yield one[0]
            fact = one[1]
        noted(ledger, fact)


def _anew(ledger: Ledger, event: Event, rules: Rules | None, then: Rules | None) -> tuple[Anew, ev.ReactionDecided]:
    """The decision, and the fact as it is counted from here on."""
    fact: ev.ReactionDecided = event.fact  # type: ignore[assignment]
    was = _rung_of(ledger, fact, then)
    why_not = (
        "the draft has no worker that runs this topology of its own" if rules is None else _gone(ledger, rules, fact)
    )
    if rules is None or why_not:
        return Anew(event.seq, event.at, fact, was, None, 0, None, None, why_not=why_not), fact
    met = _met(ledger, rules, fact)
    if met is None:
        return Anew(event.seq, event.at, fact, was, None, 0, None, None), fact
    seen = with_fields(ledger, skipped=list(_placed(ledger, met, rules, then)))
    won, reaction = derive(seen, rules, met, event.at)
    assumed = reaction != fact.reaction and _open(Asked(seen, rules, met, won.trip, ledger.tier, event.at), won)
    found = Anew(event.seq, event.at, fact, was, won.row, won.index, won.rung, reaction, assumed)
    return found, replace(fact, failure_type=won.row, rung=won.index, scope=won.scope)


def _rung_of(ledger: Ledger, fact: ev.ReactionDecided, then: Rules | None) -> Rung | None:
    if then is None or fact.failure_type is None or then.version != fact.table:
        return None
    return then.ladders.at(fact.failure_type, fact.tier, Stage(stage_of(ledger, fact))).rungs[fact.rung]


def _gone(ledger: Ledger, rules: Rules, fact: ev.ReactionDecided) -> str:
    """What the decision was about and the draft has no more; empty: nothing."""
    spec = rules.spec
    step, call = ledger.steps.get(fact.step_id), ledger.issued.get(fact.command_id)
    agents = {step.agent} - {""} if step is not None else set()
    if missing := agents - {agent.name for agent in spec.agents}:
        return f"the draft has no agent {min(missing)} any more"
    asked = {call.target} if call is not None else set()
    models = asked | ({step.model, step.stands_for} - {""} if step is not None else set())
    if missing := models - {model.name for model in spec.models}:
        return f"the draft has no model {min(missing)} any more"
    return ""


def _met(ledger: Ledger, rules: Rules, fact: ev.ReactionDecided) -> ev.ReactionDecided | None:
    """The decision with the causes that it would have had: how often a failure may come back is derived again. None: it would have had none."""
    comes_back, came = repeats(ledger, rules, fact), any(map(came_back, (fact.cause, *fact.causes)))
    if comes_back == came:
        return fact
    if comes_back:
        limit = effective_limit(rules.spec.policy.failure_signature.limit)
        evidence = Evidence(limit, limit, "failures", "run")
        message = failure_signature.came_back("", limit, limit, fact.cause.message)
        trip = ev.TripRecord(
            mechanism=failure_signature.NAME, cause=Cause.REPEATED_FAILURE, message=message, evidence=evidence
        )
        return replace(fact, causes=(*fact.causes, trip))
    left = [trip for trip in (fact.cause, *fact.causes) if not came_back(trip)]
    return replace(fact, cause=left[0], causes=tuple(left[1:])) if left else None


def _placed(ledger: Ledger, fact: ev.ReactionDecided, rules: Rules, then: Rules | None) -> Iterator[ev.RungSkipped]:
    """The rungs that were passed over then, as rungs of the draft's ladder: what spoke against a reaction speaks against it wherever it stands."""
    for one in ledger.skipped:
        stage = Stage(stage_of(ledger, fact))
        rungs = rules.ladders.at(one.failure_type, ledger.tier, stage).rungs
        if then is not None and then.ladders.at(one.failure_type, ledger.tier, stage).rungs == rungs:
            yield one
            continue
        yield from (replace(one, rung=n) for n, rung in enumerate(rungs) if rung.reaction == one.reaction)


def _open(asked: Asked, won: Walked) -> bool:
    """Whether the journal leaves open that the rung that won applies."""
    if won.row is None or won.rung.times is None:
        return False
    return RUNGS[won.rung.reaction](asked) is None
