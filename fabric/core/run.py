"""A run's state: frozen values, everything that decisions depend on. ``evolve.py`` folds the journal into it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from fabric.core import events as ev
from fabric.core.flow import TERMINAL, RunState, Stage
from fabric.core.frozen import value
from fabric.core.taxonomy import Cause, Tier

StepStatus = Literal["active", "parked", "done", "failed", "void"]


@value()
class CallRecord:
    """One proposed tool call of a turn and what became of it."""

    call_id: str
    tool: str
    args_hash: str
    state: Literal["open", "done", "refused"] = "open"
    result_ref: str = ""
    error: bool = False
    correction: bool = False


@value()
class Turn:
    """One journaled answer of the model with its calls; ``notes`` are corrective messages that came after it."""

    answer_ref: str
    verdict: Literal["output", "calls", "rejected"]
    calls: tuple[CallRecord, ...] = ()
    notes: tuple[str, ...] = ()


@value()
class Step:
    """One agent's activation in a stage, branch and epoch: from its input to its output."""

    id: str
    stage: Stage
    branch: int
    epoch: int
    round: int
    agent: str
    status: StepStatus = "active"
    turns: int = 0
    """Model requests issued."""
    corrections: int = 0
    history: tuple[Turn, ...] = ()
    final: bool = False
    """Tools were stripped: the next answer is the last. ``message`` says why."""
    approved: bool = False
    """A person approved this activation: its next failure goes to the ladder's last rung."""
    note_ref: str = ""
    output_ref: str = ""
    prompt_bytes: int = 0
    """Bytes of the contents that make up the prompt so far."""
    prompt: str = ""
    """Rolling digest of those contents' references."""
    cause: Cause | None = None
    message: str = ""


@value()
class Pending:
    """A call that is out, or waits for its retry, without a journaled result."""

    issued: ev.CallIssued
    epoch: int
    failed: bool = False
    """True: its last attempt failed and the next is scheduled or parked."""


@value()
class StageRun:
    """One stage in the current epoch."""

    stage: Stage
    epoch: int
    deadline_at: int
    agents: tuple[str, ...]
    output_ref: str = ""
    left: bool = False


@value()
class OpenQuestion:
    """An escalation that waits for its answer."""

    fact: ev.EscalationOpened
    reminded: bool = False
    onward: bool = False


@value()
class Run:
    """Everything that decisions depend on. Hashes of contents, never contents."""

    id: str
    state: RunState = RunState.QUEUED
    seq: int = 0
    tier: Tier = Tier.INTERACTIVE
    revision: str = ""
    depth: int = 1
    seed: int = 0
    request_ref: str = ""
    started_at: int = 0
    ended_at: int = 0
    deadline_at: int = 0
    suspended: ev.DeadlinesSuspended | None = None
    stage: Stage = Stage.PLAN
    epoch: int = 0
    stages: Mapping[Stage, StageRun] = field(default_factory=dict)
    steps: Mapping[str, Step] = field(default_factory=dict)
    """The current epoch's, by id."""
    pending: Mapping[str, Pending] = field(default_factory=dict)
    timers: Mapping[str, int] = field(default_factory=dict)
    """Retry instants by command id."""
    questions: Mapping[str, OpenQuestion] = field(default_factory=dict)
    rounds: Mapping[str, int] = field(default_factory=dict)
    """How often a failure was put to a person, by stage and branch."""
    spent_rungs: Mapping[str, int] = field(default_factory=dict)
    """Uses of a rung by ``failure/rung/scope``."""
    replans: Mapping[Stage, int] = field(default_factory=dict)
    feedback: tuple[str, ...] = ()
    """References of what the planner is told about the epochs that failed."""
    guards: Mapping[str, Any] = field(default_factory=dict)
    """Mechanism states by ``mechanism/scope``."""
    ending: ev.RunEnding | None = None
    outcome_ref: str = ""
    reason: str = ""
    recovered: bool = False
    truncated: bool = False
    withheld: tuple[str, ...] = ()
    """Steps, and stages as ``stage:name``, whose payload was blocked: it never leaves the run."""
    approved_stage: Stage | None = None
    """The stage whose output a person let pass."""
    voided: tuple[str, ...] = ()
    """Calls let go while in flight: a result that still comes is late, not a duplicate."""

    @property
    def terminal(self) -> bool:
        """Whether nothing can happen to it any more."""
        return self.state in TERMINAL


def step_id(stage: Stage, branch: int, epoch: int, round_: int) -> str:
    """Identity of a step; contains the epoch, so a superseded step's results are recognised by name."""
    return f"{stage}.{branch}.e{epoch}.r{round_}"


def rung_key(failure: str, rung: int, scope: str) -> str:
    """Where the uses of a rung are counted."""
    return f"{failure}/{rung}/{scope}"


def visible_state(run: Run) -> RunState:
    """The state as people see it: a running run in which nothing is live but questions is waiting."""
    if run.state is not RunState.RUNNING or not run.questions:
        return run.state
    return RunState.RUNNING if live(run) else RunState.WAITING


def live(run: Run) -> bool:
    """Whether something goes on without a person: a call out, a retry timer, a step that may move."""
    return bool(run.pending or run.timers) or any(step.status == "active" for step in run.steps.values())
