"""Shows states as icon, word and colour, from one table for each kind of state."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from django import template
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString

from fabric.core.breaker.table import BreakerState
from fabric.core.values import words
from fabric.core.values.flow import RunState
from fabric.selectors.reviews.subjects import EFFECTS as EFFECT_WORDS

register = template.Library()
TIERS, FAILURES = words.TIERS, words.FAILURES

STATES: Mapping[str, tuple[str, str, str]] = {
    RunState.QUEUED: ("Queued", "neutral", "clock"),
    RunState.RUNNING: ("Running", "info", "run"),
    RunState.WAITING: ("Waiting for a person", "human", "human"),
    RunState.PAUSED: ("Paused", "neutral", "pause"),
    RunState.CANCELLING: ("Cancelling", "warn", "x"),
    RunState.UNWINDING: ("Unwinding", "warn", "undo"),
    RunState.QUARANTINED: ("Quarantined", "danger", "lock"),
    RunState.COMPLETED: ("Completed", "ok", "okc"),
    RunState.STOPPED: ("Stopped early", "warn", "stop"),
    RunState.FAILED: ("Failed", "danger", "xc"),
    RunState.ABORTED: ("Aborted", "danger", "block"),
    RunState.CANCELLED: ("Cancelled", "neutral", "x"),
}
"""Word, tone and icon of each run state; total over ``RunState``."""

BREAKERS: Mapping[str, tuple[str, str, str]] = {
    BreakerState.CLOSED: ("Closed", "ok", "okc"),
    BreakerState.OPEN: ("Open", "danger", "breaker"),
    BreakerState.HALF_OPEN: ("Half open", "warn", "wait"),
    BreakerState.STOPPED: ("Stopped", "danger", "stop"),
}
"""Word, tone and icon of each state of a circuit breaker; total over ``BreakerState``."""
READY = ("Ready to probe", "warn", "wait")
"""Look of an open breaker after its cooldown."""

EFFECTS: Mapping[str, tuple[str, str, str]] = {
    "read_only": (EFFECT_WORDS["read_only"], "ok", "check"),
    "idempotent": (EFFECT_WORDS["idempotent"], "info", "replan"),
    "mutating": (EFFECT_WORDS["mutating"], "warn", "edit"),
    "irreversible": (EFFECT_WORDS["irreversible"], "danger", "alert"),
}
"""Word, tone and icon of a tool's effect on the world; total over ``ToolSpec.effect``, by test."""

RECOVERED = ("Completed after recovery", "ok", "recov")
"""Badge of a run that completed only after a failure."""

PROVIDER_AWAY = ("Waiting for the provider", "warn", "clock")
"""Badge of a run that waits for an absent endpoint."""

EVENT_ICONS: Mapping[str, str] = {
    "agent": "agent",
    "alert": "alert",
    "answer": "review",
    "ask": "human",
    "bell": "bell",
    "block": "block",
    "branch": "runs",
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
    "exchange": "exchange",
    "lock": "lock",
    "tool": "tool",
    "undo": "undo",
    "withdraw": "undo",
}
"""Symbol of the sprite for each icon word of ``EVENT_DISPLAY``; total over it."""


@register.simple_tag
@lru_cache(maxsize=1024)
def icon(name: str, size: str = "") -> SafeString:
    """Return an icon of the sprite, hidden from screen readers: a word stands beside it. ``size``: empty or ``s``."""
    classes = f"icon {size}".strip()
    return format_html(
        '<svg class="{}" aria-hidden="true"><use href="{}#i-{}"/></svg>', classes, static("icons.svg"), name
    )


@register.simple_tag
@lru_cache(maxsize=1024)
def badge(word: str, tone: str, name: str, extra: str = "") -> SafeString:
    """Return a badge of icon, word and colour."""
    classes = f"badge {extra}".strip()
    return format_html('<span class="{}" data-tone="{}">{}{}</span>', classes, tone, icon(name), word)


