"""Read the values of the query line: one function a kind, in the table ``READ``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from datetime import date as date_type
from decimal import Decimal
from difflib import get_close_matches
from enum import StrEnum
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fabric.core.values.labels import BadLabel, check_key, check_label
from fabric.core.values.units import US
from fabric.selectors.errors import Refused

NUMBER_MAX = 10**15
"""Nothing that is compared is larger, and a column of 64 bits holds it."""

CHOICES_SHOWN = 24
"""A longer list of choices is cut in a sentence."""


class Kind(StrEnum):
    """The kind of a field's value."""

    CHOICE = "choice"
    NAME = "name"
    INSTANT = "instant"
    SPAN = "span"
    MONEY = "money"
    COUNT = "count"
    YES_NO = "yes_no"
    KEY = "key"
    ID = "id"
    TEXT = "text"
    LABEL = "label"
    BREAKER = "breaker"


@dataclass(frozen=True, slots=True)
class Bounds:
    """``low <= x < high``; None: open on that side. Microseconds, micro-dollars or a count."""

    low: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True)
class LabelAsked:
    """A label, or with None as its value any label with that key."""

    key: str
    value: str | None


Value = tuple[str, ...] | str | bool | Bounds | LabelAsked
"""Signs of CHOICE; of NAME, KEY, ID, BREAKER and TEXT; of YES_NO; of numbers; of LABEL."""


@dataclass(frozen=True, slots=True)
class Known:
    """The circumstances that reading depends on beside the text."""

    now: int
    names: tuple[str, ...] = ()
    zone: tzinfo = UTC
    """Time zone of days and hours."""


class Misread(Exception):
    """A value that cannot be read. ``start`` and ``end`` count from the value's beginning."""

    def __init__(self, message: str, start: int, end: int, instead: str | None = None) -> None:
        super().__init__(message)
        self.message, self.start, self.end, self.instead = message, start, end, instead


Reader = Callable[[str, tuple[str, ...], Known], Value]


def _choice(text: str, choices: tuple[str, ...], known: Known) -> Value:
    chosen, at = [], 0
    for part in text.split(","):
        word = part.strip().lower().replace("-", "_")
        if word not in choices:
            close = get_close_matches(word, choices, n=1, cutoff=0.5)
            guess = f"did you mean {close[0]}?" if close else f"there are {_list_choices(choices)}"
            what = f"{part.strip()[:30]!r} is none of its values" if word else "a value is missing at a comma"
            # A comma without a word is marked itself, so that there is something to see.
            end = at + len(part) if part else min(len(text), at + 1)
            start = at if part else end - 1
            raise Misread(f"{what}: {guess}", start, end, close[0] if close else None)
        chosen.append(word)
        at += len(part) + 1
    return tuple(dict.fromkeys(chosen))


def _list_choices(choices: tuple[str, ...]) -> str:
    more = f" and {len(choices) - CHOICES_SHOWN} more" if len(choices) > CHOICES_SHOWN else ""
    return ", ".join(choices[:CHOICES_SHOWN]) + more


def _yes_no(text: str, choices: tuple[str, ...], known: Known) -> Value:
    word = text.strip().lower()
    if word in ("yes", "true"):
        return True
    if word in ("no", "false"):
        return False
    guess = "no" if word.startswith(("n", "f", "0")) else "yes"
    raise Misread(f"{text[:30]!r} is neither yes nor no: did you mean {guess}?", 0, len(text), guess)


def _name(text: str, choices: tuple[str, ...], known: Known) -> Value:
    name = _drop_star(text)
    if name.endswith("*") or name in known.names:
        return name
    close = get_close_matches(name, known.names, n=1, cutoff=0.5)
    if not close:
        close = [other for other in known.names if other.startswith(name)][:1]
    guess = f"did you mean {close[0]}?" if close else "look at the page of fabrics, or end it with *"
    raise Misread(f"there is no fabric {name[:60]!r}: {guess}", 0, len(text), close[0] if close else f"{name}*")


def _key(text: str, choices: tuple[str, ...], known: Known) -> Value:
    return _drop_star(text)


def _drop_star(text: str) -> str:
    at = text.find("*")
    if -1 < at < len(text) - 1:
        raise Misread("a * stands only at the end: it means any ending", at, at + 1, "")
    return text


def _breaker(text: str, choices: tuple[str, ...], known: Known) -> Value:
    name = _drop_star(text)
    scope, colon, _ = name.partition(":")
    scopes = [choice.partition(":")[0] for choice in choices]
    # Any other word before a colon is a name's own: an endpoint's has its port.
    close = get_close_matches(scope.lower(), scopes, n=1, cutoff=0.7) if colon and scope not in scopes else []
    if close:
        raise Misread(f"{scope[:30]!r} is no scope of a breaker: did you mean {close[0]}?", 0, len(scope), close[0])
    return name


