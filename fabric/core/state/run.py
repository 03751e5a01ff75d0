"""Defines a run's state: frozen values, everything that decisions depend on. ``core/evolve`` folds the journal into it.

The state lists the agents that a protection stopped, for the run's report at its end. A stopped agent answers once more
with the material that it has. If that answer passes the gates, the run ends as ``stopped`` and never as ``completed``;
so does a run whose child ended so, and a conversation that ran out of time.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import field
from typing import Any, Literal

from fabric.core import events as ev
from fabric.core.state import family as kin
from fabric.core.state.trouble import UNTROUBLED, Trouble
from fabric.core.texts.forms import FormRequested
from fabric.core.values.command_ids import read_step
from fabric.core.values.flow import TERMINAL, RunState, Stage
from fabric.core.values.frozen import value
from fabric.core.values.saga import EMPTY, Saga, awaited_errand
from fabric.core.values.taxonomy import Cause, Tier
from fabric.core.values.words import count

StepStatus = Literal["active", "delegated", "parked", "done", "failed"]
"""``delegated``: a child run does it."""


@value()
class CallRecord:
    """One proposed tool call of a turn, and its result."""

    call_id: str
    tool: str
    args_hash: str
    args_ref: str = ""
    """Reference of the arguments that a person wrote, or that were resolved from references; "": they are in the
    answer.
    """
    state: Literal["open", "done", "refused", "skipped"] = "open"
    result_ref: str = ""
    error: bool = False
    correction: bool = False
    writes: bool = False
    """True: its result writes context variables."""
    hands_to: str = ""
    """Agent that the call hands the conversation to; "": none."""
    ends: str = ""
    """Reason for which it ends the conversation; "": it does not."""
    after: tuple[str, ...] = ()
    """Calls of its answer that it waits for."""
    given: str = ""
    """The id under which its model knows it, if it differs."""


@value()
class BegunCall:
    """A call that is known although the answer that proposes it is still coming in."""

    record: CallRecord
    index: int
    """Number of the call in its turn: the last part of its command id."""
    proposed_hash: str
    ref: str
    """Reference of its own content."""
    result_bytes: int = 0


@value()
class Turn:
    """One journaled answer of the model with its calls; ``notes`` are corrective messages that came after it."""

    answer_ref: str
    verdict: Literal["output", "calls", "rejected"]
    calls: tuple[CallRecord, ...] = ()
    notes: tuple[str, ...] = ()


@value()
class Seat:
    """Facts of a turn of a conversation that stay when the turn begins again."""

    agent: str
    """Agent whose turn it is, even if a stronger agent took it over."""
    brief: int
    hears: tuple[int, ...] = ()
    """Branches whose output it reads, in order."""
    told_ref: str = ""
    chooses: bool = False
    """True: the next speaker is chosen once this turn is over."""
    choices: tuple[str, ...] = ()
    """Candidates of a verdict or a vote."""


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
    """Model in place of the agent's own; "": its own."""
    stands_for: str = ""
    """Model whose chain of fallbacks this step's model is from; "": the model is no fallback."""
    tried: tuple[str, ...] = ()
    """Models that the current call went to before."""
    begun: tuple[BegunCall, ...] = ()
    """Calls of the answer that is coming in."""
    first_call: int = 0
    """The number of its last answer's first call. It stands behind those that began with an attempt that failed."""
    requested: tuple[FormRequested, ...] = ()
    """Calls with questions of their server, one entry a call."""
    note_ref: str = ""
    output_ref: str = ""
    prompt_bytes: int = 0
    """Bytes of the contents that make up the prompt so far."""
    prompt: str = ""
    """Rolling digest of those contents' references."""
    cause: Cause | None = None
    message: str = ""
    partial: bool = False
    """True: it failed, and its stage goes on without it as a partial success."""
    routed: bool = False
    """True: it failed, and its conversation goes on or ends with that."""
    turn: Seat | None = None
    """Facts of the step's turn in a conversation; None: the step is no turn."""

    def requested_of(self, command_id: str) -> FormRequested | None:
        """Return the questions of a call's server; None: it asked none."""
        return next((one for one in self.requested if one.command_id == command_id), None)

    def index_of(self, command_id: str) -> int:
        """Return the position of a tool call in the step's last answer."""
        return int(command_id.rpartition(".c")[2]) - self.first_call

    def is_free(self, record: CallRecord) -> bool:
        """Return True if a call of the last answer waits for no other call of it."""
        if not record.after:
            return True
        states = {one.call_id: one.state for one in self.history[-1].calls}
        return all(states.get(call_id) != "open" for call_id in record.after)

    @property
    def brief(self) -> int:
        """Number of the plan's brief that the step executes, from 0."""
        return self.branch if self.turn is None else self.turn.brief


