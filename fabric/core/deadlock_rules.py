"""When agents only pass work around: rules over moves, whatever the topology (S0 "Deadlock Monitor"; semantics.md 4).

A move is one brief that an agent passes to another one; where a rule of a graph leads on, nobody passes anything. The briefs that a supervisor hands out at once are one wave. They are compared with those of
earlier waves. With each other they count only where two are the same word for word: the briefs of a fan-out share most of their words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from fabric.core.frozen import value
from fabric.core.near_identical import Words, near_identical
from fabric.core.taxonomy import Cause

JSON = Any


@value()
class Move:
    """One brief on its way."""

    speaker: str
    target: str
    words: Words
    """Of the brief."""
    chars: int
    """Of the brief: what it says, without its title."""
    wave: int
    """Which moves went out together."""
    peer: bool = False
    """A handoff between peers, after which the speaker is not active any more; else a supervisor's, who stays above."""
    heard: Words | None = None
    """Of whoever supervises: the last message that came back to them before it; None: none did."""
    items: frozenset[str] = frozenset()
    """The parts of the brief's lists (``list_items``)."""
    past: bool = False
    """A supervisor's of an earlier epoch: only what was heard before it still counts."""


@value()
class Stuck:
    """A rule that applies: its cause, what it saw, the agents in the order in which they passed it on."""

    cause: Cause
    what: str
    cycle: tuple[str, ...]
    limit: int
    observed: int


@value()
class Rules:
    """The numbers of the rules (``policy.DeadlockMonitor``)."""

    similarity: float
    brief_chars: int
    window_moves: int
    cycle_max: int


def judge(rules: Rules, before: Sequence[Move], proposed: Sequence[Move], *, repeats: bool = False) -> Stuck | None:
    """The first rule that the ``proposed`` moves of one wave would break. ``repeats``: the same brief may go out several times in one wave."""
    seen = list(before)
    for move in proposed:
        recent = seen[-(rules.window_moves - 1) :]
        found = _repeated(rules, recent, move, repeats) or _stuck(rules, recent, move) or _cycle(rules, recent, move)
        if found is not None:
            return found
        seen.append(move)
    return None


def _repeated(rules: Rules, recent: Sequence[Move], move: Move, repeats: bool) -> Stuck | None:
    """The same speaker passes the same target a brief that it has passed before."""
    if move.chars < rules.brief_chars:
        return None
    for old in recent:
        if (old.speaker, old.target) != (move.speaker, move.target) or old.chars < rules.brief_chars:
            continue
        if old.wave == move.wave:
            same = not repeats and old.words == move.words
        else:
            same = not old.past and _same(rules, old, move)
        if same:
            what = f"{move.speaker} passed {move.target} the same brief twice (limit 2)"
            return Stuck(Cause.BRIEF_REPEATED, what, (move.speaker, move.target), 2, 2)
    return None


def _same(rules: Rules, old: Move, new: Move) -> bool:
    """Returns True where two briefs say the same. A brief that only loses items of a list is progress, and not the same."""
    fewer = new.items < old.items
    return not fewer and near_identical(old.words, new.words, rules.similarity)


_BETWEEN = re.compile(r"[,;:\n\[\]]|\band\b|\bor\b", re.IGNORECASE)


def list_items(text: str) -> frozenset[str]:
    """The parts of a text between commas, semicolons, colons, line ends and "and", in lower case; empty for a text of one part."""
    parts = {part.strip(" \t\r.-*\"'").lower() for part in _BETWEEN.split(text)} - {""}
    return frozenset(parts) if len(parts) > 1 else frozenset()


def _stuck(rules: Rules, recent: Sequence[Move], move: Move) -> Stuck | None:
    """Finds a supervisor that turns to the same worker again after the same message."""
    if move.heard is None:
        return None
    for old in recent:
        if old.heard is None or old.wave == move.wave or (old.speaker, old.target) != (move.speaker, move.target):
            continue
        if near_identical(old.heard, move.heard, rules.similarity):
            what = f"{move.speaker} turned to {move.target} twice after the same message (limit 2)"
            return Stuck(Cause.SUPERVISOR_STUCK, what, (move.speaker, move.target, move.speaker), 2, 2)
    return None


def _cycle(rules: Rules, recent: Sequence[Move], move: Move) -> Stuck | None:
    """Peers hand something round in a circle that has closed before, and nothing in it is new."""
    if not move.peer:
        return None
    walk = [*recent, move]
    for length in range(1, rules.cycle_max + 1):
        closing = walk[-length:]
        earlier = walk[:-length]
        if len(closing) < length or not _closes(closing) or not _closed_before(earlier, closing):
            continue
        if any(_says_something_new(rules, earlier, one) for one in closing):
            continue
        way = (*(one.speaker for one in closing), move.target)
        what = f"the work went round {' -> '.join(way)} twice, and nothing in it was new (limit 2)"
        return Stuck(Cause.HANDOFF_CYCLE, what, way, 2, 2)
    return None


def _closes(moves: Sequence[Move]) -> bool:
    """Whether each hands on to the next and the last to the first, nobody twice."""
    if not all(one.peer for one in moves) or len({one.speaker for one in moves}) < len(moves):
        return False
    return all(moves[n - 1].target == one.speaker for n, one in enumerate(moves))


def _closed_before(earlier: Sequence[Move], closing: Sequence[Move]) -> bool:
    """Whether the same cycle closed before, wherever it began."""
    ways = {(one.speaker, one.target) for one in closing}
    length = len(closing)
    windows = (earlier[n : n + length] for n in range(len(earlier) - length + 1))
    return any(_closes(window) and {(one.speaker, one.target) for one in window} == ways for window in windows)


def _says_something_new(rules: Rules, earlier: Sequence[Move], move: Move) -> bool:
    same_way = (old for old in earlier if (old.speaker, old.target) == (move.speaker, move.target))
    return not any(_same(rules, old, move) for old in same_way)
