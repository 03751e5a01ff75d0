"""Retry budget: retries are a share of first attempts, whatever fails (S0 "Retry Budget With Backoff";
docs/specification/retries.md).

Stops: retry storms. A bucket of 10 tokens is full at the start; a first attempt earns 0.1, a retry takes 1. An empty
bucket denies, but a run that has not retried in this stage may take one on credit, at most one a second and until the
bucket stands at -10. So retries <= 20 + 0.1 x first attempts. Counts are in thousandths of a token, so that sums are
exact. A retry that the run's own bucket pays for also takes a token of the fabric's and of the provider's bucket,
which all workers share (``core/budgets/grants.py``); ``retry.shared: false`` is a deviation. It also stops retries of
a stage beyond its own limit (``retry.stage_retries``), whatever the bucket has. Does not stop: a single expensive
retry (the budget gate does).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from fabric.core.budgets.grants import FABRIC, PROVIDER_BUCKET, Refusal, Shares, TokenGiven, TokenWant
from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.spec.endpoints import provider_scope
from fabric.core.spec.policies.limits import Retry as Config
from fabric.core.values.frozen import replace, value
from fabric.core.values.taxonomy import PASS, Cause, Details, Evidence, FailureClass, Trip, Verdict
from fabric.core.values.words import words

if TYPE_CHECKING:
    from fabric.core.events.envelope import Event
    from fabric.core.spec.fabric import FabricSpec
    from fabric.core.spec.policies.flow_policy import FlowPolicy

NAME = "retry_budget"
TITLE = "Retry budget"
STOPS = "storms of retries"
PAGE = "docs/specification/retries.md"
CLASSES = (FailureClass.VERIFICATION,)
SETTINGS: tuple[str, ...] = ("retry",)
UNCOUNTED = ""
SCOPE = Scope.RUN
APPLIES_TO: frozenset[ProposalKind] = frozenset({"retry"})
OBSERVES: frozenset[str] = frozenset({"call_issued", "retry_scheduled", "node_retry_scheduled"})
UNITS = 1_000
"""A token is counted in thousandths."""
CREDIT_EVERY_US = 1_000_000


@value()
class State:
    """The bucket as the last retry left it, and the first attempts since."""

    level: int | None = None
    """Thousandths of a token after the last retry; None: still full."""
    first_attempts: int = 0
    retries: Mapping[str, int] = field(default_factory=dict)
    """Retries of this run, by stage."""
    last_at: int = 0


def config(policy: FlowPolicy) -> Config:
    """Return this mechanism's part of the policy."""
    return policy.retry


def observe(state: State, event: Event) -> State:
    """Earn at a first attempt, and take over the level that a scheduled retry left."""
    fact: Any = event.fact
    if fact.kind == "call_issued":
        return replace(state, first_attempts=state.first_attempts + 1) if fact.attempt == 1 else state
    if fact.kind == "retry_scheduled" and fact.source in (
        "breaker",
        "named",
    ):  # An unsent call is not repeated.
        return state
    stage = (fact.step_id if fact.kind == "node_retry_scheduled" else fact.command_id).partition(".")[0]
    retries = {**state.retries, stage: state.retries.get(stage, 0) + 1}
    return State(fact.tokens_left, 0, retries, event.at)


def balance(config: Config, state: State) -> int:
    """Return the level of the bucket in thousandths of a token; never above its size."""
    size = config.bucket * UNITS
    level = size if state.level is None else state.level
    return min(size, level + round(config.earn * UNITS) * state.first_attempts)


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Deny a retry once its stage has made all of its retries. Deny it also if the bucket is empty and gives
    no credit.
    """
    most, before = config.stage_retries, state.retries.get(proposal.stage, 0)
    if most is not None and before >= most:
        evidence = Evidence(most, before + 1, "retries", f"stage:{proposal.stage}")
        message = f"stage {words(proposal.stage)} has retried as often as it may in one run (limit {most})"
        return Trip(NAME, Cause.RETRY_BUDGET_EMPTY, evidence, message)
    left = balance(config, state)
    if left >= UNITS:
        return _ask_shared_buckets(config, state, proposal, view)
    on_credit = (
        proposal.stage not in state.retries
        and view.now - state.last_at >= CREDIT_EVERY_US
        and left - UNITS >= -config.bucket * UNITS
    )
    if on_credit:
        return _ask_shared_buckets(config, state, proposal, view)
    evidence = Evidence(config.bucket, round(left / UNITS, 3), "retry tokens", "run")
    message = f"the run has no retry left (limit {config.bucket})"
    return Trip(NAME, Cause.RETRY_BUDGET_EMPTY, evidence, message)


def _ask_shared_buckets(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Ask the buckets that runs share for one token each."""
    shares = view.shares
    if not config.shared or shares is None or not shares.fabric or not proposal.command_id:
        return PASS
    sizes = buckets(config, shares.fabric, view.spec, proposal.target)
    want = TokenWant(_key(proposal.command_id, proposal.attempt), sizes, proposal.stage not in state.retries)
    refused = shares.token(want)
    if isinstance(refused, TokenGiven):
        return PASS
    kind, left = refused.scope.partition(":")[0], refused.cap - refused.spent
    details: Details
    details = {"bucket": refused.scope, "asked_at": refused.asked_at}
    evidence = Evidence(refused.cap, left, "retry tokens", kind, details=details)
    message = f"the {kind}'s retry budget, which its runs share, {_stands(refused)}"
    return Trip(NAME, Cause.RETRY_BUDGET_EMPTY, evidence, message)


def _stands(refused: Refusal) -> str:
    return f"gives no token: {refused.unasked}" if refused.unasked else "is empty"


def _key(command_id: str, attempt: int) -> str:
    return f"{command_id}#{attempt}"


def token_given(shares: Shares | None, command_id: str, attempt: int) -> TokenGiven:
    """Return the levels that a retry's token left in the shared buckets; an empty ``Given`` if the retry took none."""
    found = None if shares is None else shares.find_token(_key(command_id, attempt))
    return found or TokenGiven()


def buckets(config: Config, fabric: str, spec: FabricSpec, model: str) -> tuple[tuple[str, int], ...]:
    """Return ``(bucket, capacity)`` of each bucket that the calls of a model share. A tool has no name here, and the
    fabric's bucket alone.
    """
    found = [(f"{FABRIC}:{fabric}", config.bucket)]
    if model:
        found.append((provider_scope(spec.model(model)), PROVIDER_BUCKET))
    return tuple(sorted(found))
