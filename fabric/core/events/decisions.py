"""Facts about failures and people: rungs, reactions, reviews, clocks."""

from __future__ import annotations

from typing import ClassVar, Literal

from fabric.core.events.parts import BucketLevel, GateResult, PassedModel, TripRecord, Weighed
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import value
from fabric.core.values.taxonomy import Cause, FailureType, Tier


@value(kw_only=True)
class RungSkipped:
    """A rung of the ladder could not apply here, and why."""

    failure_type: FailureType
    tier: Tier
    rung: int
    """Its place in the cell, from 0; pages and `explain` count from 1."""
    reaction: str
    reason: str
    trip: TripRecord | None = None
    """The mechanism that spoke against it, with its numbers; None: none did."""
    weighed: Weighed | None = None
    """For a rung that changes the model: the unfit models, with their numbers. None: none was considered."""
    kind: ClassVar[str] = "rung_skipped"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ReactionDecided:
    """The engine decided about a failure: the cell, the rung and the numbers. With them the decision can be derived
    again from the journal alone.
    """

    failure_type: FailureType | None
    """None: a direct reaction (``below_tau``, a failure that came back)."""
    tier: Tier
    table: str
    """Digest of the decision table in force."""
    rung: int
    """Its place in the cell, from 0; pages and `explain` count from 1."""
    reaction: str
    scope: str
    """Scope in which uses of the rung are counted: ``call:...``, ``step:...`` or ``stage:...``."""
    spent: int
    """Earlier uses of this rung in this scope."""
    bound: int | None
    """Most uses of this rung; None for the last rung."""
    cause: TripRecord
    causes: tuple[TripRecord, ...] = ()
    """The graver one won; these tripped with it."""
    accompanies: tuple[str, ...] = ()
    step_id: str = ""
    command_id: str = ""
    layer: str = ""
    """The retry layer that acted (``retry_layers.Layer``); "": the fabric has none."""
    gate: GateResult | None = None
    """The gate that refused what this decides about; None: it was no gate."""
    kind: ClassVar[str] = "reaction_decided"
    version: ClassVar[int] = 1


@value(kw_only=True)
class AlertRaised:
    """People receive an alert about a failure while the run goes on; it needs no answer."""

    mechanism: str
    cause: Cause
    message: str
    reaction: str
    """Reaction that was chosen for the failure."""
    step_id: str = ""
    kind: ClassVar[str] = "alert_raised"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ModelChanged:
    """Another model answers for the rest of a step. A failed call of the step goes out again to that model."""

    step_id: str
    agent: str
    before: str
    """Name of the model until now."""
    model: str
    reason: str
    """The reaction that led to it."""
    command_id: str = ""
    """For a fallback model: the failed call; "": a person put the model in place for the whole step."""
    cause: Cause | None = None
    """Fallback model: why the call failed."""
    needs: tuple[str, ...] = ()
    """For a fallback model: the capabilities that it needed."""
    more_usd_micros: int = 0
    """For a fallback model: the worst-case cost of the call above its earlier one; below zero: it is cheaper."""
    passed_over: tuple[PassedModel, ...] = ()
    """Fallback model: models of the chain that could not take the call."""
    actor: str = ""
    """Person who approved it; "": the decision table chose."""
    weighed: Weighed | None = None
    """Candidates and numbers of the choice; None: a person chose the model."""
    left_out: int = 0
    """Number of the step's earlier answers whose reasoning is not sent to the new model. Only its author understands
    it.
    """
    kind: ClassVar[str] = "model_changed"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CapRaised:
    """A person gave the run more money than its fabric gives one."""

    cap_usd_micros: int
    """Most the run may spend from now on, altogether."""
    before_usd_micros: int
    actor: str
    review_id: str
    kind: ClassVar[str] = "cap_raised"
    version: ClassVar[int] = 1


@value(kw_only=True)
class BudgetRaised:
    """A person raised a cap of the run other than its money: of a stage, an agent, or tokens."""

    scope: str
    """``run``, ``stage:<name>`` or ``agent:<name>``."""
    unit: Literal["usd_micros", "tokens"]
    cap: int
    """Most it may spend from now on, altogether, in this run."""
    before: int
    actor: str
    review_id: str
    kind: ClassVar[str] = "budget_raised"
    version: ClassVar[int] = 1


@value(kw_only=True)
class RetryScheduled:
    """A call is retried at ``not_before``. That instant follows from backoff with full jitter, the provider's
    Retry-After or a circuit breaker's next probe; with another model it is now.
    """

    command_id: str
    attempt: int
    not_before: int
    delay_s: float
    source: Literal["backoff", "retry_after", "breaker", "named", "failover"]
    """Named: a wait that the endpoint named, beyond the call's retries. Like a breaker's it takes no token."""
    tokens_left: int
    """Thousandths of a retry token in the run's own budget after this one."""
    buckets: tuple[BucketLevel, ...] = ()
    """Levels of the shared retry buckets after this retry; empty if it took no shared token."""
    asked_at: int = 0
    """Instant at which those buckets were read, microseconds since the epoch."""
    kind: ClassVar[str] = "retry_scheduled"
    version: ClassVar[int] = 1


@value(kw_only=True)
class NodeRetryScheduled:
    """A failed node runs once more at ``not_before``: its step opens anew then, with calls and retries of its own."""

    step_id: str
    """The activation that failed."""
    attempt: int
    """The attempt that comes, the first one counted."""
    attempts: int
    """Most attempts of the node."""
    not_before: int
    delay_s: float
    tokens_left: int
    """Thousandths of a retry token in the run's own budget after this one."""
    buckets: tuple[BucketLevel, ...] = ()
    """Levels of the shared retry buckets after this retry; empty if it took no shared token."""
    asked_at: int = 0
    """Instant at which those buckets were read, microseconds since the epoch."""
    kind: ClassVar[str] = "node_retry_scheduled"
    version: ClassVar[int] = 1


