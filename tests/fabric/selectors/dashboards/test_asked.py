"""A request for a dashboard: ranges, stretches of time in the reader's zone, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from fabric.core.values.units import US
from fabric.selectors.dashboards.asked import DAYS, USUAL_WIDTH, Grouping, Width, read_asked
from fabric.selectors.errors import Refused
from fabric.selectors.runs.query.grammar import Query, parse
from fabric.selectors.runs.query.values import Bounds

BERLIN, DELHI = ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Kolkata")
NOW = int(datetime(2026, 11, 25, 23, 30, tzinfo=UTC).timestamp()) * US
HOUR = 3_600 * US


def at(year: int, month: int, day: int, hour: int = 0, minute: int = 0, *, zone=UTC) -> int:
    return int(datetime(year, month, day, hour, minute, tzinfo=zone).timestamp()) * US


def bounds(term: str, zone, now: int = NOW) -> Bounds:
    query = parse(term, now=now, zone=zone)
    assert isinstance(query, Query), query
    (found,) = query.terms
    assert isinstance(found.value, Bounds)
    return found.value


def test_the_usual_is_seven_days_by_fabric():
    asked = read_asked("", "", "", now=NOW)
    assert (asked.span, asked.width, asked.by, asked.key, len(asked.stretches)) == (
        "7d",
        Width.DAY,
        Grouping.FABRIC,
        "",
        7,
    )
    assert asked.since == at(2026, 11, 19)
    assert set(USUAL_WIDTH) == set(DAYS)


@pytest.mark.parametrize("zone", [UTC, BERLIN, DELHI, ZoneInfo("America/New_York")])
@pytest.mark.parametrize(
    ("span", "width"),
    [("1d", "hour"), ("7d", "hour"), ("30d", "day"), ("90d", "week"), ("365d", "week"), ("1d", "day")],
)
def test_stretches_touch_and_their_terms_mean_the_same(zone, span, width):
    asked = read_asked(span, width, "", now=NOW, zone=zone)
    assert all(one.until == other.since for one, other in zip(asked.stretches, asked.stretches[1:], strict=False))
    assert asked.stretches[-1].since <= NOW < asked.stretches[-1].until
    for one in asked.stretches:
        assert bounds(one.term, zone) == Bounds(one.since, one.until)
    assert bounds(asked.term, zone) == Bounds(asked.since)


def test_a_day_is_the_reader_s():
    assert read_asked("7d", "day", "", now=NOW, zone=BERLIN).stretches[-1].since == at(2026, 11, 26, zone=BERLIN)
    assert read_asked("7d", "day", "", now=NOW, zone=UTC).stretches[-1].since == at(2026, 11, 25)
    assert read_asked("1d", "hour", "", now=NOW, zone=DELHI).stretches[-1].since == at(2026, 11, 25, 22, 30) + HOUR


def test_a_day_that_changes_the_clocks_is_longer_or_shorter():
    autumn = read_asked("7d", "day", "", now=at(2026, 10, 26, 12), zone=BERLIN)
    assert [(one.until - one.since) // HOUR for one in autumn.stretches] == [24, 24, 24, 24, 24, 25, 24]
    spring = read_asked("7d", "day", "", now=at(2026, 3, 30, 12), zone=BERLIN)
    assert [(one.until - one.since) // HOUR for one in spring.stretches] == [24, 24, 24, 24, 24, 23, 24]
    twice = read_asked("1d", "hour", "", now=at(2026, 10, 25, 1, 30), zone=BERLIN)
    assert twice.stretches[-1].since == at(2026, 10, 25, 1)
    assert {one.until - one.since for one in twice.stretches} == {HOUR}


def test_weeks_begin_on_monday_and_the_range_may_begin_within_one():
    weeks = read_asked("30d", "week", "", now=NOW).stretches
    assert [one.term for one in weeks] == [
        "started:2026-10-27..2026-11-01",
        "started:2026-11-02..2026-11-08",
        "started:2026-11-09..2026-11-15",
        "started:2026-11-16..2026-11-22",
        "started:2026-11-23..2026-11-25",
    ]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("2y", "", ""), "'2y' is no range of a dashboard; write 1d, 7d, 30d, 90d, 365d"),
        (("", "minute", ""), "'minute' is no width of a stretch of time; write hour, day, week"),
        (("30d", "hour", ""), "30d by hour has 720 stretches, at most 200 are shown; take a wider one"),
        (("365d", "day", ""), "365d by day has 365 stretches"),
        (("", "", "colour"), "'colour' groups no runs; write fabric, revision, model, agent, or a label such as label.team"),
        (("", "", "label"), "'label' groups no runs"),
        (("", "", "label."), "a label has no key"),
        (("", "", "label.A b"), "is not taken; use lower-case letters"),
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused(given, says):
    with pytest.raises(Refused) as refused:
        read_asked(*given, now=NOW)
    assert says in str(refused.value)


def test_a_label_has_its_key():
    asked = read_asked("", "", "label.team", now=NOW)
    assert (asked.by, asked.key, asked.grouping) == (Grouping.LABEL, "team", "label.team")
