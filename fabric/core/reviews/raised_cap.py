"""Raises caps of one run: an approval of a cost overrun names new caps (docs/specification/reviews.md).

These caps can be raised where the fabric sets them: the run's money and tokens, and money and tokens of the stage and
the agent under review. A cap counts all spending from the run's start on. Budgets that runs share and the cap of one
call stay as they are. A child run has no cap of its own to raise: its money is reserved from its parent's.
"""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core import events as ev
from fabric.core.decision.work import Work
from fabric.core.events.inputs import DecisionMade
from fabric.core.mechanisms import budget, find_state
from fabric.core.spec.policies.budgets import RUN, Budget, CapUnit, NamedCap, amount_words, cap_key, cap_words
from fabric.core.values.taxonomy import Cause, FailureType, Trip
from fabric.core.values.units import JSON

MOST_USD_MICROS = 10**15
MOST_TOKENS = 10**12
MOST: Mapping[CapUnit, int] = {"usd_micros": MOST_USD_MICROS, "tokens": MOST_TOKENS}
CAPS_MAX = 8
"""Most new caps in one answer: more than a review ever offers."""
ELSEWHERE = "a new cap goes with the approval of a cost overrun, and this is another review or answer"


def takes_cap(work: Work, item: str, failure_type: FailureType | None) -> bool:
    """Return True if an approval in that review may name a new cap."""
    return item == "failure" and failure_type is FailureType.COST_OVERRUN and work.run.family.lineage is None


def needed_cap(work: Work, trip: Trip, stage: str, agent: str) -> dict[str, JSON] | None:
    """Return the exhausted cap that an approval has to raise. None: the run may go on, or that cap cannot be raised."""
    scope, unit = trip.evidence.scope, trip.evidence.unit
    if trip.cause is not Cause.BUDGET_GATE or work.run.family.lineage is not None:
        return None
    config, ledger = work.compiled_fabric.spec.policy.budget, find_state(work.run.guards, budget)
    if (scope, unit) == (RUN, "usd_micros"):
        cap, session = budget.cap(config, ledger), config.session_usd_micros
        return None if session is not None and session <= cap else {"scope": scope, "unit": unit, "cap": cap}
    if (scope, unit) == (RUN, "tokens") and sessions_tokens(config) <= (
        budget.cap_in_force(config, ledger, RUN, "tokens") or 0
    ):
        return None
    found = (one for one in offered_caps(work, stage, agent) if (one["scope"], one["unit"]) == (scope, unit))
    one = next(found, None)
    return None if one is None else {name: one[name] for name in ("scope", "unit", "cap")}


def unnamed_cap(needs: Mapping[str, JSON] | None, given: DecisionMade) -> str:
    """Return why an approval without a new cap for a spent budget is refused. "": it names one, or needs none.
    ``needs``: as ``needed_cap`` has it.
    """
    if not needs or given.verb != "approve":
        return ""
    scope = str(needs["scope"])
    unit: CapUnit = "tokens" if needs["unit"] == "tokens" else "usd_micros"
    money = (scope, unit) == (RUN, "usd_micros")
    if given.cap_usd_micros is not None if money else any(one.key == cap_key(scope, unit) for one in given.caps):
        return ""
    return f"{cap_words(scope)} has spent its budget of {amount_words(int(needs['cap']), unit)}: name a higher cap with the approval"


def offered_caps(work: Work, stage: str, agent: str) -> list[dict[str, JSON]]:
    """Return the caps that an approval may raise besides the run's money. Each is set, and covers the failed call."""
    config, ledger = work.compiled_fabric.spec.policy.budget, find_state(work.run.guards, budget)
    found = []
    for scope, unit in budget.list_scopes(stage, agent):
        most = None if (scope, unit) == (RUN, "usd_micros") else budget.cap_in_force(config, ledger, scope, unit)
        if most is not None:
            found.append({"scope": scope, "unit": unit, "cap": most, "used": budget.used_amount(ledger, scope, unit)})
    return found


def problem(work: Work, fact: ev.ReviewOpened, given: DecisionMade) -> str:
    """Return why the caps named in an answer cannot be granted; "": they can, or none is named."""
    if given.cap_usd_micros is None and not given.caps:
        return _nothing_named(work, fact, given)
    if given.verb != "approve" or fact.item != "failure" or fact.failure_type is not FailureType.COST_OVERRUN:
        return ELSEWHERE
    if work.run.family.lineage is not None:
        return "a child run spends its parent's money: it has no cap of its own to raise"
    config, ledger = work.compiled_fabric.spec.policy.budget, find_state(work.run.guards, budget)
    step = work.run.steps.get(fact.step_id)
    standing = {
        cap_key(one["scope"], one["unit"]): int(one["cap"])
        for one in offered_caps(work, fact.stage, step.agent if step is not None else "")
    }
    before = budget.cap(config, ledger)
    most = work.compiled_fabric.under.run_usd_micros
    said = money_problem(config, given.cap_usd_micros, before, most) or caps_problem(
        given, before, standing, sessions_tokens(config)
    )
    return said or _nothing_named(work, fact, given)


