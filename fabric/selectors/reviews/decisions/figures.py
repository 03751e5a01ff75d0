"""Counts the history of decisions: their number, duration, punctuality, and the share against the proposal.

One statement over the newest ``FIGURES_MAX`` decisions of a filter. Times are of people's decisions; percentiles are by
nearest rank. A sentence judges tau by people's decisions about results with a low score, and states its basis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.db import connection
from django.db.models import F, Func, TextField

from fabric.core.people.actor import Actor
from fabric.core.texts.text import clean_text
from fabric.core.values.frozen import value
from fabric.models import Review
from fabric.models.reviews import OPEN, WITHDRAWN
from fabric.selectors.database_time import time_limit
from fabric.selectors.reach import match_visible
from fabric.selectors.reviews.decisions.history import DAY_US, LIMIT_S, HistoryFilter, find_decided

FIGURES_MAX = 10_000
"""Largest number of newest decisions for figures."""
GROUPS_MAX = 200
"""Largest number of lines of one kind of figures, those with the most decisions."""
OVERDUE_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionFigures:
    """Figures of decisions with a common property. Times are microseconds."""

    name: str = ""
    """First common property of the decisions."""
    more: str = ""
    """Second common property, where there are two."""
    count: int = 0
    """Decisions of people and of the system."""
    expired: int = 0
    """Decided by the system for want of an answer in time."""
    in_time: int = 0
    """Decisions of people before they were due."""
    approved: int = 0
    edited: int = 0
    rejected: int = 0
    responded: int = 0
    declined: int = 0
    """Declined by people."""
    today: int = 0
    """Decisions of people since midnight UTC."""
    median_us: int | None = None
    p90_us: int | None = None
    """90th percentile of the time from opening to a person's decision, in microseconds; None: no person decided any."""
    tau_least: float | None = None
    tau_most: float | None = None
    """Range of tau, from ``tau_least`` on, where low confidence caused the reviews."""

    @property
    def people(self) -> int:
        """Return the number of people's decisions."""
        return self.count - self.expired

    @property
    def objections(self) -> int:
        """Return the number of proposals that people changed or turned down."""
        return self.edited + self.rejected + self.declined


NONE = DecisionFigures()


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionHistory:
    """Figures of a filter, the most decisions first."""

    whole: DecisionFigures
    places: tuple[DecisionFigures, ...]
    """By fabric and kind."""
    reasons: tuple[DecisionFigures, ...]
    """By failure type and detector."""
    bands: tuple[DecisionFigures, ...]
    """By distance of a score below tau, in tenths: 0 is up to 0.1 below; -1: not below."""
    people: tuple[DecisionFigures, ...]
    """By author."""
    cut: bool
    """True: there are more decisions than the newest ``FIGURES_MAX``."""


class _DetectorNames(Func):
    """Detectors of a failure, out of the shown content."""

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


# Whole thousandths: a critic's 0.6 is a tenth below 0.7, whatever binary fractions make of it.
_BAND = "CASE WHEN score >= tau THEN -1 ELSE (CAST(ROUND((tau - score) * 1000) AS INTEGER) - 1) / 100 END"
_BY: Mapping[str, tuple[str, str, str]] = {
    "whole": ("''", "''", ""),
    "places": ("fabric", "item", ""),
    "reasons": ("failure_type", "COALESCE(noticed, '')", ""),
    "bands": (f"CAST({_BAND} AS TEXT)", "''", "WHERE score IS NOT NULL AND tau IS NOT NULL"),
    "people": ("decided_by", "''", "WHERE NOT by_system"),
}
"""Groups of figures: their common properties, one or two, and their condition."""
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


