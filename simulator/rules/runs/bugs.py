"""Plants bugs: each removes one rule of the engine or the store. So the simulator can prove that it notices.

The production code has no hooks for this: a plant replaces a function in a module or a row in a table, and puts it
back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import ModuleType
from typing import Any

from fabric.core import engine, evolve
from fabric.core.child_runs import children
from fabric.core.decision.work import Work
from fabric.core.events.envelope import Event
from fabric.core.events.inputs import CallFailed
from fabric.core.handlers import results
from fabric.core.mechanisms import failure_signature, hop_limit, loop_detector
from fabric.core.state.run import Pending, Run, Step
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import PASS, Verdict
from simulator.rules import planting
from simulator.rules.answers.checks import STREAM_PLANTS
from simulator.rules.budgets.checks import MONEY_PLANTS
from simulator.rules.calls.checks import CALL_PLANTS
from simulator.rules.compensations.checks import SAGA_PLANTS
from simulator.rules.conversations.checks import SPEAKER_PLANTS
from simulator.rules.decisions.checks import DECISION_PLANTS
from simulator.rules.durability.checks import DURABLE_PLANTS
from simulator.rules.gates.checks import JUDGE_PLANTS
from simulator.rules.grants.checks import GRANT_PLANTS, IN_GRANTS
from simulator.rules.memories.checks import MEMORY_PLANTS
from simulator.rules.models.checks import BREAKER_PLANTS, FALLBACK_PLANTS
from simulator.rules.retries.checks import LAYER_PLANTS
from simulator.rules.reviews.checks import ELICITATION_PLANTS, PEOPLE_PLANTS
from simulator.rules.reviews.checks import IN_STORE as OF_PEOPLE
from simulator.rules.topologies.checks import TURN_PLANTS

MINUTE_US = 60_000_000


def _never_absorbed(run: Run) -> bool:
    return False


def _terminal_not_absorbing() -> AbstractContextManager[None]:
    return planting.entry(vars(engine), "is_absorbed", _never_absorbed)


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
    """The engine accepts the result of a call that a replan dropped, as if its step were still there."""
    aborted, answers = evolve.EVOLVE["call_aborted"], vars(results)["_answers"]
    known: dict[tuple[str, str], tuple[Pending, Step]] = {}

    def remembers(run: Run, event: Event, fact: Any) -> Run:
        pending = run.pending[fact.command_id]
        if fact.reason == "replanned":
            known[run.id, fact.command_id] = pending, run.steps[pending.issued.step_id]
        return aborted(run, event, fact)

    def revive_step(run: Run, command_id: str) -> Run:
        if (run.id, command_id) not in known:
            return run
        _, step = known[run.id, command_id]
        return replace(run, steps={step.id: step, **run.steps})

    def accepts(work: Work, given: Any) -> Pending | None:
        if given.command_id in work.run.voided and not isinstance(given, CallFailed):
            work.run = revive_step(work.run, given.command_id)
            return known.get((work.run.id, given.command_id), (None, None))[0]
        found: Pending | None = answers(work, given)
        return found

    def folds(kind: str) -> AbstractContextManager[None]:
        answered = evolve.EVOLVE[kind]
        return planting.entry(
            evolve.EVOLVE, kind, lambda run, event, fact: answered(revive_step(run, fact.command_id), event, fact)
        )

    with (
        planting.entry(evolve.EVOLVE, "call_aborted", remembers),
        folds("model_answered"),
        folds("tool_answered"),
        planting.entry(vars(results), "_answers", accepts),
    ):
        yield


def _child_cancel_not_sent() -> AbstractContextManager[None]:
    """A parent records that it drops a child, and sends the child no message."""
    lets_go = children.let_go

    def silent(work: Work, reason: str, step_id: str | None = None, **how: Any) -> None:
        before = len(work.outbox)
        lets_go(work, reason, step_id, **how)
        del work.outbox[before:]

    return planting.entry(vars(children), "let_go", silent)


def _deaf(mechanism: ModuleType) -> Callable[[], AbstractContextManager[None]]:
    """Return a plant with which a mechanism passes everything."""

    def passes(*asked: Any) -> Verdict:
        return PASS

    return lambda: planting.entry(vars(mechanism), "check", passes)


def _caps_of_its_own() -> AbstractContextManager[None]:
    """A child run has its policy's number of agents, above its parent's limit."""
    return planting.entry(
        vars(hop_limit), "caps", lambda config, run: (config.sub_agents_alive, config.sub_agents_spawned)
    )


IN_STORE = ("no_fence", "no_unique_input", "withdrawn_stays", *IN_GRANTS, *OF_PEOPLE)
"""Plants that the memory store applies itself.

They are the fence of writes, the uniqueness of an input's id, the withdrawal of an input, rules of grants, and the
rights of reviewers.
"""

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
    **FALLBACK_PLANTS,
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
    **ELICITATION_PLANTS,
    **GRANT_PLANTS,
    **MONEY_PLANTS,
    **DURABLE_PLANTS,
}
"""Every planted bug by name."""


def in_store(plant: str) -> frozenset[str]:
    """Return the plants that the memory store applies itself."""
    return frozenset({plant}) & frozenset(IN_STORE)


def plant_bug(plant: str) -> AbstractContextManager[None]:
    """Return the bug as a context; an empty name: none. Raises KeyError for an unknown one."""
    return PLANTS[plant]() if plant else nullcontext()
