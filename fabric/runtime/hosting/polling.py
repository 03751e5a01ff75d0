"""Polls the store for a worker, within the limits of its load, and counts its work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fabric.core.values.units import US
from fabric.runtime.hosting.ownership import Revision
from fabric.runtime.ports.journal import ClaimedRun, InboxItem

UNCOVERED_US = 200_000
"""Microseconds after which a worker that may not claim checks again that its lease was confirmed."""


@dataclass(frozen=True, slots=True)
class StorePoll:
    """One poll of the store. ``room``: most runs to claim, 0 for none."""

    incarnation: str
    room: int
    inbox: bool
    """True: inputs of the runs that are owned already are wanted too."""
    again: Sequence[str] = ()
    """Runs that may be this incarnation's without its knowing: see ``JournalStore.claim``."""
    term: int = 0
    """Term of the lease at the poll: runs claimed now are owned in it, or in a later one."""
    owned: bool = False
    """True: ask for the runs whose rows name this incarnation."""
    at: int = 0
    """Instant of the poll (microseconds since the epoch): the answer has everything inserted by then."""


@dataclass(frozen=True, slots=True)
class PollAnswer:
    """The store's answer. ``more``: as many runs as were asked for, or as one claim reads, so there may be others."""

    poll: StorePoll
    claims: Sequence[ClaimedRun] = ()
    revisions: Mapping[str, Revision | None] = field(default_factory=dict)
    """The revisions that the claimed runs are pinned to, by ``revision_pin``; None: it cannot be loaded."""
    items: Sequence[InboxItem] = ()
    more: bool = False
    claimed: bool = False
    """True: the store answered the claim."""
    owned: Sequence[str] | None = None
    """The runs whose rows name this incarnation, these claims among them; None: not asked, or not answered."""
    fault: bool = False
    """True: looking failed for an unforeseen reason."""
    known: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Guard rows of the claimed runs' fabrics: bills above reservations and usual rates
    (``runtime/spending/overruns.py``, ``usual_rates.py``), by scope and kind.
    """
    heard: bool = False
    """True: the store answered which inputs there are for the runs that are owned already."""


class StorePolling:
    """Decides when to poll, and for what. One poll is under way at a time; wishes that arise meanwhile share the
    next. Due runs are wanted after a hint, after a commit that made some due, when room became free, and every
    ``sweep_s`` as a safety net. Inputs are wanted after a hint, when a late timer waits for them, and with the
    safety net.
    """

    def __init__(self, config: HostConfig) -> None:
        self._config = config
        self._sweep_us, self._orphans_us = int(config.sweep_s * US), int(config.orphans_s * US)
        self.claims_wanted = self.inputs_wanted = True
        self.under_way = False
        self._full = False
        """True: runs were wanted while there was no room."""
        self.sweep_at = 0
        """Instant of the next complete poll, whatever hints come before (microseconds since the epoch)."""
        self._last_look = 0

    def want_all(self) -> None:
        """Note that something may be due: poll for runs and for inputs."""
        self.claims_wanted = self.inputs_wanted = True

    def room(self, owned: int, inflight: int) -> int:
        """Return the number of further runs that the worker may own, at ``inflight`` calls."""
        return min(self._config.max_owned - owned, self._config.max_inflight_calls - inflight)

    def wants(self, owned: int, inflight: int) -> bool:
        """Return True if the store is to be asked now."""
        if self._full and self.room(owned, inflight) > self._config.max_owned // 16:
            self._full, self.claims_wanted = False, True
        return not self.under_way and (self.claims_wanted or self.inputs_wanted)

    def begin(self, now: int, *, room: int, owned: int, stopping: bool, covered: bool) -> tuple[int, bool, bool] | None:
        """Return the number of runs to claim, and whether to ask for inputs and for orphans; None: no poll.
        ``covered``: the lease covers calls of runs that are claimed now. Without it a run would be claimed,
        released unsent and claimed again, until it is quarantined.
        """
        claims = self.claims_wanted and covered
        room = 0 if stopping or not claims else room
        self._full = self._full or (claims and room <= 0)
        inbox = self.inputs_wanted and owned > 0
        self.claims_wanted, self.inputs_wanted = self.claims_wanted and not covered, False
        self.sweep_at = now + self._sweep_us
        if room <= 0 and not inbox:
            return None
        self.under_way = True
        look = now - self._last_look >= self._orphans_us
        if look:
            self._last_look = now
        return max(0, room), inbox, look

    def end(self, *, more: bool) -> None:
        """Take in that the store answered, or failed to. ``more``: more runs may be due."""
        self.under_way = False
        self.claims_wanted = self.claims_wanted or more


@dataclass(frozen=True, slots=True)
class HostConfig:
    """Limits of one worker. Seconds and counts."""

    max_owned: int = 1_000
    max_inflight_calls: int = 1_000
    lease_s: float = 10.0
    beat_s: float = 3.0
    sweep_s: float = 2.0
    """The store is asked for due runs and new inputs at least this often."""
    orphans_s: float = 10.0
    """Seconds between two looks for runs whose rows name this worker while it does not drive them."""
    hold_s: float = 10.0
    """Cooldown of a run that could not be loaded, stepped or written: no worker may claim it before."""
    queues: Sequence[str] = ("default",)


@dataclass(slots=True)
class HostCounters:
    """Counters of a worker since it started."""

    claimed: int = 0
    released: int = 0
    refused: int = 0
    """Runs released after a batch that was not written."""
    stale_refused: int = 0
    """Batches that were not written because their run was another worker's by then."""
    uncovered: int = 0
    """Calls that were not sent because the lease did not cover them any more."""
    quarantined: int = 0
    """Claimed runs that were not driven: put into quarantine, or answered there."""
    faults: int = 0
    """Runs dropped because they could not be loaded, stepped or written, and errors of the worker itself."""
