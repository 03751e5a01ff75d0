"""The auditor chooses the fallback or the cheaper model once more: candidates, their order, costs and refusals.

The chain, the capabilities and the prices are the pinned revision's. Caps, time and retry tokens are counted from the
facts before. A refusal by a budget that runs share must bear itself out. One by any other mechanism is believed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from fabric.auditor import numbers
from fabric.auditor.ledger import DecisionCase, Ledger
from fabric.auditor.purse import TOKENS, USD
from fabric.core import events as ev
from fabric.core.budgets.key_caps import KINDS
from fabric.core.mechanisms import circuit_breaker
from fabric.core.spec.endpoints import provider_scope
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.decision_table import Reaction
from fabric.core.spec.policies.flow_policy import FlowPolicy
from fabric.core.spec.tree import AgentSpec, Capability
from fabric.core.state.run import Step
from fabric.core.values.taxonomy import Cause, Tier
from fabric.core.values.units import US

OF_THE_ENDPOINT = frozenset({Cause.NETWORK, Cause.MALFORMED_ANSWER, Cause.QUOTA, Cause.RETRY_BUDGET_EMPTY})
"""Causes that another model of the same endpoint would meet as well."""
SHARED = frozenset({"fabric", "session", "session_tokens", "workspace", *KINDS})
"""Scopes that all workers count together."""
CHANGES = (Reaction.FALLBACK_MODEL, Reaction.CHEAPER_MODEL)
"""Reactions that put another model in place."""
NOTHING_TOLD: Mapping[str, int] = MappingProxyType({})
Pairs = dict[str, tuple[Any, Any]]
"""By field, the recorded value and the derived one."""


@dataclass(frozen=True, slots=True)
class ModelCase:
    """One recorded choice of a model."""

    decision: DecisionCase
    weighed: ev.Weighed
    reaction: str
    step: Step
    anew: bool = False
    """True: the model takes the step from its beginning, and not the call that failed."""

    @property
    def spec(self) -> FabricSpec:
        """The fabric."""
        return self.decision.spec

    @property
    def ledger(self) -> Ledger:
        """All facts before the decision."""
        return self.decision.ledger

    @property
    def trip(self) -> ev.TripRecord:
        """The decisive cause."""
        return self.decision.fact.cause

    @property
    def command_id(self) -> str:
        """The call that failed; empty: it was no call."""
        return self.decision.fact.command_id

    @property
    def agent(self) -> AgentSpec:
        """The agent whose call it is."""
        return self.spec.agent(self.step.agent)

    @property
    def asked_model(self) -> str:
        """The model that was asked."""
        call = self.ledger.model_call(self.command_id)
        if self.reaction == Reaction.FALLBACK_MODEL and call is not None:
            return call.target
        return self.step.model or self.agent.model

    @property
    def needs(self) -> frozenset[Capability]:
        """The capabilities that the call cannot do without."""
        found = self.spec.needs(self.agent)
        return found - {Capability.TOOL_USE} if self.step.final and not self.anew else found

    @property
    def policy(self) -> FlowPolicy:
        """The policy as the step's stage sees it."""
        return self.spec.policy.of_stage(self.step.stage)

    def cost(self, model: str) -> int | None:
        """Return the micro-dollars of the recorded tokens; None: the model has no price."""
        price = self.decision.compiled.prices.get(model)
        return None if price is None else price.worst_cost(self.weighed.input_tokens, self.weighed.output_tokens)

    def endpoint(self, model: str) -> tuple[str, str]:
        """Return provider and address."""
        one = self.spec.model(model)
        return one.provider, one.base_url.strip().rstrip("/")

    def repeats(self, model: str) -> bool:
        """Return True where the endpoint that failed is asked once more."""
        return self.reaction == Reaction.FALLBACK_MODEL and self.endpoint(model) == self.endpoint(self.asked_model)


