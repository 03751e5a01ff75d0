"""Pieces that several facts share: gate results, proposed calls, trips."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from fabric.core.values.frozen import value
from fabric.core.values.taxonomy import Cause, Evidence

CheckResult = Literal["passed", "failed", "accepted", "not_configured", "not_reached"]
"""``accepted``: a person accepted its finding. ``not_configured``: the fabric has no such check. ``not_reached``: an
earlier check failed.
"""


@value(kw_only=True)
class Check:
    """One check of a gate: its name, its result, and the problems that it found."""

    name: str
    result: CheckResult
    problems: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    """Names of the policies that decided, if any did."""


@value(kw_only=True)
class GateResult:
    """The ValidationResult of one gate: all its checks in order; the first failure ends them (S0 "Validation Gates
    Between Stages").
    """

    gate: Literal["pre", "post"]
    checks: tuple[Check, ...] = ()
    cause: Cause | None = None
    """Why it failed; None when it passed."""
    score: float | None = None
    """The critic's, where the stage has one."""
    tau: float | None = None


@value(kw_only=True)
class ProposedCall:
    """A call as a model proposed it, by fingerprint."""

    call_id: str
    tool: str
    args_hash: str
    after: tuple[str, ...] = ()
    """Calls of its answer that it waits for: it refers to them, or overwrites context variables that they write."""
    given: str = ""
    """The id under which its model knows it, if it differs."""


@value(kw_only=True)
class GrantUse:
    """The amount of a shared budget's grant that a call reserves, besides its run's own budget. Names the grant and the
    budget's scope.
    """

    grant_id: str
    scope: str
    usd_micros: int


@value(kw_only=True)
class PassedModel:
    """A model of a chain of fallbacks that could not take a call, and why."""

    model: str
    reason: str


@value(kw_only=True)
class BucketLevel:
    """Level of a shared bucket of retry tokens after a retry took one: the evidence of the retry."""

    bucket: str
    level: int
    """Thousandths of a token; below 0: the token was on credit."""


@value(kw_only=True)
class TripRecord:
    """A trip as it is journaled: the mechanism, its cause, the sentence and the numbers."""

    mechanism: str
    cause: Cause
    message: str
    evidence: Evidence = field(default_factory=Evidence)


@value(kw_only=True)
class Candidate:
    """A possible fallback for a call: its worst-case cost, and the reason why it may not take the call."""

    model: str
    usd_micros: int | None = None
    """None: it has no price."""
    ruled_out: Literal["", "tried", "needs", "endpoint", "price", "breaker", "dearer", "guard"] = ""
    """"": it takes the call. ``tried``: it had the call already. ``needs``: it lacks a capability that the call
    needs. ``endpoint``: its endpoint is the failed one. ``price``: it has none. ``breaker``: the open breaker is
    its provider's. ``dearer``: it costs no less. ``guard``: a mechanism refuses.
    """
    trip: TripRecord | None = None
    """The guard's finding on a call to this model, with its numbers; None: it passed."""


@value(kw_only=True)
class Weighed:
    """The candidates and numbers for the choice of another model. Money is micro-dollars, at worst."""

    before: str
    """The model before the change."""
    input_tokens: int
    output_tokens: int
    usd_micros: int | None = None
    """Worst-case cost of the call with the replaced model; None: it has no price."""
    candidates: tuple[Candidate, ...] = ()
    """Candidates in the order of the choice, up to the one that takes the call. Unfit ones that the chain names come
    first.
    """
