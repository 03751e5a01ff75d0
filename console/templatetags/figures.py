"""Numbers with their units: money is never rounded away, instants are UTC until the page's script localises them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console.markup import built
from fabric.core.budget_caps import cap_words
from fabric.core.words import duration

register = template.Library()

US = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@register.filter
def usd(micros: int | None) -> str:
    """Micro-dollars as dollars: four decimals, six where they are needed. None is unpriced, which is not nothing."""
    if micros is None:
        return "unpriced"
    sign = "-" if micros < 0 else ""
    whole, rest = divmod(abs(micros), US)
    decimals = f"{rest:06d}"
    return f"{sign}${whole:,}.{decimals[:4] if decimals.endswith('00') else decimals}"


@register.filter
def usd_short(micros: int) -> str:
    """A price as people write it: two decimals, or as many as it takes."""
    whole, rest = divmod(micros, US)
    decimals = f"{rest:06d}".rstrip("0")
    return f"${whole:,}.{decimals:0<2}" if decimals else f"${whole:,}"


register.filter("cap_words", cap_words)


@register.filter
def amount_of(amount: int, unit: str) -> str:
    """Money or tokens, by the unit of a cap."""
    return usd(amount) if unit == "usd_micros" else f"{amount:,} tokens"


@register.filter
def thousands(count: int | None) -> str:
    """A count with its thousands set apart."""
    return "–" if count is None else f"{count:,}"


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
    """A duration in microseconds in its two largest units: ``41 m 12 s``, ``1.4 s``, ``84 ms``."""
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
    """The instant that many microseconds after the epoch."""
    return EPOCH + timedelta(microseconds=micros)


@register.simple_tag
def instant(micros: int | None, style: str = "time") -> SafeString:
    """A time element. ``style``: ``time`` (with tenths), ``minute``, or ``full`` (with the date)."""
    if not micros:
        return format_html("{}", "–")
    at = moment(micros)
    day, clock = f"{at:%Y-%m-%d}", f"{at:%H:%M:%S}"
    shown = {"time": f"{clock}.{at.microsecond // 100_000}", "minute": clock[:5], "full": f"{day} {clock}"}[style]
    iso = at.isoformat(timespec="milliseconds")[: -len("+00:00")]
    # Digits of a number and a style that is one of three: nothing here has to be escaped, and a page has very many.
    return built(f'<time datetime="{iso}Z" data-style="{style}" title="{iso} UTC">{shown}</time>')


@register.simple_tag
def left(micros: int) -> SafeString:
    """When something happens, as the end of a sentence: a script counts the seconds, without one it is the time of day."""
    iso = moment(micros).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return format_html('<time datetime="{}" data-style="left">at {} UTC</time>', iso, iso[11:19])


@register.simple_tag
def relative(micros: int | None) -> SafeString:
    """How far off an instant is, kept right by the page's script: ``in 4 m 20 s``, ``2 m ago``."""
    if not micros:
        return format_html("{}", "")
    iso = moment(micros).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return format_html('<time datetime="{}" data-style="relative">{} UTC</time>', iso, iso[11:19])


@register.filter
def share(part: int, whole: int) -> int:
    """Whole percent of ``whole`` that ``part`` is, 100 at most; 0 of nothing is 0."""
    return min(100, part * 100 // whole) if whole > 0 else 0


@register.filter
def nearness(percent: int) -> str:
    """The tone of a meter: neutral, from 70 % on warn, from 90 % on danger."""
    return "danger" if percent >= 90 else "warn" if percent >= 70 else "neutral"


@register.filter
def usd_column(micros: int | None) -> str:
    """Micro-dollars for a column: always four decimals, so that points stand below each other. Whoever shows it has ``usd`` beside it.

    What would round to nothing and is not nothing says so: ``<$0.0001``.
    """
    if micros is None:
        return "unpriced"
    parts = (abs(micros) + 50) // 100
    if micros and not parts:
        return "<$0.0001"
    return f"{'-' if micros < 0 else ''}${parts // 10_000:,}.{parts % 10_000:04d}"
