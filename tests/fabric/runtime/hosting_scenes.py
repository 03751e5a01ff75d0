"""A machine of one worker without a worker: a test brings each run into a state, and looks at what an event makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fabric.core.events.inputs import INBOX, ModelReplied, RunRequested
from fabric.core.state.context import compile_spec
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import US
from fabric.runtime.driver import RunDriver
from fabric.runtime.happenings import Happening, PortAnswered
from fabric.runtime.hosting.machine import HostEffect, Hosting
from fabric.runtime.hosting.ownership import OwnedRun, Revision
from fabric.runtime.hosting.polling import HostConfig, PollAnswer, StorePoll
from fabric.runtime.ports.journal import Batch, BatchFate, ClaimedRun, InboxItem
from tests.fabric.core.fabrics import PRICES, spec

NOW = 1_000 * US
CONFIG = HostConfig()
HOLD_US, SWEEP_US = int(CONFIG.hold_s * US), int(CONFIG.sweep_s * US)
RUN = "run-1"
POLL = StorePoll("worker-1", room=10, inbox=True, term=1, at=NOW)
REVISION = Revision(compile_spec(spec(), prices=PRICES), {})


def claimed(run_id: str = RUN, **changed: Any) -> ClaimedRun:
    """A run that was never driven, with the request that starts it."""
    asked = RunRequested(input_id="start", request={"text": "What is there?"}, deadline_at=NOW + 86_400 * US)
    item = InboxItem(run_id, asked.input_id, INBOX.dump_json(asked), sent_at=NOW)
    values: dict[str, Any] = {"seed": 7, "tier": Tier.BATCH, "rows": (), "inbox": (item,), "taken_over": False}
    values |= {"run_id": run_id, "fence": 1, "revision_id": "revision", "trace_id": "trace"}
    return ClaimedRun(**values | changed)


class Raising(RunDriver):
    """A driver that raises at every step but the first while ``broken``."""

    broken = False

    def step(self, happening: Any, now: int) -> Any:
        if self.broken:
            raise ZeroDivisionError("a bug")
        return super().step(happening, now)


@dataclass
class Scene:
    """One machine, and the effects of the last event."""

    hosting: Hosting = field(default_factory=lambda: Hosting(CONFIG, Raising))
    now: int = NOW
    effects: list[HostEffect] = field(default_factory=list)
    written: Any = None
    """The run and the batch whose fate is told next."""

    def drive(self, **changed: Any) -> OwnedRun:
        taking = self.hosting.claim(claimed(**changed), REVISION, POLL, self.now)
        assert taking.run is not None
        self.take(taking.effects)
        return taking.run

    def dropped(self) -> tuple[OwnedRun, Batch]:
        """Drives a run, and forgets it with the incarnation while its batch is being written."""
        self.drive()
        written = self.write()
        self.hosting.lose()
        return written

    def write(self) -> tuple[OwnedRun, Batch]:
        """Hands the batch over that the run has ready."""
        ((run, batch),) = self.hosting.hand_over()
        return run, batch

    def step(self, happening: Happening) -> None:
        """Steps the run if it is driven."""
        run = self.hosting.owned.get(RUN)
        if run is not None:
            self.take(self.hosting.step(run, happening, self.now))

    def fail(self) -> None:
        """Has the driver of the run raise, if it is driven."""
        run = self.hosting.owned.get(RUN)
        if run is not None:
            assert isinstance(run.driver, Raising)
            run.driver.broken = True
            self.step(
                PortAnswered(ModelReplied(command_id="plan", attempt=1, text="", input_tokens=0, output_tokens=0))
            )

    def take(self, effects: Sequence[HostEffect]) -> None:
        self.effects = list(effects)

    def end_write(self, run: OwnedRun, batch: Batch, fate: BatchFate | Exception) -> None:
        self.take(self.hosting.end_write(run, batch, fate, self.now, term=1))

    def end_written(self, fate: BatchFate | Exception) -> None:
        """The fate of the batch that was handed over."""
        run, batch = self.written
        self.end_write(run, batch, fate)

    def releases(self, after_us: int = 0) -> list[Batch]:
        """The batches that end a cooldown by then."""
        return list(self.hosting.due(self.now + after_us)[0])

    def answer(self, **given: Any) -> PollAnswer:
        return PollAnswer(POLL, **given)

    def state(self) -> str:
        """The state of the run, by its name in the table of ``runtime/hosting``."""
        hosting = self.hosting
        if RUN in hosting.owned:
            return "writing" if hosting.owned[RUN].writing is not None else "driven"
        if RUN in hosting.cooldown:
            return "cooling"
        if RUN in hosting.orphans:
            return "asked_for"
        run, _ = self.written
        return "leaving" if run.leaving and run.writing is not None else "unknown"
