"""Which model is asked instead, judged again: the order of the candidates, what each would cost, and why each was passed over.

The chain, the capabilities and the prices are the pinned revision's; what is left of caps, time and retry tokens is counted anew from the facts before. What
only a store knew (a budget that runs share) has to speak against the call by its own numbers. What another mechanism said is taken as recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from fabric.core import events as ev
from fabric.core.cost import Price
from fabric.core.decision_table import Reaction
from fabric.core.derivation import numbers
from fabric.core.derivation.asked import Asked
from fabric.core.derivation.ledger import StepSeen
from fabric.core.derivation.purse import TOKENS, USD
from fabric.core.endpoints import provider_scope
from fabric.core.flow import Stage
from fabric.core.key_caps import KINDS
from fabric.core.mechanisms import circuit_breaker
from fabric.core.policy import FlowPolicy
from fabric.core.spec import AgentSpec, Capability, FabricSpec
from fabric.core.taxonomy import Cause, Tier

OF_THE_ENDPOINT = frozenset({Cause.NETWORK, Cause.MALFORMED_ANSWER, Cause.QUOTA, Cause.RETRY_BUDGET_EMPTY})
"""What another model of the same endpoint would meet as well."""
SHARED = frozenset({"fabric", "session", "session_tokens", "workspace", *KINDS})
"""Scopes whose sums all workers count together."""
CHANGES = (Reaction.FALLBACK_MODEL, Reaction.CHEAPER_MODEL)
"""Reactions that put another model in place."""
NOTHING_TOLD: Mapping[str, int] = MappingProxyType({})
Pairs = dict[str, tuple[Any, Any]]
"""By field: what was recorded, and what follows."""


@dataclass(frozen=True, slots=True)
class Case:
    """A choice that was recorded, and what it is held against."""

    asked: Asked
    weighed: ev.Weighed
    reaction: str
    spec: FabricSpec
    prices: Mapping[str, Price]
    step: StepSeen
    anew: bool = False
    """Whether the model takes the step from its beginning, and not the call that failed."""

    @property
    def agent(self) -> AgentSpec:
        """Whose call it is."""
        return self.spec.agent(self.step.agent)

    @property
    def before(self) -> str:
        """The model that was asked."""
        call = self.asked.ledger.issued.get(self.asked.fact.command_id)
        if self.reaction == Reaction.FALLBACK_MODEL and call is not None:
            return call.target
        return self.step.model or self.agent.model

    @property
    def needs(self) -> frozenset[Capability]:
        """What the call cannot do without."""
        found = self.spec.needs(self.agent)
        return found - {Capability.TOOL_USE} if self.step.final and not self.anew else found

    @property
    def policy(self) -> FlowPolicy:
        """The policy as the step's stage sees it."""
        return self.spec.policy.of_stage(Stage(self.step.stage))

    def cost(self, model: str) -> int | None:
        """Micro-dollars of the recorded tokens; None: it has no price."""
        price = self.prices.get(model)
        return None if price is None else price.worst_cost(self.weighed.input_tokens, self.weighed.output_tokens)

    def endpoint(self, model: str) -> tuple[str, str]:
        """Provider and address."""
        one = self.spec.model(model)
        return one.provider, one.base_url.strip().rstrip("/")

    def repeats(self, model: str) -> bool:
        """Whether the endpoint that failed is asked once more."""
        return self.reaction == Reaction.FALLBACK_MODEL and self.endpoint(model) == self.endpoint(self.before)


@dataclass(frozen=True, slots=True)
class Found:
    """What follows from the journal."""

    pairs: Pairs
    model: str
    """The one that takes the call; empty: none."""
    known: bool
    """False: a mechanism whose numbers are not judged here spoke against one of them."""


def refuses(asked: Asked, weighed: ev.Weighed, reaction: str) -> bool | None:
    """Whether no model could take the call, as a refusal with these numbers says; None: that is taken as recorded."""
    found = judged(asked, weighed, reaction)
    if found is None:
        return None
    if found.model or any(told != follows for told, follows in found.pairs.values()):
        return False
    return True if found.known else None


def changed(asked: Asked, fact: ev.ModelChanged) -> Pairs:
    """By field, what a change of model recorded and what follows; empty where the numbers, or the prices, are not at hand."""
    found = None if fact.weighed is None else judged(asked, fact.weighed, fact.reason)
    if found is None or fact.weighed is None:
        return {}
    case = _case(asked, fact.weighed, fact.reason)
    assert case is not None  # judged
    pairs: Pairs = {**found.pairs, "model": (fact.model, found.model), "before": (fact.before, case.before)}
    if fact.reason != Reaction.FALLBACK_MODEL:
        return pairs
    over = [one.model for one in fact.weighed.candidates if one.ruled_out]
    more = (case.cost(found.model) or 0) - (case.cost(case.before) or 0) if found.model else 0
    return pairs | {
        "cause": (str(fact.cause), str(asked.trip.cause)),
        "needs": (", ".join(fact.needs), ", ".join(sorted(case.needs))),
        "cost above": (fact.more_usd_micros, more),
        "models passed over": (", ".join(one.model for one in fact.passed_over), ", ".join(over)),
        "asked first": ("nobody", "a person" if asked.ledger.tier is Tier.HIGH_STAKES else "nobody"),
    }