_ID = re.compile(r"[0-9a-fA-F-]{1,36}\*?")


def _id(text: str, choices: tuple[str, ...], known: Known) -> Value:
    if not _ID.fullmatch(text):
        wrong = next((n for n, char in enumerate(text) if not re.match(r"[0-9a-fA-F-]", char)), 0)
        raise Misread("an id is made of 0-9, a-f and -, 36 at most", wrong, max(wrong + 1, min(len(text), wrong + 1)))
    return text.lower().rstrip("*")


def _text(text: str, choices: tuple[str, ...], known: Known) -> Value:
    return text.strip()


def _label(text: str, choices: tuple[str, ...], known: Known) -> Value:
    key, equals, value = text.partition("=")
    try:
        check_key(key)
    except BadLabel as error:
        raise Misread(str(error), 0, max(1, len(key))) from None
    try:
        return LabelAsked(key, check_label(key, value)[1] if equals else None)
    except BadLabel as error:
        raise Misread(str(error), len(key) if value else 0, len(text)) from None


# -- numbers and instants: a point has a width, so that a day is a day -------------------------------------------------

Point = Callable[[str, int], Bounds | None]
_COMPARED = re.compile(r"(>=|<=|>|<)(.*)", re.DOTALL)


def _bounds(text: str, known: Known, point: Point, example: str) -> Bounds:
    """``>x >=x <x <=x a..b a.. ..b`` of points."""

    def read(part: str, at: int) -> Bounds:
        found = point(part.strip(), known.now)
        if found is None:
            part = part or text
            at = at if part is not text else 0
            raise Misread(f"{part.strip()[:30]!r} cannot be read: write for example {example}", at, at + len(part))
        return found

    if compared := _COMPARED.fullmatch(text):
        sign, of = compared.groups()
        found = read(of, len(sign))
        return {
            ">": Bounds(low=found.high),
            ">=": Bounds(low=found.low),
            "<": Bounds(high=found.low),
            "<=": Bounds(high=found.high),
        }[sign]
    low, dots, high = text.partition("..")
    if not dots:
        return read(text, 0)
    if not low and not high:
        raise Misread(f"a range needs a beginning or an end: write for example {example}", 0, len(text))
    left = read(low, 0).low if low else None
    right = read(high, len(low) + 2).high if high else None
    if left is not None and right is not None and left >= right:
        raise Misread("the range ends before it begins: turn it around", 0, len(text), f"{high}..{low}")
    return Bounds(left, right)


_DECIMAL = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)([kKmM]?)")
_SPAN = re.compile(r"(?:\d{1,9}(?:\.\d{1,3})?[smhdw])+")
_SPAN_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
UNITS_S: Mapping[str, int] = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
"""Seconds in each unit of a duration."""


def _money_point(text: str, now: int) -> Bounds | None:
    found = _DECIMAL.fullmatch(text.removeprefix("$"))
    if found is None or found[2]:
        return None
    micros = min(NUMBER_MAX, int(Decimal(found[1]) * US))
    return Bounds(micros, micros + 1)


def _count_point(text: str, now: int) -> Bounds | None:
    found = _DECIMAL.fullmatch(text)
    if found is None:
        return None
    number = Decimal(found[1]) * {"": 1, "k": 1_000, "m": 1_000_000}[found[2].lower()]
    if number != int(number):
        return None
    return Bounds(min(NUMBER_MAX, int(number)), min(NUMBER_MAX, int(number)) + 1)


def _span_us(text: str) -> int | None:
    if not _SPAN.fullmatch(text):
        return None
    total = sum(Decimal(number) * UNITS_S[unit] for number, unit in _SPAN_PART.findall(text))
    return min(NUMBER_MAX, int(total * US))


def _span_point(text: str, now: int) -> Bounds | None:
    micros = _span_us(text)
    return None if micros is None else Bounds(micros, micros + 1)


