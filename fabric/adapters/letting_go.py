"""How a host lets go of runs: dropped from memory, held for a while where something is wrong, given back; and looked into where a row is another's."""

from __future__ import annotations

from fabric.adapters.calls import Calls
from fabric.adapters.held import Held
from fabric.adapters.host_config import HostConfig, HostCounters
from fabric.adapters.lease import Lease
from fabric.adapters.loop_thread import LoopThread
from fabric.adapters.orphans import Orphans
from fabric.adapters.owned import Owned, Ports
from fabric.adapters.shared import Shared
from fabric.runtime.ports import Batch, Claimed, Written

US = 1_000_000


class LettingGo:
    """A part of ``host.RunHost``, whose fields these are. On the loop thread."""

    ports: Ports
    config: HostConfig
    counters: HostCounters
    owned: dict[str, Owned]
    loop: LoopThread
    calls: Calls
    lease: Lease
    shared: Shared
    _touched: dict[str, None]
    _held: Held
    _orphans: Orphans

    def _offered(self, run_id: str, stray: bool = False) -> None:
        raise NotImplementedError

    def _drop(self, run_id: str) -> None:
        """Forgets a run; its row is free or somebody else's, or is about to be given back."""
        owned = self.owned.pop(run_id, None)
        self._touched.pop(run_id, None)
        if owned is not None:
            self.shared.unwritten(owned.ready)
            owned.ready = None
            if owned.out:
                self.calls.abort_run(run_id)
                self.shared.breakers.dropped(owned.out)

    def _let_go(self, run_id: str, owned: Owned, away: Batch | None = None) -> None:
        """Drops a run that cannot go on here; its row is given back, once the fate of what is being written is known. ``away``: with this."""
        self._drop(run_id)
        owned.broken = owned.writing is not None
        if not owned.broken:
            self._give_back(owned.claimed, owned.durable, self.config.hold_s if away is None else 0.0, away)

    def _return(self, owned: Owned, fate: Written | Exception, hold_s: float) -> None:
        """What was dropped and not written goes back to the row; where the row says that it is another's, that is looked into."""
        if fate is Written.FAMILY_FULL:
            self._orphans.crowded(owned.claimed.run_id)
        if fate in (Written.FENCED, Written.FAMILY_FULL):
            self._offered(owned.claimed.run_id, stray=True)
        else:
            self._give_back(owned.claimed, owned.durable, hold_s)

    def _count_stale(self, fate: Written | Exception) -> None:
        if fate is Written.FENCED:
            self.counters.stale_refused += 1
            self.lease.refused += 1

    def _give_back(self, claimed: Claimed, durable: Batch | None, hold_s: float, batch: Batch | None = None) -> None:
        """Releases the row of a run that was dropped. Until ``hold_s`` have passed it stays this process's, so that nobody claims it in a hot loop."""
        self.counters.faults += hold_s > 0
        self.counters.quarantined += batch is not None
        self._held.hold(claimed, durable, self.ports.clock.now() + int(hold_s * US), batch)
