"""Reads command ids.

- ``stage.branch.eEPOCH.rROUND.tTURN``: a model call. ``.cINDEX`` behind it: a tool call of that turn.
- ``.qATTEMPT`` behind that: the question what became of that attempt.
- ``undo.N``: the run's N-th compensation. ``stage.branch.eEPOCH.rROUND.run``: the child run that does a step.
"""

from __future__ import annotations

CHILD = ".run"


def step_of(command_id: str) -> str:
    """The step that issued it: ``stage.branch.eEPOCH.rROUND``."""
    return command_id.partition(".t")[0].removesuffix(CHILD)


def branch_of(step_id: str) -> int:
    """The branch that a step is of."""
    return int(step_id.split(".")[1])


def child_of(step_id: str) -> str:
    """The command that a step's child run answers."""
    return step_id + CHILD


def epoch_of(command_id: str) -> int:
    """The epoch it was issued in. ValueError for an id that is none of a step's."""
    try:
        return int(command_id.split(".")[2].removeprefix("e"))
    except IndexError:
        raise ValueError(f"command id {command_id!r} names no step") from None


def is_errand(command_id: str) -> bool:
    """Whether it is a call of the saga's own: a compensation, or a question whether something was executed."""
    return command_id.startswith("undo.") or ".q" in command_id
