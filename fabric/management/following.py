"""Following a run from the command line: hosting it here when nobody else does, telling its events, ending when it rests."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from fabric import wiring
from fabric.adapters.nudge import Nudged
from fabric.core.actor import Actor
from fabric.core.flow import RunState
from fabric.selectors.answers import answers_waiting
from fabric.selectors.control import to_be_held
from fabric.selectors.escalations import EscalationView, escalations_open
from fabric.selectors.family_rest import family_at_work
from fabric.selectors.runs import EventView, RunView, run_events, run_get

LOOK_S = 0.5
"""How often the journal is looked at when no nudge comes."""
ALONE_S = 10.0
"""After so long without news from the engine elsewhere it is tried whether there still is one."""
PAGE = 200

Say = Callable[[EventView], None]

ASKING = (RunState.RUNNING, RunState.WAITING, RunState.UNWINDING)
"""States in which a run, or one below it, may wait for a person's answer."""


def silent(event: EventView) -> None:
    """Says nothing."""


@dataclass(slots=True)
class Following:
    """One run being followed, with the runs below it. ``wait``: over questions to people too, until it has ended."""

    actor: Actor
    run_id: str
    say: Say = silent
    wait: bool = False
    answered: frozenset[str] = frozenset()
    """Items that were answered from here: following ends with none of them before its run has taken the answer."""
    asked: Callable[[EscalationView], None] | None = None
    """Called once for each question that comes up while waiting."""
    seq: int = 0
    """The last event that was said."""
    _news: threading.Event = field(default_factory=threading.Event)
    _told: set[str] = field(default_factory=set)

    def to_rest(self) -> RunView:
        """Follows the run until it has ended or waits for a person, hosting it in this process while no other does."""
        ear = wiring.listener(self._heard, "told")
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
        """Says what is new; the run as it stands."""
        run = run_get(self.actor, self.run_id)
        # The row was read first, so that everything it counts is in the journal by now; what came since is told at the next look.
        while self.seq < run.last_seq and (page := run_events(self.actor, self.run_id, after=self.seq, limit=PAGE)):
            for event in page:
                self.say(event)
            self.seq = page[-1].seq
        return run

    def _until_rest(self, alone_s: float | None = None) -> RunView | None:
        """The run at rest; None after ``alone_s`` seconds without news."""
        quiet = 0.0
        while True:
            self._news.clear()
            before = self.seq
            run = self.look()
            if run.terminal or self._held(run):
                return run
            if run.state in ASKING and self._asks():
                return self.look()
            quiet = 0.0 if self.seq > before else quiet
            if not self._news.wait(LOOK_S):
                quiet += LOOK_S
            if alone_s is not None and quiet >= alone_s:
                return None

    def _held(self, run: RunView) -> bool:
        """Whether somebody paused it, and following ends with that."""
        return run.state is RunState.PAUSED and not self.wait and to_be_held(self.actor, run.id)

    def _asks(self) -> bool:
        """Returns True where the run and those below it wait for answers alone, which ends the following."""
        items = self._open()
        on_their_way = self.answered & answers_waiting(items).keys()
        # Read again: what a run has taken in since the first look is no question any more.
        asked = [item for item in self._open() if item.id not in on_their_way]
        for item in asked:
            if self.wait and self.asked is not None and item.id not in self._told:
                self._told.add(item.id)
                self.asked(item)
        return bool(asked) and not (self.wait or on_their_way or family_at_work(self.actor, self.run_id))

    def _open(self) -> list[EscalationView]:
        return escalations_open(self.actor, self.run_id, family=True)

    def _heard(self, nudged: Nudged) -> None:
        if not nudged.run_seqs or self.run_id in nudged.run_seqs:
            self._news.set()
