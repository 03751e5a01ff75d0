"""Stories of the runs that are looked at, kept so that each look folds only what came since. Bounded by how many events they are made of."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

from fabric.core.actor import Actor
from fabric.selectors.run_story import RunStory, run_story
from fabric.selectors.runs import RunView

EVENTS_MAX = 300_000
"""Events that all kept stories are made of; about 300 bytes each."""
STORIES_MAX = 128
AT_ONCE = 5_000
"""Events that a page folds while somebody waits for it; what is further behind is left to the live reader."""


@dataclass(slots=True)
class _Kept:
    story: RunStory
    lock: Lock = field(default_factory=Lock)


class Stories:
    """The stories of this process, the least recently used let go first."""

    def __init__(self, events_max: int = EVENTS_MAX, stories_max: int = STORIES_MAX) -> None:
        self._events_max = events_max
        self._stories_max = stories_max
        self._kept: OrderedDict[tuple[str, str, bool], _Kept] = OrderedDict()
        self._lock = Lock()

    @contextmanager
    def told(self, actor: Actor, run: RunView, *, at_most: int | None = None) -> Iterator[RunStory | None]:
        """The run's story up to now, for as long as the block lasts; None when more than ``at_most`` events would have to be folded first.

        Refused not_found when the actor may not see the run.
        """
        key = (actor.workspace_id, run.id, run.reads)
        with self._lock:
            kept = self._kept.setdefault(key, _Kept(RunStory(run.id)))
            self._kept.move_to_end(key)
        with kept.lock:
            if at_most is not None and run.last_seq - kept.story.seq > at_most:
                yield None
            else:
                yield run_story(actor, run.id, kept.story)
        self._trim()

    def behind(self, actor: Actor, run: RunView) -> int:
        """Events that would have to be folded to tell the run's story up to where its row is."""
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
"""This process's."""
