"""Keeps watch over what the database holds: every committed row is decoded, folded and held against the invariants, as soon as it is there."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fabric.core.commands import Call
from fabric.core.envelope import from_row
from fabric.core.evolve import evolve
from fabric.core.flow import RunState
from fabric.core.inputs import InboxInput, ModelReplied
from fabric.core.run import Run, visible_state
from fabric.core.taxonomy import Tier
from fabric.runtime.ports import Batch, Claimed
from simulator.kernel import invariants
from simulator.kernel.agents import Reply
from simulator.kernel.clock import US
from simulator.kernel.seen import Seen, difference, state_bytes

if TYPE_CHECKING:
    from simulator.kernel.process import Owned, Process
    from simulator.kernel.world import World

OVERDUE_US = 60 * US
"""How long after a due time or deadline a run may still wait: sweeps, leases and restarts take seconds."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One invariant that did not hold: in which run, and what was seen."""

    seed: int
    invariant: str
    run_id: str
    sentence: str
    at_s: float
    """Virtual seconds since the world began."""


class Watch:
    """All runs of one world as their journals show them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.violations: list[Violation] = []
        self.changed = True
        self._began = world.clock.now()
        self._seen: dict[str, Seen] = {}

    def expect(self, run_id: str, tier: Tier, seed: int) -> None:
        """A run that is going to be started."""
        self._seen[run_id] = Seen(run_id, self.world.setup.fabric.compiled, Run(run_id, tier=tier, seed=seed))

    def given(self, run_id: str, given: InboxInput) -> None:
        """Somebody inserts an input."""
        self._seen[run_id].given[given.input_id] = given

    def violated(self, invariant: str, run_id: str, sentence: str) -> None:
        """Records a violation; the world stops at the first."""
        at_s = (self.world.clock.now() - self._began) / US
        self.violations.append(Violation(self.world.setup.seed, invariant, run_id, sentence, at_s))

    def run(self, run_id: str) -> Run:
        """A run as its journal folds."""
        return self._seen[run_id].run

    def runs(self) -> list[Run]:
        """All of them, in the order of their start."""
        return [seen.run for seen in self._seen.values()]

    # -- what happens --------------------------------------------------------------------------------------------------

    def claimed(self, claimed: Claimed, name: str) -> None:
        """A process took a run over."""
        seen = self._seen[claimed.run_id]
        if seen.run.terminal:
            self.violated(
                "terminal_is_not_claimed", claimed.run_id, f"{name} claimed it although it is {seen.run.state}"
            )
        if claimed.fence <= seen.fence:
            self.violated("fences_rise", claimed.run_id, f"fence {claimed.fence} was handed out after {seen.fence}")
        seen.fence, seen.owner = claimed.fence, life(name)

    def committed(self, process: Process, owned: Owned, batch: Batch, mark: int) -> None:
        """A batch may have been written; what is new in the journal is looked at row by row."""
        seen, store = self._seen[batch.run_id], self.world.store
        rows = store.rows(batch.run_id)
        landed = len(rows) > seen.rows if batch.rows else mark == batch.last_seq
        if not landed or self.violations:
            return
        self.changed = True
        seen.batch += 1
        if batch.fence != seen.fence or life(process.name) != seen.owner:
            sentence = f"{process.name} wrote under fence {batch.fence}; it is {seen.owner}'s under {seen.fence}"
            self.violated("one_writer_per_fence", batch.run_id, sentence)
        for input_id in batch.consumed:
            if input_id in seen.consumed:
                self.violated("input_consumed_once", batch.run_id, f"input {input_id} was consumed twice")
            seen.consumed.add(input_id)
        for row in rows[seen.rows :]:
            if not self.violations:
                self._row(seen, row)
        if not self.violations:
            self._after(seen, owned)

    def _row(self, seen: Seen, row: Any) -> None:
        try:
            event = from_row(row.seq, row.kind, row.version, row.header)
            after = evolve(seen.run, event)
        except Exception as error:  # noqa: BLE001 - a journal that cannot be read is a finding, whatever the reason
            self.violated("journal_folds", seen.run_id, f"event {row.seq} {row.kind}: {type(error).__name__}: {error}")
            return
        broken = invariants.chain(seen, row)
        name, sentence = ("chain", broken) if broken else invariants.judge(seen, event, after)
        if sentence:
            self.violated(name, seen.run_id, f"event {event.seq} {row.kind}: {sentence}")
        seen.take(event, after, row.hash)
        self._count(event.fact)

    def _after(self, seen: Seen, owned: Owned) -> None:
        store = self.world.store
        driver = owned.driver
        open_questions = {
            key
            for key, (run_id, change) in store.escalations.items()
            if run_id == seen.run_id and change.decided_at is None
        }
        for name, sentence in invariants.settled(seen, store.columns(seen.run_id), open_questions):
            self.violated(name, seen.run_id, sentence)
        if driver.run.seq == seen.run.seq and driver.run != seen.run:
            self.violated("refold", seen.run_id, difference(driver.run, seen.run))
        if seen.run.terminal and not self.violations:
            self._ended(seen, driver.run)

    def _ended(self, seen: Seen, held: Run) -> None:
        if state_bytes(held) != state_bytes(seen.run):
            self.violated("refold", seen.run_id, f"the fold has other bytes: {difference(held, seen.run)}")
        for name, sentence in invariants.ended(seen):
            self.violated(name, seen.run_id, sentence)
        self.world.sometimes[f"ended_{seen.run.state}"] += 1

    def executing(self, owned: Owned, command: Call) -> None:
        """A call goes out. What a zombie sends cannot be held back; it is counted."""
        seen = self._seen[owned.claimed.run_id]
        if owned.claimed.fence != seen.fence:
            self.world.sometimes["zombie_call"] += 1
            return
        sentence = invariants.may_execute(seen, command, self.world.clock.now())
        if sentence:
            self.violated("intent_before_effect", seen.run_id, f"{command.command_id}#{command.attempt}: {sentence}")

    def billed(self, owned: Owned, command: Call, reply: Reply) -> None:
        """The provider's own ledger."""
        seen = self._seen[owned.claimed.run_id]
        if (
            owned.claimed.fence != seen.fence
            or not isinstance(reply.result, ModelReplied)
            or (reply.silent and not reply.billed)
        ):
            return
        result, price = reply.result, seen.compiled.prices.get(command.model)  # type: ignore[union-attr]
        if result.cost_usd_micros is not None or price is None:
            return  # A bill beyond the worst case is known by its answer alone, and that may be lost.
        seen.billed += price.cost(result.input_tokens, result.output_tokens)

    def _count(self, fact: Any) -> None:
        count: Counter[str] = self.world.sometimes
        count[fact.kind] += 1
        if fact.kind == "reaction_decided":
            count[f"reaction_{fact.reaction}"] += 1
            count[f"cause_{fact.cause.cause}"] += 1
        elif fact.kind == "call_aborted":
            count[f"let_go_{fact.reason.partition(' ')[0]}"] += 1
        elif fact.kind == "late_result_ignored":
            count[f"late_{'epoch' if 'epoch' in fact.reason else 'call'}"] += 1
        elif fact.kind == "input_ignored":
            count[f"ignored_{fact.input_kind}"] += 1
        elif fact.kind == "escalation_decided":
            count[f"decided_{'by_system' if fact.system else fact.verb}"] += 1
        elif fact.kind == "escalation_opened":
            count[f"asked_{fact.item}"] += 1

    # -- where it stands -----------------------------------------------------------------------------------------------

    def all_over(self) -> bool:
        """Whether every run has ended and been given back."""
        return all(self._over(seen) for seen in self._seen.values())

    def _over(self, seen: Seen) -> bool:
        return seen.run.terminal and self.world.store.standing(seen.run_id)[0] is None

    def all_resting(self) -> bool:
        """Whether every run has ended, or waits for an answer that somebody can give."""
        return all(self._over(seen) or self._waits(seen.run) for seen in self._seen.values())

    def _waits(self, run: Run) -> bool:
        if visible_state(run) is not RunState.WAITING or not run.questions:
            return False
        clocks = [question.fact.due_at for question in run.questions.values()]
        if run.suspended is None:
            clocks.append(run.deadline_at)
        return self.world.clock.now() < min(clocks) + OVERDUE_US

    def stuck(self, to_what: str) -> None:
        """Nothing goes wrong any more and yet a run does not move."""
        for seen in self._seen.values():
            if not self._over(seen):
                owner, fence, _ = (
                    self.world.store.standing(seen.run_id) if seen.run_id in self.world.store.run_ids() else ("", 0, 0)
                )
                run = seen.run
                sentence = f"it does not come {to_what}: {run.state} in {run.stage} at event {run.seq}, owner {owner}, fence {fence}"
                self.violated(
                    "liveness", seen.run_id, f"{sentence}; pending {list(run.pending)}, questions {len(run.questions)}"
                )
                return

    def finish(self) -> None:
        """What must be true of a world at its end."""
        for seen in self._seen.values():
            if not self.violations and not seen.run.terminal:
                self.violated("liveness", seen.run_id, f"it is {seen.run.state} at the end of the world")


def life(name: str) -> str:
    """A process by the name it was born with."""
    return name.partition("+")[0]
