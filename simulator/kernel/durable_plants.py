"""Planted bugs about runs that are owned, put away, held, taken up again and undone, as in ``plants.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from fabric.adapters.orphans import Orphans
from fabric.core import calls, evolve, handlers, mutations, reactions, unwinding
from fabric.core import events as ev
from fabric.core.context import Contents
from fabric.core.envelope import Event
from fabric.core.flow import RunState
from fabric.core.frozen import replace
from fabric.core.inputs import TerminateRequested
from fabric.core.run import Run
from fabric.core.saga import Mutation, Outcome, Status, undo_order
from fabric.core.work import Work
from fabric.runtime import arrivals, driver, progress
from fabric.runtime.arrivals import Arrivals
from fabric.runtime.batch_parts import Snapshot
from fabric.runtime.ports import Batch, Claimed
from simulator.kernel import memory_store, planting, process

# -- owned, put away ---------------------------------------------------------------------------------------------------


def _orphan_not_reclaimed() -> AbstractContextManager[None]:
    return planting.attribute(Orphans, "due", lambda self, now: ())


def _progress_counts_takeover() -> AbstractContextManager[None]:
    return planting.entry(progress.PROGRESS, "ownership_taken", True)


def _quarantine_never() -> AbstractContextManager[None]:
    judged = vars(process)["verdict"]

    def lenient(claimed: Claimed, now: int, **about: Any) -> Batch | None:
        found: Batch | None = judged(replace(claimed, claims=0), now, **about)
        return found

    return planting.attribute(process, "verdict", lenient)


def _suspects_together() -> AbstractContextManager[None]:
    return planting.attribute(memory_store, "admitted", lambda held, asked: len(asked))


def _newer_input_discarded() -> AbstractContextManager[None]:
    return planting.attribute(arrivals, "NewerInput", type("Never", (ValueError,), {}))


def _stale_snapshot() -> AbstractContextManager[None]:
    taken, earlier = vars(driver)["snapshot_of"], dict[str, Run]()

    def stale(run: Run, head: bytes, contents: Contents, *, sources: bool = False) -> Snapshot:
        before, earlier[run.id] = earlier.get(run.id, run), run
        found: Snapshot = taken(replace(before, seq=run.seq), head, contents, sources=sources)
        return found

    return planting.attribute(driver, "snapshot_of", stale)


# -- held, ended, answered ---------------------------------------------------------------------------------------------


def _pause_issues() -> AbstractContextManager[None]:
    return planting.attribute(Work, "held", property(lambda self: self.ctx.draining))


def _terminate_cancels() -> AbstractContextManager[None]:
    def terminated(work: Work, given: TerminateRequested) -> None:
        work.emit(ev.TerminateAccepted(actor=given.actor, reason=given.reason))
        calls.let_go_all(work, "terminated")
        if work.run.ending is None:
            reactions.end(work, RunState.CANCELLED, "cancel", f"terminated by {given.actor}")

    return planting.entry(handlers.HANDLERS, TerminateRequested, terminated)


def _expiry_over_answer() -> AbstractContextManager[None]:
    return planting.attribute(Arrivals, "answers", lambda self: frozenset())


# -- undone ------------------------------------------------------------------------------------------------------------


def _refusal_settles_doubt() -> AbstractContextManager[None]:
    def believed(mutation: Mutation | None, outcome: Outcome) -> Outcome:
        return outcome

    return planting.attribute(mutations, "says_of_key", believed)


def _compensation_twice() -> AbstractContextManager[None]:
    answered = evolve.EVOLVE["compensation_answered"]

    def forgets(run: Run, event: Event, fact: Any) -> Run:
        after = answered(run, event, fact)
        before = run.saga.unwinding
        assert after.saga.unwinding is not None
        assert before is not None
        again = before.left if event.seq % 2 else after.saga.unwinding.left
        return replace(after, saga=replace(after.saga, unwinding=replace(after.saga.unwinding, left=again)))

    return planting.entry(evolve.EVOLVE, "compensation_answered", forgets)


def _compensation_missed() -> AbstractContextManager[None]:
    def all_but_the_oldest(given: Iterable[Mutation], *, replan: bool) -> Sequence[str]:
        known = [one for one in given if one.status is not Status.UNDONE]
        return undo_order(known, replan=replan)[: max(1, len(known) - 1)]

    return planting.attribute(unwinding, "undo_order", all_but_the_oldest)


DURABLE_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "withdrawn_stays": nullcontext,
    "orphan_not_reclaimed": _orphan_not_reclaimed,
    "progress_counts_takeover": _progress_counts_takeover,
    "quarantine_never": _quarantine_never,
    "suspects_together": _suspects_together,
    "newer_input_discarded": _newer_input_discarded,
    "stale_snapshot": _stale_snapshot,
    "pause_issues": _pause_issues,
    "terminate_cancels": _terminate_cancels,
    "expiry_over_answer": _expiry_over_answer,
    "refusal_settles_doubt": _refusal_settles_doubt,
    "compensation_twice": _compensation_twice,
    "compensation_missed": _compensation_missed,
}
"""Every one by name."""
