"""Facts about failures and people: rungs, reactions, escalations, clocks."""

from __future__ import annotations

from typing import ClassVar, Literal

from fabric.core.events.parts import BucketLevel, GateResult, PassedModel, TripRecord, Weighed
from fabric.core.flow import Stage
from fabric.core.frozen import value
from fabric.core.taxonomy import Cause, FailureType, Tier


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
    """Of a rung that changes the model: those that could not take the call, with their numbers; None: none was looked at."""
    kind: ClassVar[str] = "rung_skipped"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ReactionDecided:
    """The decision: which cell, which rung, on what numbers. With it the decision can be derived again from the journal alone."""

    failure_type: FailureType | None
    """None: a direct reaction (``below_tau``, a failure that came back)."""
    tier: Tier
    table: str
    """Digest of the decision table in force."""
    rung: int
    """Its place in the cell, from 0; pages and `explain` count from 1."""
    reaction: str
    scope: str
    """What the rung is counted against: ``call:...``, ``step:...`` or ``stage:...``."""
    spent: int
    """How often this rung had been used in this scope before."""
    bound: int | None
    """How often it may be used; None for the last rung."""
    cause: TripRecord
    causes: tuple[TripRecord, ...] = ()
    """The graver one won; these tripped with it."""
    accompanies: tuple[str, ...] = ()
    step_id: str = ""
    command_id: str = ""
    layer: str = ""
    """The retry layer that acted (``retry_layers.Layer``); empty: the fabric has none."""
    gate: GateResult | None = None
    """The gate that refused what this decides about; None: it was no gate."""
    kind: ClassVar[str] = "reaction_decided"
    version: ClassVar[int] = 1


@value(kw_only=True)
class AlertRaised:
    """People are told of a failure while the run goes on; nobody has to answer."""

    mechanism: str
    cause: Cause
    message: str
    reaction: str
    """What was decided about it."""
    step_id: str = ""
    kind: ClassVar[str] = "alert_raised"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ModelChanged:
    """Another model answers for the rest of a step. A call of it that failed goes out again to that one."""

    step_id: str
    agent: str
    before: str
    """Name of the model until now."""
    model: str
    reason: str
    """The reaction that led to it."""
    command_id: str = ""
    """Fallback model: the call that failed; empty: a person put the model in place for the whole step."""
    cause: Cause | None = None
    """Fallback model: why the call failed."""
    needs: tuple[str, ...] = ()
    """Fallback model: what the model had to be capable of."""
    more_usd_micros: int = 0
    """Fallback model: what the call may cost at worst above what it might have cost before; below zero: less."""
    passed_over: tuple[PassedModel, ...] = ()
    """Fallback model: models of the chain that could not take the call."""
    actor: str = ""
    """Who approved it; empty: the decision table."""
    weighed: Weighed | None = None
    """What the choice was made on; None: a person put the model in place."""
    left_out: int = 0
    """Earlier answers of the step whose reasoning is not sent to it, since only the model that gave it understands it."""
    kind: ClassVar[str] = "model_changed"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CapRaised:
    """A person gave the run more money than its fabric gives one."""

    cap_usd_micros: int
    """Most the run may spend from now on, altogether."""
    before_usd_micros: int
    actor: str
    escalation_id: str
    kind: ClassVar[str] = "cap_raised"
    version: ClassVar[int] = 1


@value(kw_only=True)
class BudgetRaised:
    """A person raised another cap of the run than that of its money: of a stage, of an agent, or of tokens."""

    scope: str
    """``run``, ``stage:<name>`` or ``agent:<name>``."""
    unit: Literal["usd_micros", "tokens"]
    cap: int
    """Most it may spend from now on, altogether, in this run."""
    before: int
    actor: str
    escalation_id: str
    kind: ClassVar[str] = "budget_raised"
    version: ClassVar[int] = 1


@value(kw_only=True)
class RetryScheduled:
    """The same call again at ``not_before``: backoff with full jitter, the provider's Retry-After, when a circuit breaker lets somebody probe, or at once
    with another model.
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
    """Where the buckets that runs share stood after this one; empty: none was asked."""
    asked_at: int = 0
    """When they were asked, microseconds since the epoch."""
    kind: ClassVar[str] = "retry_scheduled"
    version: ClassVar[int] = 1


@value(kw_only=True)
class NodeRetryScheduled:
    """A node that failed runs once more at ``not_before``: its step is opened anew then, with calls and retries of its own."""

    step_id: str
    """The activation that failed."""
    attempt: int
    """The attempt that comes, the first one counted."""
    attempts: int
    """How many there may be."""
    not_before: int
    delay_s: float
    tokens_left: int
    """Thousandths of a retry token in the run's own budget after this one."""
    buckets: tuple[BucketLevel, ...] = ()
    """Where the buckets that runs share stood after this one; empty: none was asked."""
    asked_at: int = 0
    """When they were asked, microseconds since the epoch."""
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
    """Terminate: the agent answers once with what it has."""

    step_id: str
    reason: str = ""
    kept: int = 0
    """Calls whose results the agent has."""
    kind: ClassVar[str] = "tools_stripped"
    version: ClassVar[int] = 1


