"""A run's story: its journal folded into what a picture of it needs. Lanes of attempts, waits and back-offs, gates,
trips, and money over time.

The fold is incremental: ``RunStory.add`` takes one event, ``run_story`` adds what the journal has beyond what a story
knows already. A story is made of headers alone, never of contents. Instants are microseconds since the epoch, UTC;
money is micro-dollars.
"""

from __future__ import annotations

from collections import Counter

from fabric.core.events.envelope import Event, UnknownEvent, from_row
from fabric.core.evolve import evolve
from fabric.core.people.actor import Actor
from fabric.models import Event as EventRow
from fabric.models import Run as RunRow
from fabric.selectors.contents import header_for, may_read
from fabric.selectors.errors import Refused
from fabric.selectors.reach import match_visible
from fabric.selectors.runs.story.facts import FOLDS
from fabric.selectors.runs.story.state import RATE_WINDOW_US, StoryState
from fabric.selectors.stored_events import LAST_SEQ, read_events

ROWS_A_READ = 2_000


class RunStory(StoryState):
    """A story that takes in the events of its journal, one after another."""

    def __init__(self, run_id: str) -> None:
        super().__init__(run_id)
        self.kinds: Counter[str] = Counter()
        """Number of events by kind."""

    def add(self, event: Event) -> None:
        """Folds one event; the journal's next."""
        self.seq, self.at = event.seq, event.at
        self.kinds[event.fact.kind] += 1
        while self.recent and self.recent[0][0] < event.at - RATE_WINDOW_US:
            self.recent.popleft()
        if self.run is not None:
            try:
                self.run = evolve(self.run, event)
            except Exception as error:  # noqa: BLE001 - A damaged journal may break anywhere; the picture goes on without the margins.
                self._skip_event(event.seq, f"does not fold: {error} ({type(error).__name__})")
        fold = FOLDS.get(event.fact.kind)
        if fold is not None:
            try:
                fold(self, event, event.fact)
            except Exception as error:  # noqa: BLE001 - As above: one odd fact must not cost the whole picture.
                self._skip_event(event.seq, f"cannot be drawn: {error} ({type(error).__name__})")


# -- reading -----------------------------------------------------------------------------------------------------------


def run_story(actor: Actor, run_id: str, known: RunStory | None = None, *, upto: int = LAST_SEQ) -> RunStory:
    """Return the run's story up to the end of its journal, or up to an event. ``known``: a story of that run for a
    reader of equal rights, which is continued.

    A reader without the right gets no sentences. Refused not_found.
    """
    row = RunRow.objects.filter(match_visible(actor, RunRow), id=run_id).values_list("fabric__name").first()
    if row is None:
        raise Refused(f"there is no run {run_id[:80]!r} in this workspace; look at the list of runs", code="not_found")
    story, reads = RunStory(run_id) if known is None else known, may_read(actor, row[0])
    rows = EventRow.objects.filter(run_id=run_id, workspace_id=actor.workspace_id)
    for seq, kind, version, at, header, *_ in read_events(rows, after=story.seq, upto=upto, page=ROWS_A_READ):
        try:
            event = from_row(seq, kind, version, header_for(header, reads=reads))
        except (UnknownEvent, ValueError) as error:
            story.skip(seq, at, str(error))
        else:
            story.add(event)
    return story
