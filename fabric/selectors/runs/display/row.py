"""A row of the table of event kinds, and the parts of an event's sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from fabric.core.values.units import JSON

Fact = Mapping[str, JSON]
Tone = Literal["neutral", "ok", "warn", "danger", "info", "human"]


class Parts(NamedTuple):
    """The parts of an event's sentence. The sentence joins them; a drill's report takes single ones."""

    who: str
    """The acting subject."""
    what: str
    """A verb in the past tense and its object."""
    how_much: str = ""
    """Numbers: money, tokens, times, attempts."""
    why: str = ""
    """The reason, as a mechanism, a provider or a person gave it."""

    @property
    def act(self) -> str:
        """The sentence without its reason, which may quote a content."""
        return f"{self.who} {self.what}" + (f" ({self.how_much})" if self.how_much else "")

    @property
    def sentence(self) -> str:
        """The sentence, without its full stop: ``The engine chose retry (2 of 5): timeout``."""
        return f"{self.act}: {self.why}" if self.why else self.act


def always(fact: Fact) -> bool:
    """Return True: each event of the kind is a failure."""
    return True


class EventDisplay(NamedTuple):
    """Everything that pages, API, commands and reports say about one kind of event."""

    label: str
    """The event in two or three words."""
    tone: Tone
    icon: str
    """Name of the icon."""
    importance: Literal[0, 1, 2, 3]
    """3: a person should see it; 2: a landmark; 1: a step on the way; 0: detail."""
    parts: Callable[[Fact], Parts]
    """Writes the sentence's parts from the fact alone, so they read alike after contents are erased."""
    note: str = ""
    """A sentence on the effect of every event of this kind, for the inspector. Empty: none is needed."""
    content: str | Mapping[str, str] = "Recorded with it"
    """The heading of the event's content, or the headings of those of its members that are shown."""
    fails: Callable[[Fact], bool] | None = None
    """Returns True where the event is a failure or part of its handling. None: no event of this kind is."""
    follows: bool = False
    """True: ``explain`` lists the event under the decision that it follows from."""