@dataclass(frozen=True, slots=True)
class ModelFound:
    """The choice of a model that follows from the journal."""

    pairs: Pairs
    model: str
    """The model that takes the call; empty: none."""
    known: bool
    """False: a mechanism whose numbers are not judged here spoke against a candidate."""


def judge_refusal(decision: DecisionCase, weighed: ev.Weighed, reaction: str) -> bool | None:
    """Return True where no model could take the call, as a refusal with these numbers says; None: that is believed."""
    case = _case(decision, weighed, reaction)
    if case is None or reaction not in UNFIT:
        return None
    found = choose_model(case)
    if found.model or any(told != follows for told, follows in found.pairs.values()):
        return False
    return True if found.known else None


def judge_change(decision: DecisionCase, fact: ev.ModelChanged) -> Pairs:
    """Return the fields of a change of model, as recorded and as they follow; empty where it has no numbers."""
    case = None if fact.weighed is None else _case(decision, fact.weighed, fact.reason)
    if case is None or case.reaction not in UNFIT:
        return {}
    found = choose_model(case)
    pairs: Pairs = {**found.pairs, "model": (fact.model, found.model), "before": (fact.before, case.asked_model)}
    if fact.reason != Reaction.FALLBACK_MODEL:
        return pairs
    over = [one.model for one in case.weighed.candidates if one.ruled_out]
    more = (case.cost(found.model) or 0) - (case.cost(case.asked_model) or 0) if found.model else 0
    asks = case.ledger.run.tier is Tier.HIGH_STAKES
    return pairs | {
        "cause": (str(fact.cause), str(case.trip.cause)),
        "needs": (", ".join(fact.needs), ", ".join(sorted(case.needs))),
        "cost above": (fact.more_usd_micros, more),
        "models passed over": (", ".join(one.model for one in fact.passed_over), ", ".join(over)),
        "asked first": ("", "a person" if asks else ""),
    }


def judge_offer(decision: DecisionCase, fact: ev.ReviewOpened) -> Pairs:
    """Return the fields of the model that a review offers. It takes the step anew; a rung's takes the call."""
    case = None if fact.weighed is None else _case(decision, fact.weighed, Reaction.FALLBACK_MODEL, anew=True)
    if case is None:
        return {}
    found = choose_model(case)
    return {**found.pairs, "model offered": (fact.model, found.model)}


def choose_model(case: ModelCase) -> ModelFound:
    """Make the choice once more."""
    weighed = case.weighed
    told = {one.model: one for one in weighed.candidates}
    rulings = list(_rulings(case, told))
    pairs: Pairs = {
        "model that was asked": (weighed.before, case.asked_model),
        "its cost": (weighed.usd_micros, case.cost(case.asked_model)),
        "tokens out": (weighed.output_tokens, case.agent.max_output_tokens),
        "candidates": (
            _words((one.model, one.ruled_out) for one in weighed.candidates),
            _words((name, ruled_out) for name, ruled_out, _ in rulings),
        ),
    }
    pairs |= {f"cost of {one.model}": (one.usd_micros, case.cost(one.model)) for one in weighed.candidates}
    call = case.ledger.model_call(case.command_id)
    if call is not None and call.command_id not in case.ledger.rewritten:
        pairs["tokens"] = (weighed.input_tokens + weighed.output_tokens, call.reserved_tokens)
    taken = [name for name, ruled_out, _ in rulings if not ruled_out]
    return ModelFound(pairs, taken[0] if taken else "", all(known for *_, known in rulings))


def _case(decision: DecisionCase, weighed: ev.Weighed, reaction: str, *, anew: bool = False) -> ModelCase | None:
    step = decision.step
    return None if step is None or not step.agent else ModelCase(decision, weighed, reaction, step, anew)


def _words(candidates: Any) -> str:
    return ", ".join(f"{name} ({ruled_out})" if ruled_out else name for name, ruled_out in candidates)


# -- candidates in their order ---------------------------------------------------------------------------------------


