"""Words for values: money, durations, instants, names, as used by every page, sentence and export."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from fabric.core.values.taxonomy import FailureType, Tier
from fabric.core.values.units import JSON

REASON_CHARS = 240
TIERS: Mapping[str, str] = {
    Tier.INTERACTIVE: "low-latency interactive",
    Tier.BATCH: "long-running batch",
    Tier.HIGH_STAKES: "high-stakes regulated",
}
"""Words for the tiers, wherever people read; total over ``Tier``. YAML, code and the API have the keys."""
FAILURES: Mapping[str, str] = {
    FailureType.TOOL_LOOP: "infinite tool loop",
    FailureType.DEADLOCK: "sub-agent deadlock",
    FailureType.COST_OVERRUN: "cost overrun",
    FailureType.PROVIDER: "provider failure",
    FailureType.SCHEMA_GROUNDING: "schema or grounding fail",
    FailureType.PLAN_MALFORMED: "malformed plan",
    FailureType.NO_PROGRESS: "no progress",
    FailureType.UNSAFE_OUTPUT: "unsafe output",
}
"""Words for the rows of the decision table; total over ``FailureType``."""


def dollars(micros: int) -> str:
    """Return micro-dollars as dollars, with as many digits as needed: ``$0.0003``, ``$1.20``, ``$0``."""
    if not micros:
        return "$0"
    return f"${micros / 1e6:.2f}" if micros >= 100_000 else f"${micros / 1e6:.6f}".rstrip("0")


def duration(seconds: float) -> str:
    """Return seconds in the unit that fits: ``84 ms``, ``1.4 s``, ``12 s``, ``3 min``, ``2.5 h``, ``2 h``."""
    if seconds < 0.9995:
        return f"{seconds * 1e3:.1f} ms" if 0.00005 <= seconds < 0.00995 else f"{seconds * 1e3:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7_200:
        return f"{seconds / 60:.0f} min"
    return f"{f'{seconds / 3_600:.1f}'.removesuffix('.0')} h"


def instant(micros: int) -> str:
    """Return an instant in microseconds with its date, UTC, to the minute."""
    return f"{datetime.fromtimestamp(micros / 1e6, UTC):%Y-%m-%d %H:%M} UTC"


def instant_exact(micros: int) -> str:
    """Return an instant in microseconds with its date, UTC, to the second."""
    return f"{datetime.fromtimestamp(micros / 1e6, UTC):%Y-%m-%d %H:%M:%S} UTC"


def clock(micros: int) -> str:
    """Return an instant in microseconds as the time of day, UTC."""
    return f"{datetime.fromtimestamp(micros / 1e6, UTC):%H:%M:%S}"


def words(name: str) -> str:
    """Return ``fan_out`` as ``fan-out``, everything else with blanks."""
    return name.replace("fan_", "fan-").replace("_", " ")


def cut(text: str) -> str:
    """Return one line of at most ``REASON_CHARS`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= REASON_CHARS else f"{line[: REASON_CHARS - 3].rstrip()}..."


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a count in words: ``3 calls``, ``1 call``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def join_words(*parts: str) -> str:
    """Return the non-empty parts, with commas."""
    return ", ".join(part for part in parts if part)


def step_words(step_id: str) -> str:
    """Return ``fan_out.1.e0.r0`` as ``fan-out 2``."""
    stage, _, rest = step_id.partition(".")
    branch = rest.partition(".")[0]
    return f"{words(stage)} {int(branch) + 1}" if stage == "fan_out" and branch.isdecimal() else words(stage)


def charged_words(fact: Mapping[str, JSON]) -> str:
    """Return the words for an attempt's charge; "" for nothing."""
    return f"charged {dollars(fact['charged_usd_micros'])}" if fact["charged_usd_micros"] else ""
