"""Small pictures of a few numbers, as attributes of SVG."""

from __future__ import annotations

from collections.abc import Sequence

from django import template

register = template.Library()

WIDTH, TOP, BOTTOM = 120, 2, 17


@register.filter
def spark_points(bars: Sequence[int]) -> str:
    """Return the points of a line through the numbers, for a view box of 120 x 18. Zeros alone give a flat line at the
    bottom.
    """
    most = max(bars, default=0) or 1
    step = WIDTH / max(1, len(bars) - 1)
    return " ".join(f"{n * step:.1f},{BOTTOM - (BOTTOM - TOP) * bar / most:.1f}" for n, bar in enumerate(bars))
