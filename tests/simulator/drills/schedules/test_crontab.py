"""When a schedule asks: five fields, read by Celery, in UTC, at most once an hour."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from celery.schedules import crontab

from fabric.core.values.units import US
from fabric.selectors.errors import Refused
from simulator.drills.schedules.crontab import FIELDS, when


def at(text):
    return round(datetime.fromisoformat(f"{text}+00:00").timestamp()) * US


@pytest.mark.parametrize(
    ("cron", "after", "found"),
    [
        ("0 3 * * *", "2026-11-24T02:59:59", "2026-11-24T03:00:00"),
        ("0 3 * * *", "2026-11-24T03:00:00", "2026-11-25T03:00:00"),
        ("15 * * * *", "2026-11-24T23:15:00", "2026-11-25T00:15:00"),
        ("0 3 * * mon-fri", "2026-11-27T03:00:00", "2026-11-30T03:00:00"),
        ("0 3 * * 0", "2026-11-24T00:00:00", "2026-11-29T03:00:00"),
        ("30 6 1,15 * *", "2026-11-15T07:00:00", "2026-12-01T06:30:00"),
        ("0 0 29 2 *", "2096-03-01T00:00:00", "2104-02-29T00:00:00"),
        ("0 2 * * *", "2026-03-29T01:59:00", "2026-03-29T02:00:00"),
    ],
)
def test_the_next_instant(cron, after, found):
    assert when(cron).find_next(at(after)) == at(found)


def test_instants_are_celerys():
    """Each of a fortnight's, as Celery's own schedule reckons them."""
    for cron in ("20 */5 * * *", "0 9-17/2 * * 1-5", "45 23 * 11 tue"):
        theirs = crontab.from_string(cron)
        now = at("2026-11-20T00:00:00")
        for _ in range(14):
            found = when(cron).find_next(now)
            day = datetime.fromtimestamp(found // US, UTC)
            assert {day.minute} == theirs.minute
            assert day.hour in theirs.hour
            assert day.month in theirs.month_of_year
            assert day.isoweekday() % 7 in theirs.day_of_week
            now = found


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("0 3 * * *", "every day at 03:00 UTC"),
        ("5 * * * *", "every hour at minute 5"),
        ("0 3 * * 1-5", "at 03:00 UTC on Mon to Fri"),
        ("0 3,15 * * sat,sun", "at 03:00 and 15:00 UTC on Sun and Sat"),
        ("30 */2 * * *", "every day 12 times a day, at 00:30 first and 22:30 UTC last"),
        ("0 6 1,15 1 *", "at 06:00 UTC on day 1 and 15 of the month in Jan"),
    ],
)
def test_it_is_said_in_words(cron, words):
    assert when(cron).words == words


@pytest.mark.parametrize(
    ("cron", "said"),
    [
        ("", "write five fields (minute, hour, day of month, month, day of week)"),
        ("0 3 * *", "write five fields"),
        ("@daily", "write five fields"),
        ("0 3 * * * *", "write five fields"),
        ("61 3 * * *", "the field minute, '61', cannot be read: it takes 0 to 59"),
        ("0 25 * * *", "the field hour, '25', cannot be read: it takes 0 to 23"),
        ("0 3 32 * *", "the field day of month, '32', cannot be read: it takes 1 to 31"),
        ("0 3 * 13 *", "the field month, '13', cannot be read: it takes 1 to 12, or a name"),
        ("0 3 * * caturday", "the field day of week, 'caturday', cannot be read: it takes 0 to 6, or a name"),
        ("*/0 3 * * *", "the field minute, '*/0', cannot be read"),
        ("*/30 3 * * *", "names 2 minutes: name one, drills are asked for at most once an hour"),
        ("* * * * *", "names 60 minutes"),
        ("0 0 31 2 *", "name no day that there is"),
        ("0 3 * * " + "1," * 100 + "1", "write five fields"),
    ],
)
def test_what_is_no_time_is_refused_with_its_field(cron, said):
    with pytest.raises(Refused) as caught:
        when(cron)
    assert said in caught.value.message
    assert (caught.value.code, caught.value.field) == ("invalid", "cron")


def test_each_field_is_celerys():
    theirs = crontab("0", "0", "*", "*", "*")
    assert [(count, least) for _, count, least in FIELDS[2:]] == [
        (len(values), min(values)) for values in (theirs.day_of_month, theirs.month_of_year, theirs.day_of_week)
    ]