INSTANTS_EXAMPLE = '-4h, today, 2026-11-21, >2026-11-21T10:00 or "yesterday 20:00..06:00"'
ZONE_CHARS_MAX = 64
_DAY = re.compile(r"(?:(today|yesterday)|(\d{4}-\d\d-\d\d))(?:[T ](\d\d:\d\d)(:\d\d)?)?(Z?)", re.IGNORECASE)
_CLOCK = re.compile(r"(\d\d:\d\d)(:\d\d)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FAR_YEAR = 9_000
"""A day of a later year may lie beyond the last one that Python knows."""


def read_zone(name: str) -> ZoneInfo | None:
    """Return the time zone of a name such as ``Europe/Berlin``; None: there is none."""
    try:
        return ZoneInfo(name) if name and len(name) <= ZONE_CHARS_MAX else None
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return None


def require_zone(name: str) -> ZoneInfo:
    """Return the time zone of a name. Raises Refused invalid if there is none."""
    zone = read_zone(name)
    if zone is None:
        message = f"there is no time zone {name[:60]!r}; write a name such as Europe/Berlin, or UTC"
        raise Refused(message, code="invalid", field="zone")
    return zone


def instants(text: str, now: int, zone: tzinfo = UTC) -> Bounds | None:
    """The instants that a word means: a day, a minute, ``-7d``, ``yesterday 20:00``; None for one that means none.
    ``zone``: that of its days and hours.
    """
    if text.startswith("-"):
        ago = _span_us(text[1:])
        at = None if ago is None else max(0, now - ago)
        return None if at is None else Bounds(at, at + 1)
    found = _DAY.fullmatch(text)
    if found is None:
        return None
    word, day, minute, second, utc = found.groups()
    zone = UTC if utc else zone
    try:
        date = _find_date(now, zone) if word else datetime.strptime(day, "%Y-%m-%d").date()  # noqa: DTZ007 - a day
        date -= timedelta(days=1 if word and word.lower() == "yesterday" else 0)
        if minute is None:
            return Bounds(_at(date, time(), zone), _at(date + timedelta(days=1), time(), zone))
        return _clock_bounds(date, minute, second, zone)
    except ValueError:
        return None


def _find_date(at: int, zone: tzinfo) -> date_type:
    return (_EPOCH + timedelta(microseconds=at)).astimezone(zone).date()


def _clock_bounds(date: date_type, minute: str, second: str | None, zone: tzinfo) -> Bounds:
    """Return the minute or the second of a day. Raises ValueError for none."""
    at = _at(date, time.fromisoformat(minute + (second or "")), zone)
    return Bounds(at, at + (US if second else 60 * US))


def _at(date: date_type, clock: time, zone: tzinfo) -> int:
    """Return the microseconds of an hour of a day. An hour that a change of the clocks skips is the one after it."""
    if date.year > FAR_YEAR:
        raise ValueError(date)
    return max(0, (datetime.combine(date, clock, zone).astimezone(UTC) - _EPOCH) // timedelta(microseconds=1))


def _instant(text: str, choices: tuple[str, ...], known: Known) -> Value:
    def point(part: str, now: int) -> Bounds | None:
        return instants(part, now, known.zone)

    low, dots, high = text.partition("..")
    begins = point(low.strip(), known.now) if dots else None
    if begins is not None and begins.low is not None and (clock := _CLOCK.fullmatch(high.strip())):
        return _until_clock(begins.low, clock, known.zone, text)
    found = _bounds(text, known, point, INSTANTS_EXAMPLE)
    # An age means "since then": no reader asks for one microsecond.
    return Bounds(low=found.low) if text.startswith("-") and ".." not in text else found


def _until_clock(low: int, clock: re.Match[str], zone: tzinfo, text: str) -> Bounds:
    """Return the range from an instant until the clock shows an hour for the first time after it."""
    date = _find_date(low, zone)
    try:
        ends = _clock_bounds(date, clock[1], clock[2], zone)
        if ends.low is not None and ends.low <= low:
            ends = _clock_bounds(date + timedelta(days=1), clock[1], clock[2], zone)
    except ValueError:
        start = len(text) - len(clock[0])
        raise Misread(f"{clock[0]!r} is no hour of a day: write for example 06:00", start, len(text)) from None
    return Bounds(low, ends.high)


def _span(text: str, choices: tuple[str, ...], known: Known) -> Value:
    if _span_us(text) is not None:
        raise Misread("no run takes exactly so long: put > or < before it", 0, len(text), f">{text}")
    return _bounds(text, known, _span_point, ">5m, <30s or 1m..1h30m")


def _money(text: str, choices: tuple[str, ...], known: Known) -> Value:
    return _bounds(text, known, _money_point, ">0.50 or 0.10..2 (dollars)")


def _count(text: str, choices: tuple[str, ...], known: Known) -> Value:
    return _bounds(text, known, _count_point, "0, >10k or 100..2M")


READ: Mapping[Kind, Reader] = {
    Kind.CHOICE: _choice,
    Kind.NAME: _name,
    Kind.INSTANT: _instant,
    Kind.SPAN: _span,
    Kind.MONEY: _money,
    Kind.COUNT: _count,
    Kind.YES_NO: _yes_no,
    Kind.KEY: _key,
    Kind.ID: _id,
    Kind.TEXT: _text,
    Kind.LABEL: _label,
    Kind.BREAKER: _breaker,
}
"""The reader of each kind. Raises Misread."""
