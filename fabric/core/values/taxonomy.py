"""Defines the vocabulary of failure: its kinds, and the mapping of one call's error to them.

One table, ``CLASSIFY``, joins the three classifications of the source documents (docs/specification/failures.md): the
class of a call's failure (``ErrorClass``, S1), the flow's treatment (``FlowClass``, S0) and the row of the decision
table (``FailureType``). A mechanism's verdict is ``Pass`` or ``Trip``. A trip names a failure with evidence; it never
chooses the reaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from fabric.core.values.frozen import value


class Tier(StrEnum):
    """The workload tier a run picked: the column of the decision table."""

    INTERACTIVE = "interactive"
    BATCH = "batch"
    HIGH_STAKES = "high_stakes"


class FailureType(StrEnum):
    """The eight rows of the decision table (docs/specification/decision-table.md, S0 "Failure Decision Table")."""

    TOOL_LOOP = "infinite_tool_loop"
    DEADLOCK = "sub_agent_deadlock"
    COST_OVERRUN = "cost_overrun"
    PROVIDER = "provider_failure"
    SCHEMA_GROUNDING = "schema_grounding_fail"
    PLAN_MALFORMED = "plan_malformed"
    NO_PROGRESS = "semantic_no_progress"
    UNSAFE_OUTPUT = "unsafe_output"


class FailureClass(StrEnum):
    """The three clusters of the MAST taxonomy."""

    SPECIFICATION = "specification_and_design"
    INTER_AGENT = "inter_agent_misalignment"
    VERIFICATION = "verification_and_termination"


class ErrorClass(StrEnum):
    """Class of one call's failure (S1 "Failure classification")."""

    TRANSIENT_INFRA = "transient_infra"
    DETERMINISTIC = "deterministic"
    BUDGET_EXHAUSTED = "budget_exhausted"
    COMPILATION_LOOP = "compilation_loop"
    STRUCTURAL = "structural"
    CANCELED = "canceled"


class FlowClass(StrEnum):
    """Class by which the flow treats an error (S0 "Retry With Escalation")."""

    TRANSIENT = "transient"
    SEMANTIC = "semantic"
    POLICY = "policy"
    BUDGET = "budget"
    NONE = "none"


class Cause(StrEnum):
    """The finest name of a failure, and the key of ``CLASSIFY``: why a call, gate or guard refused."""

    RATE_LIMIT = "rate_limit"
    SERVER_ERROR = "server_error"
    TIMEOUT = "timeout"
    NETWORK = "network"
    DROPPED_STREAM = "dropped_stream"
    RETRY_ASKED = "retry_asked"
    MALFORMED_ANSWER = "malformed_answer"
    AUTH = "auth"
    BAD_REQUEST = "bad_request"
    BAD_CONFIGURATION = "bad_configuration"
    UNKNOWN_MODEL = "unknown_model"
    SCHEMA_INVALID = "schema_invalid"
    TOOL_CONSTRAINT = "tool_constraint"
    UNKNOWN = "unknown"
    CORRECTIONS_SPENT = "corrections_spent"
    INVARIANT = "invariant"
    GROUNDING = "grounding"
    PARTIAL_FAN_IN = "partial_fan_in"
    CONTEXT_LENGTH = "context_length"
    TOKEN_LIMIT = "token_limit"  # noqa: S105 - tokens of text
    QUOTA = "quota"
    BUDGET_GATE = "budget_gate"
    KEY_CAP = "key_cap"
    COST_VELOCITY = "cost_velocity"
    PRICE_MISSING = "price_missing"
    RUN_DEADLINE = "run_deadline"
    STAGE_DEADLINE = "stage_deadline"
    DEADLINE_NEAR = "deadline_near"
    TURN_LIMIT = "turn_limit"
    HOP_LIMIT = "hop_limit"
    RECURSION_LIMIT = "recursion_limit"
    VISIT_LIMIT = "visit_limit"
    SUB_AGENT_CAP = "sub_agent_cap"
    EVENT_CAP = "event_cap"
    PAYLOAD_CAP = "payload_cap"
    PENDING_CAP = "pending_cap"
    LOOP_DETECTED = "loop_detected"
    STALLED = "stalled"
    NO_PROGRESS = "no_progress"
    BRIEF_REPEATED = "brief_repeated"
    SUPERVISOR_STUCK = "supervisor_stuck"
    HANDOFF_CYCLE = "handoff_cycle"
    RETRY_BUDGET_EMPTY = "retry_budget_empty"
    QUEUE_FULL = "queue_full"
    PLAN_GATE = "plan_gate"
    POLICY_DENIED = "policy_denied"
    WORKSPACE_POLICY = "workspace_policy"
    PERSONA_VIOLATION = "persona_violation"
    INJECTED_INSTRUCTION = "injected_instruction"
    CONTENT_FILTER = "content_filter"
    DUPLICATE_CALL = "duplicate_call"
    DEPENDENCY_FAILED = "dependency_failed"
    WRITE_CONFLICT = "write_conflict"
    OUTCOME_UNKNOWN = "outcome_unknown"
    REPEATED_FAILURE = "repeated_failure"
    RESTART_BLOCKED = "restart_blocked"
    GOAL_UNMET = "goal_unmet"
    BELOW_TAU = "below_tau"
    USER_CANCEL = "user_cancel"


