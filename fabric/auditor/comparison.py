"""Compares each recorded decision with the derived one, and names every field in which the two differ.

1. Counts again what a limit stopped: turns of a step, handovers of a run, visits of a node. The limits are those of the
   pinned revision.
2. Judges a scheduled retry again: its token, the tokens that it leaves, and its time. Tokens are in the bucket of the
   run and in those that runs share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from fabric.auditor.ledger import DecisionCase, Ledger, list_passed_over, note
from fabric.auditor.models import Pairs, judge_change, judge_offer
from fabric.auditor.numbers import TAKES_NO_TOKEN, UNITS, Scheduled, needed_s, stage_of_retry
from fabric.auditor.walk import Otherwise, comes_back, compare_tiers, says_came_back, walk_ladder
from fabric.core import events as ev
from fabric.core.budgets.grants import FABRIC, PROVIDER_BUCKET
from fabric.core.decision.slices import is_slice
from fabric.core.events.envelope import Event
from fabric.core.spec.endpoints import provider_scope
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.decision_table import Reaction
from fabric.core.spec.policies.limits import Limits
from fabric.core.spec.retry_layers import find_layer
from fabric.core.state.context import CompiledFabric
from fabric.core.state.run import Run
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import Cause, Tier
from fabric.core.values.units import US

Verdict = Literal["equal", "different", "other_table"]
"""``other_table``: it was taken under a table that is not at hand, so it cannot be derived."""


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
    """Rungs passed over: number from 0, recorded reason, and True where that is derived and not believed."""
    others: tuple[Otherwise, ...]
    """The reactions of the other tiers; empty where the table is not at hand."""
    judged: tuple[str, ...] = ()
    """Numbers that were judged again, by name."""
    policy: int = 0
    """The version of the workspace's policy in force; 0: none."""


CompiledOf = Callable[[str, str, int], CompiledFabric | None]
"""Takes the worker whose topology the run runs, a table's version and a policy's.

Gives the fabric as the run sees it; None: it is not at hand.
"""


def derive_all(events: Iterable[Event], tier: Tier, compiled_of: CompiledOf) -> list[Derived]:
    """Derive every decision of a run, in order. ``tier``: of its row, for what came before its first event.

    Raises ValueError where an event does not follow from those before it.
    """
    ledger, found = Ledger(Run("", tier=tier)), []
    for event in events:
        fact, run = event.fact, ledger.run
        if isinstance(fact, ev.ReactionDecided):
            found.append(derive_one(ledger, event, compiled_of(run.topology, fact.table, run.policy)))
        elif found and carries_out(found[-1].fact, fact):
            decided = found[-1].fact
            compiled = compiled_of(run.topology, decided.table, run.policy)
            found[-1] = _add_differences(found[-1], judge_carrying_out(ledger, decided, event, compiled))
        note(ledger, event)
    return found


def carries_out(decided: ev.ReactionDecided, fact: Any) -> bool:
    """Return True where a fact carries a decision out by numbers: a retry, another model, a review that offers one."""
    match fact.kind:
        case "retry_scheduled":
            return bool(decided.command_id == fact.command_id)
        case "node_retry_scheduled":
            return bool(decided.step_id == fact.step_id)
        case "model_changed":
            return not fact.actor and (decided.step_id, decided.reaction) == (fact.step_id, fact.reason)
        case "review_opened":
            return fact.item == "failure" and (decided.step_id, decided.reaction) == (fact.step_id, Reaction.ESCALATE)
    return False


def judge_carrying_out(
    ledger: Ledger, decided: ev.ReactionDecided, event: Event, compiled: CompiledFabric | None
) -> Pairs:
    """Return such a fact's fields, as recorded and as they follow; empty where the fabric is not at hand."""
    fact: Any = event.fact
    if compiled is None:
        return {}
    case = DecisionCase(ledger, compiled, decided, event.at)
    match fact.kind:
        case "model_changed":
            return judge_change(case, fact)
        case "review_opened":
            return judge_offer(case, fact)
    return judge_retry(ledger, compiled.spec, fact)


