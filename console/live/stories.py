"""Caches stories of watched runs, so that each look folds only new events. The number of events is limited.

A story as of an earlier event is folded from its nearest checkpoint, which is a copy of a story in bytes.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

from fabric.core.people.actor import Actor
from fabric.selectors.errors import Refused
from fabric.selectors.runs.lookup import RunView
from fabric.selectors.runs.past.views import require_event
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


CHECKPOINT_EVENTS = 2_000
"""Events between two checkpoints of a story."""
CHECKPOINT_BYTES = 64 * 1024 * 1024
"""Bytes of all checkpoints; about 90 bytes for each event before one."""
EVENTS_A_LOOK = 10_000
"""Events that one look at the past folds at most; the next look continues there."""
_Place = tuple[str, str, bool]


class PastStories:
    """Checkpoints of this process; the least recently used is dropped first."""

    def __init__(
        self, every: int = CHECKPOINT_EVENTS, bytes_max: int = CHECKPOINT_BYTES, a_look: int = EVENTS_A_LOOK
    ) -> None:
        self._every, self._bytes_max, self._a_look = every, bytes_max, a_look
        self._kept: OrderedDict[tuple[_Place, int], bytes] = OrderedDict()
        self._lock = Lock()

    def read_story(self, actor: Actor, run: RunView, seq: int) -> RunStory:
        """Return the run's story as of an event, for the caller alone.

        Raises Refused: invalid where the run has no such event, unavailable while more than ``EVENTS_A_LOOK`` are to be
        folded, not_found if the actor may not see the run.
        """
        place = (actor.workspace_id, run.id, run.reads)
        story = self._nearest(place, require_event(run, seq), run.id)
        begun = story.seq
        while story.seq < seq:
            upto = min(seq, (story.seq // self._every + 1) * self._every)
            if story.seq - begun >= self._a_look:
                message = f"run {run.id} was read up to event {story.seq} of {seq}: open it again to continue"
                raise Refused(message, code="unavailable", field="seq")
            run_story(actor, run.id, story, upto=upto)
            if story.seq < upto:
                break  # The journal has a gap, or its end is missing: what is shown of it says so.
            if upto % self._every == 0:
                self._keep(place, story)
        return story

    def _nearest(self, place: _Place, seq: int, run_id: str) -> RunStory:
        for at in range(seq // self._every * self._every, 0, -self._every):
            with self._lock:
                kept = self._kept.get((place, at))
                if kept is not None:
                    self._kept.move_to_end((place, at))
            if kept is not None:
                story: RunStory = pickle.loads(kept)  # noqa: S301 - bytes that this process made and kept.
                return story
        return RunStory(run_id)

    def _keep(self, place: _Place, story: RunStory) -> None:
        story.made.clear()
        copied = pickle.dumps(story, pickle.HIGHEST_PROTOCOL)
        with self._lock:
            self._kept[place, story.seq] = copied
            self._kept.move_to_end((place, story.seq))
            size = sum(map(len, self._kept.values()))
            while size > self._bytes_max and self._kept:
                size -= len(self._kept.popitem(last=False)[1])

    def __len__(self) -> int:
        return len(self._kept)


stories = Stories()
"""The stories of this process."""
past_stories = PastStories()
"""The checkpoints of this process."""