def _rulings(case: ModelCase, told: Mapping[str, ev.Candidate]) -> Iterator[tuple[str, str, bool]]:
    """Yield model, reason against it, and True where that is known here; up to the model that takes the call."""
    fit = []
    for name in _candidates(case):
        ruled_out = UNFIT[case.reaction](case, name)
        if ruled_out:
            yield name, ruled_out, True
        else:
            fit.append(name)
    for name in sorted(fit, key=lambda name: _order(case, name)):
        ruled_out, known = _judge_model(case, name, told.get(name))
        yield name, ruled_out, known
        if not ruled_out:
            return


def _candidates(case: ModelCase) -> list[str]:
    """Return the one cheaper model; of fallbacks those that are named, then those that these name, each once."""
    if case.reaction == Reaction.CHEAPER_MODEL:
        cheaper = case.spec.model(case.asked_model).cheaper
        return [cheaper] if cheaper else []
    origin = case.step.stands_for or case.asked_model
    found, ahead = [], list(case.spec.model(origin).fallbacks)
    while ahead:
        name = ahead.pop(0)
        if name != origin and name not in found:
            found.append(name)
            ahead += case.spec.model(name).fallbacks
    return found


def _order(case: ModelCase, name: str) -> tuple[int, int, int]:
    """Sort by endpoints as the chain names them, then by lost capabilities, then by the difference in cost."""
    endpoints = [case.endpoint(one) for one in _candidates(case)]
    lost = case.spec.model(case.asked_model).capable - case.spec.model(name).capable
    differs = abs((case.cost(name) or 0) - (case.cost(case.asked_model) or 0))
    return endpoints.index(case.endpoint(name)), len(lost), differs


def _no_fallback(case: ModelCase, name: str) -> str:
    if name in case.step.tried or name == case.asked_model:
        return "tried"
    if case.needs - case.spec.model(name).capable:
        return "needs"
    if case.trip.cause in OF_THE_ENDPOINT and case.endpoint(name) == case.endpoint(case.asked_model):
        return "endpoint"
    return "" if name in case.decision.compiled.prices else "price"


def _not_cheaper(case: ModelCase, name: str) -> str:
    if Capability.TOOL_USE in case.needs and Capability.TOOL_USE not in case.spec.model(name).capable:
        return "needs"
    if case.trip.cause is Cause.QUOTA and case.endpoint(name) == case.endpoint(case.asked_model):
        return "endpoint"
    cost, before = case.cost(name), case.cost(case.asked_model)
    return "dearer" if cost is not None and before is not None and cost >= before else ""


UNFIT: Mapping[str, Callable[[ModelCase, str], str]] = {
    Reaction.FALLBACK_MODEL: _no_fallback,
    Reaction.CHEAPER_MODEL: _not_cheaper,
}
"""Reasons against a model, whatever money and time are left; empty: none. Total over ``CHANGES``, by test."""


# -- what is left ----------------------------------------------------------------------------------------------------


def _judge_model(case: ModelCase, name: str, told: ev.Candidate | None) -> tuple[str, bool]:
    """Return the reason against the model now, and True where that is known here."""
    trip = case.trip
    if trip.mechanism == circuit_breaker.NAME and trip.evidence.scope == provider_scope(case.spec.model(name)):
        return "breaker", True
    failed = case.ledger.attempts.get(case.command_id)
    if case.reaction == Reaction.FALLBACK_MODEL and failed is not None and name in failed.shut:
        return "breaker", True
    if told is None or told.trip is None:
        return ("guard" if _does_not_fit(case, name) else ""), True
    rule = HOLDS.get(told.trip.mechanism)
    if rule is None:
        return "guard", False
    return ("guard" if rule(case, name, told.trip) else ""), True


