"""Numbers with their units: money is never rounded away, instants are UTC until the page's script localises them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

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
    """A duration in microseconds in its two largest units: ``41 m 12 s``, ``0.4 s``."""
    if micros is None:
        return "–"
    seconds = abs(micros) / US
    if seconds < 10:
        return f"{seconds:.1f} s"
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
    shown = {
        "time": f"{at:%H:%M:%S}.{at.microsecond // 100_000}",
        "minute": f"{at:%H:%M}",
        "full": f"{at:%Y-%m-%d %H:%M:%S}",
    }[style]
    iso = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return format_html('<time datetime="{}" data-style="{}" title="{} UTC">{}</time>', iso, style, iso[:-1], shown)


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
