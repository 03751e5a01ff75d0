"""Takes a run's facts in, one by one. It has the run that they fold to, and counts of its own.

Rungs used, replans, rounds, models and steps are the run's. Money, retry tokens, clocks, turns of nodes and handovers
are counted here by code of its own (``purse.py``, ``numbers.py``), so that the two can disagree. A case is one decision
that is judged again: the folded run, the fabric, and the recorded fact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from typing import Any

from fabric.auditor import numbers, purse
from fabric.core import events as ev
from fabric.core.decision.work import Work
from fabric.core.events.envelope import Event
from fabric.core.evolve import evolve
from fabric.core.mechanisms import failure_signature, find_state
from fabric.core.rules.signatures import Failures
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.decision_table import Accompaniment
from fabric.core.spec.policies.flow_policy import FlowPolicy
from fabric.core.state.context import CompiledFabric, Contents, Context
from fabric.core.state.failure import Failure
from fabric.core.state.run import Run, Step
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Tier, Trip


@dataclass(slots=True)
class Ledger:
    """One run up to some event. ``note`` changes it in place."""

    run: Run
    """The run as its journal folds to it."""
    rows: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Decisions by row and what they were about: a branch of a stage, or a stage."""
    returned: dict[str, int] = field(default_factory=dict)
    """By step at work: times that a tool's error came. It counts since the last decision and since a person spoke of
    it.
    """
    excused: dict[str, int] = field(default_factory=dict)
    """By step at work: times that a tool's error came after a person spoke of it. It counts since the last decision."""
    hops: int = 0
    """Handovers of the run."""
    visits: Counter[str] = field(default_factory=Counter)
    """By node, ``stage:plan`` or ``agent:NAME``, over all epochs."""
    issued: dict[str, ev.CallIssued] = field(default_factory=dict)
    """The latest attempt of each call."""
    rewritten: set[str] = field(default_factory=set)
    """Calls whose prompt a person has changed since: a plan that they wrote into stands in every branch's."""
    attempts: dict[str, ev.AttemptFailed] = field(default_factory=dict)
    """The latest failed attempt of each call."""
    numbers: numbers.Numbers = field(default_factory=numbers.Numbers)
    """Deadlines and retry tokens."""
    purse: purse.Purse = field(default_factory=purse.Purse)
    """Money and tokens."""
    skipped: list[ev.RungSkipped] = field(default_factory=list)
    """Rungs passed over since the last fact of another kind."""

    def model_call(self, command_id: str) -> ev.CallIssued | None:
        """Return the latest attempt of a call to a model; None: it is no such call."""
        found = self.issued.get(command_id)
        return found if found is not None and found.call == "model" else None


def note(ledger: Ledger, event: Event, after: Run | None = None) -> None:
    """Take one more event in.

    ``after``: the run after it, where it is folded already. Raises ValueError where the event does not fold.
    """
    fact: Any = event.fact
    numbers.note(ledger.numbers, fact)
    purse.note(ledger.purse, fact)
    act = TAKES.get(fact.kind)
    if act is not None:
        act(ledger, fact)
    if isinstance(fact, ev.RungSkipped):
        ledger.skipped.append(fact)
    else:
        ledger.skipped.clear()
    ledger.run = after or _fold(ledger.run, event)


def _fold(run: Run, event: Event) -> Run:
    try:
        return evolve(run, event)
    except (LookupError, TypeError, AttributeError, AssertionError, StopIteration) as error:
        raise ValueError(f"{event.fact.kind} does not follow from the events before it ({error!r})") from error


def list_passed_over(ledger: Ledger) -> dict[int, str]:
    """Return the recorded reasons of the rungs passed over before the next decision, without accompaniments."""
    with_it = {str(one) for one in Accompaniment}
    return {one.rung: one.reason for one in ledger.skipped if one.reaction not in with_it}


# -- one function a kind; the run is the one before the fact -----------------------------------------------------------


def _stage_entered(ledger: Ledger, fact: ev.StageEntered) -> None:
    ledger.visits[f"stage:{fact.stage}"] += 1


def _turn_opened(ledger: Ledger, fact: ev.TurnOpened) -> None:
    ledger.visits[f"agent:{fact.agent}"] += fact.chooses


def _record_handoff(ledger: Ledger, fact: ev.HandedOff) -> None:
    ledger.hops += 1


def _record_decision(ledger: Ledger, fact: ev.ReactionDecided) -> None:
    ledger.rows[fact.failure_type or "direct", find_subject(fact)] += 1
    ledger.returned.clear()
    ledger.excused.clear()


