"""Shows waiting and running drills in a banner: on the drills' pages, and live drills on every page."""

from __future__ import annotations

from dataclasses import dataclass

from console.words.drills import cell_words
from fabric.core.people.actor import Actor
from simulator.drills.models.tables import VIRTUAL
from simulator.drills.selectors.drill_views import BatchView
from simulator.drills.selectors.drills import batch_get
from simulator.drills.services.drills import may_stop


@dataclass(frozen=True, slots=True)
class Going:
    """A waiting or running batch, as the banner shows it."""

    batch: BatchView
    may: bool
    """True if the viewer may stop it."""
    behind: int = 0
    """Number of batches before it."""

    @property
    def running(self) -> bool:
        """Return True if the batch has begun."""
        return self.batch.done_count > 0 or self.batch.running_drill is not None

    @property
    def cell_words(self) -> str:
        """Return the cell that is being drilled, in words."""
        one = self.batch.running_drill
        return cell_words(one) if one else ""

    @property
    def position(self) -> int:
        """Return the number of the current cell, from 1."""
        return min(self.batch.done_count + 1, len(self.batch.drills))

    @property
    def live(self) -> bool:
        """Return True if the drills run on real workers and cost money."""
        return self.batch.drills[0].mode != VIRTUAL

    def on_board(self, fabric: str, mode: str) -> bool:
        """Return True if the coverage board of a fabric already shows these cells in this mode.

        ``fabric``: empty for the fabric that was drilled last.
        """
        one = self.batch.drills[0]
        if one.scenario or one.author:
            return False
        return one.mode == (mode or VIRTUAL) and fabric in ("", one.fabric)


def find_batch(actor: Actor, batch: str) -> Going:
    """Return a batch as the banner shows it. Raises Refused not_found."""
    seen = batch_get(actor, batch)
    return Going(seen, may_stop(actor, seen.asked_by))
