"""Walks a supposed run to its failure, and lets the engine react until the run ends."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace as with_fields
from typing import Any

from fabric.core import events as ev
from fabric.core.calls import issue as calls
from fabric.core.calls.proposed import Proposed
from fabric.core.conversations import turns as conversations
from fabric.core.decision.work import Work
from fabric.core.events.envelope import Event
from fabric.core.graph.state import SpeakerReason
from fabric.core.handlers import people
from fabric.core.ladders import waits
from fabric.core.mechanisms import circuit_breaker
from fabric.core.reactions import node_retries
from fabric.core.reactions import react as reactions
from fabric.core.spec.endpoints import provider_scope
from fabric.core.spec.policies import retries
from fabric.core.spec.policies.decision_table import Accompaniment, Reaction
from fabric.core.spec.retry_layers import find_layer
from fabric.core.spec.topologies.conversation import is_conversation
from fabric.core.state.context import CompiledFabric, Contents, Context
from fabric.core.state.failure import Failure, call_failure
from fabric.core.state.let_pass import NEXT_RUNG
from fabric.core.state.run import Pending, Run, Step, step_id
from fabric.core.steps import wave
from fabric.core.supposed.models import (
    Asks,
    AttemptWait,
    NotSupposed,
    Supposed,
    Supposing,
    WalkLine,
    WalkRung,
    agent_in,
    find_circumstances,
    first_worker,
)
from fabric.core.topologies import graph, shell
from fabric.core.topologies.shape import list_steps
from fabric.core.values.flow import RunState, Stage, StageOutcome
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import CLASSIFY, Details, Evidence, FailureType, Tier, Trip
from fabric.core.values.units import JSON, US

# -- telling ----------------------------------------------------------------------------------------------------------

ALMOST_1 = math.nextafter(1.0, 0.0)
"""The greatest possible draw."""


def decision_lines(work: Work, events: Iterable[Event]) -> list[WalkLine]:
    """Return the lines of one decision. ``work``: as it is after it."""
    lines: list[WalkLine] = []
    for event in events:
        fact = event.fact
        match fact:
            case ev.RungSkipped():
                lines.append(WalkLine("skipped", fact.rung + 1, fact.reaction, fact.failure_type, why=fact.reason))
            case ev.ReactionDecided():
                lines.append(
                    WalkLine(
                        "decided",
                        fact.rung + 1,
                        fact.reaction,
                        fact.failure_type,
                        use=fact.spent + 1,
                        times=fact.bound,
                        why=fact.cause.message,
                    )
                )
            case ev.RetryScheduled():
                lines[-1] = with_fields(lines[-1], waits=_wait(work, fact, lines[-1].use - 1))
            case ev.NodeRetryScheduled():
                lines[-1] = with_fields(lines[-1], waits=_node(work, fact, lines[-1].use - 1))
            case ev.ModelChanged():
                lines[-1] = with_fields(lines[-1], model=fact.model)
            case ev.ReviewOpened(item="follow_up"):
                last = lines[-1]
                lines.append(
                    WalkLine("left", last.rung, Accompaniment.FOLLOW_UP, last.failure, asks=_build_asks(work, event))
                )
            case ev.ReviewOpened():
                lines[-1] = with_fields(lines[-1], asks=_build_asks(work, event))
    return lines


def _wait(work: Work, fact: ev.RetryScheduled, spent: int) -> AttemptWait:
    """Return the bounds of the wait, by the engine's own functions."""
    if fact.source in ("backoff", "retry_after"):
        policy, asked_s = work.policy_in(work.run.stage), _failed_attempt(work, fact.command_id).retry_after_s or 0.0
        low, high = (max(asked_s, waits.backoff_s(policy, spent, drawn)) for drawn in (0.0, ALMOST_1))
        return AttemptWait(low, round(high, 6), "retry_after" if asked_s == high else "backoff")
    if fact.source == "breaker":
        failed = _failed_attempt(work, fact.command_id)
        least, named = failed.breaker_wait_s or 0.0, failed.retry_after_s or 0.0
        return AttemptWait(max(least, named), round(max(named, least * (1 + waits.HERD)), 6), "breaker")
    if fact.source == "named":
        policy, named = work.policy_in(work.run.stage), _failed_attempt(work, fact.command_id).retry_after_s or 0.0
        low, high = (waits.named_s(policy, named, spent, drawn) for drawn in (0.0, ALMOST_1))
        return AttemptWait(low, round(high, 6), "named")
    return AttemptWait(fact.delay_s, fact.delay_s, fact.source)


