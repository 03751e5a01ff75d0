"""Large numbers as people say them, for beside a control: a deadline of 86400 s is *1 d*, a bound of 50000000 bytes is *50,000,000*."""

from __future__ import annotations

from typing import Any

from console.templatetags.figures import span

SECONDS = 120
"""From how many on they are said in minutes, hours and days."""
LONG = 10_000
"""From here on a number is said with its thousands set apart."""
BEYOND = 10**12
"""From here on it is a slip, and not worth words."""


def spelled(value: Any, unit: str) -> str:
    """A number of that unit in words; empty where it is plain enough as it stands, and for what is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    if not SECONDS <= value < BEYOND:
        return ""
    if unit == "s":
        return span(round(value * 1_000_000))
    return f"{value:,}" if isinstance(value, int) and unit != "USD" and value >= LONG else ""
