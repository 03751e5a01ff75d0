"""Calls that a person let go on: a loop or a standstill was found in them, the person was asked, and approved. They count as polls from then on, in that
step's place for the rest of its epoch: the same tool with the same arguments, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabric.core.frozen import replace, value

ASKS = "escalate"
FINDS = frozenset({"loop_detector", "progress"})
Call = tuple[str, str]
"""Tool and fingerprint of its arguments."""
OBSERVED = frozenset({"reaction_decided", "step_opened"})


@value()
class LetPass:
    """Of one step's place: what a person is asked about, and what was let pass."""

    asked: tuple[Call, ...] = ()
    calls: tuple[Call, ...] = ()


NOTHING = LetPass()


def heard(before: LetPass, fact: Any) -> LetPass:
    """What is let pass after one of the facts ``OBSERVED``."""
    if fact.kind == "reaction_decided":
        asked = _calls(fact.cause.evidence.details) if fact.reaction == ASKS and fact.cause.mechanism in FINDS else ()
        return before if asked == before.asked else replace(before, asked=asked)
    if not before.asked:
        return before
    return LetPass(calls=tuple(dict.fromkeys((*before.calls, *before.asked))) if fact.approved else before.calls)


def _calls(details: Mapping[str, Any]) -> tuple[Call, ...]:
    """The calls that a trip is about, as its evidence names them."""
    named = details.get("calls") or ([details] if "args_hash" in details else [])
    return tuple((one["tool"], one["args_hash"]) for one in named)
