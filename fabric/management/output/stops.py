"""Writes stops of new runs for `manage.py fabric`: lines for a person, and JSON."""

from __future__ import annotations

import argparse
import re
from dataclasses import asdict

from fabric.core.values.units import JSON
from fabric.core.values.words import count, instant
from fabric.selectors.runs.stops import StopView

_SPAN = re.compile(r"([1-9][0-9]{0,5})(min|m|h|d)")
_UNIT_S = {"m": 60, "min": 60, "h": 3_600, "d": 86_400}


def read_span(text: str) -> int:
    """Return the seconds of ``30m``, ``2h`` or ``1d``. Raises ArgumentTypeError."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is no time: write minutes, hours or days, as 30m, 2h or 1d")
    return int(found[1]) * _UNIT_S[found[2]]


def stop_line(one: StopView) -> str:
    """Return a stop in one line."""
    ended = f"; ended {instant(one.ended_at)}, by {one.ended_by}" if one.ended_at else ""
    said = one.said if one.ended_at is None else one.said.replace("are stopped since", "were stopped", 1)
    moved = [(one.paused, "paused"), (one.cancelled, "cancelled"), (one.resumed, "resumed")]
    runs = "".join(f"; {count(number, 'run')} {word}" for number, word in moved if number)
    left = f"; workers have yet to {one.left} runs" if one.left else ""
    return f"{one.id}  {said}{ended}{runs}{left}"


def stop_json(one: StopView) -> JSON:
    """Return a stop as JSON; instants are microseconds since the epoch."""
    return asdict(one)
