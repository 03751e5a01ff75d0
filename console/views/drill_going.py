"""Drills that wait or run, as a banner tells them: on their own pages, and live ones on every page."""

from __future__ import annotations

from dataclasses import dataclass

from console.views.drill_words import cell_words
from fabric.core.actor import Actor
from simulator.drills.models import VIRTUAL
from simulator.drills.selectors import BatchView, batch_get
from simulator.drills.services import may_stop


@dataclass(frozen=True, slots=True)
class Going:
    """A batch that waits or runs, as it is told."""

    batch: BatchView
    may: bool
    """Whether who looks may stop it."""
    behind: int = 0
    """Batches that are done before it."""

    @property
    def running(self) -> bool:
        """Whether it has begun."""
        return self.batch.done > 0 or self.batch.running is not None

    @property
    def said(self) -> str:
        """Which cell is driven."""
        one = self.batch.running
        return cell_words(one) if one else ""

    @property
    def at(self) -> int:
        """The number of the cell that is driven, from 1."""
        return min(self.batch.done + 1, len(self.batch.drills))

    @property
    def live(self) -> bool:
        """Whether it is driven on real workers, and costs money."""
        return self.batch.drills[0].mode != VIRTUAL

    def on_board(self, fabric: str, mode: str) -> bool:
        """Whether the coverage of a fabric (empty: of the one that was drilled last) tells of it itself: its cells, in that mode."""
        one = self.batch.drills[0]
        if one.scenario or one.author:
            return False
        return one.mode == (mode or VIRTUAL) and fabric in ("", one.fabric)


def going_of(actor: Actor, batch: str) -> Going:
    """A batch as it is told. Refused not_found."""
    seen = batch_get(actor, batch)
    return Going(seen, may_stop(actor, seen.asked_by))
