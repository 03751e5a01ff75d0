"""Reads the request for a dashboard: its range, its stretches of time, and the grouping of its runs.

Days, weeks and hours are those of the reader's time zone: a day that changes the clocks has 23 or 25 hours. Instants
are microseconds since the epoch, UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum

from fabric.core.values.labels import BadLabel, check_key
from fabric.selectors.errors import Refused

DAYS: Mapping[str, int] = {"1d": 1, "7d": 7, "30d": 30, "90d": 90, "365d": 365}
"""Days of each range; the last one is the cap. A range ends now."""
STRETCHES_MAX = 200
"""Largest number of stretches of time."""
LABEL = "label."
USUAL_RANGE = "7d"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)


class Width(StrEnum):
    """Width of a stretch of time."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"


class Grouping(StrEnum):
    """A property by which runs are grouped."""

    FABRIC = "fabric"
    REVISION = "revision"
    MODEL = "model"
    AGENT = "agent"
    LABEL = "label"


USUAL_WIDTH: Mapping[str, Width] = {
    "1d": Width.HOUR,
    "7d": Width.DAY,
    "30d": Width.DAY,
    "90d": Width.WEEK,
    "365d": Width.WEEK,
}
"""Width of the stretches of each range, where none is named."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of time, from ``since`` until before ``until``."""

    since: int
    until: int
    term: str
    """Term of the query line that finds the runs started in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardAsked:
    """A request for a dashboard."""

    span: str
    """Its range, as an address has it."""
    width: Width
    by: Grouping
    key: str
    """Label's key; empty: it groups by something else."""
    stretches: tuple[Stretch, ...]

    @property
    def since(self) -> int:
        """Return the beginning of the range."""
        return self.stretches[0].since

    @property
    def term(self) -> str:
        """Return the term of the query line that finds the runs of the whole range."""
        first = self.stretches[0].term.removeprefix("started:").partition("..")[0]
        return f"started:>={first}"

    @property
    def grouping(self) -> str:
        """Return the grouping as an address has it."""
        return f"{LABEL}{self.key}" if self.key else self.by.value


def read_asked(span: str, width: str, by: str, *, now: int, zone: tzinfo = UTC) -> DashboardAsked:
    """Return a request; empty words mean the usual. Raises Refused invalid for words that are none."""
    span = span or USUAL_RANGE
    if span not in DAYS:
        message = f"{span[:40]!r} is no range of a dashboard; write {', '.join(DAYS)}"
        raise Refused(message, code="invalid", field="range")
    if width and width not in tuple(Width):
        message = f"{width[:40]!r} is no width of a stretch of time; write {', '.join(Width)}"
        raise Refused(message, code="invalid", field="bucket")
    wide = Width(width) if width else USUAL_WIDTH[span]
    grouping, key = _read_grouping(by)
    stretches = list_stretches(DAYS[span], wide, now=now, zone=zone)
    if len(stretches) > STRETCHES_MAX:
        message = (
            f"{span} by {wide} has {len(stretches)} stretches, at most {STRETCHES_MAX} are shown; take a wider one"
        )
        raise Refused(message, code="invalid", field="bucket")
    return DashboardAsked(span=span, width=wide, by=grouping, key=key, stretches=stretches)


def _read_grouping(by: str) -> tuple[Grouping, str]:
    by = by or Grouping.FABRIC
    if by.startswith(LABEL):
        try:
            return Grouping.LABEL, check_key(by.removeprefix(LABEL))
        except BadLabel as error:
            raise Refused(str(error), code="invalid", field="by") from None
    if by not in tuple(Grouping) or by == Grouping.LABEL:
        plain = ", ".join(one for one in Grouping if one is not Grouping.LABEL)
        message = f"{by[:40]!r} groups no runs; write {plain}, or a label such as label.team"
        raise Refused(message, code="invalid", field="by")
    return Grouping(by), ""


def list_stretches(days: int, width: Width, *, now: int, zone: tzinfo) -> tuple[Stretch, ...]:
    """Return the stretches of the last ``days`` days with today, the oldest first.

    One day by the hour is the last 24 hours.
    """
    if width is Width.HOUR:
        return tuple(_list_hours(days, now, zone))
    today = _find_local(now, zone).date()
    first, found = today - timedelta(days=days - 1), []
    while first <= today:
        # A week begins on Monday; the range may begin within one.
        ahead = 7 - first.weekday() if width is Width.WEEK else 1
        last = min(first + timedelta(days=ahead - 1), today)
        words = f"{first}" if first == last else f"{first}..{last}"
        found.append(Stretch(_at(first, zone), _at(last + timedelta(days=1), zone), f"started:{words}"))
        first = last + timedelta(days=1)
    return tuple(found)


def _list_hours(days: int, now: int, zone: tzinfo) -> list[Stretch]:
    hour = 3_600 * 1_000_000
    local = _find_local(now, zone)
    begun = now - (local - local.replace(minute=0, second=0, microsecond=0, tzinfo=local.tzinfo)) // _US
    first = begun - 23 * hour if days == 1 else _at(local.date() - timedelta(days=days - 1), zone)
    return [Stretch(at, at + hour, _name_hour(at, hour)) for at in _steps(first, begun, hour)]


def _steps(first: int, last: int, step: int) -> list[int]:
    return list(range(first, last + 1, step))


def _name_hour(at: int, hour: int) -> str:
    """Return the term of an hour, in UTC: a local one can come twice in a day."""
    first, last = (_EPOCH + timedelta(microseconds=one) for one in (at, at + hour - 60 * 1_000_000))
    return f"started:{first:%Y-%m-%dT%H:%M}Z..{last:%Y-%m-%dT%H:%M}Z"


def _find_local(at: int, zone: tzinfo) -> datetime:
    return (_EPOCH + timedelta(microseconds=at)).astimezone(zone)


def _at(day: date, zone: tzinfo) -> int:
    return (datetime.combine(day, time(), zone).astimezone(UTC) - _EPOCH) // _US
