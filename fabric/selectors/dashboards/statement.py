"""Builds the one statement of a dashboard, for both databases. Percentiles are exact, by nearest rank.

``newest`` are the runs, ``parted`` their parts by what groups them, ``placed`` these parts with the place of their
group: the dearest group has place 1, and all beyond ``GROUPS_MAX`` have ``OTHER``. A run has one part, or one for each
model or agent that it called and one for what else it paid.
"""

# ruff: noqa: S608 - Words of this module, and numbers; values are parameters.

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fabric.core.values.flow import RunState
from fabric.models.runs.run import BAD_STATES, match_words
from fabric.selectors.dashboards.asked import DashboardAsked, Grouping
from fabric.selectors.dashboards.figures import OUTCOMES, REVIEWS

GROUPS_MAX = 10
"""Largest number of groups with a line of their own, the dearest."""
OTHER, WHOLE = 0, -1
"""Places of the runs beyond the largest groups, and of all runs."""
_BAD = match_words(sorted(set(BAD_STATES) - {RunState.CANCELLED})) % {"expressions": "state"}
_RUNS = f"""
    runs AS MATERIALIZED (SELECT id, root_run_id, fabric_id, revision_id, created_at, fired, spent_on, success,
        cost_usd_micros AS part, unconfirmed_usd_micros AS unconfirmed, {{stretch}} AS stretch,
        CASE WHEN state = '{RunState.COMPLETED.value}' THEN CASE WHEN recovered THEN 'recovered' ELSE 'completed' END
            WHEN {_BAD} THEN 'bad' WHEN state = '{RunState.CANCELLED.value}' THEN 'cancelled' ELSE 'unended' END AS outcome,
        CASE WHEN state <> '{RunState.CANCELLED.value}' THEN took_us END AS took FROM newest)
"""
_CARRIED = "id, fired, stretch, outcome, took, success"
_OF_RUNS = ", ".join(f"runs.{name}" for name in _CARRIED.split(", "))
_PLAIN = f"SELECT {_CARRIED}, {{g}} AS g, {{h}} AS h, part, unconfirmed FROM runs"
_LABELLED = f"""
    SELECT {_OF_RUNS}, COALESCE(l.value, '') AS g, '' AS h, part, unconfirmed
    FROM runs LEFT JOIN fabric_run_label l ON l.run_id = COALESCE(root_run_id, runs.id) AND l.key = %s
"""
# No bill names the part of a model or an agent in what is not confirmed.
_SPENT = f"""
    SELECT {_OF_RUNS}, fabric_id AS g, spent.key AS h, CAST(spent.value AS BIGINT) AS part, CAST(NULL AS BIGINT) AS unconfirmed
    FROM runs {{spent}}
    UNION ALL SELECT * FROM (SELECT {_CARRIED}, fabric_id, '', part - (
        SELECT COALESCE(SUM(CAST(one.value AS BIGINT)), 0) FROM {{ones}} AS one) AS part, CAST(NULL AS BIGINT) AS unconfirmed FROM runs) AS rest
    WHERE part <> 0
"""
_JSON: Mapping[str, tuple[str, str]] = {
    "sqlite": (", json_each(NULLIF(spent_on, ''), '$.{kind}') AS spent", "json_each(NULLIF(spent_on, ''), '$.{kind}')"),
    "postgresql": (
        "CROSS JOIN LATERAL json_each_text(NULLIF(spent_on, '')::json -> '{kind}') AS spent",
        "json_each_text(NULLIF(spent_on, '')::json -> '{kind}')",
    ),
}
"""The parts of a run's cost by kind, as a join and as a table."""
_NAMES: Mapping[str, str] = {
    "sqlite": """, json_each('["' || REPLACE(TRIM(fired, CHAR(10)), CHAR(10), '","') || '"]') AS named""",
    "postgresql": "CROSS JOIN LATERAL UNNEST(STRING_TO_ARRAY(TRIM(BOTH CHR(10) FROM fired), CHR(10))) AS named(value)",
}
"""The names in the column ``fired``."""
_PLACED = f"""
    ranked AS MATERIALIZED (SELECT g, h, ROW_NUMBER() OVER (ORDER BY SUM(part) DESC, COUNT(*) DESC, g, h) AS number
        FROM parted GROUP BY g, h),
    placed AS MATERIALIZED (SELECT {_CARRIED}, part, unconfirmed, CASE WHEN number > {GROUPS_MAX} THEN {OTHER} ELSE number END
        AS place FROM parted JOIN ranked ON ranked.g = parted.g AND ranked.h = parted.h)
"""
_SUMS = f"""
    SELECT '{{part}}', a, b, '', '', COUNT(*),
        {", ".join(f"COUNT(CASE WHEN outcome = '{outcome}' THEN 1 END)" for outcome in OUTCOMES)},
        CAST(SUM(success) AS BIGINT), CAST(SUM(part) AS BIGINT), CAST(SUM(unconfirmed) AS BIGINT), COUNT(took),
        {", ".join(f"MIN(CASE WHEN nth * 100 >= others * {percent} THEN took END)" for percent in (50, 95, 99))}
    FROM (SELECT {{a}} AS a, {{b}} AS b, outcome, success, part, unconfirmed, took,
        ROW_NUMBER() OVER (PARTITION BY {{by}}, took IS NULL ORDER BY took) AS nth,
        COUNT(*) OVER (PARTITION BY {{by}}, took IS NULL) AS others FROM {{of}}) AS {{part}} GROUP BY a, b
"""
_NULLS = ", ".join(["NULL"] * 7)
_CELLS = """
    SELECT 'cells', place, stretch, '', '', COUNT(*), NULL, NULL, NULL, NULL, NULL, NULL, CAST(SUM(part) AS BIGINT),
        NULL, NULL, NULL, NULL, NULL FROM placed GROUP BY place, stretch
"""
_GROUPS_NAMED = f"""
    SELECT 'names', number, 0, g, h, NULL, NULL, NULL, NULL, NULL, NULL, {_NULLS} FROM ranked WHERE number <= {GROUPS_MAX}
"""
_FIRED = f"""
    SELECT 'fired', {{place}}, 0, named.value, '', COUNT(*), NULL, NULL, NULL, NULL, NULL, {_NULLS}
    FROM {{of}} {{names}} WHERE fired <> '' GROUP BY {{place}}, named.value
"""
_REVIEWS = f"""
    SELECT 'reviews', {{place}}, 0, '', '', COUNT(*),
        {", ".join(f"COUNT(CASE WHEN held.punctuality = '{name}' THEN 1 END)" for name in REVIEWS)}, {_NULLS}
    FROM {{of}} JOIN ({{held}}) AS held ON held.run_id = {{of}}.id {{grouped}}
"""
_OLDEST = f"SELECT 'oldest', 0, 0, '', '', COUNT(*), NULL, NULL, NULL, NULL, NULL, NULL, MIN(created_at), {', '.join(['NULL'] * 5)} FROM runs"


