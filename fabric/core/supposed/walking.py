"""The walk: a run that never was is brought to the failure, and the engine reacts to it, again and again, until it ends.

The deciding is the engine's own (``reactions.react``: table, ladder, guard, questions); what is made up are the facts before it: stages that were passed,
calls that went out and failed. Nothing is asked, stored or waited for: the clock is moved on.
"""

from __future__ import annotations

from typing import Any

from fabric.core import calls, conversations, node_retries, reactions, wave
from fabric.core import events as ev
from fabric.core.context import Compiled, Contents, Context
from fabric.core.decision_table import Accompaniment, Reaction
from fabric.core.endpoints import provider_scope
from fabric.core.failure import Failure, of_call
from fabric.core.flow import RunState, Stage, StageOutcome
from fabric.core.frozen import replace
from fabric.core.graph.state import Why
from fabric.core.handlers import people
from fabric.core.let_pass import NEXT_RUNG
from fabric.core.mechanisms import circuit_breaker
from fabric.core.proposed import Proposed
from fabric.core.retry_layers import layer_of
from fabric.core.run import Pending, Run, Step, step_id
from fabric.core.spec_conversation import is_conversation
from fabric.core.supposed.met import NotSupposed, agent_in, first_worker, met_in
from fabric.core.supposed.models import Laid, Line, Supposed, Supposing
from fabric.core.supposed.telling import told
from fabric.core.taxonomy import CLASSIFY, FailureType, Tier
from fabric.core.topologies import graph, shell
from fabric.core.topologies.shape import steps_of
from fabric.core.verdict import Details, Evidence, Trip
from fabric.core.work import US, Work

JSON = Any
DECISIONS_MAX = 500
"""Every rung but the last is bounded, so a walk ends; this is so that a fault of ours does too."""
ORDER = tuple(Stage)
BEGAN_US = 1_767_225_600_000_000
"""When the run is supposed to have begun: no number hangs on it."""
NOTES = (
    "the failure stays, whatever is done about it",
    "whoever is asked rejects, or does not answer in time",
    "the failures themselves open no circuit breaker",
    "no other run takes from the same budgets and retry tokens, and earlier calls of this one earn none",
)


def supposed(compiled: Compiled, failure: FailureType, tier: Tier, given: Supposing | None = None) -> Supposed:
    """What the engine does in this fabric about a failure that stays. NotSupposed where it cannot be met so."""
    given = given or Supposing()
    walk = _Walk(compiled, failure, tier, given)
    lines = walk.walked()
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
    compiled: Compiled, failure: FailureType, tier: Tier, stage: Stage, lines: tuple[Line, ...]
) -> tuple[Laid, ...]:
    found = []
    for n, rung in enumerate(compiled.ladders.at(failure, tier, stage).rungs, start=1):
        mine = [line for line in lines if (line.failure, line.rung) == (failure, n) and line.what != "left"]
        skipped = [line.why for line in mine if line.what == "skipped" and line.reaction == rung.reaction]
        asks = rung.reaction is Reaction.ESCALATE or Accompaniment.TICKET in rung.with_
        found.append(
            Laid(
                rung=n,
                reaction=str(rung.reaction),
                times=rung.times,
                per=str(rung.counted_per),
                layer=layer_of(rung),
                accompanies=tuple(str(one) for one in rung.with_),
                role=rung.role if asks else "",
                critic=rung.critic,
                uses=sum(line.what == "decided" for line in mine),
                why=skipped[0] if skipped else "",
            )
        )
    return tuple(found)


LED_ON = {
    Reaction.ROUTE: "a rule of the graph leads on from it",
    Reaction.GO_BACK: "it goes back to a retry target of the graph",
}
"""How a run goes on whose turn failed: only that turn meets the failure."""


