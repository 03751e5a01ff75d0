"""Derived and recorded side by side: one verdict a decision, with every field in which the two differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from fabric.core import events as ev
from fabric.core.decision_table import Reaction
from fabric.core.derivation.asked import Asked, Rules
from fabric.core.derivation.counts import counted
from fabric.core.derivation.ledger import Ledger, last_word, noted, passed_over
from fabric.core.derivation.models import Pairs, changed, offered
from fabric.core.derivation.retries import carried_out
from fabric.core.derivation.walk import ENDS, Otherwise, came_back, derive, otherwise, repeats
from fabric.core.envelope import Event
from fabric.core.retry_layers import layer_of
from fabric.core.taxonomy import Tier

Verdict = Literal["equal", "different", "other_table"]
"""``other_table``: it was taken under a table that is not the one at hand, so it cannot be derived."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field of a decision: what the journal says of it, and what follows from the journal."""

    field: str
    recorded: str
    derived: str


@dataclass(frozen=True, slots=True)
class Derived:
    """One decision of a run, derived again."""

    seq: int
    at: int
    fact: ev.ReactionDecided
    verdict: Verdict
    differences: tuple[Difference, ...]
    skipped: tuple[tuple[int, str, bool], ...]
    """Rungs passed over: number from 0, the recorded reason, and whether the journal alone says so; else its reason was taken as recorded."""
    others: tuple[Otherwise, ...]
    """What the other tiers would have done; empty where the table is not at hand."""
    judged: tuple[str, ...] = ()
    """What of its being carried out was judged again: names of numbers."""
    policy: int = 0
    """The version of the workspace's policy that held; 0: none."""


RulesOf = Callable[[str, str, int], Rules | None]
"""Takes the worker whose topology a nested child runs, a table's version and a policy's, gives the rules; None: that table is not at hand."""


def derived_all(events: Iterable[Event], tier: Tier, rules_of: RulesOf) -> list[Derived]:
    """Every decision of a run, in order. ``tier``: of its row, for what came before its first event."""
    ledger, found = Ledger(tier), []
    for event in events:
        fact = event.fact
        if isinstance(fact, ev.ReactionDecided):
            found.append(derived_one(ledger, event, rules_of(ledger.topology, fact.table, ledger.policy)))
        elif found and follows(found[-1].fact, fact):
            decided, rules = found[-1].fact, rules_of(ledger.topology, found[-1].fact.table, ledger.policy)
            found[-1] = _with(found[-1], carrying_out(ledger, decided, event, rules))
        noted(ledger, fact)
    return found


def follows(decided: ev.ReactionDecided, fact: Any) -> bool:
    """Whether a fact carries out a decision with numbers of its own: a retry, another model, a question that offers one."""
    match fact.kind:
        case "retry_scheduled":
            return bool(decided.command_id == fact.command_id)
        case "node_retry_scheduled":
            return bool(decided.step_id == fact.step_id)
        case "model_changed":
            return not fact.actor and (decided.step_id, decided.reaction) == (fact.step_id, fact.reason)
        case "escalation_opened":
            return fact.item == "failure" and (decided.step_id, decided.reaction) == (fact.step_id, Reaction.ESCALATE)
    return False


def carrying_out(ledger: Ledger, decided: ev.ReactionDecided, event: Event, rules: Rules | None) -> Pairs:
    """What such a fact rests on, against the ledger of all facts before it; nothing where the fabric is not at hand. ``decided``: what it carries out."""
    fact: Any = event.fact
    if rules is None:
        return {}
    asked = Asked(ledger, rules, decided, decided.cause, ledger.tier, event.at)
    match fact.kind:
        case "model_changed":
            return changed(asked, fact)
        case "escalation_opened":
            return offered(asked, fact)
    return carried_out(ledger, rules.spec, fact)


def differing(pairs: Pairs) -> list[Difference]:
    """The fields in which the two are not the same."""
    return [Difference(name, _said(a), _said(b)) for name, (a, b) in pairs.items() if a != b]


def _with(one: Derived, pairs: Pairs) -> Derived:
    if not pairs or one.verdict == "other_table":
        return one
    one, more = replace(one, judged=(*one.judged, *pairs)), differing(pairs)
    return replace(one, verdict="different", differences=(*one.differences, *more)) if more else one


def derived_one(ledger: Ledger, event: Event, rules: Rules | None) -> Derived:
    """One decision against the ledger of all facts before it."""
    fact: Any = event.fact
    told = passed_over(ledger)
    if rules is None or rules.version != fact.table:
        skipped = tuple((rung, why, False) for rung, why in told.items())
        return Derived(event.seq, event.at, fact, "other_table", (), skipped, (), policy=ledger.policy)
    won, reaction = derive(ledger, rules, fact, event.at)
    cut_short = last_word(ledger, fact) and won.rung.reaction not in ENDS
    pairs = {
        "cause": (f"{fact.cause.mechanism}: {fact.cause.cause}", f"{won.trip.mechanism}: {won.trip.cause}"),
        "row": (fact.failure_type, won.row),
        "tier": (fact.tier, ledger.tier),
        "rung": (fact.rung, won.index),
        "reaction": (fact.reaction, reaction),
        "layer": (fact.layer, layer_of(won.rung)),
        "scope": (fact.scope, won.scope),
        "spent": (fact.spent, won.spent),
        "bound": (fact.bound, won.rung.times),
        "with it": (", ".join(fact.accompanies), ", ".join(won.rung.with_)),
        "passed over": (_numbers(sorted(told)), _numbers(() if cut_short else won.skipped)),
        "came back": (_came_back(fact), repeats(ledger, rules, fact)),
    }
    counts = counted(ledger, rules.spec, fact)
    differ = differing(pairs | counts)
    skipped = tuple((rung, why, rung not in won.recorded) for rung, why in told.items())
    others = tuple(otherwise(ledger, rules, fact))
    verdict: Verdict = "different" if differ else "equal"
    return Derived(event.seq, event.at, fact, verdict, tuple(differ), skipped, others, tuple(counts), ledger.policy)


def _came_back(fact: ev.ReactionDecided) -> bool:
    return any(came_back(trip) for trip in (fact.cause, *fact.causes))


def _numbers(rungs: Iterable[int]) -> str:
    return ", ".join(str(rung + 1) for rung in rungs)


def _said(given: object) -> str:
    return "none" if given is None or given == "" else str(given)
