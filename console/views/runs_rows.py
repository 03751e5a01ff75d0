"""A run as a row of the list: worked out from its own columns alone, for there may be many rows and each must be cheap."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from django.template.loader import render_to_string

from fabric.core.flow import TERMINAL, RunState, Stage
from fabric.selectors.run_filter import TAIL_CHARS
from fabric.selectors.runs_list import RunRow

US = 1_000_000


class Mark(NamedTuple):
    """One of the five stages in a row's bar."""

    name: str
    tone: str
    word: str
    x: int


class Protection(NamedTuple):
    """Something that the engine did for a run, as far as its row tells."""

    icon: str
    word: str
    tone: str = "warn"


_HERE = {
    "live": ("info", "in progress"),
    RunState.WAITING: ("human", "waits for a person"),
    "ended": ("danger", "ended here"),
    RunState.CANCELLED: ("neutral", "ended here"),
}


@lru_cache(maxsize=256)
def stage_bar(state: str, stage: str) -> str:
    """The five stages as a picture with its words; a row's state and stage are all it depends on."""
    return render_to_string("runs/list_stages.html", {"marks": marks(state, stage)})


def marks(state: str, stage: str) -> list[Mark]:
    """What lies before a run's stage has passed in this epoch; what lies after it has not been reached."""
    order = [each.value for each in Stage]
    here = len(order) if state == RunState.COMPLETED else order.index(stage) if stage in order else -1
    at = _HERE.get(state) or _HERE["ended" if state in TERMINAL else "live"]
    made = []
    for number, name in enumerate(order):
        tone, word = ("ok", "passed") if number < here else at if number == here else ("line", "not reached")
        made.append(Mark(name, tone, word, 20 * number))
    return made


@dataclass(frozen=True)
class Line:
    """A row as the template shows it."""

    run: RunRow
    now: int = 0
    """Microseconds since the epoch; 0: look at the clock."""

    @property
    def tail(self) -> str:
        """The digits that tell runs apart."""
        return self.run.id[-TAIL_CHARS:]

    @property
    def stages(self) -> str:
        """Its stages."""
        return stage_bar(self.run.state, self.run.stage)

    @property
    def live(self) -> bool:
        """Whether it may still change."""
        return self.run.state not in TERMINAL

    @property
    def took(self) -> int:
        """From the request to the end, or till now; microseconds."""
        until = self.run.ended_at or self.now or time.time_ns() // 1_000
        return max(0, until - self.run.created_at)

    @cached_property
    def protections(self) -> tuple[Protection, ...]:
        """What fired."""
        return fired(self.run.state, self.run.epoch, recovered=self.run.recovered, truncated=self.run.truncated)


@lru_cache(maxsize=256)
def fired(state: str, epoch: int, *, recovered: bool, truncated: bool) -> tuple[Protection, ...]:
    """What the row knows of protections: the rest is on the run's page."""
    found = []
    if epoch:
        found.append(Protection("replan", f"replanned {epoch}×" if epoch > 1 else "replanned once"))
    if recovered:
        found.append(Protection("recov", "recovered"))
    if truncated:
        found.append(Protection("block", "an agent was stopped"))
    if state == RunState.UNWINDING:
        found.append(Protection("undo", "effects are being undone"))
    if state == RunState.QUARANTINED:
        found.append(Protection("lock", "quarantined", "danger"))
    return tuple(found)
