"""Make the rows of the list of runs from their own columns alone. A page has many, so each is cheap.

Whatever a row shows is a word here already: the template puts words in their places and works nothing out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString

from console.templatetags.figures import instant, span, thousands, usd, usd_column
from console.templatetags.marks import FAILURES, TIERS, state_badge
from console.templatetags.said import inert
from console.topologies.drawing import cut
from console.words.protections import MARKS
from fabric.core.values.flow import ANSWERED, TERMINAL, RunState, Stage
from fabric.core.values.words import count
from fabric.runtime.ports.batch_parts import list_names
from fabric.selectors.contents import UNREAD_LINE
from fabric.selectors.runs.query.filters import TAIL_CHARS
from fabric.selectors.runs.query.grammar import LABEL
from fabric.selectors.runs.query.list_pages import RunRow

SOME_RUN = "00000000-0000-0000-0000-000000000000"
"""Stands for a run's id in an address that is made once for all rows."""


REASON_CHARS = 120
LABELS_SHOWN = 3
LABEL_CHARS = 24
UNTOLD = frozenset({"", "finished", UNREAD_LINE})
"""Reasons that tell no more than the state of a completed run."""


class RunListMark(NamedTuple):
    """One of the five stages in a row's bar."""

    name: str
    tone: str
    word: str
    x: int


class Mark(NamedTuple):
    """A protection that fired in a run, with a term of the query line that finds such runs."""

    icon: str
    word: str
    field: str
    value: str
    href: str = ""


class LabelChip(NamedTuple):
    """A label in a row, with the address of the list filtered by it; empty: there is none."""

    key: str
    value: str
    whole: str
    href: str


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
    labels: tuple[LabelChip, ...]
    """The first of its labels."""
    more_labels: str
    """The other labels as text; empty: there are none."""
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
    protections: SafeString | str
    of_fabric: str
    """Address of the list with its fabric alone; empty: there is none."""


Narrow = Callable[[str, str], str]
"""Returns the address of the list with one more term, by field and value."""


def lines(rows: Iterable[RunRow], now: int = 0, by: str = "started", narrow: Narrow | None = None) -> list[RunListLine]:
    """The rows of a page. ``now``: microseconds since the epoch; 0: look at the clock. ``by``: word of their order.
    ``narrow``: for cells that filter; None: they do not.
    """
    pattern, now = reverse("run", args=[SOME_RUN]), now or time.time_ns() // 1_000
    narrow = cache(narrow) if narrow else None
    made: dict[tuple[Mark, ...], SafeString] = {}
    return [_line(row, pattern.replace(SOME_RUN, row.id), now, by, narrow, made) for row in rows]


def _list_labels(run: RunRow, narrow: Narrow | None) -> tuple[LabelChip, ...]:
    shown = list(run.labels.items())[:LABELS_SHOWN]
    return tuple(
        LabelChip(
            cut(key, LABEL_CHARS),
            inert(cut(value, LABEL_CHARS)),
            inert(f"{key}={value}"),
            narrow(LABEL, f"{key}={value}") if narrow else "",
        )
        for key, value in shown
    )


def _line(
    run: RunRow, href: str, now: int, by: str, narrow: Narrow | None, made: dict[tuple[Mark, ...], SafeString]
) -> RunListLine:
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
        labels=_list_labels(run, narrow),
        more_labels=inert(", ".join(f"{key}={value}" for key, value in list(run.labels.items())[LABELS_SHOWN:])),
        children=count(run.children, "child run") if run.children else "",
        fabric=f"{run.fabric_name}@r{run.revision_number}",
        tier=TIERS.get(run.tier, run.tier),
        stages=stage_bar(run.state, run.stage),
        when=instant(run.ended_at if by == "ended" else run.created_at, "full"),
        took=f"{took} so far" if live else took,
        cost=usd_column(run.cost_usd_micros),
        cost_exact=usd(run.cost_usd_micros),
        tokens=thousands(run.tokens),
        protections=_render_marks(list_marks(run, narrow), made),
        of_fabric=narrow("fabric", run.fabric_name) if narrow else "",
    )


def _render_marks(found: tuple[Mark, ...], made: dict[tuple[Mark, ...], SafeString]) -> SafeString | str:
    """The marks of a row as icons with words; nothing for a row without marks."""
    if found and found not in made:
        made[found] = render_to_string("runs/list/protections.html", {"found": found})
    return made[found] if found else ""


def list_marks(run: RunRow, narrow: Narrow | None = None) -> tuple[Mark, ...]:
    """The protections that fired, the failure that the run met last, replans, and an agent that was stopped."""
    found = [Mark(*MARKS[name], "fired", name) for name in list_names(run.fired) if name in MARKS]
    if run.epoch:
        word = f"replanned {run.epoch}×" if run.epoch > 1 else "replanned once"
        found.append(Mark("replan", word, "replans", ">0"))
    if run.truncated:
        found.append(Mark("block", "agent stopped", "truncated", "yes"))
    if run.failure:
        found.append(Mark("", FAILURES.get(run.failure, run.failure), "failure", run.failure))
    return tuple(one._replace(href=narrow(one.field, one.value)) for one in found) if narrow else tuple(found)