@value(kw_only=True)
class StepFailed:
    """A step ended without a result."""

    step_id: str
    cause: Cause
    message: str
    partial: bool = False
    """True: its retries are exhausted and its fabric goes on without it (``allow_partial``): its stage is a partial success."""
    routed: bool = False
    """True: a rule of the graph says who goes on after it, or the conversation was closed with it."""
    kind: ClassVar[str] = "step_failed"
    version: ClassVar[int] = 1


@value(kw_only=True)
class EscalationOpened:
    """An open question to a person; its branch is parked. Content: what the person is shown."""

    escalation_id: str
    item: Literal["failure", "post_stage", "pre_action", "quarantine", "compensation", "child", "ticket"]
    """``ticket``: it parks nothing and the run does not wait for it; the run has ended."""
    reason: str
    failure_type: FailureType | None
    stage: Stage
    step_id: str
    scope: str
    """What its rounds are counted against: stage and branch."""
    required_role: str
    verbs: tuple[str, ...]
    digest: str
    """Over what approval releases; a decision names it."""
    remind_at: int
    onward_at: int
    due_at: int
    on_expiry: Literal["reject", "nothing", "error", "next"] = "reject"
    """error: silence is an error of the call that asks. next: silence lets nothing pass, and the ladder's next rung is taken."""
    round: int = 1
    """Which one it is, for a failure; whatever else is asked about is asked about once."""
    model: str = ""
    """The model that an approval may name, to answer in place of the one that failed; empty: there is none."""
    releases: str = ""
    """What an approval lets pass as it was shown (``releases.key``); empty: nothing."""
    weighed: Weighed | None = None
    """The figures by which ``model`` was chosen; None: no model was looked at."""
    approvals: int = 1
    """How many people have to agree: 1 or 2."""
    barred: tuple[str, ...] = ()
    """Who may reject it and not let it pass."""
    reviewers: tuple[str, ...] = ()
    """Names and roles that the fabric lists, for a question that is theirs; empty: it lists nobody, or names somebody else."""
    onward_to: tuple[str, ...] = ()
    """Who may answer as well once it was passed on."""
    score: float | None = None
    """What the critic gave, where confidence is why it is asked..."""
    tau: float | None = None
    """...and the least that passes."""
    kind: ClassVar[str] = "escalation_opened"
    version: ClassVar[int] = 1


@value(kw_only=True)
class EscalationReminded:
    """Half of the time (``reminder``) or three quarters (``onward``) have passed unanswered."""

    escalation_id: str
    step: Literal["reminder", "onward"]
    kind: ClassVar[str] = "escalation_reminded"
    version: ClassVar[int] = 1


@value(kw_only=True)
class EscalationApproved:
    """One of two who have to agree did; the question stays open. Content: the reviewer's message, where there is one."""

    escalation_id: str
    actor: str
    digest: str
    """What was agreed to."""
    agreed: tuple[str, ...]
    """Who has agreed to exactly this by now, the actor last."""
    roles: tuple[str, ...] = ()
    """What the actor held when the run took it."""
    terms: str = ""
    """Digest of what was named with it (caps, a model): whoever agrees next has to name the same; empty: nothing."""
    kind: ClassVar[str] = "escalation_approved"
    version: ClassVar[int] = 1


@value(kw_only=True)
class EscalationEdited:
    """Somebody proposes something else in place of what is asked about: that is asked about from now on, and nobody has agreed to it but who is named.
    Content: what the person is shown from now on.
    """

    escalation_id: str
    actor: str
    digest: str
    """Over what approval releases from now on."""
    before: str
    """The digest until now."""
    agreed: tuple[str, ...] = ()
    """Who has agreed to it by now: the actor, where their word counts as one of two."""
    proposed_by: str = ""
    """Who may not approve it, since it is theirs; empty: their word counts."""
    roles: tuple[str, ...] = ()
    """What the actor held when the run took it."""
    kind: ClassVar[str] = "escalation_edited"
    version: ClassVar[int] = 1


@value(kw_only=True)
class EscalationDecided:
    """Answered. Content: the reviewer's message, where there is one."""

    escalation_id: str
    verb: Literal["approve", "edit", "reject", "respond", "decline"]
    actor: str
    system: bool = False
    """True: nobody answered in time and the declared expiry was applied."""
    roles: tuple[str, ...] = ()
    """Roles of the actor when the run took the answer."""
    agreed: tuple[str, ...] = ()
    """Who had agreed before."""
    proposed_by: str = ""
    """Whose edit it was that is let pass."""
    kind: ClassVar[str] = "escalation_decided"
    version: ClassVar[int] = 1


@value(kw_only=True)
class EscalationWithdrawn:
    """The question no longer matters: its epoch was replanned, or the run ended."""

    escalation_id: str
    reason: str
    kind: ClassVar[str] = "escalation_withdrawn"
    version: ClassVar[int] = 1


@value(kw_only=True)
class DeadlinesSuspended:
    """Nothing is live but questions to people: in batch and high-stakes the clocks stop (semantics.md 4 "Human waits")."""

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