def _failed_attempt(work: Work, command_id: str) -> ev.AttemptFailed:
    """Return the last attempt of a call that failed."""
    facts = (one.event.fact for one in reversed(work.emitted))
    return next(fact for fact in facts if isinstance(fact, ev.AttemptFailed) and fact.command_id == command_id)


def _node(work: Work, fact: ev.NodeRetryScheduled, spent: int) -> AttemptWait:
    step = work.run.steps.get(fact.step_id)
    worker = "" if step is None else waits.find_worker(step)
    preset = work.compiled_fabric.spec.policy.retry_layers.retries_of(work.run.stage, worker)
    low, high = (retries.delay_s(preset, spent + 1, drawn) or 0.0 for drawn in (0.0, ALMOST_1))
    return AttemptWait(low, round(high, 6), "node")


def _build_asks(work: Work, event: Event) -> Asks:
    fact: Any = event.fact
    shown = work.ctx.contents.read(event.content_ref)
    return Asks(
        role=fact.required_role,
        reviewers=fact.reviewers,
        remind_s=(fact.remind_at - event.at) / US,
        onward_s=(fact.onward_at - event.at) / US,
        onward_to=fact.onward_to,
        due_s=(fact.due_at - event.at) / US,
        on_expiry=fact.on_expiry,
        approvals=fact.approvals,
        verbs={verb: str(shown.get(verb, "")) for verb in fact.verbs},
        model=fact.model,
    )


# -- walking ---------------------------------------------------------------------------------------------------------

DECISIONS_MAX = 500
"""Every rung but the last is bounded, so a walk ends. This is so that a fault of ours does too."""
ORDER = tuple(Stage)
BEGAN_US = 1_767_225_600_000_000
"""Assumed start of the run; no result depends on it."""
NOTES = (
    "the failure persists after every step",
    "reviewers reject, or do not answer in time",
    "the failures themselves open no circuit breaker",
    "no other run takes from the same budgets and retry tokens, and earlier calls of this one earn none",
)


def suppose_failure(
    compiled: CompiledFabric, failure: FailureType, tier: Tier, given: Supposing | None = None
) -> Supposed:
    """Return the engine's reactions in this fabric to a failure that stays. Raises NotSupposed if it cannot happen
    so.
    """
    given = given or Supposing()
    walk = _Walk(compiled, failure, tier, given)
    lines = walk.list_lines()
    spec = compiled.spec
    ended = walk.ended
    return Supposed(
        failure=failure,
        tier=tier,
        stage=walk.began_in,
        agent=walk.agent,
        cause=walk.cause,
        own=any(
            (one.failure, one.tier) == (failure, tier) and one.stage in (None, walk.began_in) for one in spec.cells
        ),
        ladder=_ladder(compiled, failure, tier, walk.began_in, lines),
        lines=lines,
        state=ended[0],
        reason=ended[1],
        notes=NOTES,
    )


def _ladder(
    compiled: CompiledFabric, failure: FailureType, tier: Tier, stage: Stage, lines: tuple[WalkLine, ...]
) -> tuple[WalkRung, ...]:
    found = []
    for n, rung in enumerate(compiled.ladders.find_ladder(failure, tier, stage).rungs, start=1):
        mine = [line for line in lines if (line.failure, line.rung) == (failure, n) and line.what != "left"]
        skipped = [line.why for line in mine if line.what == "skipped" and line.reaction == rung.reaction]
        asks = rung.reaction is Reaction.ESCALATE or Accompaniment.FOLLOW_UP in rung.with_
        found.append(
            WalkRung(
                rung=n,
                reaction=str(rung.reaction),
                times=rung.times,
                per=str(rung.counted_per),
                layer=find_layer(rung),
                accompanies=tuple(str(one) for one in rung.with_),
                role=rung.role if asks else "",
                critic=rung.critic,
                uses=sum(line.what == "decided" for line in mine),
                why=skipped[0] if skipped else "",
            )
        )
    return tuple(found)


