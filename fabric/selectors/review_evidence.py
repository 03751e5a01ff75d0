"""What a person who decides has to know beside the question itself: why it stopped, gate by gate, and where the run stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fabric.core.actor import Actor
from fabric.core.envelope import UnknownEvent, from_row
from fabric.core.events import ReactionDecided, TripRecord
from fabric.core.flow import Stage
from fabric.core.mechanisms import budget, state_of
from fabric.core.run import Run, clocks_stopped
from fabric.core.saga import by_key, undo_order
from fabric.core.spec import FabricSpec
from fabric.core.words import count, words
from fabric.models import Event
from fabric.selectors.escalations import EscalationView
from fabric.selectors.explain import in_words
from fabric.selectors.moments import Moment, moment_at
from fabric.selectors.runs import RunView, run_get
from fabric.selectors.workspace_policies import spec_under

NEAR = 64
"""So many events before a question at most the decision stands that led to it: in between its branches are parked."""
CONFIDENCE = "confidence"


@dataclass(frozen=True, slots=True)
class GateStep:
    """One check of the gate that a stage met, in the gate's order."""

    name: str
    result: str
    """As the gate recorded it: ``events.parts.Check.result``."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Undo:
    """Something that would be undone before a bad end."""

    tool: str
    compensation: str
    """Empty: it cannot be undone."""
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A question's circumstances. Instants are microseconds since the epoch, UTC; money is micro-dollars. What cannot be folded is left out."""

    run: RunView
    spec: FabricSpec
    seq: int = 0
    """Of the event that opened the question; 0: it could not be found."""
    remind_at: int
    onward_at: int
    round: int = 1
    folded: bool = False
    """Whether the figures below are known."""
    spent_usd_micros: int = 0
    cap_usd_micros: int = 0
    replans: int = 0
    replans_max: int = 0
    clock_left_us: int | None = None
    """What is left of the run's time while its clocks stand still; None: they run."""
    trip: TripRecord | None = None
    numbers: str = ""
    """The trip's numbers in one sentence, with the cycle where there is one."""
    gates: tuple[GateStep, ...] = ()
    undo: tuple[Undo, ...] = ()
    """What a rejection that ends the run would undo, in that order."""

    @property
    def left_usd_micros(self) -> int:
        """What the run may still spend."""
        return max(0, self.cap_usd_micros - self.spent_usd_micros)

    @property
    def replans_left(self) -> int:
        """How often the question's stage may still be planned anew."""
        return max(0, self.replans_max - self.replans)


def evidence_of(actor: Actor, item: EscalationView) -> Evidence:
    """Everything about a question that its own row does not say. Refused not_found."""
    run = run_get(actor, item.run_id)
    moment = moment_at(actor, run.id, run.last_seq)
    spec = spec_under(run.revision_id, run.workspace_id, moment.run.policy if moment else 0, run.tier)
    seq, fact = moment.questions.get(item.id, (0, None)) if moment else (0, None)
    humans, due = spec.policy.humans, item.due_at - item.opened_at
    decided = _decided(item, seq) if item.reads else None
    trip = decided.cause if decided else None
    known: dict[str, Any] = {} if moment is None else _figures(moment, spec, item.stage)
    return Evidence(
        run=run,
        spec=spec,
        seq=seq,
        remind_at=item.remind_at or item.opened_at + int(due * humans.reminder_at),
        onward_at=item.onward_at or item.opened_at + int(due * humans.onward_at),
        round=fact.round if fact else 1,
        trip=trip,
        numbers=in_words(trip) if trip else "",
        gates=tuple(_gates(decided)) if decided else (),
        **known,
    )


def _figures(moment: Moment, spec: FabricSpec, stage: str) -> dict[str, Any]:
    run = moment.run
    stopped = clocks_stopped(run)
    here = Stage(stage) if stage in set(Stage) else run.stage
    return {
        "folded": True,
        "spent_usd_micros": moment.spent_usd_micros,
        "cap_usd_micros": budget.cap(spec.policy.budget, state_of(run.guards, budget)),
        "replans": run.replans.get(here, 0),
        "replans_max": spec.policy.limits.replans_per_stage,
        "clock_left_us": stopped[0] if stopped else None,
        "undo": tuple(_undo(run)),
    }


def _undo(run: Run) -> Iterable[Undo]:
    for key in undo_order(run.saga.mutations, replan=False):
        if one := by_key(run.saga, key):
            yield Undo(one.tool, one.compensation, one.status)


def _decided(item: EscalationView, seq: int) -> ReactionDecided | None:
    """What led to a question, where a decision did: the last one before it that says the same."""
    rows = Event.objects.filter(run_id=item.run_id, seq__lt=seq, seq__gte=seq - NEAR, kind="reaction_decided")
    for stored in rows.order_by("-seq").values_list("seq", "kind", "version", "header") if seq else ():
        try:
            fact: Any = from_row(stored[0], stored[1], stored[2], bytes(stored[3])).fact
        except (UnknownEvent, ValueError):
            continue
        decided: ReactionDecided = fact
        if decided.cause.message == item.reason:
            return decided
    return None


def _gates(decided: ReactionDecided) -> Iterable[GateStep]:
    """The checks of the gate that refused, in their order; none, where no gate stopped the run."""
    gate = decided.gate
    for check in gate.checks if gate is not None else ():
        note = "" if check.result in ("passed", "failed") else words(check.result)
        if check.result == "failed":
            note = count(len(check.problems), "problem")
            if check.name == CONFIDENCE:
                note = f"{decided.cause.evidence.observed} < tau {decided.cause.evidence.limit}"
        yield GateStep(check.name, check.result, note)
