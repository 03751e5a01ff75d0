"""What a virtual process shares with others: the real book and desk, on virtual time; the desk's turns are actions of the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fabric.adapters.grant_desk import GrantDesk, Holder
from fabric.adapters.shared import Shared
from fabric.runtime.ports import StoreUnavailable
from simulator.kernel.clock import US
from simulator.kernel.swarm_rates import usual

if TYPE_CHECKING:
    from simulator.kernel.process import Process

TURN_S = 0.002
"""What a question to the database takes, one way."""
LOOK_S = 30.0
"""Between two turns of a desk that nobody waits for: rarer than in earnest, since virtual days pass in a world."""


class VirtualDesk(GrantDesk):
    """The desk of a virtual process."""

    def __init__(self, process: Process) -> None:
        world = process.world
        self._process = process
        self._made = 0
        self._looking = False
        super().__init__(
            world.grants, world.buckets, lambda: process.name, self._posted, lambda: world.clock.now() / US, self._name
        )

    def _name(self) -> str:
        self._made += 1
        return f"{self._process.name}:{self._made}"

    def _posted(self, do: Callable[[], None]) -> None:
        self._process.later(TURN_S, do)

    def start(self, holder: Holder) -> None:
        """Serves from now on; a thread it has not."""
        self.serve(holder)

    def _leave(self, job: object) -> None:
        super()._leave(job)  # type: ignore[arg-type]
        self._process.later(TURN_S, self._turn)

    def _away(self, error: StoreUnavailable) -> None:
        """What a lapsed lease or a retirement brings about by design is counted, and no line is said about it."""
        self._process.world.sometimes["budgets_not_asked"] += 1

    def _turn(self) -> None:
        pause_s = self.turn()
        self._process.world.watch.shared()
        if self._jobs:
            self._process.later(max(pause_s, TURN_S), self._turn)
        if not self._looking and self._holds():
            self._looking = True
            self._process.later(LOOK_S, self._looks)

    def _looks(self) -> None:
        self._looking = False
        self._turn()


def shared_of(process: Process) -> Shared:
    """A process's part in what is shared."""
    world = process.world
    shared = Shared(
        VirtualDesk(process),
        post=lambda do: process.later(TURN_S, do),
        clock=world.clock,
        now=lambda: world.clock.now() / US,
    )
    shared.usual.learn(world.setup.fabric.revision_id, usual(world.setup.seed))
    return shared
