"""A thread that takes turns: when it is rung, and at the time that its last turn returned."""

from __future__ import annotations

import threading
from collections.abc import Callable


class TurnThread:
    """Calls ``turn``, which does the due work and returns the seconds until the next. It must not raise."""

    def __init__(self, name: str, turn: Callable[[], float]) -> None:
        self._turn = turn
        self._bell = threading.Condition()
        self._rung = self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start it; the first turn follows at once."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Return True while it runs."""
        return self._thread.is_alive()

    def ring(self) -> None:
        """Request a turn soon, from any thread."""
        with self._bell:
            self._rung = True
            self._bell.notify()

    def stop(self, timeout_s: float = 5.0) -> None:
        """End it after the turn under way."""
        with self._bell:
            self._stopping = True
            self._bell.notify()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while True:
            pause_s = self._turn()
            with self._bell:
                if not self._rung and not self._stopping:
                    self._bell.wait(pause_s)
                if self._stopping:
                    return
                self._rung = False