def list_differences(pairs: Pairs) -> list[Difference]:
    """Return the fields in which the recorded and the derived differ."""
    return [Difference(name, _spell_value(a), _spell_value(b)) for name, (a, b) in pairs.items() if a != b]


def _add_differences(one: Derived, pairs: Pairs) -> Derived:
    if not pairs or one.verdict == "other_table":
        return one
    one, more = replace(one, judged=(*one.judged, *pairs)), list_differences(pairs)
    return replace(one, verdict="different", differences=(*one.differences, *more)) if more else one


def derive_one(ledger: Ledger, event: Event, compiled: CompiledFabric | None) -> Derived:
    """Derive one decision. ``ledger``: of all facts before it."""
    fact: Any = event.fact
    told, policy = list_passed_over(ledger), ledger.run.policy
    if compiled is None or compiled.table_version != fact.table:
        skipped = tuple((rung, why, False) for rung, why in told.items())
        return Derived(event.seq, event.at, fact, "other_table", (), skipped, (), policy=policy)
    case = DecisionCase(ledger, compiled, fact, event.at)
    won = walk_ladder(case)
    choice, rung = won.choice, won.choice.rung
    pairs = {
        "cause": (f"{fact.cause.mechanism}: {fact.cause.cause}", f"{won.cause.mechanism}: {won.cause.cause}"),
        "row": (fact.failure_type, choice.failure_type),
        "tier": (fact.tier, ledger.run.tier),
        "rung": (fact.rung, choice.rung_index),
        "reaction": (fact.reaction, won.reaction),
        "layer": (fact.layer, find_layer(rung)),
        "scope": (fact.scope, choice.scope),
        "spent": (fact.spent, choice.spent),
        "bound": (fact.bound, rung.times),
        "with it": (", ".join(fact.accompanies), ", ".join(rung.with_)),
        "passed over": (_numbers(sorted(told)), _numbers(one.rung for one in choice.skipped)),
        "came back": (any(map(says_came_back, case.trips)), comes_back(case)),
    }
    counts = judge_counts(ledger, compiled.spec, fact)
    differ = list_differences(pairs | counts)
    skipped = tuple((rung, why, rung not in won.believed) for rung, why in told.items())
    verdict: Verdict = "different" if differ else "equal"
    others = tuple(compare_tiers(case))
    return Derived(event.seq, event.at, fact, verdict, tuple(differ), skipped, others, tuple(counts), policy)


def _numbers(rungs: Iterable[int]) -> str:
    return ", ".join(str(rung + 1) for rung in rungs)


def _spell_value(given: object) -> str:
    return "none" if given is None or given == "" else str(given)


MECHANISM = "hop_limit"
Count = tuple[int, int | None]
"""The count with the refused one, and the limit; None: there is no limit."""


def judge_counts(ledger: Ledger, spec: FabricSpec, fact: ev.ReactionDecided) -> dict[str, tuple[Any, Any]]:
    """Return each recorded count of a decision's trips beside the count that follows from the journal, by unit."""
    return dict(_judge_counts(ledger, spec, fact))


def _judge_counts(ledger: Ledger, spec: FabricSpec, fact: ev.ReactionDecided) -> Iterator[tuple[str, tuple[str, str]]]:
    for trip in (fact.cause, *fact.causes):
        count = COUNTS.get(trip.cause) if trip.mechanism == MECHANISM else None
        if count is None:
            continue
        seen = trip.evidence
        yield seen.unit, (_spell_count(seen.observed, seen.limit), _spell_count(*count(ledger, spec, seen.scope)))


def _spell_count(observed: Any, limit: Any) -> str:
    return f"{observed}, at most {limit}"


def _turns(ledger: Ledger, spec: FabricSpec, scope: str) -> Count:
    step = ledger.run.steps.get(scope.removeprefix("step:"))
    stage, turns = (ledger.run.stage, 0) if step is None else (step.stage, step.turns)
    return turns + 1, _limits(spec, stage).turns


def _hops(ledger: Ledger, spec: FabricSpec, scope: str) -> Count:
    return ledger.hops + 1, _limits(spec, ledger.run.stage).hops


