"""Make the rows of the list of runs from their own columns alone. A page has many, so each is cheap.

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
from console.topologies.drawing import cut
from fabric.core.values.flow import ANSWERED, TERMINAL, RunState, Stage
from fabric.core.values.words import count
from fabric.selectors.contents import UNREAD_LINE
from fabric.selectors.runs.query.filters import TAIL_CHARS
from fabric.selectors.runs.query.list_pages import RunRow

SOME_RUN = "00000000-0000-0000-0000-000000000000"
"""Stands for a run's id in an address that is made once for all rows."""


REASON_CHARS = 120
UNTOLD = frozenset({"", "finished", UNREAD_LINE})
"""Reasons that tell no more than the state of a completed run."""


class RunListMark(NamedTuple):
    """One of the five stages in a row's bar."""

    name: str
    tone: str
    word: str
    x: int


class RecoveryMark(NamedTuple):
    """Something that the engine did to save a run, as far as its row tells. Its page has all protections that
    fired.
    """

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
    return render_to_string("runs/list/stages.html", {"marks": marks(state, stage)})


def marks(state: str, stage: str) -> list[RunListMark]:
    """The stages before the run's own have passed in this epoch; later ones were not reached."""
    order = [each.value for each in Stage]
    here = len(order) if state in ANSWERED else order.index(stage) if stage in order else -1
    at = _HERE.get(state) or _HERE["ended" if state in TERMINAL else "live"]
    made = []
    for number, name in enumerate(order):
        tone, word = ("ok", "passed") if number < here else at if number == here else ("line", "not reached")
        made.append(RunListMark(name, tone, word, 20 * number))
    return made


@dataclass(frozen=True, slots=True)
class RunListLine:
    """A row for the template. The template escapes callers' text; ``SafeString`` fields are this module's markup."""

    id: str
    seq: str
    live: bool
    """True if the run can still change."""
    state: SafeString
    href: str
    title: str
    reason: str
    """Why it ended or waits, cut; ``""`` where there is nothing to say."""
    reason_whole: str
    tail: str
    """The digits that tell runs apart."""
    session: str
    children: str
    """Number of child runs, in words; ``""`` for none."""
    fabric: str
    tier: str
    stages: SafeString
    when: SafeString
    """The instant that the list is ordered by."""
    took: str
    cost: str
    """With as many decimals as every other row's."""
    cost_exact: str
    tokens: str
    recovery: SafeString | str


def lines(rows: Iterable[RunRow], now: int = 0, by: str = "started") -> list[RunListLine]:
    """The rows of a page. ``now``: microseconds since the epoch; 0: look at the clock. ``by``: word of their order."""
    pattern, now = reverse("run", args=[SOME_RUN]), now or time.time_ns() // 1_000
    return [_line(row, pattern.replace(SOME_RUN, row.id), now, by) for row in rows]


def _line(run: RunRow, href: str, now: int, by: str) -> RunListLine:
    live = run.state not in TERMINAL
    reason = "" if run.state == RunState.COMPLETED and run.reason in UNTOLD else run.reason
    took = span(max(0, (run.ended_at or now) - run.created_at))
    return RunListLine(
        id=run.id,
        seq=str(run.last_seq),
        live=live,
        state=state_badge(run),
        href=href,
        title=inert(run.title),
        reason=cut(reason, REASON_CHARS),
        reason_whole=inert(reason),
        tail=run.id[-TAIL_CHARS:],
        session=inert(run.session_key),
        children=count(run.children, "child run") if run.children else "",
        fabric=f"{run.fabric_name}@r{run.revision_number}",
        tier=TIERS.get(run.tier, run.tier),
        stages=stage_bar(run.state, run.stage),
        when=instant(run.ended_at if by == "ended" else run.created_at, "full"),
        took=f"{took} so far" if live else took,
        cost=usd_column(run.cost_usd_micros),
        cost_exact=usd(run.cost_usd_micros),
        tokens=thousands(run.tokens),
        recovery=recovery(run.state, run.epoch, recovered=run.recovered, truncated=run.truncated),
    )


@lru_cache(maxsize=256)
def recovery(state: str, epoch: int, *, recovered: bool, truncated: bool) -> SafeString | str:
    """The marks of a row as icons with words; nothing for a row without marks."""
    found = list_recovery_marks(state, epoch, recovered=recovered, truncated=truncated)
    return render_to_string("runs/list/recovery.html", {"found": found}) if found else ""


def list_recovery_marks(state: str, epoch: int, *, recovered: bool, truncated: bool) -> tuple[RecoveryMark, ...]:
    """The marks that a row's columns tell of."""
    found = []
    if epoch:
        found.append(RecoveryMark("replan", f"replanned {epoch}×" if epoch > 1 else "replanned once"))
    if recovered:
        found.append(RecoveryMark("recov", "recovered"))
    if truncated:
        found.append(RecoveryMark("block", "agent stopped"))
    if state == RunState.UNWINDING:
        found.append(RecoveryMark("undo", "undoing effects"))
    if state == RunState.QUARANTINED:
        found.append(RecoveryMark("lock", "quarantined", "danger"))
    return tuple(found)