@register.simple_tag
def state_badge(run: Any) -> SafeString:
    """Return a run's state as a badge. A run that recovered from a failure never looks like one without failures."""
    if run.state == RunState.COMPLETED and run.recovered:
        return badge(*RECOVERED, "recovered")
    return badge(*_stands(run))


def _stands(run: Any) -> tuple[str, str, str]:
    """Return word, tone and icon of a run's state."""
    if run.waits_for == "provider":
        return PROVIDER_AWAY
    return STATES.get(run.state, (run.state, "neutral", "unknown"))


@register.simple_tag
def effect_badge(effect: str) -> SafeString:
    """Return the badge of a tool's effect on the world."""
    return badge(*EFFECTS.get(effect, (effect, "neutral", "unknown")))


@register.simple_tag
def breaker_badge(state: BreakerState, extra: str = "", *, ready: bool = False) -> SafeString:
    """Return the badge of a circuit breaker's state. ``ready``: the cooldown of an open one is over."""
    return badge(*(READY if ready else BREAKERS[state]), extra)


@register.simple_tag
def state_icon(run: Any) -> SafeString:
    """Return a run's state as an icon, with its word for screen readers and as a tooltip."""
    recovered = run.state == RunState.COMPLETED and run.recovered
    word, tone, name = _stands(run)
    if recovered:
        word, tone, name = RECOVERED[0], "warn", RECOVERED[2]
    return format_html(
        '<span class="mark-state" data-tone="{}" title="{}">{}<span class="vh">{}: </span></span>',
        *(tone, word, icon(name), word),
    )


LIVE_LOOKS: Mapping[str, tuple[str, str]] = {
    "live": ("ok", "Live"),
    "paused": ("neutral", "Paused"),
    "stale": ("warn", "Stale"),
    "ended": ("neutral", "Ended"),
    "off": ("neutral", "Not live."),
}
"""Tone and word of each look of the live badge; ``static/shell/badge.js`` repeats them."""


@register.simple_tag
def live_specimen(look: str, age: str) -> SafeString:
    """Return a live badge without a function, for the style guide."""
    tone, word = LIVE_LOOKS[look]
    markup = '<span class="live" data-live="{}" data-tone="{}">{} <span class="muted">{}</span></span>'
    return format_html(markup, look, tone, word, age)


@register.simple_tag
def live_badge(look: str, at_ms: int, word: str = "", note: str = "", href: str = "") -> SafeString:
    """Return the live badge of a page: how it follows, and as of when (milliseconds since the epoch).

    The page's script keeps its age. It is a link that loads the page again, for readers without script. ``word`` and
    ``note`` replace the look's own.
    """
    tone, own = LIVE_LOOKS[look]
    note = note or ("Reload" if look == "off" else "")
    return format_html(
        '<a id="live" class="live" href="{}" data-live="{}" data-tone="{}" data-at="{}">{} <span class="muted" data-age>{}</span></a>',
        *(href, look, tone, at_ms, word or own, note),
    )


@register.filter
def tier_words(tier: str) -> str:
    """Return a tier in words."""
    return TIERS.get(tier, tier)


@register.filter
def failure_words(failure: str) -> str:
    """Return a failure type in words."""
    return FAILURES.get(failure, failure)


ITEMS: Mapping[str, str] = {
    "pre_action": "call to allow",
    "post_stage": "result to release",
    "failure": "failed step",
    "compensation": "undoing",
    "child": "a child run",
    "quarantine": "quarantine",
    "follow_up": "a follow-up",
}
"""Words for the kinds of reviews; total over them."""


@register.filter
def item_words(item: str) -> str:
    """Return a kind of review in words."""
    return ITEMS.get(item, item)


@register.filter
def spell_name(name: str) -> str:
    """Return a name of the vocabulary without its underscores."""
    name = SPOKEN.get(str(name), str(name))
    return name.replace("_", " ").replace("fan out", "fan-out").replace("fan in", "fan-in")


SPOKEN = {"sop": "procedure (SOP)", "handoff": "peer handoff", "below_tau": "scored too low"}
"""Words for names that are unclear by themselves."""