def offered(asked: Asked, fact: ev.EscalationOpened) -> Pairs:
    """The same of the model that a question about a failed call offers: it would take the step anew, where a rung's takes the call."""
    found = None if fact.weighed is None else judged(asked, fact.weighed, Reaction.FALLBACK_MODEL, anew=True)
    return {} if found is None else {**found.pairs, "model offered": (fact.model, found.model)}


def judged(asked: Asked, weighed: ev.Weighed, reaction: str, *, anew: bool = False) -> Found | None:
    """The choice made again. None: the fabric, its prices or the step are not at hand, or it is no reaction that chooses a model."""
    case = _case(asked, weighed, reaction, anew=anew)
    if case is None or reaction not in UNFIT:
        return None
    told = {one.model: one for one in weighed.candidates}
    rulings = list(_rulings(case, told))
    pairs: Pairs = {
        "model that was asked": (weighed.before, case.before),
        "its cost": (weighed.usd_micros, case.cost(case.before)),
        "tokens out": (weighed.output_tokens, case.agent.max_output_tokens),
        "candidates": (
            _words((one.model, one.ruled_out) for one in weighed.candidates),
            _words((name, ruled_out) for name, ruled_out, _ in rulings),
        ),
    }
    pairs |= {f"cost of {one.model}": (one.usd_micros, case.cost(one.model)) for one in weighed.candidates}
    call = asked.ledger.issued.get(asked.fact.command_id)
    if call is not None and call.command_id not in asked.ledger.rewritten:
        pairs["tokens"] = (weighed.input_tokens + weighed.output_tokens, call.reserved_tokens)
    taken = [name for name, ruled_out, _ in rulings if not ruled_out]
    return Found(pairs, taken[0] if taken else "", all(known for *_, known in rulings))


def _case(asked: Asked, weighed: ev.Weighed, reaction: str, *, anew: bool = False) -> Case | None:
    rules, step = asked.rules, asked.ledger.steps.get(asked.fact.step_id)
    if rules.prices is None or step is None or not step.agent:
        return None
    return Case(asked, weighed, reaction, rules.spec, rules.prices, step, anew)


def _words(candidates: Any) -> str:
    return ", ".join(f"{name} ({ruled_out})" if ruled_out else name for name, ruled_out in candidates)


# -- who is looked at, in which order ----------------------------------------------------------------------------------


def _rulings(case: Case, told: Mapping[str, ev.Candidate]) -> Iterator[tuple[str, str, bool]]:
    """``(model, why not, whether that is known here)`` up to the one that takes the call."""
    fit = []
    for name in _candidates(case):
        ruled_out = UNFIT[case.reaction](case, name)
        if ruled_out:
            yield name, ruled_out, True
        else:
            fit.append(name)
    for name in sorted(fit, key=lambda name: _order(case, name)):
        ruled_out, known = _ruling(case, name, told.get(name))
        yield name, ruled_out, known
        if not ruled_out:
            return


def _candidates(case: Case) -> list[str]:
    """A cheaper model is one; of fallbacks those that are named, then those that these name, each once."""
    if case.reaction == Reaction.CHEAPER_MODEL:
        cheaper = case.spec.model(case.before).cheaper
        return [cheaper] if cheaper else []
    origin = case.step.stands_for or case.before
    found, ahead = [], list(case.spec.model(origin).fallbacks)
    while ahead:
        name = ahead.pop(0)
        if name != origin and name not in found:
            found.append(name)
            ahead += case.spec.model(name).fallbacks
    return found


def _order(case: Case, name: str) -> tuple[int, int, int]:
    """Endpoints as the chain names them, then capabilities that are lost, then the difference in cost."""
    endpoints = [case.endpoint(one) for one in _candidates(case)]
    lost = case.spec.model(case.before).capable - case.spec.model(name).capable
    differs = abs((case.cost(name) or 0) - (case.cost(case.before) or 0))
    return endpoints.index(case.endpoint(name)), len(lost), differs


def _no_fallback(case: Case, name: str) -> str:
    if name in case.step.tried or name == case.before:
        return "tried"
    if case.needs - case.spec.model(name).capable:
        return "needs"
    if case.asked.trip.cause in OF_THE_ENDPOINT and case.endpoint(name) == case.endpoint(case.before):
        return "endpoint"
    return "" if name in case.prices else "price"


def _not_cheaper(case: Case, name: str) -> str:
    if Capability.TOOL_USE in case.needs and Capability.TOOL_USE not in case.spec.model(name).capable:
        return "needs"
    if case.asked.trip.cause is Cause.QUOTA and case.endpoint(name) == case.endpoint(case.before):
        return "endpoint"
    cost, before = case.cost(name), case.cost(case.before)
    return "dearer" if cost is not None and before is not None and cost >= before else ""


UNFIT: Mapping[str, Callable[[Case, str], str]] = {
    Reaction.FALLBACK_MODEL: _no_fallback,
    Reaction.CHEAPER_MODEL: _not_cheaper,
}
"""Why a model cannot take the call, whatever is left; empty: it can. Total over ``CHANGES``, by test."""