class Direct(StrEnum):
    """A trip without a row: its reaction is fixed, whatever the table has (docs/specification/failures.md).
    ``decision_table.DIRECT`` lists the reactions, by tier.
    """

    ESCALATE = "escalate"
    ABORT = "abort"
    """Interactive and batch abort, high-stakes escalate."""
    NEUTRAL = "neutral"


class FailoverTarget(StrEnum):
    """Models that a call may go to after a failure."""

    ANY = "any"
    """Any model of the chain: another one of the failed endpoint may answer."""
    ELSEWHERE = "elsewhere"
    """A model of another endpoint: the endpoint or its account failed, whatever the model."""
    NOWHERE = "nowhere"
    """No model: the failure would repeat, or the model is not at fault."""


@dataclass(frozen=True, slots=True)
class Classification:
    """One cause's classes for retry, failover, signatures and the decision table, and the advice about it."""

    error_class: ErrorClass
    flow_class: FlowClass
    goes_to: FailureType | Direct
    advice: str
    """The sentence on what to do now, for pages, messages and ``docs/reference/reasons.md``."""
    signature_counted: bool = False
    retried: bool = False
    fails_over_to: FailoverTarget = FailoverTarget.NOWHERE
    last_rung: bool = False
    """True: no earlier rung can help (a wrong key stays wrong), so the ladder is entered at its last rung."""

    @property
    def failover(self) -> bool:
        """Return True if another model may answer."""
        return self.fails_over_to is not FailoverTarget.NOWHERE


_E, _F, _T = ErrorClass, FlowClass, FailureType
_ANY, _ELSEWHERE = FailoverTarget.ANY, FailoverTarget.ELSEWHERE


def _transient(advice: str, failover: FailoverTarget = _ANY) -> Classification:
    return Classification(_E.TRANSIENT_INFRA, _F.TRANSIENT, _T.PROVIDER, advice, retried=True, fails_over_to=failover)


def _configuration(advice: str) -> Classification:
    return Classification(_E.DETERMINISTIC, _F.NONE, _T.PROVIDER, advice, signature_counted=True, last_rung=True)


def _semantic(advice: str, row: FailureType = _T.SCHEMA_GROUNDING) -> Classification:
    return Classification(_E.DETERMINISTIC, _F.SEMANTIC, row, advice, signature_counted=True)


def _budget(advice: str, failover: FailoverTarget = FailoverTarget.NOWHERE) -> Classification:
    return Classification(_E.BUDGET_EXHAUSTED, _F.BUDGET, _T.COST_OVERRUN, advice, fails_over_to=failover)


def _loop(advice: str, row: FailureType = _T.TOOL_LOOP) -> Classification:
    return Classification(_E.COMPILATION_LOOP, _F.SEMANTIC, row, advice)


def _policy(advice: str) -> Classification:
    return Classification(_E.STRUCTURAL, _F.POLICY, _T.UNSAFE_OUTPUT, advice, signature_counted=True)


def _direct(advice: str, reaction: Direct) -> Classification:
    return Classification(_E.DETERMINISTIC, _F.SEMANTIC, reaction, advice)


