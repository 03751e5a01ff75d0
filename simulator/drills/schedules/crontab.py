"""Reads the five fields of crontab(5) in UTC, as Celery does, at most once an hour."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from celery.schedules import ParseException, crontab, crontab_parser

from fabric.core.texts.text import clean_text
from fabric.core.values.units import US
from fabric.services.errors import Refused

CRON_CHARS_MAX = 100
DAYS_MAX = 366 * 8 + 1
"""Largest number of days between two instants: a 29 February comes within eight years."""
FIELDS: tuple[tuple[str, int, int], ...] = (
    ("minute", 60, 0),
    ("hour", 24, 0),
    ("day of month", 31, 1),
    ("month", 12, 1),
    ("day of week", 7, 0),
)
"""Fields in order: name, number of values, and least value."""
LISTED = 4
"""Number of hours listed in words; more are counted."""
DAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, slots=True)
class When:
    """Instants that all five fields name, to the minute, UTC."""

    minute: int
    hours: tuple[int, ...]
    days: tuple[int, ...]
    """Days of the month."""
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    """Days of the week, from 0 for Sunday."""

    def find_next(self, instant: int) -> int:
        """Return the first instant after another one; both microseconds since the epoch."""
        begun = datetime.fromtimestamp(instant // US, UTC)
        for days in range(DAYS_MAX):
            day = begun.date() + timedelta(days=days)
            if day.month in self.months and day.day in self.days and day.isoweekday() % 7 in self.weekdays:
                for hour in self.hours:
                    at = datetime(day.year, day.month, day.day, hour, self.minute, tzinfo=UTC)
                    if (found := round(at.timestamp()) * US) > instant:
                        return found
        raise ValueError("no day is ever named")

    @property
    def words(self) -> str:
        """Return the times in words: ``at 03:00 UTC on Mon to Fri``."""
        told = [self._hours()]
        if len(self.weekdays) < len(DAYS):
            told.append(f"on {_run(self.weekdays, DAYS)}")
        if len(self.days) < 31:
            told.append(
                f"on day {_run(tuple(day - 1 for day in self.days), tuple(str(n) for n in range(1, 32)))} of the month"
            )
        if len(self.months) < len(MONTHS):
            told.append(f"in {_run(tuple(month - 1 for month in self.months), MONTHS)}")
        if len(told) == 1 and len(self.hours) < 24:
            told.insert(0, "every day")
        return " ".join(told)

    def _hours(self) -> str:
        if len(self.hours) == 24:
            return f"every hour at minute {self.minute}"
        if len(self.hours) > LISTED:
            return f"{len(self.hours)} times a day, at {self.hours[0]:02}:{self.minute:02} first and {self.hours[-1]:02}:{self.minute:02} UTC last"
        return f"at {_and([f'{hour:02}:{self.minute:02}' for hour in self.hours])} UTC"


@lru_cache(maxsize=512)
def when(cron: str) -> When:
    """Parse the five fields. Raises Refused invalid with one sentence that names the field."""
    text = clean_text(cron)[0].strip()
    fields = text.split()
    if len(fields) != len(FIELDS) or len(text) > CRON_CHARS_MAX:
        names = ", ".join(name for name, *_ in FIELDS)
        raise _wrong(f"{cron[:40]!r} is no time: write five fields ({names}), for instance 0 3 * * 1-5")
    minutes, hours, days, months, weekdays = (
        _field(given, *field) for given, field in zip(fields, FIELDS, strict=True)
    )
    if len(minutes) != 1:
        raise _wrong(
            f"the field minute, {fields[0][:40]!r}, names {len(minutes)} minutes: name one, drills are asked for at most once an hour"
        )
    try:
        crontab.from_string(" ".join(fields))
    except ValueError:
        message = (
            f"the fields day of month and month, {fields[2][:20]!r} and {fields[3][:20]!r}, name no day that there is"
        )
        raise _wrong(message) from None
    found = When(minutes[0], hours, days, months, weekdays)
    try:
        found.find_next(0)
    except ValueError:
        raise _wrong(
            f"{text!r} names no day that there is: change the day of month, the month or the day of week"
        ) from None
    return found


def _field(given: str, name: str, count: int, least: int) -> tuple[int, ...]:
    try:
        return tuple(sorted(crontab_parser(count, least).parse(given)))
    except (ParseException, ValueError):
        most = least + count - 1
        names = ", or a name" if count in (7, 12) else ""
        message = f"the field {name}, {given[:40]!r}, cannot be read: it takes {least} to {most}{names}, lists (1,15), ranges (1-5), steps (*/2) and *"
        raise _wrong(message) from None


def _wrong(message: str) -> Refused:
    return Refused(message, code="invalid", field="cron")


def _run(values: Collection[int], names: tuple[str, ...]) -> str:
    """Return ``Mon to Fri`` for consecutive values, else a list."""
    one = sorted(values)
    if len(one) > 2 and one[-1] - one[0] == len(one) - 1:
        return f"{names[one[0]]} to {names[one[-1]]}"
    return _and([names[value] for value in one])


def _and(told: list[str]) -> str:
    return f"{', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else told[0]
