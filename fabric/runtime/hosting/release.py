"""Keeps runs whose rows name this worker while it does not drive them: released, on cooldown, or orphaned.

A run on cooldown was dropped by the worker while its row is still its own. No worker claims it for a while, then it is
released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final

from fabric.runtime.hosting.timers import Timers
from fabric.runtime.journal.batches import is_over
from fabric.runtime.journal.progress import progresses
from fabric.runtime.ports.journal import Batch, BatchFate, ClaimedRun
from fabric.runtime.quarantine.verdicts import is_suspect


class AfterWrite(StrEnum):
    """A worker's next act on a run, after the fate of a batch."""

    GO_ON = "go on"
    """Step the driver with the commit."""
    RELEASE = "release"
    """Drop the state in memory, and release the row at once. The run is sound, but the basis of its decisions
    is gone.
    """
    COOL_DOWN = "cool down"
    """Drop the state in memory, and own the row for ``hold_s`` more. So no worker claims the run in a hot loop."""
    ASK = "ask by name"
    """Drop the state in memory, and claim the run by name a sweep later. Its row may still name this worker."""


AFTER_WRITE: Final[Mapping[BatchFate, AfterWrite]] = {
    BatchFate.COMMITTED: AfterWrite.GO_ON,
    BatchFate.FENCED: AfterWrite.ASK,
    BatchFate.INPUT_GONE: AfterWrite.RELEASE,
    BatchFate.FAMILY_FULL: AfterWrite.ASK,
    BatchFate.GRANT_GONE: AfterWrite.RELEASE,
}
"""Act after each fate; total by test. A batch that failed, or whose fate is unknown, puts its run on cooldown."""


def choose_act(fate: BatchFate | Exception, *, leaving: bool) -> AfterWrite:
    """Return the act after a fate. ``leaving``: the worker dropped the run before, so it does not go on, and is not
    due at once.
    """
    if isinstance(fate, Exception):
        return AfterWrite.COOL_DOWN
    found = AFTER_WRITE[fate]
    return found if found is AfterWrite.ASK or not leaving else AfterWrite.COOL_DOWN


def releasing_batch(claimed: ClaimedRun, durable: Batch | None, at: int) -> Batch:
    """Return a batch without rows that releases a run at the end of its journal. Workers may claim it again from ``at``
    (microseconds since the epoch).

    ``durable``: the last batch that committed since the claim. The columns that describe the run stay unchanged.
    """
    return Batch(
        run_id=claimed.run_id,
        fence=claimed.fence,
        last_seq=claimed.last_seq if durable is None else durable.new_seq,
        rows=(),
        head=claimed.head if durable is None else durable.head,
        columns=None,
        wake_at=at,
        release=True,
    )


def makes_runs_due(batch: Batch, claimed: ClaimedRun) -> bool:
    """Return True if runs may be due once the batch has committed: relatives, the run itself, or another suspect."""
    return bool(
        batch.children or batch.sends or (batch.release and not is_over(batch)) or frees_suspects(batch, claimed)
    )


def frees_suspects(batch: Batch, claimed: ClaimedRun) -> bool:
    """Return True if the batch ends the suspicion of its run, or its ownership: another suspect may be taken
    (``runtime/quarantine/verdicts.py``).
    """
    return is_suspect(claimed.claims - 1) and (batch.release or progresses(batch))


class RunsOnCooldown:
    """The batch that releases each such run, and when it goes out."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._batches: dict[str, tuple[int, Batch]] = {}

    def __len__(self) -> int:
        return len(self._batches)

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._batches

    def keep(self, batch: Batch, until: int) -> None:
        """Keep a run on cooldown until that instant (microseconds since the epoch). ``batch``: the one that releases
        it.
        """
        self._batches[batch.run_id] = until, batch
        self._timers.set(until, batch.run_id)

    def take_due(self, run_id: str, at: int) -> Batch | None:
        """Return the batch that releases the run, if it is due ``at``. None: the run is not on cooldown, or
        for longer.
        """
        if run_id in self._batches and self._batches[run_id][0] == at:
            return self._batches.pop(run_id)[1]
        return None

    def forget(self, run_id: str) -> None:
        """End the cooldown of a run that was claimed anew: its fence has moved, so the batch would be refused."""
        self._batches.pop(run_id, None)

    def instants(self) -> Iterator[tuple[int, str]]:
        """Yield the instant of each run's release, and its id."""
        return ((at, run_id) for run_id, (at, _) in self._batches.items())

    def clear(self) -> None:
        """Forget all batches: the worker process that owned them was retired."""
        self._batches.clear()


class Orphans:
    """The runs to claim by name, each from an instant on.

    Another worker's fence may have refused a write while the run is this worker's: a commit can arrive after its fate
    was looked up. And a claim can succeed whose answer never came. The worker looks in the store for such runs now
    and then. A look can cross with a claim that is on its way, so only a run that is unknown on two looks running is
    claimed by name. An unnecessary claim would only raise a fence.
    """

    def __init__(self) -> None:
        self._asked_at: dict[str, int] = {}
        self._unknown: set[str] = set()
        self._crowded: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._asked_at or self._unknown)

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._asked_at

    def suspect(self, run_id: str, at: int) -> None:
        """Claim the run by name from ``at`` on (microseconds since the epoch)."""
        self._asked_at[run_id] = at

    def note_crowded(self, run_id: str) -> None:
        """Note that the children of a run were refused, for its next claim."""
        self._crowded.add(run_id)

    def take_crowded(self, run_id: str) -> bool:
        """Return True if the children of the run were refused; the answer is given once."""
        found = run_id in self._crowded
        self._crowded.discard(run_id)
        return found

    def compare(self, owned: Iterable[str], is_known: Callable[[str], bool], now: int) -> None:
        """Take in the runs that are this worker's by the store. ``is_known``: True for one that it drives or keeps."""
        unknown = {run_id for run_id in owned if not is_known(run_id)}
        for run_id in sorted(unknown & self._unknown):
            self._asked_at.setdefault(run_id, now)
        self._unknown = unknown

    def due(self, now: int) -> tuple[str, ...]:
        """Return the runs to ask for with the next claim."""
        return tuple(run_id for run_id, at in self._asked_at.items() if at <= now)

    def note_claimed(self, run_id: str) -> None:
        """Forget a run that is driven from now on."""
        self._asked_at.pop(run_id, None)
        self._unknown.discard(run_id)

    def note_not_given(self, run_id: str) -> None:
        """Note that the store refused a claim. Another worker owns the run, it has ended, or it is a suspect that waits
        for isolation.

        The next look tells which. It goes on counting as unknown until then, so that all that wait are asked for with
        one claim: of two suspects, each is held as long as the other alone is asked for
        (``runtime/quarantine/verdicts.py``).
        """
        self._asked_at.pop(run_id, None)

    def clear(self) -> None:
        """Forget all orphans: the worker process that their rows name was retired."""
        self._asked_at.clear()
        self._crowded.clear()
        self._unknown.clear()
