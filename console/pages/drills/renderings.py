"""Shares the renderings of the drills' boards among their viewers, who ask for them each second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from console.site.fragments import SHARED_S
from fabric.core.people.actor import Actor

BOARDS_MAX = 256
"""Number of cached renderings."""


class Renderings:
    """The last rendering of each part and its time (monotonic clock, seconds). Viewers of one key share it."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, ...], tuple[float, str]] = {}
        self._making = threading.Lock()

    def fresh(self, key: tuple[str, ...], make: Callable[[], str]) -> str:
        """Return a new rendering, so that a viewer sees their own act at once."""
        html = make()
        if len(self._made) >= BOARDS_MAX:
            self._made.clear()
        self._made[key] = (time.monotonic(), html)
        return html

    def render_shared(self, key: tuple[str, ...], make: Callable[[], str]) -> str:
        """Return a rendering at most ``SHARED_S`` old. Of many requests at once, one renders. Raises what ``make``
        raises.
        """
        with self._making:
            made_at, html = self._made.get(key, (0.0, ""))
            if html and time.monotonic() - made_at < SHARED_S:
                return html
            return self.fresh(key, make)


def name_sight(actor: Actor) -> tuple[str, ...]:
    """Return what the actor sees, as a part of a cache key."""
    return (actor.workspace_id, *actor.fabrics, *(("*",) if actor.reach is None else actor.reach))


shared_parts = Renderings()
"""Renderings of this process."""