def _does_not_fit(case: ModelCase, name: str) -> bool:
    """Return True where a cap, the clock or the run's own retry budget speaks against its call."""
    ledger = case.ledger
    left_s = (ledger.numbers.deadline_at - case.decision.at) / US
    if (
        name not in case.decision.compiled.prices
        or left_s < numbers.needed_s(case.policy, ledger.run.tier) - numbers.SLACK_S
    ):
        return True
    before, most = ledger.numbers.retries[case.step.stage], case.policy.retry.stage_retries
    if case.repeats(name) and most is not None and before >= most:
        return True
    if case.repeats(name) and ledger.numbers.tokens(case.policy) < numbers.UNITS:
        return before > 0
    return _find_exceeded_cap(case, name) is not None


def _find_exceeded_cap(case: ModelCase, name: str, told: Mapping[str, int] = NOTHING_TOLD) -> Any:
    """Return the first cap that its call would pass. ``told``: the model's bill in other runs, by unit."""
    tokens = case.weighed.input_tokens + case.weighed.output_tokens
    budget, purse = case.spec.policy.budget, case.ledger.purse
    usd, tokens = (
        max(computed, purse.surprises[name, unit], told.get(unit, 0))
        for unit, computed in ((USD, case.cost(name) or 0), (TOKENS, tokens))
    )
    return purse.find_passed_cap(budget, case.step.stage, case.step.agent, usd, tokens)


def _too_dear(case: ModelCase, name: str, trip: ev.TripRecord) -> bool:
    seen, details = trip.evidence, trip.evidence.details
    if trip.cause is Cause.PRICE_MISSING:
        return name not in case.decision.compiled.prices
    computed = {USD: case.cost(name), TOKENS: case.weighed.input_tokens + case.weighed.output_tokens}[seen.unit]
    if computed is None:
        return False
    # Only the refusal records the bills of other runs, so its own numbers must rule out the call.
    billed = details.get("billed")
    told = {seen.unit: billed} if isinstance(billed, int) else NOTHING_TOLD
    worst = max(computed, case.ledger.purse.surprises[name, seen.unit], told.get(seen.unit, 0))
    if details.get("worst_case") != worst or details.get("target") != name:
        return False
    if seen.scope in SHARED:
        parts = [details.get(part) for part in ("spent", "granted")]
        whole = sum(part for part in parts if isinstance(part, int)) + worst
        return seen.observed == whole and seen.limit is not None and (whole > seen.limit or not seen.limit)
    over = _find_exceeded_cap(case, name, told)
    recorded = (seen.scope, seen.unit, seen.limit, seen.observed)
    return over is not None and recorded == (over.scope, over.unit, over.cap, over.would_be)


def _judge_refused(case: ModelCase, name: str, trip: ev.TripRecord) -> bool:
    """Judge a clock, a retry token or a cap of the run as for any rung."""
    if trip.mechanism == "retry_budget" and not case.repeats(name):
        return False
    ledger = case.ledger
    given = numbers.Refusal(ledger.numbers, case.policy, ledger.run.tier, case.decision.at, trip)
    return numbers.judge_refusal(given) is True


def _too_fast(case: ModelCase, name: str, trip: ev.TripRecord) -> bool:
    seen = trip.evidence
    return seen.observed is not None and seen.limit is not None and seen.observed > seen.limit


def _turns_are_spent(case: ModelCase, name: str, trip: ev.TripRecord) -> bool:
    """Judge the turn of the call that failed; the step's next turn where the call never went out."""
    limit, call = case.policy.limits.turns, case.ledger.model_call(case.command_id)
    if trip.cause is not Cause.TURN_LIMIT:
        return False
    turn = case.step.turns + 1 if call is None else call.turn
    return (trip.evidence.observed, trip.evidence.limit) == (turn, limit) and turn > limit


HOLDS: Mapping[str, Callable[[ModelCase, str, ev.TripRecord], bool]] = {
    "budget": _too_dear,
    "cost_velocity": _too_fast,
    "deadline": _judge_refused,
    "hop_limit": _turns_are_spent,
    "retry_budget": _judge_refused,
    "run_caps": _judge_refused,
}
"""One rule a mechanism: True where its numbers speak against the call. A refusal of any other is believed."""
