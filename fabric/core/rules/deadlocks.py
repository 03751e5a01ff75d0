"""Rules over moves that find agents that only pass work around, in any topology (S0 "Deadlock Monitor";
docs/specification/protections.md).

A move is one brief that an agent passes to another one; a rule of a graph makes no move. The briefs that a supervisor
hands out at once are one wave. They are compared with those of earlier waves. Within one wave only word-for-word
repetition counts: the briefs of a fan-out share most of their words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fabric.core.rules.near_identical import Words, near_identical
from fabric.core.values.frozen import value
from fabric.core.values.taxonomy import Cause


@value()
class Move:
    """A brief that one agent passes to another."""

    speaker: str
    target: str
    words: Words
    """Words of the brief."""
    chars: int
    """Characters of the brief without its title."""
    wave: int
    """Number of the wave: moves that went out together."""
    peer: bool = False
    """True: a handoff between peers, after which the speaker is no longer active. False: a supervisor's, which stays
    above.
    """
    heard: Words | None = None
    """For a supervisor: the last message that came back before the move; None: none did."""
    items: frozenset[str] = frozenset()
    """The parts of the brief's lists (``list_items``)."""
    past: bool = False
    """True: a supervisor's move of an earlier epoch, of which only the message heard before it counts."""


@value()
class Stuck:
    """A rule that applies: its cause, its finding, the agents in the order of the moves."""

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
    """Return the first rule that the ``proposed`` moves of one wave would break. ``repeats``: a brief may go out
    several times in one wave.
    """
    seen = list(before)
    for move in proposed:
        recent = seen[-(rules.window_moves - 1) :]
        found = (
            _find_repetition(rules, recent, move, repeats)
            or _find_stuck_supervisor(rules, recent, move)
            or _cycle(rules, recent, move)
        )
        if found is not None:
            return found
        seen.append(move)
    return None


def _find_repetition(rules: Rules, recent: Sequence[Move], move: Move, repeats: bool) -> Stuck | None:
    """Find a brief that its speaker has passed to its target before."""
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
    """Return True if two briefs are near-identical. A brief that only loses items of a list is progress."""
    fewer = new.items < old.items
    return not fewer and near_identical(old.words, new.words, rules.similarity)


_BETWEEN = re.compile(r"[,;:\n\[\]]|\band\b|\bor\b", re.IGNORECASE)


def list_items(text: str) -> frozenset[str]:
    """Return the parts of a text, in lower case. Commas, semicolons, colons, line ends and "and" part them; a text of
    one part gives none.
    """
    parts = {part.strip(" \t\r.-*\"'").lower() for part in _BETWEEN.split(text)} - {""}
    return frozenset(parts) if len(parts) > 1 else frozenset()


def _find_stuck_supervisor(rules: Rules, recent: Sequence[Move], move: Move) -> Stuck | None:
    """Find a supervisor that turns to a worker again after a near-identical message."""
    if move.heard is None:
        return None
    for old in recent:
        if old.heard is None or old.wave == move.wave or (old.speaker, old.target) != (move.speaker, move.target):
            continue
        if near_identical(old.heard, move.heard, rules.similarity):
            what = f"{move.speaker} sent work to {move.target} again after nearly the same message (limit 2)"
            return Stuck(Cause.SUPERVISOR_STUCK, what, (move.speaker, move.target, move.speaker), 2, 2)
    return None


def _cycle(rules: Rules, recent: Sequence[Move], move: Move) -> Stuck | None:
    """Find peers that hand something round in a circle that has closed before, with nothing new in it."""
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
    """Return True if each move goes to the next speaker and the last to the first, with no speaker twice."""
    if not all(one.peer for one in moves) or len({one.speaker for one in moves}) < len(moves):
        return False
    return all(moves[n - 1].target == one.speaker for n, one in enumerate(moves))


def _closed_before(earlier: Sequence[Move], closing: Sequence[Move]) -> bool:
    """Return True if this cycle closed before, wherever it began."""
    ways = {(one.speaker, one.target) for one in closing}
    length = len(closing)
    windows = (earlier[n : n + length] for n in range(len(earlier) - length + 1))
    return any(_closes(window) and {(one.speaker, one.target) for one in window} == ways for window in windows)


def _says_something_new(rules: Rules, earlier: Sequence[Move], move: Move) -> bool:
    same_way = (old for old in earlier if (old.speaker, old.target) == (move.speaker, move.target))
    return not any(_same(rules, old, move) for old in same_way)