@value()
class Pending:
    """A call that is out, or waits for its retry, without a journaled result."""

    issued: ev.CallIssued
    epoch: int
    failed: bool = False
    """True: its last attempt failed and the next is scheduled or parked."""
    at: int = 0
    """Instant at which its last attempt was issued, microseconds since the epoch."""
    spent_us: int = 0
    """Microseconds of the call's time (``call_time.py``) that its failed attempts took."""
    said: str = ""
    """Message of its last failure other than a breaker's refusal; "": none."""
    away: bool = False
    """True: its next attempt waits for a circuit breaker, or for the delay that its endpoint requested."""


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
    """Reference of the output that a person wrote in place of the stage's; "": none."""


@value()
class Talk:
    """State of a conversation: the epoch's turns, and the graph's choices after them."""

    turns: int = 0
    """Number of accepted turns after which the next speaker was chosen."""
    speaker: str = ""
    """Speaker chosen last; "": none chosen yet, or the conversation is closed."""
    closed: str = ""
    """Reason for which it is closed; "": it goes on."""
    context_ref: str = ""
    """Reference of the context variables; "": they are still the initial ones."""
    written: tuple[tuple[str, int], ...] = ()
    """Changes of them from outside during the turn in flight. Each has its reference, and the number of the turn's own
    before it.
    """
    opened_at: int = 0
    turn_at: int = 0
    """Instant at which the latest turn began."""
    due_at: int = 0
    """Instant at which the next time limit of the graph fires; 0: none."""
    fired: tuple[int, ...] = ()
    """Expectations of the latest turn that have fired, by their place."""
    waiting: tuple[str, ...] = ()
    """References of people's messages that no agent has read yet, the oldest first."""
    stopped_at: int = 0
    """Instant since which its clocks are stopped; 0: they run."""
    begun: int = 0
    """Turn with which the conversation last began anew; later turns do not hear those before it."""


SILENT = Talk()
"""State of a run in which no agents take turns."""


@value()
class OpenReview:
    """A review that waits for its answer."""

    fact: ev.ReviewOpened
    at: int = 0
    """Instant at which the review was opened, microseconds since the epoch."""
    reminded: bool = False
    onward: bool = False
    shown_ref: str = ""
    """Reference of the content that the reviewer sees."""
    agreed: tuple[str, ...] = ()
    """People who have agreed, where two have to."""
    terms: str = ""
    """Digest of the terms that they agreed to (``ReviewApproved.terms``)."""
    proposed_by: str = ""
    """Author of the proposal under review, where another person has to approve it."""
    edited: bool = False
    """True: the reviewed content is no longer the first one."""


@value()
class Control:
    """Actions of people on the run as a whole."""

    paused: ev.RunPaused | None = None
    forked: ev.RunForked | None = None
    answers: tuple[tuple[Stage, str, str], ...] = ()
    """For a fork: ``(stage, tool, reference)`` of the tools' answers in its origin that led to the kept outputs."""
    kept_bytes: int = 0
    """Bytes of all contents that a fork took over: the most of them in a kept step's prompt."""


UNTOUCHED = Control()
"""State of a run on which no person has acted."""


@value()
class Run:
    """State of a run: everything that decisions depend on. It has hashes of contents, never contents."""

    id: str
    state: RunState = RunState.QUEUED
    seq: int = 0
    at: int = 0
    """Instant of its last event; later events are never older."""
    content_bytes: int = 0
    """Bytes of all contents journaled so far."""
    tier: Tier = Tier.INTERACTIVE
    revision: str = ""
    policy: int = 0
    """Version of its workspace's policy in force; 0: none."""
    depth: int = 1
    seed: int = 0
    request_ref: str = ""
    requested_by: str = ""
    """Person or account that started it, or its root."""
    caused_by: tuple[str, ...] = ()
    """Other people who created the credentials that the starter used."""
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
    reviews: Mapping[str, OpenReview] = field(default_factory=dict)
    rounds: Mapping[str, int] = field(default_factory=dict)
    """Number of reviews of failures, by stage and branch."""
    spent_rungs: Mapping[str, int] = field(default_factory=dict)
    """Uses of a rung by ``failure/rung/scope``."""
    replans: Mapping[Stage, int] = field(default_factory=dict)
    planner: str = ""
    """Agent that plans since a handover; "": the fabric's own planner."""
    feedback: tuple[str, ...] = ()
    """References of the reports on failed epochs that the planner receives."""
    guards: Mapping[str, Any] = field(default_factory=dict)
    """Mechanism states by ``mechanism/scope``."""
    ending: ev.RunEnding | None = None
    outcome_ref: str = ""
    reason: str = ""
    recovered: bool = False
    truncated: bool = False
    """True: an agent of this run was stopped, and has given its last answer."""
    stops: Mapping[str, str] = field(default_factory=dict)
    """Sentences about the agents that a protection stopped, its child runs' too, by what says so."""
    withheld: tuple[str, ...] = ()
    """Steps, and stages as ``stage:name``, whose payload was blocked: it never leaves the run."""
    released: tuple[str, ...] = ()
    """Unsafe outputs that a person accepted, each by its bytes and its problems (``releases.key``)."""
    approved_stage: Stage | None = None
    """The stage whose output a person accepted."""
    control: Control = UNTOUCHED
    voided: tuple[str, ...] = ()
    """The newest calls that were aborted in flight: a result that still arrives is late, not a duplicate."""
    talk: Talk = SILENT
    """The turns of its workers, where they take turns."""
    saga: Saga = EMPTY
    """Calls that change the world, and undoing them."""
    family: kin.Family = kin.NONE
    trouble: Trouble = UNTROUBLED

    @property
    def terminal(self) -> bool:
        """True if the run has ended, so that nothing changes it any more."""
        return self.state in TERMINAL

    @property
    def topology(self) -> str:
        """The worker whose topology a team's run, or a fork of one, runs; "": the fabric's own."""
        lineage, forked = self.family.lineage, self.control.forked
        if lineage is not None:
            return lineage.topology
        return "" if forked is None else forked.topology


