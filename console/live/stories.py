"""Caches stories of watched runs, so that each look folds only new events. The number of events is limited."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

from fabric.core.people.actor import Actor
from fabric.selectors.runs.lookup import RunView
from fabric.selectors.runs.story.fold import RunStory, run_story

EVENTS_MAX = 300_000
"""Number of events in all kept stories; about 300 bytes each."""
STORIES_MAX = 128
AT_ONCE = 5_000
"""Number of events that a page folds while a person waits; the live reader folds longer rests."""


@dataclass(slots=True)
class _KeptStory:
    story: RunStory
    lock: Lock = field(default_factory=Lock)


class Stories:
    """The stories of this process; the least recently used is dropped first."""

    def __init__(self, events_max: int = EVENTS_MAX, stories_max: int = STORIES_MAX) -> None:
        self._events_max = events_max
        self._stories_max = stories_max
        self._kept: OrderedDict[tuple[str, str, bool], _KeptStory] = OrderedDict()
        self._lock = Lock()

    @contextmanager
    def read_story(self, actor: Actor, run: RunView, *, at_most: int | None = None) -> Iterator[RunStory | None]:
        """Yield the run's story up to now, valid inside the block.

        None if more than ``at_most`` events would have to be folded first. Raises Refused not_found if the actor may
        not see the run.
        """
        key = (actor.workspace_id, run.id, run.reads)
        with self._lock:
            kept = self._kept.setdefault(key, _KeptStory(RunStory(run.id)))
            self._kept.move_to_end(key)
        with kept.lock:
            if at_most is not None and run.last_seq - kept.story.seq > at_most:
                yield None
            else:
                yield run_story(actor, run.id, kept.story)
        self._trim()

    def count_behind(self, actor: Actor, run: RunView) -> int:
        """Return the number of events to fold for the run's complete story."""
        kept = self._kept.get((actor.workspace_id, run.id, run.reads))
        return run.last_seq - (kept.story.seq if kept is not None else 0)

    def _trim(self) -> None:
        with self._lock:
            size = sum(kept.story.seq for kept in self._kept.values())
            while len(self._kept) > 1 and (size > self._events_max or len(self._kept) > self._stories_max):
                _, gone = self._kept.popitem(last=False)
                size -= gone.story.seq

    def __len__(self) -> int:
        return len(self._kept)


stories = Stories()
"""Return this process's stories."""
