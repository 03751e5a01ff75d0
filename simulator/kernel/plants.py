"""Planted bugs: each takes one rule out of the engine or the store, from outside, so that the simulator can be seen to find it.

The production code has no hooks for this: a plant swaps a function in a module or a row in a table, and puts it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import ModuleType
from typing import Any

from fabric.core import children, engine, evolve
from fabric.core.envelope import Event
from fabric.core.frozen import replace
from fabric.core.handlers import results
from fabric.core.inputs import CallFailed
from fabric.core.mechanisms import failure_signature, hop_limit, loop_detector
from fabric.core.run import Pending, Run, Step
from fabric.core.verdict import PASS, Verdict
from fabric.core.work import Work
from simulator.kernel import planting
from simulator.kernel.breaker_plants import BREAKER_PLANTS
from simulator.kernel.call_plants import CALL_PLANTS
from simulator.kernel.decision_plants import DECISION_PLANTS
from simulator.kernel.durable_plants import DURABLE_PLANTS
from simulator.kernel.grant_plants import GRANT_PLANTS, IN_GRANTS
from simulator.kernel.judge_plants import JUDGE_PLANTS
from simulator.kernel.layer_plants import LAYER_PLANTS
from simulator.kernel.memory_plants import MEMORY_PLANTS
from simulator.kernel.money_plants import MONEY_PLANTS
from simulator.kernel.people_plants import IN_STORE as OF_PEOPLE
from simulator.kernel.people_plants import PEOPLE_PLANTS
from simulator.kernel.question_plants import QUESTION_PLANTS
from simulator.kernel.saga_plants import SAGA_PLANTS
from simulator.kernel.speaker_plants import SPEAKER_PLANTS
from simulator.kernel.stream_plants import STREAM_PLANTS
from simulator.kernel.swap_plants import SWAP_PLANTS
from simulator.kernel.turn_plants import TURN_PLANTS

MINUTE_US = 60_000_000


def _never_absorbed(run: Run) -> bool:
    return False


def _terminal_not_absorbing() -> AbstractContextManager[None]:
    return planting.entry(vars(engine), "absorbed", _never_absorbed)


def _retry_moves_deadline() -> AbstractContextManager[None]:
    issued = evolve.EVOLVE["call_issued"]

    def moves(run: Run, event: Event, fact: Any) -> Run:
        after = issued(run, event, fact)
        if fact.attempt == 1:
            return after
        reached = after.stages[after.stage]
        longer = replace(reached, deadline_at=reached.deadline_at + MINUTE_US)
        return replace(after, stages={**after.stages, after.stage: longer})

    return planting.entry(evolve.EVOLVE, "call_issued", moves)


@contextmanager
def _old_epoch_accepted() -> Iterator[None]:
    """What a call brings that a replan let go of is taken for data, as if its step were still there."""
    aborted, answers = evolve.EVOLVE["call_aborted"], vars(results)["_answers"]
    known: dict[tuple[str, str], tuple[Pending, Step]] = {}

    def remembers(run: Run, event: Event, fact: Any) -> Run:
        pending = run.pending[fact.command_id]
        if fact.reason == "replanned":
            known[run.id, fact.command_id] = pending, run.steps[pending.issued.step_id]
        return aborted(run, event, fact)

    def revived(run: Run, command_id: str) -> Run:
        if (run.id, command_id) not in known:
            return run
        _, step = known[run.id, command_id]
        return replace(run, steps={step.id: step, **run.steps})

    def accepts(work: Work, given: Any) -> Pending | None:
        if given.command_id in work.run.voided and not isinstance(given, CallFailed):
            work.run = revived(work.run, given.command_id)
            return known.get((work.run.id, given.command_id), (None, None))[0]
        found: Pending | None = answers(work, given)
        return found

    def folds(kind: str) -> AbstractContextManager[None]:
        answered = evolve.EVOLVE[kind]
        return planting.entry(
            evolve.EVOLVE, kind, lambda run, event, fact: answered(revived(run, fact.command_id), event, fact)
        )

    with (
        planting.entry(evolve.EVOLVE, "call_aborted", remembers),
        folds("model_answered"),
        folds("tool_answered"),
        planting.entry(vars(results), "_answers", accepts),
    ):
        yield


def _child_cancel_not_sent() -> AbstractContextManager[None]:
    """A parent records that it let go of a child, and tells nobody."""
    lets_go = children.let_go

    def silent(work: Work, reason: str, step_id: str | None = None, **how: Any) -> None:
        before = len(work.outbox)
        lets_go(work, reason, step_id, **how)
        del work.outbox[before:]

    return planting.entry(vars(children), "let_go", silent)


def _deaf(mechanism: ModuleType) -> Callable[[], AbstractContextManager[None]]:
    """A mechanism that lets everything pass."""

    def passes(*asked: Any) -> Verdict:
        return PASS

    return lambda: planting.entry(vars(mechanism), "check", passes)


def _caps_of_its_own() -> AbstractContextManager[None]:
    """A child run may have as many agents as its policy says, whatever its parent gave it."""
    return planting.entry(
        vars(hop_limit), "caps", lambda config, run: (config.sub_agents_alive, config.sub_agents_spawned)
    )


IN_STORE = ("no_fence", "no_unique_input", "withdrawn_stays", *IN_GRANTS, *OF_PEOPLE)
"""Plants that the memory store takes out itself: the fence in the write condition, the uniqueness of an input's id, the taking back of one, rules of grants, who answers."""

PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "no_fence": nullcontext,
    "no_unique_input": nullcontext,
    "terminal_not_absorbing": _terminal_not_absorbing,
    "retry_moves_deadline": _retry_moves_deadline,
    "old_epoch_accepted": _old_epoch_accepted,
    "child_cancel_not_sent": _child_cancel_not_sent,
    "loops_pass": _deaf(loop_detector),
    "errors_pass": _deaf(failure_signature),
    "caps_of_its_own": _caps_of_its_own,
    **BREAKER_PLANTS,
    **SWAP_PLANTS,
    **SPEAKER_PLANTS,
    **TURN_PLANTS,
    **DECISION_PLANTS,
    **MEMORY_PLANTS,
    **PEOPLE_PLANTS,
    **JUDGE_PLANTS,
    **LAYER_PLANTS,
    **CALL_PLANTS,
    **SAGA_PLANTS,
    **STREAM_PLANTS,
    **QUESTION_PLANTS,
    **GRANT_PLANTS,
    **MONEY_PLANTS,
    **DURABLE_PLANTS,
}
"""Every planted bug by name."""


def in_store(plant: str) -> frozenset[str]:
    """What the memory store is told to leave out."""
    return frozenset({plant}) & frozenset(IN_STORE)


def planted(plant: str) -> AbstractContextManager[None]:
    """The bug, in place for as long as the context lasts; an empty name: none. KeyError for an unknown one."""
    return PLANTS[plant]() if plant else nullcontext()
