"""Makes command ids, and random draws that are keyed by them.

- ``stage.branch.eEPOCH.rROUND.tTURN``: a model call. ``.cINDEX`` behind it: a tool call of that turn.
- ``.qATTEMPT`` behind that: the reconciliation of that attempt.
- ``undo.N``: the run's N-th compensation.
- ``stage.branch.eEPOCH.rROUND.run``: the child run that executes a step.

Draws need no generator: they are keyed by (run seed, purpose, command id), so every process draws equal numbers.
"""

from __future__ import annotations

from hashlib import blake2b

CHILD = ".run"


def read_step(command_id: str) -> str:
    """Return the step that issued a command: ``stage.branch.eEPOCH.rROUND``."""
    return command_id.partition(".t")[0].removesuffix(CHILD)


def read_branch(step_id: str) -> int:
    """Return the branch of a step."""
    return int(step_id.split(".")[1])


def read_child(step_id: str) -> str:
    """Return the command that a step's child run answers."""
    return step_id + CHILD


def read_epoch(command_id: str) -> int:
    """Return the epoch in which a command was issued. Raises ValueError for an id that is no step's."""
    try:
        return int(command_id.split(".")[2].removeprefix("e"))
    except IndexError:
        raise ValueError(f"command id {command_id!r} names no step") from None


def is_errand(command_id: str) -> bool:
    """Return True for a call of the saga's own: a compensation or a reconciliation."""
    return command_id.startswith("undo.") or ".q" in command_id


def unit(seed: int, purpose: str, key: str) -> float:
    """Return a number in [0, 1), uniform over keys; equal arguments give equal numbers anywhere (docs/design.md,
    idea 2).
    """
    raw = blake2b(f"{seed}|{purpose}|{key}".encode(), digest_size=8).digest()
    return (int.from_bytes(raw, "big") >> 11) / 9_007_199_254_740_992.0
