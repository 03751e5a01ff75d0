"""Derived and recorded side by side: one verdict a decision, with every field in which the two differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from fabric.core import events as ev
from fabric.core.derivation.ledger import Ledger, last_word, noted, passed_over
from fabric.core.derivation.numbers import Scheduled, carried_out
from fabric.core.derivation.walk import ENDS, Otherwise, Rules, came_back, derive, otherwise, repeats
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


RulesOf = Callable[[str, str], Rules | None]
"""Takes the worker whose topology a nested child runs and a table's version, gives the rules; None: that table is not at hand."""


def derived_all(events: Iterable[Event], tier: Tier, rules_of: RulesOf) -> list[Derived]:
    """Every decision of a run, in order. ``tier``: of its row, for what came before its first event."""
    ledger, found = Ledger(tier), []
    for event in events:
        fact = event.fact
        if isinstance(fact, ev.ReactionDecided):
            found.append(derived_one(ledger, event, rules_of(ledger.topology, fact.table)))
        elif isinstance(fact, Scheduled) and found and _is_of(found[-1].fact, fact):
            found[-1] = _with(found[-1], derived_retry(ledger, fact, rules_of(ledger.topology, found[-1].fact.table)))
        noted(ledger, fact)
    return found


def _is_of(decided: ev.ReactionDecided, fact: Scheduled) -> bool:
    if isinstance(fact, ev.NodeRetryScheduled):
        return decided.step_id == fact.step_id
    return decided.command_id == fact.command_id


def derived_retry(ledger: Ledger, fact: Scheduled, rules: Rules | None) -> list[Difference]:
    """What a retry that was decided rests on, against the ledger of all facts before it; nothing where the fabric is not at hand."""
    if rules is None or rules.spec is None:
        return []
    pairs = carried_out(ledger.numbers, rules.spec.policy, ledger.tier, fact)
    return [Difference(name, _said(a), _said(b)) for name, (a, b) in pairs.items() if a != b]


def _with(one: Derived, more: list[Difference]) -> Derived:
    if not more or one.verdict == "other_table":
        return one
    return replace(one, verdict="different", differences=(*one.differences, *more))


def derived_one(ledger: Ledger, event: Event, rules: Rules | None) -> Derived:
    """One decision against the ledger of all facts before it."""
    fact: Any = event.fact
    told = passed_over(ledger)
    if rules is None or rules.version != fact.table:
        skipped = tuple((rung, why, False) for rung, why in told.items())
        return Derived(event.seq, event.at, fact, "other_table", (), skipped, ())
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
    differ = [Difference(name, _said(a), _said(b)) for name, (a, b) in pairs.items() if a != b]
    if pairs["came back"][1] is None:
        differ = [one for one in differ if one.field != "came back"]
    skipped = tuple((rung, why, rung not in won.recorded) for rung, why in told.items())
    others = tuple(otherwise(ledger, rules, fact))
    return Derived(event.seq, event.at, fact, "different" if differ else "equal", tuple(differ), skipped, others)


def _came_back(fact: ev.ReactionDecided) -> bool:
    return any(came_back(trip) for trip in (fact.cause, *fact.causes))


def _numbers(rungs: Iterable[int]) -> str:
    return ", ".join(str(rung + 1) for rung in rungs)


def _said(given: object) -> str:
    return "none" if given is None or given == "" else str(given)
