"""Retry budget: retries are a share of first attempts, whatever fails (S0 "Retry Budget With Backoff"; semantics.md 4).

Stops: retry storms. A bucket of 10 tokens, full at the start; a first attempt earns 0.1, a retry takes 1. Empty is a deterministic deny, but a run that
has not retried in this stage may take one on credit, at most one a second and until the bucket stands at -10: so retries <= 20 + 0.1 x first
attempts. Counted in thousandths of a token, so that sums are exact. Each retry that the run's own bucket has a token for takes one of the fabric's and of
the provider's bucket too, which all workers share (``core/grants.py``); ``retry.shared: false`` is a deviation. Stops too what a stage retries beyond
its own limit (``retry.stage_retries``), whatever the bucket has. Does not stop: a single expensive retry
(the budget gate does).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from fabric.core.endpoints import provider_scope
from fabric.core.frozen import replace, value
from fabric.core.grants import FABRIC, PROVIDER_BUCKET, Given, Refusal, Shares, TokenWant
from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.policy import Retry as Config
from fabric.core.taxonomy import Cause
from fabric.core.verdict import PASS, Details, Evidence, Trip, Verdict
from fabric.core.words import words

if TYPE_CHECKING:
    from fabric.core.envelope import Event
    from fabric.core.policy import FlowPolicy
    from fabric.core.spec import FabricSpec

NAME = "retry_budget"
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
    """By stage: how often this run has retried in it."""
    last_at: int = 0


def config(policy: FlowPolicy) -> Config:
    """Cuts this mechanism's part out of the policy."""
    return policy.retry


def observe(state: State, event: Event) -> State:
    """A first attempt earns, a scheduled retry takes; the fact carries what it left."""
    fact: Any = event.fact
    if fact.kind == "call_issued":
        return replace(state, first_attempts=state.first_attempts + 1) if fact.attempt == 1 else state
    if fact.kind == "retry_scheduled" and fact.source in (
        "breaker",
        "named",
    ):  # A call that was not sent is not repeated.
        return state
    stage = (fact.step_id if fact.kind == "node_retry_scheduled" else fact.command_id).partition(".")[0]
    retries = {**state.retries, stage: state.retries.get(stage, 0) + 1}
    return State(fact.tokens_left, 0, retries, event.at)


def balance(config: Config, state: State) -> int:
    """Thousandths of a token in the bucket; never above its size."""
    size = config.bucket * UNITS
    level = size if state.level is None else state.level
    return min(size, level + round(config.earn * UNITS) * state.first_attempts)


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Denies a retry once its stage has made all of its retries, and where the bucket is empty and gives no credit."""
    most, before = config.stage_retries, state.retries.get(proposal.stage, 0)
    if most is not None and before >= most:
        evidence = Evidence(most, before + 1, "retries", f"stage:{proposal.stage}")
        message = f"stage {words(proposal.stage)} has retried as often as it may in one run (limit {most})"
        return Trip(NAME, Cause.RETRY_BUDGET_EMPTY, evidence, message)
    left = balance(config, state)
    if left >= UNITS:
        return _shared(config, state, proposal, view)
    on_credit = (
        proposal.stage not in state.retries
        and view.now - state.last_at >= CREDIT_EVERY_US
        and left - UNITS >= -config.bucket * UNITS
    )
    if on_credit:
        return _shared(config, state, proposal, view)
    evidence = Evidence(config.bucket, round(left / UNITS, 3), "retry tokens", "run")
    message = f"the run has no retry left (limit {config.bucket})"
    return Trip(NAME, Cause.RETRY_BUDGET_EMPTY, evidence, message)


def _shared(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Asks the buckets that runs share for one token each."""
    shares = view.shares
    if not config.shared or shares is None or not shares.fabric or not proposal.command_id:
        return PASS
    sizes = buckets(config, shares.fabric, view.spec, proposal.target)
    want = TokenWant(_key(proposal.command_id, proposal.attempt), sizes, proposal.stage not in state.retries)
    refused = shares.token(want)
    if isinstance(refused, Given):
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


def given(shares: Shares | None, command_id: str, attempt: int) -> Given:
    """What the token of a retry left in the buckets that runs share; empty: it asked none."""
    found = None if shares is None else shares.given(_key(command_id, attempt))
    return found or Given()


def buckets(config: Config, fabric: str, spec: FabricSpec, model: str) -> tuple[tuple[str, int], ...]:
    """``(bucket, tokens that fit in)`` that the calls of a model share; of a tool, without its name, the fabric's alone."""
    found = [(f"{FABRIC}:{fabric}", config.bucket)]
    if model:
        found.append((provider_scope(spec.model(model)), PROVIDER_BUCKET))
    return tuple(sorted(found))
