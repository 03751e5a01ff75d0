"""Watches the database: decodes and folds every committed row at once, and checks it against the invariants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from fabric.core.breaker.passing import PassedBreaker
from fabric.core.events.commands import Call
from fabric.core.events.envelope import JournalRow, from_row, split_rows
from fabric.core.events.inputs import INBOX, InboxInput, ModelReplied
from fabric.core.evolve import evolve
from fabric.core.state.context import CompiledFabric
from fabric.core.state.living import visible_state
from fabric.core.state.run import Run, asked_at_deadline, clocks_stopped
from fabric.core.values.flow import RunState
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import US
from fabric.runtime.hosting.ownership import OwnedRun
from fabric.runtime.journal import projection
from fabric.runtime.ports.batch_parts import RunMark
from fabric.runtime.ports.journal import Batch, ClaimedRun
from fabric.runtime.ports.spending import GuardStore
from simulator.cast.agents import Reply
from simulator.cast.services import Service
from simulator.rules.compensations import checks as saga_checks
from simulator.rules.durability import checks as damage_checks
from simulator.rules.facts.journals import WatchedRun, difference, same_state
from simulator.rules.grants import checks as grant_checks
from simulator.rules.memories import checks as memory_checks
from simulator.rules.models import checks as breaker_checks
from simulator.rules.runs import checks as invariants
from simulator.world.actions import ActorWorld, SentBatch, VirtualActor

OVERDUE_US = 60 * US
"""Longest wait of a run after a due time or deadline, in microseconds: sweeps, leases and restarts take seconds."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A violated invariant: the run, and the observation."""

    seed: int
    invariant: str
    run_id: str
    sentence: str
    at_s: float
    """Virtual seconds since the world began."""


class WatchedWorld(ActorWorld, Protocol):
    """A world as its watch sees it."""

    guards: GuardStore
    service: Service

    def fork_perhaps(self, run_id: str) -> None:
        """Perhaps fork a run that has ended."""


