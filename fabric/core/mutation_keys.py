"""What the idempotency keys of a run's changes begin with: its place in its family's tree, so that whoever does the same once more meets what was done.

A root's begin with its id. A slice does its parent's branches, so that its keys are those that the parent itself would use for them; a team's begin with the place
of the branch that it does. A try has the keys of the one before, unless something under them was undone (``spent``), or may be being undone. What was undone is
never asked for again under its key: the service may answer with what is not there any more. The next try has keys of its own then. Likewise a child's keys name
another epoch only after a replan before which something was undone: how often a try plans anew is its own affair (semantics.md 10 "Child runs").
"""

from __future__ import annotations

from fabric.core.events.children import Purpose
from fabric.core.run import Run, Step
from fabric.core.saga import UNWOUND, key_of, scope_of
from fabric.core.work import Work


def mutation_key(run: Run, step: Step, tool: str, args_hash: str, ordinal: int, *, carry_over: bool) -> str:
    """A mutation's key. ``carry_over``: it is the same after a replan of this run. One above undoes what its children did."""
    return key_of(_begins(run), _place(run, step.id, carry_over=carry_over), tool, args_hash, ordinal)


def of_child(run: Run, step: Step, purpose: Purpose, child_id: str) -> str:
    """What the keys of a child begin with that does this step. Keys of its own have its id: no other try has them, of this run or of another try of it."""
    before = run.family.tries.get(scope_of(step.id, carry_over=False))
    if before:
        return before
    begins = _begins(run) if purpose == "slice" else f"{_begins(run)}/{_place(run, step.id)}"
    own = "" if before is None else f"~{child_id}"
    return f"{begins}{own}{_other_epoch(run, step) if purpose == 'slice' else ''}"


def spent(work: Work) -> bool:
    """Whether a run, or one below it, has undone something under its keys, or nobody can tell: none that does the same once more may ask under them.

    What it wrote to a memory of its own ends with it, and its keys with that.
    """
    run, own = work.run, work.compiled.spec.in_journal
    return (
        run.family.keys_spent
        or bool(run.family.alive)
        or any(one.status in UNWOUND and not own(one.tool) for one in run.saga.mutations)
    )


EPOCH = "@"
"""In front of the epoch that a slice's keys name, where that is not the one it was cut in."""


def _begins(run: Run) -> str:
    lineage = run.family.lineage
    return run.id if lineage is None or not lineage.keys else lineage.keys.partition(EPOCH)[0]


def _place(run: Run, step_id: str, *, carry_over: bool = False) -> str:
    """``stage.branch.eEPOCH``, of a slice's branch as its parent counts them; EPOCH is the one that keys name."""
    lineage = run.family.lineage
    if lineage is None or not lineage.keys:
        return scope_of(step_id, carry_over=carry_over)
    stage, branch, *_ = step_id.split(".")
    if lineage.purpose == "slice":
        _, _, epoch, *_ = lineage.parent_command.split(".")
        return f"{stage}.{lineage.briefs[int(branch)]}.{lineage.keys.partition(EPOCH)[2] or epoch}"
    return f"{stage}.{branch}" if carry_over else f"{stage}.{branch}.e{run.family.keys_epoch}"


def _other_epoch(run: Run, step: Step) -> str:
    """What is told to a slice of the epoch that its keys name."""
    epoch = _place(run, step.id).rpartition(".")[2]
    return "" if epoch == f"e{step.epoch}" else f"{EPOCH}{epoch}"
