"""Pieces that several facts share: gate results, proposed calls, trips."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from fabric.core.frozen import value
from fabric.core.taxonomy import Cause
from fabric.core.verdict import Evidence

CheckResult = Literal["passed", "failed", "accepted", "not_configured", "not_reached"]
"""``accepted``: a person let pass what it found. ``not_configured``: the fabric asks nothing here. ``not_reached``: an earlier check failed."""


@value(kw_only=True)
class Check:
    """One check of a gate: its name, its result, and the problems that it found."""

    name: str
    result: CheckResult
    problems: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    """Names of the policies that decided, where one was asked."""


@value(kw_only=True)
class GateResult:
    """The ValidationResult of one gate: all its checks in order; the first failure ends them (S0 "Validation Gates Between Stages")."""

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
    """Calls of the same answer that it waits for: it refers to them, or writes over what they write."""
    given: str = ""
    """The id that its model knows it by, where that is another one."""


@value(kw_only=True)
class GrantUse:
    """A part of a grant that a call is reserved from, beside its run's own budget: the process that holds it, and the shared budget it is of."""

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
    """Where a shared bucket of retry tokens stood once it had given one: the evidence of a retry."""

    bucket: str
    level: int
    """Thousandths of a token; below 0: it was given on credit."""


@value(kw_only=True)
class TripRecord:
    """A trip as it is journaled: the mechanism, its cause, the sentence and the numbers."""

    mechanism: str
    cause: Cause
    message: str
    evidence: Evidence = field(default_factory=Evidence)


@value(kw_only=True)
class Candidate:
    """A model that a call could go to in place of the one that was asked: what that may cost at worst, and why it may not take the call."""

    model: str
    usd_micros: int | None = None
    """None: it has no price."""
    ruled_out: Literal["", "tried", "needs", "endpoint", "price", "breaker", "dearer", "guard"] = ""
    """Empty: it takes the call. ``tried``: it was asked already. ``needs``: it cannot do what the call needs. ``endpoint``: what failed is its endpoint's
    too. ``price``: it has none. ``breaker``: the open one is its provider's. ``dearer``: it costs no less. ``guard``: a mechanism refuses."""
    trip: TripRecord | None = None
    """What the guard said of the call to it, with its numbers."""


@value(kw_only=True)
class Weighed:
    """What the choice of another model was made on. Money is micro-dollars, at worst."""

    before: str
    """The model that was asked."""
    input_tokens: int
    output_tokens: int
    usd_micros: int | None = None
    """What the call may have cost with that one; None: it has no price."""
    candidates: tuple[Candidate, ...] = ()
    """In the order in which they were looked at, up to the one that takes the call: first what the chain names and cannot be asked, as it names it."""
