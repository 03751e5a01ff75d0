"""A run's state: frozen values, everything that decisions depend on. ``evolve.py`` folds the journal into it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from fabric.core import events as ev
from fabric.core import family as kin
from fabric.core.flow import TERMINAL, RunState, Stage
from fabric.core.forms import Requested
from fabric.core.frozen import value
from fabric.core.saga import EMPTY, Saga, awaited
from fabric.core.taxonomy import Cause, Tier

StepStatus = Literal["active", "delegated", "parked", "done", "failed"]
"""``delegated``: a child run does it."""


@value()
class CallRecord:
    """One proposed tool call of a turn and what became of it."""

    call_id: str
    tool: str
    args_hash: str
    args_ref: str = ""
    """Where the arguments stand that a person wrote in place of the proposed ones, or that their references came to; empty: in the answer."""
    state: Literal["open", "done", "refused", "skipped"] = "open"
    result_ref: str = ""
    error: bool = False
    correction: bool = False
    writes: bool = False
    """True: its result writes context variables."""
    hands_to: str = ""
    """Whom it hands the conversation over to; empty: to nobody."""
    ends: str = ""
    """Why it ends the conversation; empty: it does not."""
    after: tuple[str, ...] = ()
    """Calls of the same answer that it waits for."""
    given: str = ""
    """The id that its model knows it by, where that is another one."""


@value()
class Begun:
    """A call that is known although the answer that proposes it is still coming in, or broke off."""

    record: CallRecord
    index: int
    """Which call of its turn: the last part of its command id."""
    proposed_hash: str
    ref: str
    """Where it is journaled by itself."""
    result_bytes: int = 0
    broken: bool = False
    """Its answer never came whole: if the one that does proposes the same, what this came to stands for it."""


@value()
class Turn:
    """One journaled answer of the model with its calls; ``notes`` are corrective messages that came after it."""

    answer_ref: str
    verdict: Literal["output", "calls", "rejected"]
    calls: tuple[CallRecord, ...] = ()
    notes: tuple[str, ...] = ()


@value()
class Seat:
    """What a turn of a conversation is given, however often it is begun."""

    agent: str
    """Whose turn it is, whoever took it over."""
    brief: int
    hears: tuple[int, ...] = ()
    """Branches whose output it reads, in order."""
    told_ref: str = ""
    chooses: bool = False
    """Who speaks after it is chosen once it is over."""
    choices: tuple[str, ...] = ()
    """Of a verdict or a vote: whom it may be for."""


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
    model: str = ""
    """The model that answers in place of the agent's own; empty: its own."""
    stands_for: str = ""
    """The model whose chain of fallbacks it is taken from; empty: it is nobody's stand-in."""
    tried: tuple[str, ...] = ()
    """Models that the call which is out was given to before."""
    begun: tuple[Begun, ...] = ()
    """Calls of the answer that is coming in, and before them those of the attempts at it that broke off."""
    resumed: bool = False
    """Its failed request is about to be made again."""
    requested: tuple[Requested, ...] = ()
    """Calls whose server asked a person, one entry a call."""
    note_ref: str = ""
    output_ref: str = ""
    prompt_bytes: int = 0
    """Bytes of the contents that make up the prompt so far."""
    prompt: str = ""
    """Rolling digest of those contents' references."""
    cause: Cause | None = None
    message: str = ""
    partial: bool = False
    """It failed, and its stage goes on without it as a partial success."""
    routed: bool = False
    """It failed, and its conversation goes on or ends with that."""
    turn: Seat | None = None
    """Of a turn in a conversation: what it is given; None: it is none."""

    def requested_of(self, command_id: str) -> Requested | None:
        """Returns the questions of a call's server; None: it asked none."""
        return next((one for one in self.requested if one.command_id == command_id), None)

    @property
    def first_call(self) -> int:
        """Where the numbers of its last answer's calls begin: behind those that began for answers to the same request that broke off."""
        return max((one.index + 1 for one in self.begun if one.broken), default=0)

    def index_of(self, command_id: str) -> int:
        """Which call of its last answer a tool call is."""
        return int(command_id.rpartition(".c")[2]) - self.first_call

    def is_free(self, record: CallRecord) -> bool:
        """Whether a call of its last answer waits for no other of it."""
        if not record.after:
            return True
        states = {one.call_id: one.state for one in self.history[-1].calls}
        return all(states.get(call_id) != "open" for call_id in record.after)

    @property
    def brief(self) -> int:
        """Which brief of the plan it does, from 0."""
        return self.branch if self.turn is None else self.turn.brief


