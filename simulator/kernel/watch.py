"""Keeps watch over what the database holds: every committed row is decoded, folded and held against the invariants, as soon as it is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fabric.core.breaker.passing import Met
from fabric.core.commands import Call
from fabric.core.context import Compiled
from fabric.core.envelope import from_row
from fabric.core.evolve import evolve
from fabric.core.flow import RunState
from fabric.core.frozen import replace
from fabric.core.inputs import INBOX, InboxInput, ModelReplied
from fabric.core.living import visible_state
from fabric.core.run import Run, asked_at_deadline, clocks_stopped
from fabric.core.taxonomy import Tier
from fabric.runtime import projection
from fabric.runtime.batch_parts import RunMark
from fabric.runtime.ports import Batch, Claimed
from simulator.kernel import breaker_checks, damage_checks, grant_checks, invariants, memory_checks, saga_checks
from simulator.kernel.agents import Reply
from simulator.kernel.clock import US
from simulator.kernel.seen import Seen, difference, same_state

if TYPE_CHECKING:
    from simulator.kernel.process import Process
    from simulator.kernel.process_memory import Owned
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
        self.probes = breaker_checks.Probes()
        self._began = world.clock.now()
        self._seen: dict[str, Seen] = {}

    def expect(self, run_id: str, tier: Tier, seed: int, forked_from: Any = None) -> None:
        """A run that is going to be started. ``forked_from``: what it goes on from, where it is a fork."""
        run, compiled = Run(run_id, tier=tier, seed=seed), self.world.setup.fabric.compiled
        self._seen[run_id] = Seen(
            run_id,
            compiled,
            run,
            forked_from=forked_from,
            family=self._seen,
            scopes=grant_checks.scopes(self.world),
            fabric_id=self.world.setup.fabric.revision_id,
            holds=self.world.store.holds,
        )

    def given(self, run_id: str, given: InboxInput) -> None:
        """Somebody inserts an input."""
        self._seen[run_id].given[given.input_id] = given
        damage_checks.answered(self._seen[run_id], given, self.world.clock.now())

    def withdrawn(self, run_id: str, input_id: str) -> None:
        """Somebody takes an input back."""
        damage_checks.withdrawn(self._seen[run_id], input_id)

    def given_again(self, run_id: str, input_id: str) -> None:
        """What was inserted once more was new to the store: it had been taken back before."""
        self._seen[run_id].withdrawn.discard(input_id)
        self.world.sometimes["withdrawn_came_again"] += 1

    def found(self, invariant: str, run_id: str, sentence: str) -> None:
        """A violation, where the sentence says one."""
        if sentence:
            self.violated(invariant, run_id, sentence)

    def violated(self, invariant: str, run_id: str, sentence: str) -> None:
        """Records a violation; the world stops at the first."""
        at_s = (self.world.clock.now() - self._began) / US
        self.violations.append(Violation(self.world.setup.seed, invariant, run_id, sentence, at_s))

    def run(self, run_id: str) -> Run:
        """A run as its journal folds."""
        return self._seen[run_id].run

    def compiled(self, run_id: str) -> Compiled:
        """The fabric that a run runs; of a nested child with its own topology."""
        return self._seen[run_id].compiled

    def inputs(self, run_id: str) -> list[InboxInput]:
        """What was given to a run from outside, in the order in which it was given."""
        return list(self._seen[run_id].given.values())

    def runs(self) -> list[Run]:
        """All of them, in the order of their start."""
        return [seen.run for seen in self._seen.values()]

    # -- what happens --------------------------------------------------------------------------------------------------

    def claimed(self, claimed: Claimed, name: str, *, heard: bool = True, beside: Iterable[str] = ()) -> None:
        """A process took a run over. ``heard``: whether it was told so; ``beside``: what it was given with it."""
        if self.violations:
            return
        seen = self._seen[claimed.run_id]
        if seen.run.terminal:
            self.violated(
                "terminal_is_not_claimed", claimed.run_id, f"{name} claimed it although it is {seen.run.state}"
            )
        if claimed.fence <= seen.fence:
            self.violated("fences_rise", claimed.run_id, f"fence {claimed.fence} was handed out after {seen.fence}")
        seen.fence, seen.owner = claimed.fence, life(name)
        self.found("claims_counted", claimed.run_id, damage_checks.claims_counted(seen, claimed))
        seen.heard = name if heard else ""
        # What a process lost sight of is not driven by it, and taken anew in its turn.
        known = {
            *beside,
            *(run_id for process in self.world.processes if process.name == name for run_id in process.owned),
        }
        held = (one for one in self._seen.values() if one.heard == name and one.run_id in known)
        self.found("suspects_apart", claimed.run_id, damage_checks.suspects_apart(seen, held))

    def committed(self, process: Process, owned: Owned, batch: Batch, mark: int) -> bool:
        """A batch may have been written: whether it was. What is new in the journal is looked at row by row."""
        seen, store = self._seen[batch.run_id], self.world.store
        rows = store.rows(batch.run_id)
        landed = len(rows) > seen.rows if batch.rows else mark == batch.last_seq
        if not landed or self.violations:
            return False
        self.changed, seen.unread = True, bool(owned.damage)
        if batch.release:
            seen.heard = ""  # Nobody owns it from here on, whether or not the answer to this write arrives.
        seen.batch += 1
        if batch.fence != seen.fence or life(process.name) != seen.owner:
            sentence = f"{process.name} wrote under fence {batch.fence}; it is {seen.owner}'s under {seen.fence}"
            self.violated("one_writer_per_fence", batch.run_id, sentence)
        for input_id in batch.consumed:
            if input_id in seen.consumed:
                self.violated("input_consumed_once", batch.run_id, f"input {input_id} was consumed twice")
            if input_id in seen.withdrawn:
                self.violated("withdrawn_is_not_taken", batch.run_id, f"input {input_id} had been taken back")
            seen.consumed.add(input_id)
        self.found("put_away_in_time", batch.run_id, damage_checks.put_away_in_time(seen, batch))
        self._snapped(seen, batch)
        self._family(batch)
        for row in rows[seen.rows :]:
            if not self.violations:
                self._row(seen, row)
                self._snapped(seen, batch)
        if batch.reserved or batch.settled:
            self.shared()
        if not self.violations:
            self._after(seen, owned, batch)
        return True

    def landed_before(self, batch: Batch) -> bool:
        """Whether a batch that only takes inputs was written by an earlier try."""
        return not batch.rows and bool(self._seen[batch.run_id].consumed.intersection(batch.consumed))

    def _snapped(self, seen: Seen, batch: Batch) -> None:
        if batch.snapshot is not None and batch.snapshot.seq == seen.rows:
            self.world.sometimes["snapshot"] += 1
            found = damage_checks.snapshot_is_the_fold(seen.run, batch.snapshot)
            self.found("snapshot_is_the_fold", seen.run_id, found)

    def _family(self, batch: Batch) -> None:
        """The runs that begin with a batch, and what it tells others."""
        for new in batch.children:
            if new.run_id not in self._seen:
                self.expect(new.run_id, new.tier, new.seed)
                self.given(new.run_id, INBOX.validate_json(new.input_body))
                self.world.sometimes["children"] += 1
        for send in batch.sends:
            self.given(send.run_id, INBOX.validate_json(send.body))

    def _row(self, seen: Seen, row: Any) -> None:
        try:
            event = from_row(row.seq, row.kind, row.version, row.header)
            after = evolve(seen.run, event)
        except Exception as error:  # noqa: BLE001 - a journal that cannot be read is a finding, whatever the reason
            self.violated("journal_folds", seen.run_id, f"event {row.seq} {row.kind}: {type(error).__name__}: {error}")
            return
        seen.content = row.payload or b""
        broken = invariants.chain(seen, row)
        name, sentence = ("chain", broken) if broken else invariants.judge(seen, event, after)
        if sentence:
            self.violated(name, seen.run_id, f"event {event.seq} {row.kind}: {sentence}")
        seen.take(event, after, row.hash)
        self._count(event.fact)

    def _after(self, seen: Seen, owned: Owned, batch: Batch) -> None:
        store = self.world.store
        driver = owned.driver
        open_questions = {
            key
            for key, (run_id, change) in store.escalations.items()
            if run_id == seen.run_id and change.decided_at is None
        }
        due = batch.release and batch.wake_at is not None
        columns, expected = store.columns(seen.run_id), projection.columns(seen.run)
        if batch.columns is not None:
            # Whoever ends a quarantine does not fold the journal: the next owner, who is due at once, says what its row is to show.
            blind = isinstance(batch.columns, RunMark) and batch.columns.state is not RunState.QUARANTINED
            seen.marked = blind and not seen.run.terminal
            if blind and seen.run.terminal and seen.damaged:
                # What was out can be charged as far as it can be read.
                columns = replace(columns, cost_usd_micros=expected.cost_usd_micros, tokens=expected.tokens)
        columns = expected if seen.marked else columns
        for name, sentence in invariants.settled(seen, columns, expected, open_questions, due=due):
            self.violated(name, seen.run_id, sentence)
        if driver.run.seq == seen.run.seq and driver.run != seen.run:
            self.violated("refold", seen.run_id, difference(driver.run, seen.run))
        if seen.run.terminal and not self.violations:
            if isinstance(batch.columns, RunMark):
                self.world.sometimes["ended_blindly"] += 1
            else:
                self._ended(seen, driver.run)

    def _ended(self, seen: Seen, held: Run) -> None:
        if not same_state(held, seen.run):
            self.violated("refold", seen.run_id, f"the fold has other bytes: {difference(held, seen.run)}")
        for name, sentence in invariants.ended(seen):
            self.violated(name, seen.run_id, sentence)
        if false := saga_checks.truth(seen, self.world.service):
            self.violated("journal_is_the_truth", seen.run_id, false)
        self.world.sometimes[f"ended_{seen.run.state}"] += 1
        self.world.outside.hands.ended(seen.run_id)

    def executing(self, owned: Owned, command: Call) -> None:
        """A call goes out. What a zombie sends cannot be held back; it is counted."""
        seen = self._seen[owned.claimed.run_id]
        if owned.claimed.fence != seen.fence:
            self.world.sometimes["zombie_call"] += 1
            return
        sentence = invariants.may_execute(seen, command, self.world.clock.now())
        if sentence:
            self.violated("intent_before_effect", seen.run_id, f"{command.command_id}#{command.attempt}: {sentence}")

    def passed(self, owned: Owned, command: Call, met: tuple[Met, ...]) -> None:
        """A call was let past its circuit breakers."""
        said = breaker_checks.misplaced(owned.claimed.fabric_id, owned.driver, command, met)
        self.found("breaker_stands_where_it_says", owned.claimed.run_id, said)
        said = self.probes.unheeded(self.world.guards, owned.claimed.fabric_id, owned.driver, command)
        self.found("breaker_is_heeded", owned.claimed.run_id, said)

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
        if result.cost_usd_micros is not None:
            seen.told_costs[command.command_id, command.attempt] = result.cost_usd_micros
        if result.cost_usd_micros is not None or price is None:
            return  # A bill beyond the worst case is known by its answer alone, and that may be lost.
        seen.billed += price.cost(result.input_tokens, result.output_tokens, result.parts)

    def _count(self, fact: Any) -> None:
        count: Counter[str] = self.world.sometimes
        count[fact.kind] += 1
        if fact.kind == "reaction_decided":
            count[f"reaction_{fact.reaction}"] += 1
            count[f"cause_{fact.cause.cause}"] += 1
            count["shared_refusal"] += "budget" in fact.cause.evidence.details
            count["shared_token_refused"] += "bucket" in fact.cause.evidence.details
        elif fact.kind == "call_aborted":
            count[f"let_go_{fact.reason.partition(' ')[0]}"] += 1
        elif fact.kind == "late_result_ignored":
            count[f"late_{'epoch' if 'epoch' in fact.reason else 'call'}"] += 1
        elif fact.kind == "input_ignored":
            count[f"ignored_{fact.input_kind}"] += 1
        elif fact.kind == "escalation_decided":
            count[f"decided_{'by_system' if fact.system else fact.verb}"] += 1
        elif fact.kind == "call_issued" and fact.grants:
            count["granted_call"] += 1
        elif fact.kind == "call_deduplicated" and fact.begun:
            count["stream_kept"] += 1
        elif fact.kind == "mutation_settled":
            count[f"mutation_{fact.outcome}"] += 1
        elif fact.kind == "reconciliation_ended":
            count[f"reconciled_{fact.found}"] += 1
        elif fact.kind == "unwinding_started":
            count[f"unwinding_{fact.purpose}"] += 1
        elif fact.kind == "escalation_opened":
            count[f"asked_{fact.item}"] += 1

    def shared(self) -> None:
        """Somebody has taken, reserved or given back of what runs share."""
        for name, sentence in grant_checks.kept(self.world) if not self.violations else ():
            self.violated(name, "", sentence)

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
        below = [self._seen[child.fact.child_id] for child in run.family.alive.values()]
        if not all(self._over(child) or self._waits(child.run) for child in below):
            return False
        if run.state is RunState.QUARANTINED:
            return any(question.fact.item == "quarantine" for question in run.questions.values())
        if visible_state(run) is RunState.PAUSED and not run.questions:
            return not any(not pending.failed for pending in run.pending.values())
        if below and run.ending is not None:
            return not run.pending
        if visible_state(run) not in (RunState.WAITING, RunState.PAUSED, RunState.UNWINDING):
            return False
        if not (run.questions or below):
            return False
        clocks = [question.fact.due_at for question in run.questions.values()]
        undoing = run.ending is not None or run.saga.unwinding is not None
        if clocks_stopped(run) is None and not undoing and not asked_at_deadline(run):
            clocks.append(run.deadline_at)
        return not clocks or self.world.clock.now() < min(clocks) + OVERDUE_US

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
        for name, sentence in (
            grant_checks.settled(self.world, list(self._seen.values())) if not self.violations else ()
        ):
            self.violated(name, "", sentence)
        for name, sentence in memory_checks.truth(self.world, self._seen.values()) if not self.violations else ():
            self.violated(name, "", sentence)


def life(name: str) -> str:
    """A process by the name it was born with."""
    return name.partition("+")[0]
