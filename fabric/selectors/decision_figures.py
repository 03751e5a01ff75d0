"""The history of decisions in figures: how many, how long they took, how many in time, and how often people decided against what was proposed.

One statement over the newest ``FIGURES_MAX`` decisions that a filter asks for. Times are of people's decisions; percentiles are by nearest rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import F, Func, TextField

from fabric.core.actor import Actor
from fabric.core.text import clean_text
from fabric.models import Escalation
from fabric.models.escalations import OPEN
from fabric.selectors.decision_history import DAY_US, LIMIT_S, WITHDRAWN, HistoryFilter, matching
from fabric.selectors.reach import seen_by
from fabric.selectors.time_limit import time_limit

FIGURES_MAX = 10_000
"""Decisions that figures are made of, the newest."""
GROUPS_MAX = 200
"""Lines of one kind of figures, those with the most decisions."""
OVERDUE_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Decisions that have something in common. Times are microseconds."""

    name: str = ""
    """What they have in common..."""
    more: str = ""
    """...and the second of it, where it is two."""
    count: int = 0
    """By people and by the system."""
    expired: int = 0
    """By the system: nobody answered in time."""
    in_time: int = 0
    """By people, before they were due."""
    approved: int = 0
    edited: int = 0
    rejected: int = 0
    responded: int = 0
    declined: int = 0
    """What people decided."""
    today: int = 0
    """By people, since midnight UTC."""
    median_us: int | None = None
    p90_us: int | None = None
    """From the question to a person's decision; None: no person decided any."""
    tau_least: float | None = None
    tau_most: float | None = None
    """The confidence that passes, where that is why they were asked."""

    @property
    def people(self) -> int:
        """Decided by people."""
        return self.count - self.expired

    @property
    def against(self) -> int:
        """What people changed or turned down of what was proposed."""
        return self.edited + self.rejected + self.declined


NONE = Figures()


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The figures of what a filter asks for, the most decisions first."""

    whole: Figures
    places: tuple[Figures, ...]
    """By fabric and kind."""
    reasons: tuple[Figures, ...]
    """By failure type and what noticed it."""
    bands: tuple[Figures, ...]
    """By how far a score was below tau, in tenths: 0 is up to 0.1 below; -1: not below."""
    people: tuple[Figures, ...]
    """By who decided."""
    cut: bool
    """True: there are more decisions than these are of, the newest ``FIGURES_MAX``."""


class _Noticed(Func):
    """What noticed a failure, out of what the person was shown."""

    output_field = TextField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = (
            "CASE WHEN length(%(expressions)s) > 1 THEN json_extract(CAST(%(expressions)s AS TEXT), '$.mechanism') END"
        )
        return self.as_sql(compiler, connection, template=template, **context)

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = (
            "CASE WHEN length(%(expressions)s) > 1 THEN convert_from(%(expressions)s, 'UTF8')::json ->> 'mechanism' END"
        )
        return self.as_sql(compiler, connection, template=template, **context)


# Whole thousandths: what a critic writes as 0.6 is a tenth below 0.7, whatever binary fractions make of it.
_BAND = "CASE WHEN score >= tau THEN -1 ELSE (CAST(ROUND((tau - score) * 1000) AS INTEGER) - 1) / 100 END"
_BY: Mapping[str, tuple[str, str, str]] = {
    "whole": ("''", "''", ""),
    "places": ("fabric", "item", ""),
    "reasons": ("failure_type", "COALESCE(noticed, '')", ""),
    "bands": (f"CAST({_BAND} AS TEXT)", "''", "WHERE score IS NOT NULL AND tau IS NOT NULL"),
    "people": ("decided_by", "''", "WHERE NOT by_system"),
}
"""The figures: what decisions have in common, one or two of it, and which are looked at."""
_VERB = "COUNT(CASE WHEN NOT by_system AND verb = '{}' THEN 1 END)"
_PART = f"""
    SELECT * FROM (SELECT '{{part}}' AS part, a, b, COUNT(*) AS n, COUNT(CASE WHEN by_system THEN 1 END),
        COUNT(CASE WHEN NOT by_system AND decided_at <= due_at THEN 1 END),
        {", ".join(_VERB.format(verb) for verb in ("approve", "edit", "reject", "respond", "decline"))},
        COUNT(CASE WHEN NOT by_system AND decided_at >= %s THEN 1 END),
        MIN(CASE WHEN NOT by_system AND place * 2 >= others THEN took END),
        MIN(CASE WHEN NOT by_system AND place * 10 >= others * 9 THEN took END), MIN(tau), MAX(tau)
    FROM (SELECT {{a}} AS a, {{b}} AS b, by_system, verb, decided_at, due_at, tau, decided_at - opened_at AS took,
        ROW_NUMBER() OVER (PARTITION BY {{a}}, {{b}}, by_system ORDER BY decided_at - opened_at) AS place,
        COUNT(*) OVER (PARTITION BY {{a}}, {{b}}, by_system) AS others FROM newest {{of}}) AS timed
    GROUP BY a, b ORDER BY n DESC, a, b LIMIT {GROUPS_MAX}) AS {{part}}
"""  # noqa: S608 - Words of this module.
_FIELDS = (
    *(
        "name",
        "more",
        "count",
        "expired",
        "in_time",
        "approved",
        "edited",
        "rejected",
        "responded",
        "declined",
        "today",
    ),
    *("median_us", "p90_us", "tau_least", "tau_most"),
)


def decision_figures(actor: Actor, wanted: HistoryFilter, *, now: int) -> History:
    """The figures of what a filter asks for: one statement. ``now``: microseconds since the epoch. Raises TookTooLong."""
    rows = (
        matching(actor, wanted)
        .exclude(verb=WITHDRAWN)
        .annotate(fabric=F("run__fabric__name"), noticed=_Noticed(F("content")))
    )
    named = ("fabric", "noticed", "item", "failure_type", "verb", "decided_by", "by_system", "opened_at", "due_at")
    newest = rows.order_by("-decided_at", "id").values(*named, "decided_at", "score", "tau")[:FIGURES_MAX]
    inner, params = newest.query.sql_with_params()
    parts = " UNION ALL ".join(_PART.format(part=part, a=a, b=b, of=of) for part, (a, b, of) in _BY.items())
    today = now // DAY_US * DAY_US
    found: dict[str, list[Figures]] = {part: [] for part in _BY}
    with time_limit(LIMIT_S), connection.cursor() as cursor:
        cursor.execute(f"WITH newest AS MATERIALIZED ({inner}) {parts}", [*params, *[today] * len(_BY)])
        for part, *said in cursor.fetchall():
            found[part].append(Figures(**dict(zip(_FIELDS, said, strict=True))))
    whole = next(iter(found["whole"]), NONE)
    rest = {part: tuple(lines) for part, lines in found.items() if part != "whole"}
    rest["bands"] = tuple(sorted(rest["bands"], key=lambda one: int(one.name)))
    return History(whole=whole, **rest, cut=whole.count >= FIGURES_MAX)


def overdue_count(actor: Actor, wanted: HistoryFilter, *, now: int) -> int:
    """How many open questions of the same fabric, tier and kind are past their time; counted to ``OVERDUE_MAX``."""
    rows = Escalation.objects.filter(seen_by(actor, Escalation), OPEN, due_at__lt=now)
    exact = {"run__fabric__name": wanted.fabric, "run__tier": wanted.tier, "item": wanted.item}
    rows = rows.filter(**{name: clean_text(given)[0] for name, given in exact.items() if given})
    return rows.order_by().values("id")[:OVERDUE_MAX].count()
