"""Shows numbers with units. Money is never rounded to nothing; instants are UTC until the page's script localises
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console.site.markup import mark_safe_markup
from fabric.core.spec.policies.budgets import cap_words
from fabric.core.values.units import US
from fabric.core.values.words import duration

register = template.Library()

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COUNT_MAX = 100
"""Largest count that is shown; a larger one is shown as more."""


@register.filter
def usd(micros: int | None) -> str:
    """Return micro-dollars as dollars: four decimals, six if needed. None is unpriced, which differs from zero."""
    if micros is None:
        return "unpriced"
    sign = "-" if micros < 0 else ""
    whole, rest = divmod(abs(micros), US)
    decimals = f"{rest:06d}"
    return f"{sign}${whole:,}.{decimals[:4] if decimals.endswith('00') else decimals}"


def decimals_of(amounts: Iterable[int | None]) -> int:
    """Return the decimals that show all these micro-dollars exactly: four, or six if one of them needs it."""
    return 6 if any(amount and amount % 100 for amount in amounts) else 4


@register.filter
def usd_with(micros: int | None, decimals: int) -> str:
    """Return micro-dollars as dollars with so many decimals, so that the points of a column or line align."""
    if micros is None:
        return "unpriced"
    shown = usd(micros)
    return shown + "0" * max(0, decimals - len(shown.partition(".")[2]))


@register.filter
def usd_short(micros: int) -> str:
    """Return a price as people write it: two decimals, or as many as it takes."""
    whole, rest = divmod(micros, US)
    decimals = f"{rest:06d}".rstrip("0")
    return f"${whole:,}.{decimals:0<2}" if decimals else f"${whole:,}"


register.filter("cap_words", cap_words)


@register.filter
def show_amount(amount: int, unit: str) -> str:
    """Money or tokens, by the unit of a cap."""
    return usd(amount) if unit == "usd_micros" else f"{amount:,} tokens"


@register.filter
def thousands(count: int | None) -> str:
    """Return a count with its thousands set apart."""
    return "–" if count is None else f"{count:,}"


def capped_count(count: int) -> str:
    """Return a count as text: empty for zero, ``100+`` above the limit."""
    return f"{COUNT_MAX}+" if count > COUNT_MAX else str(count or "")


@register.filter
def size(count: int | None) -> str:
    """Bytes, KB or MB."""
    if count is None:
        return "–"
    if count < 1024:
        return f"{count} bytes"
    return f"{count / 1024:.1f} KB" if count < 1024 * 1024 else f"{count / 1024 / 1024:.1f} MB"


@register.filter
def span(micros: int | None) -> str:
    """Return a duration in microseconds in its two largest units: ``41 m 12 s``, ``1.4 s``, ``84 ms``."""
    if micros is None:
        return "–"
    seconds = abs(micros) / US
    if seconds < 9.95:
        return duration(seconds)
    days, rest = divmod(round(seconds), 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, rest = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "m"), (rest, "s")]
    first = next(n for n, (number, _) in enumerate(parts) if number)
    return " ".join(f"{number} {unit}" for number, unit in parts[first : first + 2] if number)


def moment(micros: int) -> datetime:
    """Return the instant that many microseconds after the epoch."""
    return EPOCH + timedelta(microseconds=micros)


@register.simple_tag
def instant(when: int | datetime | None, style: str = "time") -> SafeString:
    """Return a time element of an instant, UTC. A number is microseconds since the epoch. ``style``: ``time`` (with
    tenths), ``minute``, or ``full`` (with the date).
    """
    if not when:
        return format_html("{}", "–")
    at = when if isinstance(when, datetime) else moment(when)
    day, clock = f"{at:%Y-%m-%d}", f"{at:%H:%M:%S}"
    shown = {"time": f"{clock}.{at.microsecond // 100_000}", "minute": clock[:5], "full": f"{day} {clock}"}[style]
    iso = at.isoformat(timespec="milliseconds")[: -len("+00:00")]
    # Digits of a number and a style that is one of three: nothing here has to be escaped, and a page has very many.
    return mark_safe_markup(f'<time datetime="{iso}Z" data-style="{style}" title="{iso} UTC">{shown}</time>')


@register.simple_tag
def show_time_left(micros: int) -> SafeString:
    """Return an instant as the end of a sentence. A script counts the seconds; without one it is the time of day."""
    iso = moment(micros).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return format_html('<time datetime="{}" data-style="left">at {} UTC</time>', iso, iso[11:19])


@register.simple_tag
def relative(micros: int | None) -> SafeString:
    """Return the distance of an instant, updated by the page's script: ``in 4 m 20 s``, ``2 m ago``."""
    if not micros:
        return format_html("{}", "")
    iso = moment(micros).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return format_html('<time datetime="{}" data-style="relative">{} UTC</time>', iso, iso[11:19])


@register.filter
def share(part: int, whole: int) -> int:
    """Return ``part`` as whole percent of ``whole``, at most 100; 0 if ``whole`` is 0."""
    return min(100, part * 100 // whole) if whole > 0 else 0


@register.filter
def percent_of(part: int, whole: int) -> int:
    """Return ``part`` as whole percent of ``whole``, which may be more than 100; 0 if ``whole`` is 0."""
    return part * 100 // whole if whole > 0 else 0


@register.filter
def nearness(percent: int) -> str:
    """Return the tone of a meter: neutral, from 70 % on warn, from 90 % on danger."""
    return "danger" if percent >= 90 else "warn" if percent >= 70 else "neutral"


@register.filter
def usd_column(micros: int | None) -> str:
    """Return micro-dollars for a column: always four decimals, so that the points align.

    An amount that would round to zero becomes ``<$0.0001``. The page shows ``usd`` beside it.
    """
    if micros is None:
        return "unpriced"
    parts = (abs(micros) + 50) // 100
    if micros and not parts:
        return "<$0.0001"
    return f"{'-' if micros < 0 else ''}${parts // 10_000:,}.{parts % 10_000:04d}"
