"""What people said to a run's conversation, in words: what became of each message, and what a part of the run's page shows of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from fabric.core.actor import Actor
from fabric.core.flow import Stage
from fabric.selectors.messages import Sent, closed_because, messages_of, takes_turns
from fabric.selectors.run_story import RunStory
from fabric.selectors.runs import RunView
from fabric.selectors.story_parts import Said


class Fate(NamedTuple):
    """What became of a message."""

    word: str
    tone: str
    icon: str


ON_ITS_WAY = Fate("on its way to the run", "neutral", "clock")


def fate(said: Said, speaking: tuple[str, ...], closed: str) -> Fate:
    """Of one that the run has taken. ``speaking``: who has a turn; ``closed``: why nobody reads any more, empty where somebody will."""
    if said.refused:
        return Fate(f"not taken: {said.refused}", "warn", "xc")
    if said.reader:
        return Fate(f"read by {said.reader} in turn {said.turn}", "ok", "check")
    if closed:
        return Fate(f"read by nobody: {closed}", "warn", "alert")
    if speaking:
        return Fate(f"waits for the turn in flight ({', '.join(speaking)})", "human", "clock")
    return Fate("is read by whoever speaks next", "human", "clock")


@dataclass(frozen=True, slots=True)
class Line:
    """A message as the list shows it."""

    sent: Sent
    fate: Fate

    @property
    def who(self) -> str:
        """Who said it."""
        return self.sent.actor or "somebody"


@dataclass(frozen=True, slots=True)
class Talk:
    """What the part shows."""

    lines: tuple[Line, ...] = ()
    earlier: int = 0
    """Messages before those."""
    closed: str = ""
    """Why nobody reads a message any more; empty: somebody will."""
    later: bool = False
    """What was said is not folded yet."""


def talk(actor: Actor, run: RunView, story: RunStory | None) -> Talk | None:
    """The messages of a run; None: its workers take no turns, so that it has none."""
    if not takes_turns(run):
        return None
    closed = closed_because(run, story)
    if story is None:
        return Talk(closed=closed, later=True)
    sent, earlier = messages_of(actor, run, story)
    speaking = speaking_in(story)
    lines = (Line(one, ON_ITS_WAY if one.said is None else fate(one.said, speaking, closed)) for one in sent)
    return Talk(tuple(lines), earlier, closed)


def speaking_in(story: RunStory) -> tuple[str, ...]:
    """Who has a turn now."""
    turns = (lane for lane in story.lanes.values() if lane.stage == Stage.FAN_OUT and lane.hears is not None)
    return tuple(dict.fromkeys(lane.agent for lane in turns if lane.state in ("active", "waiting")))