# -- what is left ------------------------------------------------------------------------------------------------------


def _ruling(case: Case, name: str, told: ev.Candidate | None) -> tuple[str, bool]:
    """Why it may not take the call now, and whether that is known here."""
    trip = case.asked.trip
    if trip.mechanism == circuit_breaker.NAME and trip.evidence.scope == provider_scope(case.spec.model(name)):
        return "breaker", True
    failed = case.asked.ledger.attempts.get(case.asked.fact.command_id)
    if case.reaction == Reaction.FALLBACK_MODEL and failed is not None and name in failed.shut:
        return "breaker", True
    if told is None or told.trip is None:
        return ("guard" if _does_not_fit(case, name) else ""), True
    rule = HOLDS.get(told.trip.mechanism)
    if rule is None:
        return "guard", False
    return ("guard" if rule(case, name, told.trip) else ""), True


def _does_not_fit(case: Case, name: str) -> bool:
    """Whether a cap, the clock or the run's own retry budget speaks against its call."""
    ledger = case.asked.ledger
    left_s = (ledger.numbers.deadline_at - case.asked.at) / numbers.US
    if name not in case.prices or left_s < numbers.needed_s(case.policy, ledger.tier) - numbers.SLACK_S:
        return True
    before, most = ledger.numbers.retries[case.step.stage], case.policy.retry.stage_retries
    if case.repeats(name) and most is not None and before >= most:
        return True
    if case.repeats(name) and ledger.numbers.tokens(case.policy) < numbers.UNITS:
        return before > 0
    return _over(case, name) is not None


def _over(case: Case, name: str, told: Mapping[str, int] = NOTHING_TOLD) -> Any:
    """``told``: by unit, the model's bill in other runs, as a refusal states it."""
    tokens = case.weighed.input_tokens + case.weighed.output_tokens
    budget, purse = case.spec.policy.budget, case.asked.ledger.purse
    usd, tokens = (
        max(computed, purse.surprises[name, unit], told.get(unit, 0))
        for unit, computed in ((USD, case.cost(name) or 0), (TOKENS, tokens))
    )
    return purse.over(budget, case.step.stage, case.step.agent, usd, tokens)


def _too_dear(case: Case, name: str, trip: ev.TripRecord) -> bool:
    seen, details = trip.evidence, trip.evidence.details
    if trip.cause is Cause.PRICE_MISSING:
        return name not in case.prices
    computed = {USD: case.cost(name), TOKENS: case.weighed.input_tokens + case.weighed.output_tokens}[seen.unit]
    if computed is None:
        return False
    # Only the refusal records the bills of other runs, so its own numbers must rule out the call.
    billed = details.get("billed")
    told = {seen.unit: billed} if isinstance(billed, int) else NOTHING_TOLD
    worst = max(computed, case.asked.ledger.purse.surprises[name, seen.unit], told.get(seen.unit, 0))
    if details.get("worst_case") != worst or details.get("target") != name:
        return False
    if seen.scope in SHARED:
        parts = [details.get(part) for part in ("spent", "granted")]
        whole = sum(part for part in parts if isinstance(part, int)) + worst
        return seen.observed == whole and seen.limit is not None and (whole > seen.limit or not seen.limit)
    over = _over(case, name, told)
    recorded = (seen.scope, seen.unit, seen.limit, seen.observed)
    return over is not None and recorded == (over.scope, over.unit, over.cap, over.would_be)


def _as_refused(case: Case, name: str, trip: ev.TripRecord) -> bool:
    """A clock, a retry token or a cap of the run: as of any rung."""
    if trip.mechanism == "retry_budget" and not case.repeats(name):
        return False
    asked = case.asked
    given = numbers.Judged(asked.ledger.numbers, case.policy, asked.ledger.tier, asked.at, trip)
    return numbers.refuses(given) is True


def _too_fast(case: Case, name: str, trip: ev.TripRecord) -> bool:
    seen = trip.evidence
    return seen.observed is not None and seen.limit is not None and seen.observed > seen.limit


def _turns_are_spent(case: Case, name: str, trip: ev.TripRecord) -> bool:
    """The turn that another model would take is that of the call that failed; of one that was refused before it went out, the step's next."""
    ledger, fact = case.asked.ledger, case.asked.fact
    limit = case.policy.limits.turns
    call, step = ledger.issued.get(fact.command_id), ledger.steps.get(fact.step_id)
    if trip.cause is not Cause.TURN_LIMIT or step is None:
        return False
    turn = step.turns + 1 if call is None else call.turn
    return (trip.evidence.observed, trip.evidence.limit) == (turn, limit) and turn > limit


HOLDS: Mapping[str, Callable[[Case, str, ev.TripRecord], bool]] = {
    "budget": _too_dear,
    "cost_velocity": _too_fast,
    "deadline": _as_refused,
    "hop_limit": _turns_are_spent,
    "retry_budget": _as_refused,
    "run_caps": _as_refused,
}
"""By mechanism, whether its numbers speak against the call. Of what is not here the refusal is taken as recorded."""