def _nothing_named(work: Work, fact: ev.ReviewOpened, given: DecisionMade) -> str:
    """Return why an approval of a spent budget names no higher cap."""
    review = work.run.reviews[fact.review_id]
    if given.verb != "approve" or fact.failure_type is not FailureType.COST_OVERRUN or review.edited:
        return ""
    return unnamed_cap(work.ctx.contents.read(review.shown_ref).get("needs_cap"), given)


def sessions_tokens(config: Budget) -> int:
    """Return the most tokens to which a run's cap may be raised."""
    return MOST_TOKENS if config.session_tokens is None else config.session_tokens


def caps_problem(given: DecisionMade, run_usd_micros: int, standing: Mapping[str, int], most_tokens: int) -> str:
    """Return why new caps do not fit the present ones. ``run_usd_micros``: the run's money; ``standing``: the others
    that may be raised, by ``cap_key``; ``most_tokens``: most tokens of the run's session.
    """
    if len({one.key for one in given.caps}) < len(given.caps):
        return "a cap is named twice: name each one once"
    named, of_run = {one.key: one.cap for one in given.caps}, cap_key(RUN, "tokens")
    if named.get(of_run, 0) > most_tokens:
        said, most = amount_words(named[of_run], "tokens"), amount_words(most_tokens, "tokens")
        return f"the new cap of the run, {said}, is above the {most} that its session may use"
    money = run_usd_micros if given.cap_usd_micros is None else given.cap_usd_micros
    above: Mapping[CapUnit, int | None] = {"usd_micros": money, "tokens": named.get(of_run, standing.get(of_run))}
    return next((said for one in given.caps if (said := _cap_problem(one, standing, above[one.unit]))), "")


def money_problem(config: Budget, cap: int | None, before: int, policy_usd_micros: int | None = None) -> str:
    """Return why the run's money cannot be raised from ``before`` to ``cap``; "": it can, or stays.
    ``policy_usd_micros``: the most by the workspace's policy.
    """
    if cap is None:
        return ""
    if cap <= before:
        return f"the new cap of {_dollars(cap)} is not above the present one of {_dollars(before)}"
    if policy_usd_micros is not None and cap > policy_usd_micros:
        return f"the new cap of {_dollars(cap)} is above the {_dollars(policy_usd_micros)} that the workspace's policy lets a run spend: an owner raises that"
    session = config.session_usd_micros
    most = MOST_USD_MICROS if session is None else session
    if cap > most:
        whose = "any run may spend" if session is None else "its session may spend"
        return f"the new cap of {_dollars(cap)} is above the {_dollars(most)} that {whose}"
    return ""


def _cap_problem(one: NamedCap, standing: Mapping[str, int], runs: int | None) -> str:
    """Return why one new cap does not fit; "" if it does. ``runs``: the cap of the whole run by then."""
    whose, cap = cap_words(one.scope), amount_words(one.cap, one.unit)
    before = standing.get(one.key)
    if before is None:
        unit = "money" if one.unit == "usd_micros" else "tokens"
        return f"there is no cap of {whose} in {unit} that this review could raise"
    if one.cap <= before:
        return f"the new cap of {whose}, {cap}, is not above the present one of {amount_words(before, one.unit)}"
    most = MOST[one.unit] if runs is None or one.scope == RUN else runs
    if one.cap > most:
        said = "any run may spend" if most == MOST[one.unit] else "the run itself may spend: raise that too"
        return f"the new cap of {whose}, {cap}, is above the {amount_words(most, one.unit)} that {said}"
    return ""


def raise_to(work: Work, fact: ev.ReviewOpened, given: DecisionMade) -> None:
    """Journal the new caps, where the answer names some; every call from now on is judged by them."""
    config = work.compiled_fabric.spec.policy.budget
    before = budget.cap(config, find_state(work.run.guards, budget))
    if given.cap_usd_micros is not None:
        raised = ev.CapRaised(
            cap_usd_micros=given.cap_usd_micros,
            before_usd_micros=before,
            actor=given.actor,
            review_id=fact.review_id,
        )
        work.emit(raised)
    for one in given.caps:
        before_ = budget.cap_in_force(config, find_state(work.run.guards, budget), one.scope, one.unit)
        assert before_ is not None, "an answer named a cap that a person cannot set"
        work.emit(
            ev.BudgetRaised(
                scope=one.scope,
                unit=one.unit,
                cap=one.cap,
                before=before_,
                actor=given.actor,
                review_id=fact.review_id,
            )
        )


def _dollars(usd_micros: int) -> str:
    return amount_words(usd_micros, "usd_micros")
