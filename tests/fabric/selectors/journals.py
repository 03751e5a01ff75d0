"""Journals told fact by fact, for what is drawn from them: a clock that the teller moves, and a run's row to hang them on."""

from __future__ import annotations

from typing import Any

from fabric.core import events as ev
from fabric.core.events.envelope import Event, to_row
from fabric.core.evolve import fold
from fabric.core.state.run import Run
from fabric.core.values.fingerprint import ZERO_HASH
from fabric.core.values.flow import Stage, StageOutcome
from fabric.core.values.taxonomy import Cause, ErrorClass, FailureType, Tier
from fabric.core.values.units import US
from fabric.models import Event as EventRow
from fabric.models import Run as RunRow
from fabric.runtime.journal import projection

T0 = 1_795_000_000 * US
PASSED = ev.GateResult(gate="post", checks=(ev.Check(name="schema", result="passed"),))
PRE = ev.GateResult(gate="pre", checks=(ev.Check(name="schema", result="passed"),))
REFUSED = ev.GateResult(gate="post", checks=(ev.Check(name="grounding", result="failed"),), cause=Cause.GROUNDING)


class Teller:
    """A journal in the making."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.at = T0

    def wait(self, seconds: float) -> Teller:
        """Moves the clock."""
        self.at += round(seconds * US)
        return self

    def tell(self, *facts: Any) -> Teller:
        """Adds facts at this instant."""
        for fact in facts:
            self.events.append(Event(len(self.events) + 1, self.at, fact))
        return self

    # -- what happens in runs -----------------------------------------------------------------------------------------

    def start(self, deadline_s: float = 300, tier: Tier = Tier.INTERACTIVE) -> Teller:
        fact = ev.RunStarted(
            fabric="small", revision="r", tier=tier, deadline_at=self.at + round(deadline_s * US), seed=7
        )
        return self.tell(fact)

    def enter(self, stage: Stage, *agents: str, epoch: int = 0, stage_s: float = 120) -> Teller:
        return self.tell(
            ev.StageEntered(
                stage=stage, epoch=epoch, deadline_at=self.at + round(stage_s * US), agents=agents, gate=PRE
            )
        )

    def leave(
        self, stage: Stage, epoch: int = 0, outcome: StageOutcome = StageOutcome.PASSED, gate: Any = PASSED
    ) -> Teller:
        return self.tell(ev.StageLeft(stage=stage, epoch=epoch, outcome=outcome, gate=gate))

    def ask(self, step: str, turn: int, agent: str, attempt: int = 1, model: str = "script") -> Teller:
        return self.tell(
            ev.CallIssued(
                command_id=f"{step}.t{turn}", attempt=attempt, call="model", step_id=step, agent=agent, target=model,
                turn=turn, deadline_at=self.at + 30 * US, key="k", reserved_usd_micros=500,
            )
        )  # fmt: skip

    def answer(
        self,
        step: str,
        turn: int,
        *,
        calls: int = 0,
        cost: int = 100,
        tokens: int = 10,
        verdict: str = "",
        attempt: int = 1,
    ) -> Teller:
        proposed = tuple(
            ev.ProposedCall(call_id=f"c{turn}.{n}", tool="read_document", args_hash=f"a{turn}.{n}")
            for n in range(calls)
        )
        return self.tell(
            ev.ModelAnswered(
                command_id=f"{step}.t{turn}", attempt=attempt, step_id=step, calls=proposed, cost_usd_micros=cost,
                verdict=verdict or ("calls" if calls else "output"), input_tokens=tokens, output_tokens=0,  # type: ignore[arg-type]
            )
        )  # fmt: skip

    def use(self, step: str, turn: int, n: int, agent: str, args: str = "") -> Teller:
        return self.tell(
            ev.CallIssued(
                command_id=f"{step}.t{turn}.c{n}", attempt=1, call="tool", step_id=step, agent=agent, target="read_document",
                turn=turn, deadline_at=self.at + 30 * US, key="k", call_id=f"c{turn}.{n}", args_hash=args or f"a{turn}.{n}",
            )
        )  # fmt: skip

    def result(self, step: str, turn: int, n: int, args: str = "") -> Teller:
        return self.tell(
            ev.ToolAnswered(
                command_id=f"{step}.t{turn}.c{n}", attempt=1, step_id=step, call_id=f"c{turn}.{n}", tool="read_document",
                args_hash=args or f"a{turn}.{n}", masked_hash="m",
            )
        )  # fmt: skip

    def fail(self, step: str, turn: int, attempt: int = 1) -> Teller:
        return self.tell(
            ev.AttemptFailed(
                command_id=f"{step}.t{turn}", attempt=attempt, step_id=step, error_class=ErrorClass.TRANSIENT_INFRA,
                cause=Cause.RATE_LIMIT, message="429", status=429,
            )
        )  # fmt: skip

    def react(self, reaction: str, mechanism: str, *, step: str = "", command: str = "", scope: str = "") -> Teller:
        cause = ev.TripRecord(mechanism=mechanism, cause=Cause.RATE_LIMIT, message=f"{mechanism} said no")
        return self.tell(
            ev.ReactionDecided(
                failure_type=FailureType.PROVIDER, tier=Tier.INTERACTIVE, table="t", rung=0, reaction=reaction,
                scope=scope or f"step:{step}", spent=0, bound=2, cause=cause, step_id=step, command_id=command,
            )
        )  # fmt: skip

    def back_off(self, step: str, turn: int, seconds: float, attempt: int = 2) -> Teller:
        return self.tell(
            ev.RetryScheduled(
                command_id=f"{step}.t{turn}", attempt=attempt, not_before=self.at + round(seconds * US), delay_s=seconds,
                source="backoff", tokens_left=9_000,
            )
        )  # fmt: skip

    def put_to(
        self,
        who: str,
        stage: Stage,
        step: str = "",
        name: str = "esc-1",
        item: Any = "failure",
        reviewers: tuple[str, ...] = (),
    ) -> Teller:
        return self.tell(
            ev.ReviewOpened(
                review_id=name, item=item, reason="it failed", failure_type=FailureType.PROVIDER, stage=stage,
                step_id=step, scope=f"{stage}.0", required_role=who, verbs=("approve", "reject"), digest="d",
                remind_at=self.at, onward_at=self.at, due_at=self.at + 3_600 * US, reviewers=reviewers,
            )
        )  # fmt: skip

    def decided(self, name: str = "esc-1", verb: str = "approve") -> Teller:
        return self.tell(ev.ReviewDecided(review_id=name, verb=verb, actor="ana"))  # type: ignore[arg-type]

    def replan(self, stage: Stage, epoch: int) -> Teller:
        return self.tell(ev.Replanned(stage=stage, epoch=epoch, reason="the sources do not say so"))

    def end(self, state: Any, *, recovered: bool = False) -> Teller:
        return self.tell(ev.RunEnded(state=state, reason="finished", reaction="finalize", recovered=recovered))

    # -- larger pieces ------------------------------------------------------------------------------------------------

    def planned(self, epoch: int = 0, seconds: float = 1) -> Teller:
        """A plan stage that passes."""
        step = f"plan.0.e{epoch}.r0"
        self.enter(Stage.PLAN, "planner", epoch=epoch).ask(step, 1, "planner").wait(seconds).answer(step, 1)
        return self.leave(Stage.PLAN, epoch)

    def working(self, branches: int, turns: int, calls: int = 4, epoch: int = 0) -> Teller:
        """A fan-out in which every branch asks, uses tools, and answers."""
        self.enter(Stage.FAN_OUT, *(["reader"] * branches), epoch=epoch, stage_s=36_000)
        steps = [f"fan_out.{branch}.e{epoch}.r0" for branch in range(branches)]
        for turn in range(1, turns + 1):
            for step in steps:
                self.ask(step, turn, "reader")
            self.wait(0.5)
            last = turn == turns
            for step in steps:
                self.answer(step, turn, calls=0 if last else calls)
            for step in steps if not last else ():
                for n in range(calls):
                    self.use(step, turn, n, "reader")
                self.wait(0.1)
                for n in range(calls):
                    self.result(step, turn, n)
        return self.leave(Stage.FAN_OUT, epoch)


def write(run_id: str, events: list[Event], *, extra: tuple[tuple[str, int, bytes], ...] = ()) -> None:
    """Stores a journal for a run that is in the database, with its row as the engine would have left it; ``extra``: raw rows after it."""
    run = RunRow.objects.get(id=run_id)
    rows, head = [], ZERO_HASH
    for event in events:
        made = to_row(event, None, head)
        head = made.hash
        rows.append((made.seq, made.kind, made.version, made.at, made.header, head))
    for n, (kind, version, header) in enumerate(extra, start=len(rows) + 1):
        rows.append((n, kind, version, events[-1].at, header, head))
    EventRow.objects.bulk_create(
        [
            EventRow(run_id=run_id, workspace_id=run.workspace_id, seq=seq, kind=kind, version=version, at=at, header=header, payload=None, payload_hash=b"", hash=hashed)
            for seq, kind, version, at, header, hashed in rows
        ],
        batch_size=500,
    )  # fmt: skip
    folded = fold(Run(run_id, tier=Tier(run.tier), seed=run.seed), events)
    columns = projection.columns(folded)
    for name in ("stage", "epoch", "cost_usd_micros", "tokens", "reason", "recovered", "truncated", "cause", "failure", "fired", "breakers", "unconfirmed_usd_micros", "spent_on", "started_at", "ended_at", "deadline_at"):  # fmt: skip
        setattr(run, name, getattr(columns, name))
    run.created_at = events[0].at - US // 5
    run.state, run.last_seq, run.head_hash = columns.state.value, len(rows), head
    run.save()