CONTINUATIONS = {
    Reaction.ROUTE: "a rule of the graph leads on from it",
    Reaction.GO_BACK: "it goes back to a retry target of the graph",
}
"""Continuations of a run whose turn failed; only that turn has the failure."""


class _Walk:
    """Walks one failure until the run is over."""

    def __init__(self, compiled: CompiledFabric, failure: FailureType, tier: Tier, given: Supposing) -> None:
        self.failure, self.given, self.spec = failure, given, compiled.spec
        self.met, self.stage, self.cause = find_circumstances(compiled.spec, failure, given)
        self.whole = self.met.whole and not given.of_call
        self.began_in = self.stage
        self.worker = given.agent or first_worker(self.spec, armed=self.met.blocked)
        self.agent = "" if self.whole else agent_in(self.spec, self.stage, self.worker)
        if not self.whole and not self.agent:
            raise NotSupposed(f"stage {self.stage} of this fabric calls no agent, so {failure} cannot be met there")
        self.blocked = self.met.blocked and self.cause is self.met.cause
        if self.blocked and not self.spec.tools_of(self.spec.agent(self.agent)):
            raise NotSupposed(f"agent {self.agent} has no tool, so there is no call that could be withheld")
        self.ended: tuple[RunState, str] = (RunState.RUNNING, "")
        context = Context(BEGAN_US, "supposed", "supposed", 0, compiled, Contents())
        self.work = Work(Run("supposed"), context)
        self._begin(tier)

    def list_lines(self) -> tuple[WalkLine, ...]:
        """Return every line, to the end."""
        lines: list[WalkLine] = []
        next_one: Failure | None = None
        for _ in range(DECISIONS_MAX):
            before = len(self.work.emitted)
            reactions.react(self.work, next_one or self._meet_again())
            facts = self._add_facts(before, lines)
            unheard = [one for one in self.work.run.reviews.values() if one.fact.on_expiry == NEXT_RUNG]
            if unheard:
                before = len(self.work.emitted)
                people.expire_review(self.work, unheard[0])
                facts = self._add_facts(before, lines)
            next_one = self._reach_failure(facts)
            if self.ended[0] is not RunState.RUNNING:
                return tuple(lines)
        raise AssertionError(
            f"{self.failure} did not end after {DECISIONS_MAX} decisions"
        )  # A ladder ends, by its validator.

    def _add_facts(self, before: int, lines: list[WalkLine]) -> list[Any]:
        """Add the lines of the facts since then, and return the facts."""
        facts = [one.event for one in self.work.emitted[before:]]
        lines += decision_lines(self.work, facts)
        return facts

    # -- the facts before the failure ---------------------------------------------------------------------------------

    def _begin(self, tier: Tier) -> None:
        deadline = BEGAN_US + int(self.spec.policy.deadlines_of(tier).run_s * US)
        compiled = self.work.ctx.compiled
        started = ev.RunStarted(
            fabric=self.spec.name, revision=compiled.revision, tier=tier, deadline_at=deadline, seed=0
        )
        self.work.emit(started, {"text": "What is asked.", "documents": [], "document_bytes": []})
        self._lay()

    def _lay(self) -> None:
        """Pass the stages before the failing one, and enter that."""
        work = self.work
        for stage in ORDER[: ORDER.index(self.stage) + 1]:
            last = stage is self.stage
            name = agent_in(self.spec, stage, self.worker, work.run.planner) if last and not self.whole else ""
            stage_s = work.policy_in(stage).deadlines_of(work.run.tier).stage_s
            deadline = min(work.ctx.now + int(stage_s * US), work.run.deadline_at)
            turns = name and stage is Stage.FAN_OUT and is_conversation(self.spec.topology)
            agents = (name,) if name and not turns else ()
            work.emit(ev.StageEntered(stage=stage, epoch=work.run.epoch, deadline_at=deadline, agents=agents))
            if turns:
                self._open_turn(name)
            if not last:
                passed = ev.StageLeft(stage=stage, epoch=work.run.epoch, outcome=StageOutcome.PASSED)
                work.emit(passed, {"output": self._output(stage)})

    def _open_turn(self, name: str) -> None:
        """Begin the first turn of a conversation as that agent's."""
        work = self.work
        if name != conversations.find_graph(work).initial_speaker:
            chosen = ev.SpeakerChosen(step_id="", turn=0, from_agent="", speaker=name, why=SpeakerReason.DEFAULT)
            work.emit(chosen, {"context": dict(conversations.build_context(work)), "reason": ""})
        key = step_id(Stage.FAN_OUT, 0, work.run.epoch, 0)
        work.emit(ev.TurnOpened(step_id=key, branch=0, agent=name, brief=0, first=True, chooses=True))

    def _output(self, stage: Stage) -> JSON:
        if stage is Stage.PLAN:
            brief = {"agent": self.worker, "title": "A part", "instructions": "Do it."}
            return {"goal": "Answer it.", "briefs": [brief], "exit_criteria": ["It is answered."]}
        if stage is Stage.FAN_OUT:
            return [{"branch": 0, "agent": self.worker, "title": "A part", "ref": "", "gap": ""}]
        return {"text": "It is done.", "citations": []}

    # -- the failure --------------------------------------------------------------------------------------------------

    def _step(self) -> Step | None:
        steps = list_steps(self.work, self.stage)
        return steps[-1] if steps else None

    def _meet_again(self) -> Failure:
        """Return the failure once more, in its present place."""
        step = None if self.whole else self._step()
        if step is None:
            return Failure((self._trip("stage"),), self.stage)
        if self.met.call:
            return self._call(step)
        if self.blocked and not step.final:
            return self._withheld(step)
        return Failure((self._trip(f"step:{step.id}"),), self.stage, step.id)

    def _trip(self, scope: str) -> Trip:
        return Trip(self.met.mechanism, self.cause, Evidence(scope=scope), self.met.message)

    def _withheld(self, step: Step) -> Failure:
        """Let the step's agent propose a call that is blocked, with the reason for its model."""
        tool = self.spec.tools_of(self.spec.agent(step.agent))[0]
        if refused := calls.ask_model(self.work, step, turn=step.turns + 1):
            return Failure(tuple(refused), self.stage, step.id)
        sent = next(one for one in self.work.run.pending.values() if one.issued.step_id == step.id).issued
        proposed = ev.ProposedCall(call_id=f"c{sent.turn}", tool=tool, args_hash="supposed")
        answered = ev.ModelAnswered(
            command_id=sent.command_id, attempt=sent.attempt, step_id=step.id, verdict="calls", calls=(proposed,)
        )
        self.work.emit(answered, {"text": "", "calls": []})
        one = Proposed(proposed.call_id, tool, None, "", proposed.args_hash)
        wave.refuse(self.work, step.id, one, self.cause, self.met.mechanism, self.met.message, correction=False)
        details: Details = {"detector": "identical_calls", "tool": tool, "args_hash": proposed.args_hash}
        trip = replace(self._trip(f"step:{step.id}"), evidence=Evidence(scope=f"step:{step.id}", details=details))
        return Failure((trip,), self.stage, step.id, blocked=True)

    def _call(self, step: Step) -> Failure:
        """Let the step's call go out and fail, or be refused."""
        waiting = next((one for one in self.work.run.pending.values() if one.issued.step_id == step.id), None)
        if waiting is None:
            refused = calls.ask_model(self.work, step, turn=step.turns + 1)
        else:
            refused = calls.issue_again(self.work, waiting)
        if refused:
            return Failure(tuple(refused), self.stage, step.id)
        sent = next(one for one in self.work.run.pending.values() if one.issued.step_id == step.id)
        return self._build_failure(sent)

    def _build_failure(self, sent: Pending) -> Failure:
        issued = sent.issued
        trip, wait = self._breaker(issued) if self.given.breaker_open else (None, None)
        fact = ev.AttemptFailed(
            command_id=issued.command_id,
            attempt=issued.attempt,
            step_id=issued.step_id,
            error_class=CLASSIFY[self.cause].error_class,
            cause=self.cause,
            message=self.met.message if trip is None else trip.message,
            retry_after_s=self.given.retry_after_s,
            trip=trip,
            breaker_wait_s=wait,
        )
        self.work.emit(fact)
        return call_failure(issued, fact)

    def _breaker(self, issued: ev.CallIssued) -> tuple[ev.TripRecord, float]:
        """Return the refusal of the fabric's first breaker in front of models."""
        breaker = next((one for one in self.spec.policy.breakers if one.scope != "tool"), None)
        if breaker is None:
            raise NotSupposed("the fabric has no circuit breaker in front of its models (policy.breakers)")
        scope = provider_scope(self.spec.model(issued.target)) if breaker.scope == "provider" else f"{breaker.scope}:"
        evidence = Evidence(unit="failures", scope=scope, details={"fallback": str(breaker.on_open)})
        message = f"the circuit breaker of its {breaker.scope} is open"
        record = ev.TripRecord(mechanism=circuit_breaker.NAME, cause=self.cause, message=message, evidence=evidence)
        return record, self.given.retry_after_s or breaker.cooldown_s

    # -- what follows from a decision ---------------------------------------------------------------------------------

    def _reach_failure(self, facts: list[Any]) -> Failure | None:
        """Bring the run to the failure again; None once it no longer happens. The failure that comes instead, if one
        does.
        """
        work = self.work
        reaction = next(one.fact.reaction for one in reversed(facts) if isinstance(one.fact, ev.ReactionDecided))
        for review in list(work.run.reviews.values()):
            if review.fact.item != "follow_up" and not work.run.terminal:
                people.expire_review(work, review)
        if work.run.terminal:
            self.ended = (work.run.state, work.run.reason)
            return None
        self._wait(facts)
        if reaction == Reaction.TERMINATE and self.met.answers:
            self.ended = (RunState.STOPPED, "the agent answers with what it has")
        elif reaction in CONTINUATIONS:
            return self._led_on(CONTINUATIONS[Reaction(reaction)])
        elif reaction == Reaction.HANDOVER and self.met.cured:
            self.ended = (RunState.COMPLETED, f"{self.spec.topology.handover} does it")
        elif any(isinstance(one.fact, ev.Replanned) for one in facts):
            if self.failure is FailureType.COST_OVERRUN and self.whole:
                self.stage = Stage.PLAN  # There is no money for a plan either.
            self._lay()
        elif any(isinstance(one.fact, ev.StepFailed) for one in facts):
            return self._gap()
        return None

    def _led_on(self, told: str) -> Failure | None:
        """Let the graph decide after the turn; a blocked restart edge is a failure of its own."""
        if (blocked := graph.commit_turn(self.work, list_steps(self.work, self.stage)[-1])) is not None:
            return blocked
        self.ended = (RunState.COMPLETED, told)
        return None

    def _wait(self, facts: list[Any]) -> None:
        """Move the clock to the next scheduled instant, and open a node that begins again."""
        for one in facts:
            if isinstance(one.fact, ev.RetryScheduled | ev.NodeRetryScheduled):
                self.work.ctx.now = max(self.work.ctx.now, one.fact.not_before)
        again = node_retries.due(self.work)
        if again is not None:
            node_retries.begin(self.work, again)

    def _gap(self) -> Failure | None:
        """Apply the fan-in policy to a branch that ended without a result."""
        found = shell.conclude_stage(self.work, self.stage, list_steps(self.work, self.stage))
        if isinstance(found, Failure):
            return found
        self.ended = (RunState.COMPLETED, "the others are enough, with a gap where the branch was")
        return None
