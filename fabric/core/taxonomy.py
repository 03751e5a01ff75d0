"""The vocabulary of failure: what kinds there are and how one call's error maps onto them.

One table, ``CLASSIFY``, joins the three classifications of the source documents (semantics.md section 2): how a call failed
(``ErrorClass``, S1), how the flow treats it (``FlowClass``, S0) and which row of the decision table it enters (``FailureType``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Tier(StrEnum):
    """The workload tier a run picked: the column of the decision table."""

    INTERACTIVE = "interactive"
    BATCH = "batch"
    HIGH_STAKES = "high_stakes"


class FailureType(StrEnum):
    """The eight rows of the decision table (semantics.md 3, S0 "Failure Decision Table")."""

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
    """How one call failed (S1 "Failure classification")."""

    TRANSIENT_INFRA = "transient_infra"
    DETERMINISTIC = "deterministic"
    BUDGET_EXHAUSTED = "budget_exhausted"
    COMPILATION_LOOP = "compilation_loop"
    STRUCTURAL = "structural"
    CANCELED = "canceled"


class FlowClass(StrEnum):
    """How the flow treats an error (S0 "Retry With Escalation")."""

    TRANSIENT = "transient"
    SEMANTIC = "semantic"
    POLICY = "policy"
    BUDGET = "budget"
    NONE = "none"


class Cause(StrEnum):
    """Why a call, a gate or a guard said no: the finest name there is, and the key of ``CLASSIFY``."""

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
    """A trip that has no row: the reaction is fixed, whatever the table says (semantics.md 2). ``decision_table.DIRECT`` says which, by tier."""

    ESCALATE = "escalate"
    ABORT = "abort"
    """Interactive and batch abort, high-stakes escalate."""
    NEUTRAL = "neutral"


@dataclass(frozen=True, slots=True)
class Classification:
    """What one cause means to retry, failover, signatures and the decision table."""

    error_class: ErrorClass
    flow_class: FlowClass
    goes_to: FailureType | Direct
    signature_counted: bool = False
    retried: bool = False
    failover: bool = False
    last_rung: bool = False
    """True: no earlier rung can help (a wrong key stays wrong), so the ladder is entered at its last rung."""


_E, _F, _T = ErrorClass, FlowClass, FailureType


def _transient() -> Classification:
    return Classification(_E.TRANSIENT_INFRA, _F.TRANSIENT, _T.PROVIDER, retried=True, failover=True)


def _configuration() -> Classification:
    return Classification(_E.DETERMINISTIC, _F.NONE, _T.PROVIDER, signature_counted=True, last_rung=True)


def _semantic() -> Classification:
    return Classification(_E.DETERMINISTIC, _F.SEMANTIC, _T.SCHEMA_GROUNDING, signature_counted=True)


def _budget(*, failover: bool = False) -> Classification:
    return Classification(_E.BUDGET_EXHAUSTED, _F.BUDGET, _T.COST_OVERRUN, failover=failover)


def _loop() -> Classification:
    return Classification(_E.COMPILATION_LOOP, _F.SEMANTIC, _T.TOOL_LOOP)


def _deadlock() -> Classification:
    return Classification(_E.COMPILATION_LOOP, _F.SEMANTIC, _T.DEADLOCK)


def _policy() -> Classification:
    return Classification(_E.STRUCTURAL, _F.POLICY, _T.UNSAFE_OUTPUT, signature_counted=True)


CLASSIFY: dict[Cause, Classification] = {
    Cause.RATE_LIMIT: _transient(),
    Cause.SERVER_ERROR: _transient(),
    Cause.TIMEOUT: _transient(),
    Cause.NETWORK: _transient(),
    Cause.DROPPED_STREAM: _transient(),
    # Whoever answers with a web page in place of an answer is not there: it says nothing of what was asked.
    Cause.MALFORMED_ANSWER: _transient(),
    # Whoever did the work says that it is to be done once more, whatever kept it from it (S1 "Retry status").
    Cause.RETRY_ASKED: Classification(_E.TRANSIENT_INFRA, _F.TRANSIENT, _T.PROVIDER, retried=True),
    Cause.AUTH: _configuration(),
    Cause.BAD_REQUEST: _configuration(),
    Cause.BAD_CONFIGURATION: _configuration(),
    Cause.UNKNOWN_MODEL: _configuration(),
    Cause.SCHEMA_INVALID: _semantic(),
    Cause.TOOL_CONSTRAINT: _semantic(),
    Cause.UNKNOWN: _semantic(),
    Cause.CORRECTIONS_SPENT: _semantic(),
    Cause.INVARIANT: _semantic(),
    Cause.GROUNDING: _semantic(),
    Cause.PARTIAL_FAN_IN: _semantic(),
    Cause.DUPLICATE_CALL: _semantic(),
    Cause.DEPENDENCY_FAILED: _semantic(),
    Cause.WRITE_CONFLICT: _semantic(),
    Cause.CONTEXT_LENGTH: _budget(),
    Cause.TOKEN_LIMIT: _budget(),
    Cause.QUOTA: _budget(failover=True),
    Cause.BUDGET_GATE: _budget(),
    # Another key's money may be there: a fallback with another key is asked.
    Cause.KEY_CAP: _budget(failover=True),
    Cause.COST_VELOCITY: _budget(),
    Cause.PRICE_MISSING: _budget(),
    Cause.RUN_DEADLINE: _budget(),
    Cause.STAGE_DEADLINE: _budget(),
    Cause.DEADLINE_NEAR: _budget(),
    Cause.SUB_AGENT_CAP: _budget(),
    Cause.EVENT_CAP: _budget(),
    Cause.PAYLOAD_CAP: _budget(),
    Cause.PENDING_CAP: _budget(),
    Cause.TURN_LIMIT: Classification(_E.BUDGET_EXHAUSTED, _F.BUDGET, _T.TOOL_LOOP),
    Cause.HOP_LIMIT: _loop(),
    Cause.RECURSION_LIMIT: _loop(),
    Cause.VISIT_LIMIT: _loop(),
    Cause.LOOP_DETECTED: _loop(),
    Cause.STALLED: Classification(_E.TRANSIENT_INFRA, _F.TRANSIENT, _T.NO_PROGRESS),
    Cause.NO_PROGRESS: Classification(_E.COMPILATION_LOOP, _F.SEMANTIC, _T.NO_PROGRESS),
    Cause.BRIEF_REPEATED: _deadlock(),
    Cause.SUPERVISOR_STUCK: _deadlock(),
    Cause.HANDOFF_CYCLE: _deadlock(),
    Cause.RETRY_BUDGET_EMPTY: Classification(_E.TRANSIENT_INFRA, _F.TRANSIENT, _T.PROVIDER, failover=True),
    Cause.QUEUE_FULL: Classification(_E.TRANSIENT_INFRA, _F.TRANSIENT, _T.PROVIDER, retried=True, failover=True),
    Cause.PLAN_GATE: Classification(_E.DETERMINISTIC, _F.SEMANTIC, _T.PLAN_MALFORMED, signature_counted=True),
    Cause.POLICY_DENIED: _policy(),
    Cause.WORKSPACE_POLICY: _policy(),
    Cause.PERSONA_VIOLATION: _policy(),
    Cause.INJECTED_INSTRUCTION: _policy(),
    Cause.CONTENT_FILTER: _policy(),
    Cause.OUTCOME_UNKNOWN: Classification(_E.TRANSIENT_INFRA, _F.TRANSIENT, Direct.ESCALATE),
    Cause.REPEATED_FAILURE: Classification(_E.DETERMINISTIC, _F.SEMANTIC, Direct.ABORT),
    Cause.RESTART_BLOCKED: Classification(_E.DETERMINISTIC, _F.SEMANTIC, Direct.ABORT),
    Cause.GOAL_UNMET: Classification(_E.DETERMINISTIC, _F.SEMANTIC, Direct.ABORT),
    Cause.BELOW_TAU: Classification(_E.DETERMINISTIC, _F.SEMANTIC, Direct.ESCALATE),
    Cause.USER_CANCEL: Classification(_E.CANCELED, _F.NONE, Direct.NEUTRAL),
}

MECHANISM_CLASSES: dict[str, tuple[FailureClass, ...]] = {
    "policy": (FailureClass.SPECIFICATION, FailureClass.VERIFICATION),
    "budget": (FailureClass.VERIFICATION,),
    "cost_velocity": (FailureClass.VERIFICATION,),
    "deadline": (FailureClass.VERIFICATION, FailureClass.INTER_AGENT),
    "hop_limit": (FailureClass.INTER_AGENT, FailureClass.VERIFICATION),
    "run_caps": (FailureClass.VERIFICATION,),
    "retry_budget": (FailureClass.VERIFICATION,),
    "loop_detector": (FailureClass.INTER_AGENT, FailureClass.VERIFICATION),
    "deadlock_monitor": (FailureClass.INTER_AGENT,),
    "progress": (FailureClass.INTER_AGENT, FailureClass.VERIFICATION),
    "saga": (FailureClass.VERIFICATION,),
    "circuit_breaker": (FailureClass.INTER_AGENT, FailureClass.VERIFICATION),
    "validation_gate": (FailureClass.SPECIFICATION, FailureClass.INTER_AGENT, FailureClass.VERIFICATION),
    "goal_gate": (FailureClass.SPECIFICATION, FailureClass.VERIFICATION),
    "failure_signature": (FailureClass.VERIFICATION,),
    "stall_watchdog": (FailureClass.INTER_AGENT, FailureClass.VERIFICATION),
    "escalation": (FailureClass.VERIFICATION,),
}
"""Which MAST clusters each mechanism answers. Total over the mechanisms that exist, by test."""