def build_statement(asked: DashboardAsked, newest: str, reviews: str, vendor: str) -> str:
    """Return the statement. Its parameters are those of ``newest``, the label's key if there is one, and those of
    ``reviews`` twice. Each row: part, place, stretch, name, more of it, and 13 numbers.
    """
    parts = (
        _SUMS.format(part="whole", a=WHOLE, b=0, by="success < 0", of="runs"),
        _SUMS.format(part="times", a=WHOLE, b="stretch", by="stretch", of="runs"),
        _SUMS.format(part="groups", a="place", b=0, by="place", of="placed"),
        _CELLS,
        _GROUPS_NAMED,
        _FIRED.format(place=WHOLE, of="runs", names=_NAMES[vendor]).replace(f"GROUP BY {WHOLE}, ", "GROUP BY "),
        _FIRED.format(place="place", of="placed", names=_NAMES[vendor]),
        _REVIEWS.format(place=WHOLE, of="runs", held=reviews, grouped=""),
        _REVIEWS.format(place="place", of="placed", held=reviews, grouped="GROUP BY place"),
        _OLDEST,
    )
    runs = _RUNS.format(stretch=_choose_stretch([one.since for one in asked.stretches]))
    parted = _build_parts(asked.by, vendor)
    return f"WITH newest AS MATERIALIZED ({newest}), {runs}, parted AS MATERIALIZED ({parted}), {_PLACED} {' UNION ALL '.join(parts)}"


def _build_parts(by: Grouping, vendor: str) -> str:
    match by:
        case Grouping.FABRIC:
            return _PLAIN.format(g="fabric_id", h="''")
        case Grouping.REVISION:
            return _PLAIN.format(g="fabric_id", h="revision_id")
        case Grouping.LABEL:
            return _LABELLED
        case Grouping.MODEL | Grouping.AGENT:
            joined, table = (text.format(kind=by.value) for text in _JSON[vendor])
            return _SPENT.format(spent=joined, ones=table)


def _choose_stretch(begins: Sequence[int], first: int = 0) -> str:
    """Return the number of the stretch of a run as a tree of comparisons. Six find one of sixty."""
    if len(begins) == 1:
        return str(first)
    middle = len(begins) // 2
    below, above = _choose_stretch(begins[:middle], first), _choose_stretch(begins[middle:], first + middle)
    return f"CASE WHEN created_at < {int(begins[middle])} THEN {below} ELSE {above} END"