@value()
class Pending:
    """A call that is out, or waits for its retry, without a journaled result."""

    issued: ev.CallIssued
    epoch: int
    failed: bool = False
    """True: its last attempt failed and the next is scheduled or parked."""
    at: int = 0
    """When its last attempt was issued, microseconds since the epoch."""
    spent_us: int = 0
    """Microseconds of the call's time (``call_time.py``) that its failed attempts took."""
    said: str = ""
    """The words of its last failure that a circuit breaker did not refuse; empty: none failed."""
    away: bool = False
    """True: its next attempt waits for a circuit breaker, or as long as its endpoint said."""


@value()
class StageRun:
    """One stage in the current epoch."""

    stage: Stage
    epoch: int
    deadline_at: int
    agents: tuple[str, ...]
    output_ref: str = ""
    left: bool = False
    edited_ref: str = ""
    """What a person wrote in place of its output."""


@value()
class Talk:
    """Where a conversation stands: the epoch's turns, and what a graph decided of them."""

    turns: int = 0
    """Turns that were accepted, and after which the next speaker was chosen."""
    speaker: str = ""
    """Who was chosen last; empty: nobody yet, or it is closed."""
    closed: str = ""
    """Why it is closed; empty: it goes on."""
    context_ref: str = ""
    """Where its context variables stand; empty: they are those that it began with."""
    written: tuple[tuple[str, int], ...] = ()
    """Changes of them that came from outside during the turn in flight: where each stands, and how many of the turn's own came before it."""
    opened_at: int = 0
    turn_at: int = 0
    """When the latest turn began."""
    due_at: int = 0
    """When the next expectation of its pace fires; 0: none does."""
    fired: tuple[int, ...] = ()
    """Expectations of the latest turn that have fired, by their place."""
    waiting: tuple[str, ...] = ()
    """Where people's messages stand that nobody has read yet, the first first."""
    stopped_at: int = 0
    """Since when its clocks stand still; 0: they run."""
    begun: int = 0
    """The turn with which it began anew the last time: nobody hears those before it."""


SILENT = Talk()
"""Of a run in which nobody takes turns."""


@value()
class OpenQuestion:
    """An escalation that waits for its answer."""

    fact: ev.EscalationOpened
    at: int = 0
    """When it was asked, microseconds since the epoch."""
    reminded: bool = False
    onward: bool = False
    shown_ref: str = ""
    """What the person is shown."""
    agreed: tuple[str, ...] = ()
    """Who has agreed to it, of two who have to."""
    terms: str = ""
    """What was named with that (``EscalationApproved.terms``)."""
    proposed_by: str = ""
    """Who wrote what is asked about, where somebody else has to let it pass."""
    edited: bool = False
    """What is shown is not what was shown first."""


@value()
class Control:
    """What people did with the run as a whole."""

    paused: ev.RunPaused | None = None
    forked: ev.RunForked | None = None
    answers: tuple[tuple[Stage, str, str], ...] = ()
    """Of a fork: ``(stage, tool, reference)`` of what tools had answered in its origin on the way to what it keeps."""
    kept_bytes: int = 0
    """Bytes of all contents that a fork took over: what a kept step's prompt may hold of them at most."""


UNTOUCHED = Control()
"""Of a run that nobody took hold of."""


