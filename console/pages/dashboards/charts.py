"""Draws a dashboard's figures over time: stacked bars that link to their runs, each with an equal table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

HEIGHT = 60.0
HEADROOM = 4.0
"""Above the highest bar."""
LOWEST = 0.8
"""Smallest height of a part, so that it is seen beside a high one."""
GAP = 0.16
"""Between two bars, as a part of the width that one has."""


@dataclass(frozen=True, slots=True)
class BarPart:
    """A part of one bar."""

    height: int
    """Its height above the part below it, in the chart's unit."""
    words: str
    """Its value in words."""
    href: str = ""
    """Address of its runs; empty: there is none."""


@dataclass(frozen=True, slots=True)
class Series:
    """A part of all bars."""

    name: str
    tone: str
    """Name of its colour."""
    parts: tuple[BarPart, ...]


@dataclass(frozen=True)
class BarChart:
    """Stacked bars over stretches of time."""

    id: str
    title: str
    sub: str
    names: tuple[str, ...]
    """Name of each stretch."""
    series: tuple[Series, ...]
    """The lowest part first."""
    show: Callable[[int], str]

    @cached_property
    def most(self) -> int:
        """Return the height of the highest bar."""
        sums = (sum(parts) for parts in zip(*([part.height for part in one.parts] for one in self.series), strict=True))
        return max(sums, default=0)

    @property
    def most_words(self) -> str:
        """Return the height of the highest bar in words."""
        return self.show(self.most)

    @property
    def label(self) -> str:
        """Return the picture in a sentence for readers who do not see it."""
        names = ", ".join(one.name for one in self.series)
        return f"{self.title}: {self.sub}; {self.most_words} in the highest bar; parts: {names}"

    @property
    def first(self) -> str:
        """Return the name of the oldest stretch."""
        return self.names[0]

    @property
    def last(self) -> str:
        """Return the name of the newest stretch."""
        return self.names[-1]

    @property
    def rows(self) -> Iterator[tuple[str, list[BarPart]]]:
        """Yield the stretches that have a value, as rows of the table."""
        for number, name in enumerate(self.names):
            parts = [one.parts[number] for one in self.series]
            if any(part.height for part in parts):
                yield name, parts

    @property
    def bars_svg(self) -> SafeString:
        """Return the bars as SVG, in percent of the width and of ``HEIGHT``."""
        return format_html_join("", "{}", ((bar,) for bar in self._bars()))

    def _bars(self) -> Iterator[SafeString]:
        step = 100 / len(self.names)
        width = f"{step * (1 - GAP):.3f}"
        for number, name in enumerate(self.names):
            x, y = f"{step * (number + GAP / 2):.3f}", HEIGHT
            for one in self.series:
                part = one.parts[number]
                if not part.height:
                    continue
                height = max(LOWEST, (HEIGHT - HEADROOM) * part.height / self.most)
                y -= height
                drawn = format_html(
                    '<rect class="f-{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>',
                    one.tone, x, f"{y:.2f}", width, f"{height:.2f}", f"{name}, {one.name}: {part.words}",
                )  # fmt: skip
                # The table behind the picture has the same links for the keyboard.
                yield format_html('<a href="{}" tabindex="-1">{}</a>', part.href, drawn) if part.href else drawn
