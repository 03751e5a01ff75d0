"""Runs as rows of the list: worked out from their own columns alone, and once, for there are many rows and each must be cheap.

Whatever a row shows is a word here already: the template puts words in their places and works nothing out.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString

from console.templatetags.figures import instant, span, thousands, usd, usd_column
from console.templatetags.marks import TIERS, state_badge
from console.templatetags.said import inert
from fabric.core.flow import ANSWERED, TERMINAL, RunState, Stage
from fabric.core.words import count
from fabric.selectors.run_filter import TAIL_CHARS
from fabric.selectors.runs_list import RunRow

SOME_RUN = "00000000-0000-0000-0000-000000000000"
"""Stands for a run's id in an address that is made once for all rows."""


class Mark(NamedTuple):
    """One of the five stages in a row's bar."""

    name: str
    tone: str
    word: str
    x: int


class Protection(NamedTuple):
    """Something that the engine did for a run, as far as its row tells."""

    icon: str
    word: str
    tone: str = "warn"


_HERE = {
    "live": ("info", "in progress"),
    RunState.WAITING: ("human", "waits for a person"),
    RunState.QUARANTINED: ("danger", "quarantined"),
    "ended": ("danger", "ended here"),
    RunState.CANCELLED: ("neutral", "ended here"),
}


@lru_cache(maxsize=256)
def stage_bar(state: str, stage: str) -> SafeString:
    """The five stages as a picture with its words; a row's state and stage are all it depends on."""
    return render_to_string("runs/list_stages.html", {"marks": marks(state, stage)})


def marks(state: str, stage: str) -> list[Mark]:
    """What lies before a run's stage has passed in this epoch; what lies after it has not been reached."""
    order = [each.value for each in Stage]
    here = len(order) if state in ANSWERED else order.index(stage) if stage in order else -1
    at = _HERE.get(state) or _HERE["ended" if state in TERMINAL else "live"]
    made = []
    for number, name in enumerate(order):
        tone, word = ("ok", "passed") if number < here else at if number == here else ("line", "not reached")
        made.append(Mark(name, tone, word, 20 * number))
    return made


@dataclass(frozen=True, slots=True)
class Line:
    """A row as the template shows it. What a caller wrote is escaped there; markup was made here."""

    id: str
    seq: str
    live: bool
    """Whether it may still change."""
    state: SafeString
    href: str
    title: str
    tail: str
    """The digits that tell runs apart."""
    session: str
    children: str
    """How many runs it spawned, in words; empty for none."""
    fabric: str
    tier: str
    stages: SafeString
    started: SafeString
    took: str
    cost: str
    """With as many decimals as every other row's."""
    cost_exact: str
    tokens: str
    protections: SafeString


def lines(rows: Iterable[RunRow], now: int = 0) -> list[Line]:
    """The rows of a page. ``now``: microseconds since the epoch; 0: look at the clock."""
    pattern, now = reverse("run", args=[SOME_RUN]), now or time.time_ns() // 1_000
    return [_line(row, pattern.replace(SOME_RUN, row.id), now) for row in rows]


def _line(run: RunRow, href: str, now: int) -> Line:
    live = run.state not in TERMINAL
    took = span(max(0, (run.ended_at or now) - run.created_at))
    return Line(
        id=run.id,
        seq=str(run.last_seq),
        live=live,
        state=state_badge(run),
        href=href,
        title=inert(run.title),
        tail=run.id[-TAIL_CHARS:],
        session=inert(run.session_key),
        children=count(run.children, "child run") if run.children else "",
        fabric=f"{run.fabric_name}@r{run.revision_number}",
        tier=TIERS.get(run.tier, run.tier),
        stages=stage_bar(run.state, run.stage),
        started=instant(run.created_at, "full"),
        took=f"{took} so far" if live else took,
        cost=usd_column(run.cost_usd_micros),
        cost_exact=usd(run.cost_usd_micros),
        tokens=thousands(run.tokens),
        protections=protections(run.state, run.epoch, recovered=run.recovered, truncated=run.truncated),
    )


@lru_cache(maxsize=256)
def protections(state: str, epoch: int, *, recovered: bool, truncated: bool) -> SafeString:
    """What fired, as icons with their words."""
    found = fired(state, epoch, recovered=recovered, truncated=truncated)
    return render_to_string("runs/list_protections.html", {"fired": found})


def fired(state: str, epoch: int, *, recovered: bool, truncated: bool) -> tuple[Protection, ...]:
    """What the row knows of protections: the rest is on the run's page."""
    found = []
    if epoch:
        found.append(Protection("replan", f"replanned {epoch}×" if epoch > 1 else "replanned once"))
    if recovered:
        found.append(Protection("recov", "recovered"))
    if truncated:
        found.append(Protection("block", "agent stopped"))
    if state == RunState.UNWINDING:
        found.append(Protection("undo", "undoing effects"))
    if state == RunState.QUARANTINED:
        found.append(Protection("lock", "quarantined", "danger"))
    return tuple(found)