def decision_figures(actor: Actor, wanted: HistoryFilter, *, now: int) -> DecisionHistory:
    """Return the figures of a filter: one statement. ``now``: microseconds since the epoch. Raises TookTooLong."""
    rows = (
        find_decided(actor, wanted)
        .exclude(verb=WITHDRAWN)
        .annotate(fabric=F("run__fabric__name"), noticed=_DetectorNames(F("content")))
    )
    named = ("fabric", "noticed", "item", "failure_type", "verb", "decided_by", "by_system", "opened_at", "due_at")
    newest = rows.order_by("-decided_at", "id").values(*named, "decided_at", "score", "tau")[:FIGURES_MAX]
    inner, params = newest.query.sql_with_params()
    parts = " UNION ALL ".join(_PART.format(part=part, a=a, b=b, of=of) for part, (a, b, of) in _BY.items())
    today = now // DAY_US * DAY_US
    found: dict[str, list[DecisionFigures]] = {part: [] for part in _BY}
    with time_limit(LIMIT_S), connection.cursor() as cursor:
        cursor.execute(f"WITH newest AS MATERIALIZED ({inner}) {parts}", [*params, *[today] * len(_BY)])
        for part, *said in cursor.fetchall():
            found[part].append(DecisionFigures(**dict(zip(_FIELDS, said, strict=True))))
    whole = next(iter(found["whole"]), NONE)
    rest = {part: tuple(lines) for part, lines in found.items() if part != "whole"}
    rest["bands"] = tuple(sorted(rest["bands"], key=lambda one: int(one.name)))
    return DecisionHistory(whole=whole, **rest, cut=whole.count >= FIGURES_MAX)


def overdue_count(actor: Actor, wanted: HistoryFilter, *, now: int) -> int:
    """Return the number of overdue open reviews of this fabric, tier and kind, up to ``OVERDUE_MAX``."""
    rows = Review.objects.filter(match_visible(actor, Review), OPEN, due_at__lt=now)
    exact = {"run__fabric__name": wanted.fabric, "run__tier": wanted.tier, "item": wanted.item}
    rows = rows.filter(**{name: clean_text(given)[0] for name, given in exact.items() if given})
    return rows.order_by().values("id")[:OVERDUE_MAX].count()


ENOUGH = 20
"""Least number of people's decisions just below tau for a judgement."""
NEAREST = "0"
"""Band of scores up to 0.1 below tau: they would pass if tau were that much lower."""
MOSTLY, RARELY = 0.9, 0.5
"""Shares of results that people approved unchanged. From the first on most reviews were needless; under the second most
were right.
"""


class TauPosition(StrEnum):
    """Position of tau according to the decisions."""

    UNASKED = "unasked"
    """No review was caused by its score."""
    UNKNOWN = "unknown"
    """Too few reviews were decided."""
    HIGH = "high"
    """It causes reviews of results that people approve."""
    LOW = "low"
    """People mostly change or turn down results just below it, so poor results just beyond it pass unseen."""
    RIGHT = "right"
    """Neither too low nor too high."""


@value(kw_only=True)
class TauJudgement:
    """Judgement of tau."""

    sits: TauPosition
    sentence: str


def tau_judged(bands: Sequence[DecisionFigures]) -> TauJudgement:
    """Judge tau by the decisions about scores below it. Too few are never taken for a good sign."""
    people = sum(one.people for one in bands)
    if not people:
        return TauJudgement(
            sits=TauPosition.UNASKED, sentence="no person decided about a score below the needed one in this time"
        )
    near = next((one for one in bands if one.name == NEAREST), None)
    count, passed = (near.people, near.approved) if near is not None else (0, 0)
    if count < ENOUGH or near is None:
        said = f"too few decisions: people decided {count} of the {ENOUGH} needed results that scored up to 0.1 below the needed score"
        return TauJudgement(sits=TauPosition.UNKNOWN, sentence=said)
    stated = (
        f"of {count:,} results that scored up to 0.1 below the needed score ({_taus(near)}), people approved {passed:,} unchanged, "
        f"edited, declined or rejected {near.objections:,} and sent back {near.responded:,}"
    )
    share = passed / count
    if share >= MOSTLY:
        return TauJudgement(
            sits=TauPosition.HIGH,
            sentence=f"{stated}: the needed score may be too high, because people approve results below it",
        )
    if share < RARELY:
        end = "the needed score may be too low, because results just above it pass unseen"
        return TauJudgement(sits=TauPosition.LOW, sentence=f"{stated}: {end}")
    return TauJudgement(sits=TauPosition.RIGHT, sentence=f"{stated}: nothing here suggests another needed score")


def _taus(near: DecisionFigures) -> str:
    least, most = near.tau_least or 0.0, near.tau_most or 0.0
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"
