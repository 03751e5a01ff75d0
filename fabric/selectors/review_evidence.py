"""What a person who decides has to know beside the question itself: why it stopped, gate by gate, and where the run stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from fabric.core.actor import Actor
from fabric.core.envelope import UnknownEvent, from_row
from fabric.core.events import TripRecord
from fabric.core.flow import Stage
from fabric.core.judges import judges_of
from fabric.core.mechanisms import budget, state_of
from fabric.core.mechanisms.validation_gate import POST_CHECKS, PRE_CHECKS
from fabric.core.run import Run, clocks_stopped
from fabric.core.saga import by_key, undo_order
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import Cause
from fabric.core.teams import spec_within
from fabric.models import Event
from fabric.selectors.escalations import EscalationView
from fabric.selectors.explain import in_words
from fabric.selectors.fabrics import revision_spec
from fabric.selectors.moments import Moment, moment_at
from fabric.selectors.runs import RunView, run_get

NEAR = 64
"""So many events before a question at most the decision stands that led to it: in between its branches are parked."""
GATE = "validation_gate"
CONFIDENCE = "confidence"

GateState = Literal["pass", "fail", "wait"]


@dataclass(frozen=True, slots=True)
class GateStep:
    """One check of the gate that a stage met, in the gate's order."""

    name: str
    state: GateState
    """``wait``: not reached, since one before it failed."""
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
    run, spec = run_get(actor, item.run_id), revision_spec(item.revision_id)
    moment = moment_at(actor, run.id, run.last_seq)
    seq, fact = moment.questions.get(item.id, (0, None)) if moment else (0, None)
    humans, due = spec.policy.humans, item.due_at - item.opened_at
    trip = _trip(item, seq)
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
        gates=tuple(_gates(trip, spec_within(spec, moment.run.topology if moment else ""), item.stage)) if trip else (),
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


def _trip(item: EscalationView, seq: int) -> TripRecord | None:
    """What led to a question, where a decision did: the last one before it that says the same."""
    rows = Event.objects.filter(run_id=item.run_id, seq__lt=seq, seq__gte=seq - NEAR, kind="reaction_decided")
    for stored in rows.order_by("-seq").values_list("seq", "kind", "version", "header") if seq else ():
        try:
            fact: Any = from_row(stored[0], stored[1], stored[2], bytes(stored[3])).fact
        except (UnknownEvent, ValueError):
            continue
        cause: TripRecord = fact.cause
        if cause.message == item.reason:
            return cause
    return None


def _gates(trip: TripRecord, spec: FabricSpec, stage: str) -> Iterable[GateStep]:
    """The checks of the gate in their order: what passed, what failed, what was not reached. None, where no gate stopped the run."""
    here = Stage(stage) if stage in set(Stage) else None
    sure = trip.cause is Cause.BELOW_TAU
    if here is None or not (sure or trip.mechanism == GATE):
        return
    failed = CONFIDENCE if sure else str(trip.evidence.details.get("check", ""))
    names = list(PRE_CHECKS) if trip.message.startswith("pre-gate") else _post(spec, here)
    if failed not in names:
        names.append(failed)
    for number, name in enumerate(names):
        at = names.index(failed)
        state: GateState = "pass" if number < at else "fail" if number == at else "wait"
        yield GateStep(name, state, _note(trip, name, state, sure=sure))


def _post(spec: FabricSpec, stage: Stage) -> list[str]:
    names = [name for name, _ in POST_CHECKS]
    names += [one.name for one in judges_of(spec, stage) if one.check is None]
    if spec.gates.oracle and stage is Stage.FINALIZE:
        names.append("oracle")
    if spec.topology.critic and stage is Stage.VALIDATE:
        names.append(CONFIDENCE)
    return names


def _note(trip: TripRecord, name: str, state: GateState, *, sure: bool) -> str:
    if state == "wait":
        return "not reached"
    if state == "pass":
        return ""
    if sure:
        return f"{trip.evidence.observed} < tau {trip.evidence.limit}"
    problems = trip.evidence.details.get("problems", [])
    count = len(problems) if isinstance(problems, list) else 0
    return f"{count} problem{'s' if count != 1 else ''}" if count else ""