class Watch:
    """All runs of one world as their journals show them."""

    def __init__(self, world: WatchedWorld) -> None:
        self.world = world
        self.violations: list[Violation] = []
        self.changed = True
        self.probes = breaker_checks.Probes()
        self._began = world.clock.now()
        self._seen: dict[str, WatchedRun] = {}

    def expect(self, run_id: str, tier: Tier, seed: int, forked_from: Any = None) -> None:
        """Register a run before its start. ``forked_from``: its origin, if it is a fork."""
        run, compiled = Run(run_id, tier=tier, seed=seed), self.world.setup.fabric.compiled
        self._seen[run_id] = WatchedRun(
            run_id,
            compiled,
            run,
            forked_from=forked_from,
            family=self._seen,
            scopes=grant_checks.scopes(self.world),
            fabric_id=self.world.setup.fabric.revision_id,
            holds=self.world.store.holds,
        )

    def register_input(self, run_id: str, given: InboxInput) -> None:
        """Register an inserted input."""
        self._seen[run_id].given[given.input_id] = given
        damage_checks.record_answer(self._seen[run_id], given, self.world.clock.now())

    def withdrawn(self, run_id: str, input_id: str) -> None:
        """Register the withdrawal of an input."""
        damage_checks.record_withdrawal(self._seen[run_id], input_id)

    def given_again(self, run_id: str, input_id: str) -> None:
        """Register a repeated input that was new to the store, because it had been withdrawn before."""
        self._seen[run_id].withdrawn.discard(input_id)
        self.world.sometimes["withdrawn_came_again"] += 1

    def record_finding(self, invariant: str, run_id: str, sentence: str) -> None:
        """Record a violation if the sentence is not empty."""
        if sentence:
            self.record_violation(invariant, run_id, sentence)

    def record_violation(self, invariant: str, run_id: str, sentence: str) -> None:
        """Record a violation; the world stops at the first."""
        at_s = (self.world.clock.now() - self._began) / US
        self.violations.append(Violation(self.world.setup.seed, invariant, run_id, sentence, at_s))

    def run(self, run_id: str) -> Run:
        """Return the fold of a run's journal."""
        return self._seen[run_id].run

    def find_fabric(self, run_id: str) -> CompiledFabric:
        """Return a run's fabric; for a nested child with its own topology."""
        return self._seen[run_id].compiled

    def inputs(self, run_id: str) -> list[InboxInput]:
        """Return the inputs that a run got from outside, in order."""
        return list(self._seen[run_id].given.values())

    def runs(self) -> list[Run]:
        """Return all runs in the order of their start."""
        return [seen.run for seen in self._seen.values()]

    # -- what happens -------------------------------------------------------------------------------------------------

    def register_claim(self, claimed: ClaimedRun, name: str, *, heard: bool = True, beside: Iterable[str] = ()) -> None:
        """Register the claim of a run by a process.

        ``heard``: the process got the answer. ``beside``: runs claimed with it.
        """
        if self.violations:
            return
        seen = self._seen[claimed.run_id]
        if seen.run.terminal:
            self.record_violation(
                "terminal_is_not_claimed", claimed.run_id, f"{name} claimed it although it is {seen.run.state}"
            )
        if claimed.fence <= seen.fence:
            self.record_violation(
                "fences_rise", claimed.run_id, f"fence {claimed.fence} was handed out after {seen.fence}"
            )
        seen.fence, seen.owner = claimed.fence, life(name)
        self.record_finding("claims_counted", claimed.run_id, damage_checks.claims_counted(seen, claimed))
        seen.heard = name if heard else ""
        # A run that a process lost sight of is not driven by it, and is claimed anew in its turn.
        known = {
            *beside,
            *(run_id for process in self.world.processes if process.name == name for run_id in process.owned),
        }
        held = (one for one in self._seen.values() if one.heard == name and one.run_id in known)
        self.record_finding("suspects_apart", claimed.run_id, damage_checks.suspects_apart(seen, held))

    def check_batch(self, process: VirtualActor, sent: SentBatch, mark: int) -> bool:
        """Check a batch that may have been written, row by row. Return True if it was written."""
        batch = sent.batch
        seen, store = self._seen[batch.run_id], self.world.store
        rows = store.rows(batch.run_id)
        landed = len(rows) > seen.rows if batch.rows else mark == batch.last_seq
        if not landed or self.violations:
            return False
        self.changed, seen.unread = True, bool(sent.damage)
        if batch.release:
            seen.heard = ""  # The run has no owner from here on, even if the answer to this write is lost.
        seen.batch += 1
        if batch.fence != seen.fence or life(process.name) != seen.owner:
            sentence = f"{process.name} wrote under fence {batch.fence}; it is {seen.owner}'s under {seen.fence}"
            self.record_violation("one_writer_per_fence", batch.run_id, sentence)
        for input_id in batch.consumed:
            if input_id in seen.consumed:
                self.record_violation("input_consumed_once", batch.run_id, f"input {input_id} was consumed twice")
            if input_id in seen.withdrawn:
                self.record_violation("withdrawn_is_not_taken", batch.run_id, f"input {input_id} had been taken back")
            seen.consumed.add(input_id)
        self.record_finding("put_away_in_time", batch.run_id, damage_checks.put_away_in_time(seen, batch))
        self._check_snapshot(seen, batch)
        self._family(batch)
        for row in rows[seen.rows :]:
            self._check_row(seen, row, batch)
        if batch.reserved or batch.settled:
            self.check_shared()
        if not self.violations:
            self._check_after(seen, None if sent.run is None else sent.run.driver.run, batch)
        return True

    def landed_before(self, batch: Batch) -> bool:
        """Return True if an earlier attempt has written a batch that only consumes inputs."""
        return not batch.rows and bool(self._seen[batch.run_id].consumed.intersection(batch.consumed))

    def _check_snapshot(self, seen: WatchedRun, batch: Batch) -> None:
        if batch.snapshot is not None and batch.snapshot.seq == seen.run.seq:
            self.world.sometimes["snapshot"] += 1
            found = damage_checks.snapshot_is_the_fold(seen.run, batch.snapshot)
            self.record_finding("snapshot_is_the_fold", seen.run_id, found)

    def _family(self, batch: Batch) -> None:
        """Register the child runs of a batch, and its messages to other runs."""
        for new in batch.children:
            if new.run_id not in self._seen:
                self.expect(new.run_id, new.tier, new.seed)
                self.register_input(new.run_id, INBOX.validate_json(new.input_body))
                self.world.sometimes["children"] += 1
        for send in batch.sends:
            self.register_input(send.run_id, INBOX.validate_json(send.body))

    def _check_row(self, seen: WatchedRun, row: JournalRow, batch: Batch) -> None:
        seen.rows += 1
        if not self.violations:
            self.record_finding("chain", seen.run_id, invariants.chain(seen, row))
        for one in split_rows((row,)):
            if not self.violations:
                self._check_event(seen, one)
                self._check_snapshot(seen, batch)

    def _check_event(self, seen: WatchedRun, row: JournalRow) -> None:
        try:
            event = from_row(row.seq, row.kind, row.version, row.header)
            after = evolve(seen.run, event)
        except Exception as error:  # noqa: BLE001 - a journal that cannot be read is a finding, whatever the reason
            self.record_violation(
                "journal_folds", seen.run_id, f"event {row.seq} {row.kind}: {type(error).__name__}: {error}"
            )
            return
        seen.content = row.payload or b""
        name, sentence = invariants.judge(seen, event, after)
        if sentence:
            self.record_violation(name, seen.run_id, f"event {event.seq} {row.kind}: {sentence}")
        seen.take(event, after, row.hash)
        self._count(event.fact)

    def _check_after(self, seen: WatchedRun, held: Run | None, batch: Batch) -> None:
        """Check a run after a batch. ``held``: the run in its owner's memory; None if the batch is not of its
        driver.
        """
        store = self.world.store
        open_reviews = {
            key
            for key, (run_id, change) in store.reviews.items()
            if run_id == seen.run_id and change.decided_at is None
        }
        due = batch.release and batch.wake_at is not None
        columns, expected = store.columns(seen.run_id), projection.columns(seen.run)
        if batch.columns is not None:
            # A run that leaves a quarantine is not folded: the next owner, who is due at once, sets its columns.
            blind = isinstance(batch.columns, RunMark) and batch.columns.state is not RunState.QUARANTINED
            seen.marked = blind and not seen.run.terminal
            if blind and seen.run.terminal and seen.damaged:
                # Open calls can be charged as far as the journal can be read.
                columns = replace(columns, cost_usd_micros=expected.cost_usd_micros, tokens=expected.tokens)
        columns = expected if seen.marked else columns
        for name, sentence in invariants.check_settled(seen, columns, expected, open_reviews, due=due):
            self.record_violation(name, seen.run_id, sentence)
        if held is not None and held.seq == seen.run.seq and held != seen.run:
            self.record_violation("refold", seen.run_id, difference(held, seen.run))
        if seen.run.terminal and not self.violations:
            if isinstance(batch.columns, RunMark):
                self.world.sometimes["ended_blindly"] += 1
            elif held is not None:
                self._record_end(seen, held)

    def _record_end(self, seen: WatchedRun, held: Run) -> None:
        if not same_state(held, seen.run):
            self.record_violation("refold", seen.run_id, f"the fold has other bytes: {difference(held, seen.run)}")
        for name, sentence in invariants.check_ended(seen):
            self.record_violation(name, seen.run_id, sentence)
        if false := saga_checks.truth(seen, self.world.service):
            self.record_violation("journal_is_the_truth", seen.run_id, false)
        self.world.sometimes[f"ended_{seen.run.state}"] += 1
        self.world.fork_perhaps(seen.run_id)

    def check_call(self, owned: OwnedRun, command: Call) -> None:
        """Check a call that goes out. A zombie's call cannot be stopped; it is counted."""
        seen = self._seen[owned.claimed.run_id]
        if owned.claimed.fence != seen.fence:
            self.world.sometimes["zombie_call"] += 1
            return
        sentence = invariants.may_execute(seen, command, self.world.clock.now())
        if sentence:
            self.record_violation(
                "intent_before_effect", seen.run_id, f"{command.command_id}#{command.attempt}: {sentence}"
            )

    def check_passed(self, owned: OwnedRun, command: Call, met: tuple[PassedBreaker, ...]) -> None:
        """Check a call that passed its circuit breakers."""
        said = breaker_checks.check_passage(owned.claimed.fabric_id, owned.driver, command, met)
        self.record_finding("breaker_stands_where_it_says", owned.claimed.run_id, said)
        said = self.probes.find_unheeded(self.world.guards, owned.claimed.fabric_id, owned.driver, command)
        self.record_finding("breaker_is_heeded", owned.claimed.run_id, said)

    def record_bill(self, owned: OwnedRun, command: Call, reply: Reply) -> None:
        """Record a bill of the provider."""
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
            count[f"late_{'plan' if 'plan' in fact.reason else 'call'}"] += 1
        elif fact.kind == "input_ignored":
            count[f"ignored_{fact.input_kind}"] += 1
        elif fact.kind == "review_decided":
            count[f"decided_{'by_system' if fact.system else fact.verb}"] += 1
        elif fact.kind == "call_issued" and fact.grants:
            count["granted_call"] += 1
        elif fact.kind == "mutation_settled":
            count[f"mutation_{fact.outcome}"] += 1
        elif fact.kind == "reconciliation_ended":
            count[f"reconciled_{fact.found}"] += 1
        elif fact.kind == "unwinding_started":
            count[f"unwinding_{fact.purpose}"] += 1
        elif fact.kind == "review_opened":
            count[f"asked_{fact.item}"] += 1

    def check_shared(self) -> None:
        """Check the shared budgets after a change."""
        for name, sentence in grant_checks.check_caps(self.world) if not self.violations else ():
            self.record_violation(name, "", sentence)

    # -- where it stands ----------------------------------------------------------------------------------------------

    def all_over(self) -> bool:
        """Return True if every run has ended and was released."""
        return all(self._is_over(seen) for seen in self._seen.values())

    def _is_over(self, seen: WatchedRun) -> bool:
        return seen.run.terminal and self.world.store.read_standing(seen.run_id)[0] is None

    def all_resting(self) -> bool:
        """Return True if every run has ended, or waits for an answer that a person can give."""
        return all(self._is_over(seen) or self._waits(seen.run) for seen in self._seen.values())

    def _waits(self, run: Run) -> bool:
        below = [self._seen[child.fact.child_id] for child in run.family.alive.values()]
        if not all(self._is_over(child) or self._waits(child.run) for child in below):
            return False
        if run.state is RunState.QUARANTINED:
            return any(review.fact.item == "quarantine" for review in run.reviews.values())
        if visible_state(run) is RunState.PAUSED and not run.reviews:
            return not any(not pending.failed for pending in run.pending.values())
        if below and run.ending is not None:
            return not run.pending
        if visible_state(run) not in (RunState.WAITING, RunState.PAUSED, RunState.UNWINDING):
            return False
        if not (run.reviews or below):
            return False
        clocks = [review.fact.due_at for review in run.reviews.values()]
        undoing = run.ending is not None or run.saga.unwinding is not None
        if clocks_stopped(run) is None and not undoing and not asked_at_deadline(run):
            clocks.append(run.deadline_at)
        return not clocks or self.world.clock.now() < min(clocks) + OVERDUE_US

    def record_stuck(self, to_what: str) -> None:
        """Record runs that do not move although no fault is left."""
        for seen in self._seen.values():
            if not self._is_over(seen):
                owner, fence, _ = (
                    self.world.store.read_standing(seen.run_id)
                    if seen.run_id in self.world.store.run_ids()
                    else ("", 0, 0)
                )
                run = seen.run
                sentence = f"it does not come {to_what}: {run.state} in {run.stage} at event {run.seq}, owner {owner}, fence {fence}"
                self.record_violation(
                    "liveness", seen.run_id, f"{sentence}; pending {list(run.pending)}, reviews {len(run.reviews)}"
                )
                return

    def finish(self) -> None:
        """Check the final state of a world."""
        for seen in self._seen.values():
            if not self.violations and not seen.run.terminal:
                self.record_violation("liveness", seen.run_id, f"it is {seen.run.state} at the end of the world")
        for name, sentence in (
            grant_checks.check_settled(self.world, list(self._seen.values())) if not self.violations else ()
        ):
            self.record_violation(name, "", sentence)
        for name, sentence in memory_checks.truth(self.world, self._seen.values()) if not self.violations else ():
            self.record_violation(name, "", sentence)


def life(name: str) -> str:
    """Return the first name of a process."""
    return name.partition("+")[0]
