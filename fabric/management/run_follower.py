"""Follows a run from the command line, shows its events, and ends when it rests. Hosts it where no other
process does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from fabric.composition import engine as wiring
from fabric.core.people.actor import Actor
from fabric.core.values.flow import RunState
from fabric.selectors.reviews.answers import answers_waiting
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.reviews.review_view import ReviewView
from fabric.selectors.runs.families import family_at_work
from fabric.selectors.runs.lookup import EventView, RunView, asks_for_pause, run_events, run_get
from fabric.worker.nudges.listener import ReceivedNudge

LOOK_S = 0.5
"""Seconds between two reads of the journal without a nudge."""
ALONE_S = 10.0
"""Seconds without news after which the follower checks if there still is an engine elsewhere."""
PAGE = 200

Say = Callable[[EventView], None]

ASKING = (RunState.RUNNING, RunState.WAITING, RunState.UNWINDING)
"""States in which a run, or a child run of it, may wait for a person's answer."""


def silent(event: EventView) -> None:
    """Ignore an event."""


@dataclass(slots=True)
class Following:
    """Follows one run with its child runs. ``wait``: past reviews of people too, until it has ended."""

    actor: Actor
    run_id: str
    say: Say = silent
    wait: bool = False
    answered: frozenset[str] = frozenset()
    """Reviews that were answered from here: following does not end with them before the run has taken the answer."""
    asked: Callable[[ReviewView], None] | None = None
    """Called once for each new review while waiting."""
    seq: int = 0
    """Number of the last event that was shown."""
    _news: threading.Event = field(default_factory=threading.Event)
    _told: set[str] = field(default_factory=set)

    def to_rest(self) -> RunView:
        """Follow the run until it has ended or waits for a person. Host it in this process while no other does."""
        ear = wiring.listener(self._hear_nudge, "told")
        with suppress(OSError):  # Without an ear it is looked at twice a second.
            ear.start()
        try:
            while True:
                try:
                    with wiring.local_engine() as engine:
                        engine.offer(self.run_id)
                        rest = self._until_rest()
                except wiring.EngineRunning:
                    rest = self._until_rest(alone_s=ALONE_S)
                if rest is not None:
                    return rest
        finally:
            ear.stop()

    def look(self) -> RunView:
        """Show new events, and return the run in its present state."""
        run = run_get(self.actor, self.run_id)
        if self.say is silent:
            self.seq = run.last_seq
            return run
        # The row was read first, so that its events are all in the journal by now; later ones are shown at the next
        # look.
        while self.seq < run.last_seq and (page := run_events(self.actor, self.run_id, after=self.seq, limit=PAGE)):
            for event in page:
                self.say(event)
            self.seq = page[-1].seq
        return run

    def _until_rest(self, alone_s: float | None = None) -> RunView | None:
        """Return the run at rest; None after ``alone_s`` seconds without news."""
        quiet = 0.0
        while True:
            self._news.clear()
            before = self.seq
            run = self.look()
            if run.terminal or self._is_held(run):
                return run
            if run.state in ASKING and self._asks():
                return self.look()
            quiet = 0.0 if self.seq > before else quiet
            if not self._news.wait(LOOK_S):
                quiet += LOOK_S
            if alone_s is not None and quiet >= alone_s:
                return None

    def _is_held(self, run: RunView) -> bool:
        """Return True if a person paused the run and following ends with that."""
        return run.state is RunState.PAUSED and not self.wait and asks_for_pause(self.actor, run.id)

    def _asks(self) -> bool:
        """Return True where the run and its child runs wait for answers alone, which ends the following."""
        items = self._open()
        if not items:
            return False
        on_their_way = self.answered & answers_waiting(items).keys()
        # Read again: what a run has taken in since the first look is no review any more.
        asked = [item for item in self._open() if item.id not in on_their_way]
        for item in asked:
            if self.wait and self.asked is not None and item.id not in self._told:
                self._told.add(item.id)
                self.asked(item)
        return bool(asked) and not (self.wait or on_their_way or family_at_work(self.actor, self.run_id))

    def _open(self) -> list[ReviewView]:
        return list_open_reviews(self.actor, self.run_id, family=True)

    def _hear_nudge(self, nudged: ReceivedNudge) -> None:
        if not nudged.run_seqs or self.run_id in nudged.run_seqs:
            self._news.set()