CLASSIFY: dict[Cause, Classification] = {
    Cause.RATE_LIMIT: _transient(
        "Wait until the endpoint takes requests again, send fewer at once, or name a fallback model."
    ),
    Cause.SERVER_ERROR: _transient("Look whether the endpoint is up, or name a fallback model."),
    Cause.TIMEOUT: _transient(
        "Find out why the endpoint or tool is slow, or give its calls more time (deadlines, timeout_s)."
    ),
    Cause.NETWORK: _transient("Look whether the endpoint can be reached from the worker's machine.", _ELSEWHERE),
    Cause.DROPPED_STREAM: _transient("Find out why the connection breaks, or switch streaming off for this model."),
    # An endpoint that answers with a web page is unavailable: that tells nothing about the call.
    Cause.MALFORMED_ANSWER: _transient(
        "Look at the address of the endpoint: it often ends in /v1. A proxy may answer in its place.", _ELSEWHERE
    ),
    # The worker itself requests another attempt, whatever the reason (S1 "Retry status").
    Cause.RETRY_ASKED: Classification(
        _E.TRANSIENT_INFRA,
        _F.TRANSIENT,
        _T.PROVIDER,
        "Find out why the tool asks to be called again, or give the step more retries.",
        retried=True,
    ),
    Cause.AUTH: _configuration("Look at the key: the endpoint refuses it."),
    Cause.BAD_REQUEST: _configuration("Look at the model's options: the endpoint refuses the request."),
    Cause.BAD_CONFIGURATION: _configuration("Correct the fabric or the installation where the sentence says."),
    Cause.UNKNOWN_MODEL: _configuration("Look at the model's name: the endpoint does not know it."),
    Cause.SCHEMA_INVALID: _semantic("Look at the output that was refused, and at the schema that it has to fit."),
    Cause.TOOL_CONSTRAINT: _semantic("Look at what the tool refuses, and say it in the agent's instructions."),
    Cause.UNKNOWN: _semantic("Look at the run's events: this failure is unknown."),
    Cause.CORRECTIONS_SPENT: _semantic(
        "Look at the agent's last answers, and make its instructions or its schema simpler."
    ),
    Cause.INVARIANT: _semantic("Look at the check that refused, and at the output that it judged."),
    Cause.GROUNDING: _semantic("Look at the citations: the sources do not say what the answer says."),
    Cause.PARTIAL_FAN_IN: _semantic("Look at the agents that brought no result, or let the fan-in accept fewer."),
    Cause.DUPLICATE_CALL: _semantic("Nothing: the agent reads why, and asks again."),
    Cause.DEPENDENCY_FAILED: _semantic("Look at the call that this one needed."),
    Cause.WRITE_CONFLICT: _semantic("Let one call write at a time, or say which write stands (conflicts)."),
    Cause.CONTEXT_LENGTH: _budget("Give the agent less to read, or a model with a larger context."),
    Cause.TOKEN_LIMIT: _budget("Give the model a larger max_output_tokens, or ask for a shorter answer."),
    Cause.QUOTA: _budget("Raise the account's quota, or wait for its next period.", _ELSEWHERE),
    Cause.BUDGET_GATE: _budget("Raise the cap that the sentence names, or use a cheaper model."),
    # Another key may have money: a fallback with another key is tried.
    Cause.KEY_CAP: _budget(
        "Wait for the next day or month, use a model with another key, or have an owner raise the key's cap.",
        _ELSEWHERE,
    ),
    Cause.COST_VELOCITY: _budget(
        "Find out which calls cost so much. Raise the cap, or configure the rate that is normal."
    ),
    Cause.PRICE_MISSING: _budget("Give the model a price in the fabric."),
    Cause.RUN_DEADLINE: _budget("Give the runs of this tier more time (deadlines), or less to do."),
    Cause.STAGE_DEADLINE: _budget("Give the stage more time (deadlines), or less to do."),
    Cause.DEADLINE_NEAR: _budget("Give the stage more time (deadlines), or shorten the call's own time."),
    Cause.SUB_AGENT_CAP: _budget(
        "Let the planner hand out fewer briefs, or raise limits.sub_agents_alive or sub_agents_spawned."
    ),
    Cause.EVENT_CAP: _budget("Find out why the run writes so many events, or raise limits.run_events."),
    Cause.PAYLOAD_CAP: _budget("Give the run less to keep, or raise limits.run_payload_bytes."),
    Cause.PENDING_CAP: _budget("Have fewer calls pending at once, or raise limits.pending_calls."),
    Cause.TURN_LIMIT: Classification(
        _E.BUDGET_EXHAUSTED,
        _F.BUDGET,
        _T.TOOL_LOOP,
        "Find out why the agent needs so many turns, or raise limits.turns.",
    ),
    Cause.HOP_LIMIT: _loop("Find out why the agents hand over so often, or raise limits.hops."),
    Cause.RECURSION_LIMIT: _loop("Nest teams less deeply, or raise limits.recursion."),
    Cause.VISIT_LIMIT: _loop("Find out why the run keeps returning to this agent, or raise the limit of visits."),
    Cause.LOOP_DETECTED: _loop(
        "Find out why the call's result does not help the agent. Declare a tool that polls with polling: true."
    ),
    Cause.STALLED: Classification(
        _E.TRANSIENT_INFRA, _F.TRANSIENT, _T.NO_PROGRESS, "Look at what was awaited: it neither answers nor fails."
    ),
    Cause.NO_PROGRESS: _loop(
        "Find out why the results do not help the agent, and say in its instructions when to stop.", _T.NO_PROGRESS
    ),
    Cause.BRIEF_REPEATED: _loop(
        "Find out why the same work is given out again, and say in the instructions what to do instead.", _T.DEADLOCK
    ),
    Cause.SUPERVISOR_STUCK: _loop(
        "Find out why the worker's message does not help the supervisor, and name an agent that takes over.",
        _T.DEADLOCK,
    ),
    Cause.HANDOFF_CYCLE: _loop(
        "Say in the instructions who finishes the work, or name an agent that takes over.", _T.DEADLOCK
    ),
    Cause.RETRY_BUDGET_EMPTY: Classification(
        _E.TRANSIENT_INFRA,
        _F.TRANSIENT,
        _T.PROVIDER,
        "Find out why so many calls fail: the retries that the fabric allows are used up.",
        fails_over_to=_ELSEWHERE,
    ),
    Cause.QUEUE_FULL: Classification(
        _E.TRANSIENT_INFRA,
        _F.TRANSIENT,
        _T.PROVIDER,
        "Wait until runs have ended, or start more workers.",
        retried=True,
        fails_over_to=_ANY,
    ),
    Cause.PLAN_GATE: _semantic(
        "Look at the plan that was refused, and make the planner's instructions clearer.", _T.PLAN_MALFORMED
    ),
    Cause.POLICY_DENIED: _policy(
        "Look at the rule that refused. Change what it found, or change the rule if it is wrong."
    ),
    Cause.WORKSPACE_POLICY: _policy(
        "Take out of the fabric what the workspace's policy refuses, or have an owner change the policy."
    ),
    Cause.PERSONA_VIOLATION: _policy(
        "Give the agent the capability that the tool takes, or take the tool away from it."
    ),
    Cause.INJECTED_INSTRUCTION: _policy(
        "Look at the result that the sentence names: it contains an instruction to the agent. The call was not made."
    ),
    Cause.CONTENT_FILTER: _policy("Look at the request: the provider's filter withheld the answer."),
    Cause.OUTCOME_UNKNOWN: Classification(
        _E.TRANSIENT_INFRA,
        _F.TRANSIENT,
        Direct.ESCALATE,
        "Check in the other system whether the call was executed, and answer the review.",
    ),
    Cause.REPEATED_FAILURE: _direct(
        "Mend the failure that the sentence names: it does not heal by itself.", Direct.ABORT
    ),
    Cause.RESTART_BLOCKED: _direct(
        "Mend the failure that the sentence names: the graph does not start over after it.", Direct.ABORT
    ),
    Cause.GOAL_UNMET: _direct("Find out why the goal's agent brought no result.", Direct.ABORT),
    Cause.BELOW_TAU: _direct("Read the output and decide about it.", Direct.ESCALATE),
    Cause.USER_CANCEL: Classification(_E.CANCELED, _F.NONE, Direct.NEUTRAL, "Nothing: a person cancelled it."),
}
"""Everything that is said of a cause, one row each: total by test. Pages, advice and `docs/reference/reasons.md` read
it.
"""


Details = dict[str, str | int | float | Sequence[str | dict[str, str]]]
"""Details of a trip besides its numbers: words, numbers, and lists of words or of small records."""


@value()
class Evidence:
    """The numbers behind a trip, enough to derive it again from the journal alone (docs/specification/README.md)."""

    limit: int | float | None = None
    observed: int | float | None = None
    unit: str = ""
    scope: str = ""
    window: str = ""
    details: Details = field(default_factory=dict)
    """Observation: the cycle, the spend, the remaining time. Names and hashes, never contents."""


@value()
class Trip:
    """A mechanism refused. ``message`` is for a person, ``advice`` for the model whose call was blocked."""

    mechanism: str
    cause: Cause
    evidence: Evidence
    message: str
    advice: str = ""


@value()
class Pass:
    """The mechanism has no objection."""


PASS = Pass()
Verdict = Pass | Trip
