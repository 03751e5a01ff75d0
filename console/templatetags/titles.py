"""Titles of reviews, the matter first: ``Pay (to Ana, usd 90): cannot be undone``.

They are made for display from the recorded content; the recorded reason stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from django import template

from console.templatetags.marks import FAILURES, spell_name
from fabric.core.values.taxonomy import Cause, FailureType
from fabric.core.values.units import JSON
from fabric.selectors.reviews.needed_caps import find_cap_need
from fabric.selectors.reviews.review_view import ReviewView
from fabric.selectors.reviews.subjects import find_review_subject
from fabric.selectors.visible_text import visible

register = template.Library()
SHOWN = 3
"""Number of arguments in a title."""
CHARS_MAX = 32
EFFECTS: Mapping[str, str] = {
    "irreversible": "cannot be undone",
    "mutating": "changes the world",
    "idempotent": "may be repeated",
    "read_only": "only reads",
}
"""Effect of a call at the end of its title; total by test."""
OUT_OF_TIME = frozenset({Cause.RUN_DEADLINE, Cause.STAGE_DEADLINE, Cause.DEADLINE_NEAR})


def _call(item: ReviewView) -> str:
    """Return the title of a call: tool, arguments and effect. A call that a result asked for keeps its reason."""
    about = find_review_subject(item)
    if item.item != "pre_action" or not about.tool or about.asks is not None or item.content.get("instructed"):
        return ""
    args = list(about.payload.items()) if isinstance(about.payload, dict) else []
    told = [f"{name} {_short(value)}" for name, value in args if not isinstance(value, (dict, list))][:SHOWN]
    said = about.tool.replace("_", " ").capitalize()
    said += f" ({', '.join(told)})" if told else ""
    return f"{said}: {EFFECTS[about.effect]}" if about.effect in EFFECTS else said


def _score(item: ReviewView) -> str:
    if item.item != "post_stage" or item.score is None or item.tau is None:
        return ""
    return f"Result of {spell_name(item.stage)} scored {item.score:.2f}, needs {item.tau:.2f}"


def _overrun(item: ReviewView) -> str:
    need = find_cap_need(item)
    return "" if need is None else need.describe()


TITLES: tuple[Callable[[ReviewView], str], ...] = (_call, _score, _overrun)
"""Makers of titles, in order. The first that knows the review counts; without one its reason is its title."""


@register.filter
def review_title(item: ReviewView) -> str:
    """Return the title of a review. A reader without the right to contents gets the reason."""
    made = next((title for make in TITLES if (title := make(item))), "") if item.reads else ""
    said = made or item.reason
    return f"{said[:1].upper()}{said[1:]}"


@register.filter("review_failure")
def failure_name(item: ReviewView) -> str:
    """Return the failure of a review in words. A passed deadline is named as such, not as a cost."""
    if item.failure_type == FailureType.COST_OVERRUN and item.content.get("cause") in OUT_OF_TIME:
        return "ran out of time"
    return FAILURES.get(item.failure_type, item.failure_type)


def _short(value: JSON) -> str:
    text = str(visible(str(value)))
    return text if len(text) <= CHARS_MAX else f"{text[: CHARS_MAX - 1]}…"