def step_id(stage: Stage, branch: int, epoch: int, round_: int) -> str:
    """Return a step's id; it contains the epoch, so that results of a superseded step are recognised by name."""
    return f"{stage}.{branch}.e{epoch}.r{round_}"


def rung_key(failure: str, rung: int, scope: str) -> str:
    """Return the key under which the uses of a rung are counted."""
    return f"{failure}/{rung}/{scope}"


def awaits_children(run: Run) -> bool:
    """Return True if undoing waits for the last child to end. The mutations that the child hands up are the newest."""
    return run.saga.unwinding is not None and bool(run.family.alive)


def clocks_stopped(run: Run) -> tuple[int, int] | None:
    """Return the microseconds left of the run's and of the stage's time while their clocks are stopped; None: they
    run.
    """
    held = run.control.paused or run.suspended
    return None if held is None else (held.run_remaining_us, held.stage_remaining_us)


def awaits(run: Run, command_id: str, attempt: int) -> bool:
    """Return True if the run waits for a result of that attempt; False if the attempt was superseded."""
    pending = run.pending.get(command_id)
    if pending is not None and pending.issued.attempt == attempt and not pending.failed:
        return True
    return awaited_errand(run.saga, command_id, attempt) is not None


def has_stage_review(run: Run) -> bool:
    """Return True if a review of the current stage as a whole is open."""
    return bool(run.reviews) and any(not q.fact.step_id and q.fact.stage == run.stage for q in run.reviews.values())


def asked_at_deadline(run: Run) -> bool:
    """Return True if a review of the current stage as a whole was opened after the run's deadline. The reviewer
    decides what follows, so the deadline does not trip again.
    """
    return bool(run.reviews) and any(
        not q.fact.step_id and q.fact.stage == run.stage and q.at >= run.deadline_at for q in run.reviews.values()
    )


ORIGIN = "origin."
"""Begins the keys of sentences that a fork takes over."""


def list_sentences(run: Run, step_ids: Container[str]) -> list[str]:
    """Return the sentences about the work of some steps, with those that a fork took over."""
    return [said for key, said in run.stops.items() if key.startswith(ORIGIN) or read_step(key) in step_ids]


def results_kept(step: Step) -> int:
    """Return the number of an agent's calls with a result."""
    return sum(call.state == "done" and not call.error for turn in step.history for call in turn.calls)


def agent_stopped(agent: str, why: str, kept: int) -> str:
    """Return the sentence about one stopped agent. ``kept``: calls whose results it had."""
    had = f"the {count(kept, 'result', 'results')} that it had" if kept else "what it had, without any result of a tool"
    return f"{why}; {agent} then answered with {had}"


def child_stopped(agent: str, child_id: str, why: str) -> str:
    """Return the sentence about a child run that ended as stopped."""
    return f"{agent or 'a part of the work'} (run {child_id}) was stopped early: {why}"


def rewritten(run: Run, stage: Stage, step_id: str) -> Mapping[str, str]:
    """Return the sentences that still count after a person wrote an output, which no longer contains the earlier
    work.
    """
    if step_id:
        return {key: said for key, said in run.stops.items() if read_step(key) != step_id}
    order = list(Stage)
    later = {step.id for step in run.steps.values() if order.index(step.stage) > order.index(stage)}
    return {key: said for key, said in run.stops.items() if read_step(key) in later}