def _visits(ledger: Ledger, spec: FabricSpec, scope: str) -> Count:
    limits, (kind, _, name) = spec.policy.limits, scope.partition(":")
    own = spec.topology.visits_of(name) if kind == "agent" else (limits.max_visits or {}).get(Stage(name))
    most = own if own is not None else limits.max_node_visits
    if most is not None and limits.visits_preset == "fabro":
        most -= 1
    # A stage that may not be entered is entered all the same, without an agent at work; a turn is not opened.
    return ledger.visits[scope] + (kind == "agent"), most


def _limits(spec: FabricSpec, stage: Stage) -> Limits:
    return spec.policy.of_stage(stage).limits


COUNTS: Mapping[Cause, Callable[[Ledger, FabricSpec, str], Count]] = {
    Cause.TURN_LIMIT: _turns,
    Cause.HOP_LIMIT: _hops,
    Cause.VISIT_LIMIT: _visits,
}
"""One count for each cause that is a limit on a count of the run."""

NODE = "node"


def judge_retry(ledger: Ledger, spec: FabricSpec, fact: Scheduled) -> Pairs:
    """Return the fields of a scheduled retry, as recorded and as they follow. ``ledger``: before it."""
    before = ledger.numbers.tokens(spec.policy)
    policy = spec.policy.of_stage(Stage(stage_of_retry(fact)))
    source = NODE if isinstance(fact, ev.NodeRetryScheduled) else fact.source
    takes = 0 if source in TAKES_NO_TOKEN else UNITS
    before_in_stage = ledger.numbers.retries[stage_of_retry(fact)]
    first = not before_in_stage
    found: Pairs = {"tokens left": (fact.tokens_left, before - takes)}
    if takes and before < UNITS:
        found["a token"] = ("given", "given" if first else "refused")
    most = policy.retry.stage_retries
    if takes and most is not None:
        found["a retry of its stage"] = ("made", "made" if before_in_stage < most else "refused")
    if source != NODE:
        in_time = (ledger.numbers.deadline_at - fact.not_before) / US >= needed_s(policy, ledger.run.tier)
        found["time for it"] = ("enough", "enough" if in_time else "too little")
    return found | _judge_shared_buckets(ledger, spec, fact, first=first)


def _judge_shared_buckets(ledger: Ledger, spec: FabricSpec, fact: Scheduled, *, first: bool) -> Pairs:
    """Judge each bucket that runs share. It had one token more than it was left with, or it gave on credit."""
    if not fact.buckets:
        return {}
    names = [FABRIC if one.bucket.startswith(f"{FABRIC}:") else one.bucket for one in fact.buckets]
    sizes = {FABRIC: spec.policy.retry.bucket}
    if target := _target(ledger, spec, fact):
        model = spec.model(target)
        sizes[provider_scope(model)] = PROVIDER_BUCKET
    if isinstance(fact, ev.NodeRetryScheduled) and names == [FABRIC]:
        sizes = {FABRIC: sizes[FABRIC]}  # A run of its own, or the engine, does it.
    found: Pairs = {"buckets": (", ".join(sorted(names)), ", ".join(sorted(sizes)))}
    for name, one in zip(names, fact.buckets, strict=True):
        size = sizes.get(name, 0) * UNITS
        had = one.level >= 0 or (first and one.level >= -size)
        found[f"a token of {name}"] = ("given", "given" if had and one.level <= size - UNITS else "refused")
    return found


def _target(ledger: Ledger, spec: FabricSpec, fact: Scheduled) -> str:
    """Return the model that is asked once more; empty: a tool or a run of its own is."""
    if isinstance(fact, ev.NodeRetryScheduled):
        step = ledger.run.steps.get(fact.step_id)
        if step is None or not step.agent or is_slice(step.agent):  # A slice is a run of its own.
            return ""
        return spec.agent(step.agent).model
    issued = ledger.model_call(fact.command_id)
    if issued is None:
        return ""
    step = ledger.run.steps.get(issued.step_id)
    return step.model if step is not None and step.model and fact.source == "failover" else issued.target
