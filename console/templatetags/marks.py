"""State as icon, word and colour, all three, from one table each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import template
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString

from fabric.core.flow import RunState
from fabric.core.taxonomy import FailureType, Tier

register = template.Library()

STATES: Mapping[str, tuple[str, str, str]] = {
    RunState.QUEUED: ("Queued", "neutral", "clock"),
    RunState.RUNNING: ("Running", "info", "run"),
    RunState.WAITING: ("Waiting for a person", "human", "human"),
    RunState.PAUSED: ("Paused", "neutral", "pause"),
    RunState.CANCELLING: ("Cancelling", "warn", "x"),
    RunState.UNWINDING: ("Unwinding", "warn", "undo"),
    RunState.QUARANTINED: ("Quarantined", "danger", "lock"),
    RunState.COMPLETED: ("Completed", "ok", "okc"),
    RunState.FAILED: ("Failed", "danger", "xc"),
    RunState.ABORTED: ("Aborted", "danger", "block"),
    RunState.CANCELLED: ("Cancelled", "neutral", "x"),
}
"""Word, tone and icon of each run state; total over ``RunState``."""

TIERS: Mapping[str, str] = {
    Tier.INTERACTIVE: "low-latency interactive",
    Tier.BATCH: "long-running batch",
    Tier.HIGH_STAKES: "high-stakes regulated",
}
"""Words for the tiers; total over ``Tier``."""

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


EVENT_ICONS: Mapping[str, str] = {
    "agent": "agent",
    "alert": "alert",
    "answer": "review",
    "ask": "human",
    "bell": "bell",
    "block": "block",
    "call": "call",
    "cancel": "x",
    "check": "check",
    "clock": "clock",
    "copy": "copy",
    "cut": "x",
    "decide": "decide",
    "fail": "xc",
    "flag": "flag",
    "gate": "gate",
    "handoff": "handover",
    "ignore": "minus",
    "late": "clock",
    "message": "message",
    "model": "model",
    "pause": "pause",
    "play": "play",
    "plug": "plug",
    "replan": "replan",
    "retry": "retry",
    "skip": "never",
    "stage": "stage",
    "stop": "stop",
    "strip": "minus",
    "swap": "swap",
    "tool": "tool",
    "withdraw": "undo",
}
"""Symbol of the sprite for each icon word of ``EVENT_DISPLAY``; total over it."""


@register.simple_tag
def icon(name: str, size: str = "") -> SafeString:
    """An icon of the sprite, hidden from readers: a word stands beside it. ``size``: empty or ``s``."""
    classes = f"icon {size}".strip()
    return format_html(
        '<svg class="{}" aria-hidden="true"><use href="{}#i-{}"/></svg>', classes, static("icons.svg"), name
    )


@register.simple_tag
def badge(word: str, tone: str, name: str, extra: str = "") -> SafeString:
    """Icon, word and colour."""
    classes = f"badge {extra}".strip()
    return format_html('<span class="{}" data-tone="{}">{}{}</span>', classes, tone, icon(name), word)


@register.simple_tag
def state_badge(run: Any) -> SafeString:
    """A run's state. What completed only after something had gone wrong never looks like what simply completed."""
    if run.state == RunState.COMPLETED and run.recovered:
        return badge("Completed after recovery", "ok", "recov", "recovered")
    word, tone, name = STATES.get(run.state, (run.state, "neutral", "unknown"))
    return badge(word, tone, name)


@register.filter
def tier_words(tier: str) -> str:
    """A tier in words."""
    return TIERS.get(tier, tier)


@register.filter
def failure_words(failure: str) -> str:
    """A failure type in words."""
    return FAILURES.get(failure, failure)


@register.filter
def spoken(name: str) -> str:
    """A name of the vocabulary without its underscores."""
    return str(name).replace("_", " ").replace("fan out", "fan-out").replace("fan in", "fan-in")