@value(kw_only=True)
class MessageInjected:
    """A corrective message for the step. Content: its text."""

    step_id: str
    kind: ClassVar[str] = "message_injected"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ToolsStripped:
    """A protection stopped the agent: it answers once, without tools, with the material that it has."""

    step_id: str
    reason: str = ""
    kept: int = 0
    """Number of calls whose results the agent has."""
    kind: ClassVar[str] = "tools_stripped"
    version: ClassVar[int] = 1


@value(kw_only=True)
class StepFailed:
    """A step ended without a result."""

    step_id: str
    cause: Cause
    message: str
    partial: bool = False
    """True: its retries are exhausted and its fabric goes on without it (``allow_partial``): its stage is a partial
    success.
    """
    routed: bool = False
    """True: a rule of the graph says who goes on after it, or the conversation was closed with it."""
    kind: ClassVar[str] = "step_failed"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ReviewOpened:
    """A review was opened; its branch is parked. Content: everything that the reviewer sees."""

    review_id: str
    item: Literal["failure", "post_stage", "pre_action", "quarantine", "compensation", "child", "follow_up"]
    """``follow_up``: the run has ended and does not wait for it."""
    reason: str
    failure_type: FailureType | None
    stage: Stage
    step_id: str
    scope: str
    """Scope in which its rounds are counted: stage and branch."""
    required_role: str
    verbs: tuple[str, ...]
    digest: str
    """Over what approval releases; a decision names it."""
    remind_at: int
    onward_at: int
    due_at: int
    on_expiry: Literal["reject", "nothing", "error", "next"] = "reject"
    """Meaning of silence. error: an error of the call whose tool asks. next: no approval, and the ladder's next rung is
    taken.
    """
    round: int = 1
    """Number of the review of this failure; other subjects are reviewed once."""
    model: str = ""
    """Fallback that an approval may name; "": none."""
    releases: str = ""
    """Key of the output that an approval accepts as shown (``releases.key``); "": none."""
    weighed: Weighed | None = None
    """Candidates and numbers of the choice of ``model``; None: no model was considered."""
    approvals: int = 1
    """Number of people who have to agree: 1 or 2."""
    barred: tuple[str, ...] = ()
    """People who may reject it but not approve it."""
    reviewers: tuple[str, ...] = ()
    """Names and roles that the fabric lists as its reviewers; empty: none listed, or another person has to review
    it.
    """
    onward_to: tuple[str, ...] = ()
    """People who may answer too, once the review was passed on."""
    score: float | None = None
    """The critic's score, where low confidence caused the review."""
    tau: float | None = None
    """Lowest score that passes without a review."""
    kind: ClassVar[str] = "review_opened"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ReviewReminded:
    """Half of the time (``reminder``) or three quarters (``onward``) have passed unanswered."""

    review_id: str
    step: Literal["reminder", "onward"]
    kind: ClassVar[str] = "review_reminded"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ReviewApproved:
    """One of two people who have to agree did; the review stays open. Content: the reviewer's message, if there is
    one.
    """

    review_id: str
    actor: str
    digest: str
    """Digest of the content that the person agreed to."""
    agreed: tuple[str, ...]
    """People who have agreed to exactly this content, the actor last."""
    roles: tuple[str, ...] = ()
    """Roles of the actor when the run took the answer."""
    terms: str = ""
    """Digest of the terms of the approval (caps, a model), which the next person must name equally; "": none."""
    kind: ClassVar[str] = "review_approved"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ReviewEdited:
    """A person proposes another content for a review. The review is about that from now on, and only the people
    named here have agreed to it. Content: the reviewed content from now on.
    """

    review_id: str
    actor: str
    digest: str
    """Over what approval releases from now on."""
    before: str
    """The digest until now."""
    agreed: tuple[str, ...] = ()
    """People who have agreed to it: the actor, where the actor counts as one of two."""
    proposed_by: str = ""
    """Author who may not approve it, since it is their own; "": the author's agreement counts."""
    roles: tuple[str, ...] = ()
    """Roles of the actor when the run took the proposal."""
    kind: ClassVar[str] = "review_edited"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ReviewDecided:
    """Answered. Content: the reviewer's message, where there is one."""

    review_id: str
    verb: Literal["approve", "edit", "reject", "respond", "decline"]
    actor: str
    system: bool = False
    """True: no answer came in time, and the declared expiry was applied."""
    roles: tuple[str, ...] = ()
    """Roles of the actor when the run took the answer."""
    agreed: tuple[str, ...] = ()
    """People who had agreed before."""
    proposed_by: str = ""
    """Author of the edit that was approved; "": none."""
    kind: ClassVar[str] = "review_decided"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ReviewWithdrawn:
    """The review no longer matters: its plan was replaced, or the run ended."""

    review_id: str
    reason: str
    kind: ClassVar[str] = "review_withdrawn"
    version: ClassVar[int] = 1


@value(kw_only=True)
class DeadlinesSuspended:
    """Only reviews are live: in batch and high-stakes the clocks stop (docs/specification/reviews.md)."""

    run_remaining_us: int
    stage_remaining_us: int
    kind: ClassVar[str] = "deadlines_suspended"
    version: ClassVar[int] = 1


@value(kw_only=True)
class DeadlinesReissued:
    """The clocks run again, from these new instants. Commands already out keep their own."""

    run_deadline_at: int
    stage_deadline_at: int
    kind: ClassVar[str] = "deadlines_reissued"
    version: ClassVar[int] = 1