def find_subject(fact: ev.ReactionDecided) -> str:
    """Return what a decision is about, whatever the epoch and round: a stage's branch, or the stage."""
    return fact.step_id.partition(".e")[0] or fact.scope.partition(":")[2]


def _tool_answered(ledger: Ledger, fact: ev.ToolAnswered) -> None:
    """An error that a tool gives its model is a failure of its own. The calls of one answer fail together."""
    run, key = ledger.run, fact.failure
    failures: Failures = find_state(run.guards, failure_signature)
    if not key or failures.turns.get(key) == fact.command_id.rpartition(".c")[0]:
        return
    step = run.steps.get(fact.step_id)
    if step is not None and step.agent and step.status == "active" and not step.final and run.ending is None:
        counts = ledger.excused if key in failures.heard else ledger.returned
        counts[step.id] = max(counts.get(step.id, 0), failures.counts.get(key, 0) + 1)


def _record_call(ledger: Ledger, fact: ev.CallIssued) -> None:
    ledger.issued[fact.command_id] = fact
    ledger.rewritten.discard(fact.command_id)


def _record_edit(ledger: Ledger, fact: ev.OutputEdited) -> None:
    if fact.stage == "plan":
        ledger.rewritten.update(ledger.issued)


def _attempt_failed(ledger: Ledger, fact: ev.AttemptFailed) -> None:
    ledger.attempts[fact.command_id] = fact


TAKES: Mapping[str, Callable[[Ledger, Any], None]] = {
    "stage_entered": _stage_entered,
    "turn_opened": _turn_opened,
    "handed_off": _record_handoff,
    "reaction_decided": _record_decision,
    "tool_answered": _tool_answered,
    "call_issued": _record_call,
    "output_edited": _record_edit,
    "attempt_failed": _attempt_failed,
}
"""One function for each kind of fact that adds to the counts."""


@dataclass(frozen=True, slots=True)
class DecisionCase:
    """One decision, before it was taken."""

    ledger: Ledger
    compiled: CompiledFabric
    """The fabric as the run sees it: a team's run, with the topology that it runs."""
    fact: ev.ReactionDecided
    at: int
    """When it was decided, microseconds since the epoch."""

    @property
    def spec(self) -> FabricSpec:
        """The fabric."""
        return self.compiled.spec

    @property
    def stage(self) -> Stage:
        """The stage that failed."""
        return find_stage(self.ledger, self.fact)

    @property
    def step(self) -> Step | None:
        """The step that failed; None: it was the stage as a whole."""
        return self.ledger.run.steps.get(self.fact.step_id)

    @property
    def policy(self) -> FlowPolicy:
        """The policy as the failed stage sees it."""
        return self.spec.policy.of_stage(self.stage)

    @property
    def trips(self) -> tuple[ev.TripRecord, ...]:
        """All recorded causes, the decisive one first."""
        return (self.fact.cause, *self.fact.causes)

    def work(self, tier: Tier | None = None) -> Work:
        """Return the decision in the making, without contents and shared budgets. ``tier``: None: the run's."""
        run = self.ledger.run if tier is None else replace(self.ledger.run, tier=tier)
        compiled = with_fields(self.compiled, nested={}) if self.compiled.nested else self.compiled
        return Work(run, Context(self.at, run.id, "", run.seed, compiled, Contents()))

    def failure(self, trips: tuple[ev.TripRecord, ...]) -> Failure:
        """Return the failure as it came to the ladder, with those trips in that order."""
        command_id = self.fact.command_id
        failed = self.ledger.attempts.get(command_id)
        named = failed is not None and failed.trip is None  # A call that a breaker refused was not sent.
        return Failure(
            trips=tuple(Trip(one.mechanism, one.cause, one.evidence, one.message) for one in trips),
            stage=self.stage,
            step_id=self.fact.step_id,
            issued=self.ledger.issued.get(command_id),
            retry_after_s=failed.retry_after_s if failed is not None and named else None,
            breaker_wait_s=None if failed is None else failed.breaker_wait_s,
            shut=frozenset() if failed is None else frozenset(failed.shut),
            gate=self.fact.gate,
        )


def find_stage(ledger: Ledger, fact: ev.ReactionDecided) -> Stage:
    """Return the stage that a decision is about."""
    named = fact.step_id.partition(".")[0]
    return Stage(named) if named else ledger.run.stage
