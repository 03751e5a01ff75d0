"""Judges one run by the things that its caller sees."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from simulator.scoreboard.scenarios import FOUND, KEY, Scenario

JSON = Any
WITHIN_S = 60.0
"""Of a run on the board: it is stopped, parked or recovered within so many seconds."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One run as its caller reads it. ``first``: what is read first, the question's reason of a run that waits, else the run's."""

    scenario: str
    tier: str
    state: str
    first: str
    seconds: float
    requests: int
    executions: int
    kept: int
    """Tool results in the journal."""
    usd_micros: int
    outcome: JSON
    told: str
    """Everything that its events and its outcome show, as JSON text."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The marks of one run."""

    in_time: bool
    honest: bool
    named: bool
    kept: bool
    few: bool
    """No more requests than a caller may expect."""

    @property
    def whole(self) -> bool:
        """True: no mark is missing. More requests than expected are shown and do not count."""
        return self.in_time and self.honest and self.named and self.kept


def verdict(scenario: Scenario, seen: Seen) -> Verdict:
    """Judges one run."""
    rests = seen.state != "running"
    answered = seen.state == "completed" and FOUND in json.dumps(seen.outcome)
    stopped = rests and seen.state != "completed" and KEY not in seen.told
    parked = seen.state == "waiting" and scenario.kind == "board"  # A control may not even be parked.
    honest = answered or parked if scenario.ends == "answers" else stopped
    named = scenario.ends == "answers" or all(word in seen.first for word in scenario.words)
    return Verdict(
        in_time=rests and seen.seconds <= WITHIN_S,
        honest=honest,
        named=named,
        kept=seen.kept >= seen.executions,
        few=seen.requests <= scenario.requests,
    )


def table(judged: Sequence[tuple[Scenario, Seen, Verdict]]) -> list[str]:
    """The lines that a person reads: one a run, then the marks of each tier."""
    lines = [f"{'scenario':<18} {'tier':<12} {'state':<10} {'s':>5} {'req':>4} {'exec':>4} {'$':>8}  marks    first"]
    for scenario, seen, mark in judged:
        marks = "".join(
            letter if ok else "-"
            for letter, ok in zip("THNKR", (mark.in_time, mark.honest, mark.named, mark.kept, mark.few), strict=True)
        )
        lines.append(
            f"{scenario.name:<18} {seen.tier:<12} {seen.state:<10} {seen.seconds:5.1f} {seen.requests:4} {seen.executions:4} "
            f"{seen.usd_micros / 1e6:8.4f}  {marks}    {seen.first[:110]}"
        )
    lines += ["T in time, H honest, N cause named, K work kept, R no more requests than expected", ""]
    return lines + [_sums(judged, tier) for tier in dict.fromkeys(seen.tier for _, seen, _ in judged)]


def _sums(judged: Sequence[tuple[Scenario, Seen, Verdict]], tier: str) -> str:
    mine = [(scenario, mark) for scenario, seen, mark in judged if seen.tier == tier]
    board = [mark for scenario, mark in mine if scenario.kind == "board"]
    parts = [
        f"{word} {sum(getattr(mark, name) for mark in board)} of {len(board)}"
        for name, word in (("in_time", "in time"), ("honest", "honest"), ("named", "named"), ("kept", "kept"))
    ]
    for kind, word in (("control", "controls"), ("beyond", "beyond")):
        marks = [mark for scenario, mark in mine if scenario.kind == kind]
        parts.append(f"{word} {sum(mark.whole for mark in marks)} of {len(marks)}")
    return f"{tier}: {', '.join(parts)}"


def as_json(judged: Sequence[tuple[Scenario, Seen, Verdict]]) -> list[JSON]:
    """The same for programs."""
    return [
        {**{key: value for key, value in asdict(seen).items() if key != "told"}, "kind": scenario.kind, **asdict(mark)}
        for scenario, seen, mark in judged
    ]