class _Walk:
    """One failure, met until the run is over."""

    def __init__(self, compiled: Compiled, failure: FailureType, tier: Tier, given: Supposing) -> None:
        self.failure, self.given, self.spec = failure, given, compiled.spec
        self.met, self.stage, self.cause = met_in(compiled.spec, failure, given)
        self.whole = self.met.whole and not given.of_call
        self.began_in = self.stage
        self.worker = given.agent or first_worker(self.spec, armed=self.met.blocked)
        self.agent = "" if self.whole else agent_in(self.spec, self.stage, self.worker)
        if not self.whole and not self.agent:
            raise NotSupposed(f"nobody is asked in stage {self.stage} of this fabric, so {failure} cannot be met there")
        self.blocked = self.met.blocked and self.cause is self.met.cause
        if self.blocked and not self.spec.tools_of(self.spec.agent(self.agent)):
            raise NotSupposed(f"agent {self.agent} has no tool, so there is no call that could be withheld")
        self.ended: tuple[RunState, str] = (RunState.RUNNING, "")
        context = Context(BEGAN_US, "supposed", "supposed", 0, compiled, Contents())
        self.work = Work(Run("supposed"), context)
        self._begin(tier)

    def walked(self) -> tuple[Line, ...]:
        """Every line, to the end."""
        lines: list[Line] = []
        next_one: Failure | None = None
        for _ in range(DECISIONS_MAX):
            before = len(self.work.emitted)
            reactions.react(self.work, next_one or self._met())
            facts = self._told(before, lines)
            unheard = [one for one in self.work.run.questions.values() if one.fact.on_expiry == NEXT_RUNG]
            if unheard:
                before = len(self.work.emitted)
                people.expired(self.work, unheard[0])
                facts = self._told(before, lines)
            next_one = self._after(facts)
            if self.ended[0] is not RunState.RUNNING:
                return tuple(lines)
        raise AssertionError(
            f"{self.failure} did not end after {DECISIONS_MAX} decisions"
        )  # A ladder ends, by its validator.

    def _told(self, before: int, lines: list[Line]) -> list[Any]:
        """Adds the lines of the facts since then, and returns the facts."""
        facts = [one.event for one in self.work.emitted[before:]]
        lines += told(self.work, facts)
        return facts

    # -- the facts before the failure ----------------------------------------------------------------------------------

    def _begin(self, tier: Tier) -> None:
        deadline = BEGAN_US + int(self.spec.policy.deadlines_of(tier).run_s * US)
        compiled = self.work.ctx.compiled
        started = ev.RunStarted(
            fabric=self.spec.name, revision=compiled.revision, tier=tier, deadline_at=deadline, seed=0
        )
        self.work.emit(started, {"text": "What is asked.", "documents": [], "document_bytes": []})
        self._lay()

    def _lay(self) -> None:
        """Passes the stages before the one in which it is met, and enters that."""
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
        """The first turn of a conversation, as if it were that agent's."""
        work = self.work
        if name != conversations.graph_of(work).initial_speaker:
            chosen = ev.SpeakerChosen(step_id="", turn=0, from_agent="", speaker=name, why=Why.DEFAULT)
            work.emit(chosen, {"context": dict(conversations.context_of(work)), "reason": ""})
        key = step_id(Stage.FAN_OUT, 0, work.run.epoch, 0)
        work.emit(ev.TurnOpened(step_id=key, branch=0, agent=name, brief=0, first=True, chooses=True))

    def _output(self, stage: Stage) -> JSON:
        if stage is Stage.PLAN:
            brief = {"agent": self.worker, "title": "A part", "instructions": "Do it."}
            return {"goal": "Answer it.", "briefs": [brief], "exit_criteria": ["It is answered."]}
        if stage is Stage.FAN_OUT:
            return [{"branch": 0, "agent": self.worker, "title": "A part", "ref": "", "gap": ""}]
        return {"text": "It is done.", "citations": []}

    # -- the failure ---------------------------------------------------------------------------------------------------

    def _step(self) -> Step | None:
        steps = steps_of(self.work, self.stage)
        return steps[-1] if steps else None

    def _met(self) -> Failure:
        """The failure once more, as it is met now."""
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
        """The step's agent proposes a call, which is not executed, and is told why."""
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
        """The step's call goes out and fails, or is not let out at all."""
        waiting = next((one for one in self.work.run.pending.values() if one.issued.step_id == step.id), None)
        if waiting is None:
            refused = calls.ask_model(self.work, step, turn=step.turns + 1)
        else:
            refused = calls.again(self.work, waiting)
        if refused:
            return Failure(tuple(refused), self.stage, step.id)
        sent = next(one for one in self.work.run.pending.values() if one.issued.step_id == step.id)
        return self._failed(sent)

    def _failed(self, sent: Pending) -> Failure:
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
        return of_call(issued, fact)

    def _breaker(self, issued: ev.CallIssued) -> tuple[ev.TripRecord, float]:
        """The refusal of the fabric's first breaker in front of models."""
        breaker = next((one for one in self.spec.policy.breakers if one.scope != "tool"), None)
        if breaker is None:
            raise NotSupposed("the fabric has no circuit breaker in front of its models (policy.breakers)")
        scope = provider_scope(self.spec.model(issued.target)) if breaker.scope == "provider" else f"{breaker.scope}:"
        evidence = Evidence(unit="failures", scope=scope, details={"fallback": str(breaker.on_open)})
        message = f"the circuit breaker of its {breaker.scope} is open"
        record = ev.TripRecord(mechanism=circuit_breaker.NAME, cause=self.cause, message=message, evidence=evidence)
        return record, self.given.retry_after_s or breaker.cooldown_s

    # -- what follows from a decision ----------------------------------------------------------------------------------

    def _after(self, facts: list[Any]) -> Failure | None:
        """Brings the run to where it meets the failure again; says where it does not any more. The failure that comes instead, if one does."""
        work = self.work
        reaction = next(one.fact.reaction for one in reversed(facts) if isinstance(one.fact, ev.ReactionDecided))
        for question in list(work.run.questions.values()):
            if question.fact.item != "ticket" and not work.run.terminal:
                people.expired(work, question)
        if work.run.terminal:
            self.ended = (work.run.state, work.run.reason)
            return None
        self._wait(facts)
        if reaction == Reaction.TERMINATE and self.met.answers:
            self.ended = (RunState.STOPPED, "the agent answers with what it has")
        elif reaction in LED_ON:
            return self._led_on(LED_ON[Reaction(reaction)])
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
        """What the graph makes of a turn that is over; a restart edge may be blocked, which is a failure of its own."""
        if (blocked := graph.committed(self.work, steps_of(self.work, self.stage)[-1])) is not None:
            return blocked
        self.ended = (RunState.COMPLETED, told)
        return None

    def _wait(self, facts: list[Any]) -> None:
        """Moves the clock to when what was scheduled is due, and opens a node that begins again."""
        for one in facts:
            if isinstance(one.fact, ev.RetryScheduled | ev.NodeRetryScheduled):
                self.work.ctx.now = max(self.work.ctx.now, one.fact.not_before)
        again = node_retries.due(self.work)
        if again is not None:
            node_retries.begin(self.work, again)

    def _gap(self) -> Failure | None:
        """What the fan-in policy makes of a branch that ended without a result."""
        found = shell.concluded(self.work, self.stage, steps_of(self.work, self.stage))
        if isinstance(found, Failure):
            return found
        self.ended = (RunState.COMPLETED, "the others are enough, with a gap where the branch was")
        return None