@value()
class Run:
    """Everything that decisions depend on. Hashes of contents, never contents."""

    id: str
    state: RunState = RunState.QUEUED
    seq: int = 0
    at: int = 0
    """When its last event happened: no later one is older."""
    content_bytes: int = 0
    """Of all contents journaled so far."""
    tier: Tier = Tier.INTERACTIVE
    revision: str = ""
    policy: int = 0
    """The version of its workspace's policy that holds; 0: none."""
    depth: int = 1
    seed: int = 0
    request_ref: str = ""
    requested_by: str = ""
    """Who started it, or its root..."""
    caused_by: tuple[str, ...] = ()
    """...and who made what they acted with, where it was somebody else."""
    started_at: int = 0
    ended_at: int = 0
    deadline_at: int = 0
    suspended: ev.DeadlinesSuspended | None = None
    stage: Stage = Stage.PLAN
    epoch: int = 0
    stages: Mapping[Stage, StageRun] = field(default_factory=dict)
    steps: Mapping[str, Step] = field(default_factory=dict)
    """The current epoch's, by id: of each branch the newest."""
    pending: Mapping[str, Pending] = field(default_factory=dict)
    timers: Mapping[str, int] = field(default_factory=dict)
    """Retry instants by command id; of a node that runs again, by its failed step's id."""
    questions: Mapping[str, OpenQuestion] = field(default_factory=dict)
    rounds: Mapping[str, int] = field(default_factory=dict)
    """How often a failure was put to a person, by stage and branch."""
    spent_rungs: Mapping[str, int] = field(default_factory=dict)
    """Uses of a rung by ``failure/rung/scope``."""
    replans: Mapping[Stage, int] = field(default_factory=dict)
    planner: str = ""
    """Who plans since it was handed over; empty: the fabric's own planner."""
    feedback: tuple[str, ...] = ()
    """References of what the planner is told about the epochs that failed."""
    guards: Mapping[str, Any] = field(default_factory=dict)
    """Mechanism states by ``mechanism/scope``."""
    ending: ev.RunEnding | None = None
    outcome_ref: str = ""
    reason: str = ""
    recovered: bool = False
    truncated: bool = False
    """An agent of its own was stopped, and has had its last word."""
    stops: Mapping[str, str] = field(default_factory=dict)
    """Sentences about the agents that a protection stopped, its child runs' too, by what says so."""
    withheld: tuple[str, ...] = ()
    """Steps, and stages as ``stage:name``, whose payload was blocked: it never leaves the run."""
    released: tuple[str, ...] = ()
    """Unsafe outputs that a person let pass, each by its bytes and by what was found in them (``releases.key``)."""
    approved_stage: Stage | None = None
    """The stage whose output a person let pass."""
    control: Control = UNTOUCHED
    voided: tuple[str, ...] = ()
    """Calls let go while in flight, the newest ones: a result that still comes is late, not a duplicate."""
    talk: Talk = SILENT
    """The turns of its workers, where they take turns."""
    saga: Saga = EMPTY
    """Calls that change the world, and undoing them."""
    family: kin.Family = kin.NONE

    @property
    def terminal(self) -> bool:
        """Whether nothing can happen to it any more."""
        return self.state in TERMINAL

    @property
    def topology(self) -> str:
        """The worker whose topology a team's run, or a fork of one, runs; empty: the fabric's own."""
        lineage, forked = self.family.lineage, self.control.forked
        if lineage is not None:
            return lineage.topology
        return "" if forked is None else forked.topology


def step_id(stage: Stage, branch: int, epoch: int, round_: int) -> str:
    """Identity of a step; contains the epoch, so a superseded step's results are recognised by name."""
    return f"{stage}.{branch}.e{epoch}.r{round_}"


def rung_key(failure: str, rung: int, scope: str) -> str:
    """Where the uses of a rung are counted."""
    return f"{failure}/{rung}/{scope}"


def awaits_children(run: Run) -> bool:
    """Whether undoing waits for the last child to end: what it hands up is the newest."""
    return run.saga.unwinding is not None and bool(run.family.alive)


def clocks_stopped(run: Run) -> tuple[int, int] | None:
    """Microseconds that are left of the run's and of the stage's time while their clocks stand still; None: they run."""
    held = run.control.paused or run.suspended
    return None if held is None else (held.run_remaining_us, held.stage_remaining_us)


def awaits(run: Run, command_id: str, attempt: int) -> bool:
    """Whether a result of that attempt is waited for; no: it was superseded."""
    pending = run.pending.get(command_id)
    if pending is not None and pending.issued.attempt == attempt and not pending.failed:
        return True
    return awaited(run.saga, command_id, attempt) is not None


def asked(run: Run) -> bool:
    """Whether a person is asked about the current stage as a whole."""
    return any(not q.fact.step_id and q.fact.stage == run.stage for q in run.questions.values())


def asked_at_deadline(run: Run) -> bool:
    """Whether a person is asked about the current stage as a whole since the run's deadline passed: it is theirs to say what follows, and it does not trip anew."""
    return any(
        not q.fact.step_id and q.fact.stage == run.stage and q.at >= run.deadline_at for q in run.questions.values()
    )
