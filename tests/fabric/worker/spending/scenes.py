"""Processes that share budgets in one thread: books and desks over one memory store, on one clock that is passed by hand."""

from collections.abc import Callable
from itertools import count

from fabric.runtime.ports.journal import BatchFate
from fabric.runtime.ports.spending import Budget
from fabric.worker.spending.grant_desk import GrantDesk
from fabric.worker.spending.grants import GrantBook
from simulator.stores.memory.grants import MemoryGrants
from simulator.stores.memory.guards import MemoryGuards
from tests.fabric.stores.grant_worlds import FABRIC, entries, reserving, settling
from tests.fabric.stores.journal_worlds import SECOND, WORKSPACE, Hand


class Process:
    """A book with its desk, whose turns are taken by hand; what is posted is called at the end of each."""

    def __init__(self, site: "Site", name: str) -> None:
        self.site, self.name = site, name
        self._posted: list[Callable[[], None]] = []
        self.desk = GrantDesk(site.store, site.guards, lambda: self.name, self._posted.append, site.now)
        self.book = GrantBook(self.desk, site.now)
        self.desk.serve(self.book)
        self.answers: list[Budget | None] = []

    def turn(self) -> None:
        self.desk.turn()
        posted, self._posted[:] = list(self._posted), []
        for one in posted:
            one()

    def need(self, amount, scope=FABRIC):
        """Its answer, once there is one, is the last of ``answers``."""
        self.book.need(scope, amount, self.answers.append)

    def spend(self, amount, command, *, scope=FABRIC):
        """One call reserved and journaled; its command's name. ValueError when there is no room."""
        grant = next((grant_id for grant_id, left in self.book.chunks(scope) if left >= amount), "none")
        one = reserving(grant, amount, run=self.name, command=command)
        self.book.spend([one])
        return one

    def write(self, one):
        """Return what the flush of a reservation comes to, told to the book."""
        (fate,) = self.site.store.reserve([entries(one)])
        if fate is BatchFate.GRANT_GONE:
            self.book.unspend([one])
            self.book.drop_grants([one.grant_id])
        return fate

    def settle(self, command, amount):
        one = settling(amount, run=self.name, command=command)
        self.site.store.reserve([entries(one)])
        self.book.settle_grants([one])


class Site:
    """The processes share these."""

    def __init__(self, cap: int = 1_000, *, hourly: bool = False) -> None:
        self.clock = Hand()
        self.dead: set[str] = set()
        self.store = MemoryGrants(self.clock, lambda name: name not in self.dead)
        self.guards = MemoryGuards(self.clock)
        self.store.set_cap(FABRIC, cap, workspace_id=WORKSPACE, hourly=hourly)
        self._names = count(1)
        self.processes: list[Process] = []

    def now(self) -> float:
        return self.clock.us / SECOND

    def process(self) -> Process:
        self.processes.append(Process(self, f"host-{next(self._names)}"))
        return self.processes[-1]

    def pass_time(self, seconds: float) -> None:
        """Time passes, and every process has its turn."""
        self.clock.us += round(seconds * SECOND)
        self.turn()

    def turn(self) -> None:
        for one in self.processes:
            if one.name not in self.dead:
                one.turn()

    @property
    def stands(self):
        (found,) = self.store.budgets([FABRIC])
        return found.spent, found.granted, found.overrun
