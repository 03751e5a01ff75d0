"""Puts the protections that fired in a run in words, each with an icon."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core.state.trouble import UNDO

MARKS: Mapping[str, tuple[str, str]] = {
    "policy": ("lock", "policy"),
    "budget": ("coins", "budget"),
    "velocity": ("coins", "cost velocity"),
    "deadline": ("clock", "deadline"),
    "hops": ("exchange", "hop limit"),
    "caps": ("stop", "run caps"),
    "retry_budget": ("retry", "retry budget"),
    "breaker": ("breaker", "circuit breaker"),
    "loop": ("loop", "loop detector"),
    "deadlock": ("handover", "deadlock"),
    "progress": ("minus", "no progress"),
    "saga": ("alert", "saga"),
    "gate": ("gate", "gate"),
    "goal": ("flag", "goal gate"),
    "repeat": ("loop", "same failure again"),
    "stall": ("wait", "stall watchdog"),
    "score": ("human", "escalation"),
    "retry": ("retry", "retry"),
    "wait": ("clock", "waited for provider"),
    "fallback": ("model", "fallback model"),
    "cheaper": ("down", "cheaper model"),
    "static": ("agent", "fallback answer"),
    UNDO: ("undo", "effects undone"),
}
"""Icon and words of each short name in ``trouble.FIRED``, which has the order of a row's marks. Total over it."""
