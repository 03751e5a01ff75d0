"""Forms that a tool asks a person to fill in: flat objects of texts, numbers, yes or no, and choices.

Source: Model Context Protocol 2025-11-25, "Elicitation", "Requested Schema".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from urllib.parse import urlsplit

from fabric.core.values.frozen import value
from fabric.core.values.units import JSON

FIELDS_MAX = 50
TEXT_CHARS_MAX = 4_000
"""Characters of one text, where the form names no lower bound."""


@value(kw_only=True)
class InputRequest:
    """A question that a tool's server asks a person in the middle of a call (Model Context Protocol, "Elicitation")."""

    server: str
    message: str
    schema: Mapping[str, JSON]
    """The form."""
    said: str = ""
    """The server's reply if there is no answer yet; "": none."""


@value()
class FormRequested:
    """The questions that a tool's server asked a person in the middle of one call of a step."""

    command_id: str
    attempt: int
    """The last attempt that was made."""
    key: str
    """Idempotency key of all its attempts."""
    asked: str
    """Digest of the last question."""
    number: int
    """The number of questions so far."""
    question_ref: str
    answers: tuple[str, ...] = ()
    """References of the answers, oldest first."""

    @property
    def is_open(self) -> bool:
        """Return True if the last question waits for its answer."""
        return len(self.answers) < self.number


def schema_problem(schema: JSON) -> str:
    """Return why a schema is no such form, with the path of the fault; "" if it is one."""
    if not isinstance(schema, Mapping) or not isinstance(schema.get("properties"), Mapping):
        return "the form has no `properties`"
    fields: Mapping[str, JSON] = schema["properties"]
    if len(fields) > FIELDS_MAX:
        return f"the form has {len(fields)} fields; at most {FIELDS_MAX} are taken"
    for name, field in fields.items():
        if not isinstance(field, Mapping) or _kind(field) not in KINDS:
            return f"the field {name[:63]!r} is no text, number, yes or no, or choice"
        if _kind(field) == "array" and not _choices(_items(field)):
            return f"the field {name[:63]!r} is a list without choices"
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(one in fields for one in required):
        return "`required` names a field that the form does not have"
    return ""


def initial(schema: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the defaults of a form, by field."""
    return {name: field["default"] for name, field in schema["properties"].items() if "default" in field}


def misfits(schema: Mapping[str, JSON], answer: JSON) -> list[str]:
    """Return the problems of an answer, a sentence each with its field; empty if it fits."""
    if not isinstance(answer, dict):
        return ["a JSON object with the form's fields is wanted"]
    fields: Mapping[str, Mapping[str, JSON]] = schema["properties"]
    wrong = [f"{name}: fill it in" for name in schema.get("required", []) if name not in answer]
    for name, given in answer.items():
        if name not in fields:
            wrong.append(f"{name[:63]}: the form has no such field; it has: {', '.join(fields) or 'none'}")
        elif said := KINDS[_kind(fields[name])](fields[name], given):
            wrong.append(f"{name}: {said}")
    return wrong


def describe_fields(schema: Mapping[str, JSON]) -> dict[str, str]:
    """Return what each field takes, in words."""
    required = schema.get("required", [])
    return {name: _describe_field(field, needed=name in required) for name, field in schema["properties"].items()}


def _describe_field(field: Mapping[str, JSON], *, needed: bool) -> str:
    kind = _kind(field)
    choices = _choices(field) or _choices(_items(field))
    word = f"{WORDS[kind]} {', '.join(map(str, choices))}" if choices else WORDS[kind]
    bounds = [f"{said} {field[name]}" for name, said in BOUNDS if isinstance(field.get(name), int | float)]
    about = ": ".join(str(field[name]) for name in ("title", "description") if field.get(name))
    return f"{', '.join([word, *bounds, *(['needed'] if needed else [])])}{f' ({about})' if about else ''}"


def _kind(field: Mapping[str, JSON]) -> str:
    if _choices(field):
        return "choice"
    named = field.get("type")
    return named if isinstance(named, str) else ""


def _choices(field: Mapping[str, JSON]) -> list[JSON]:
    """Return the values that may be chosen; empty: the field is no choice."""
    titled = field.get("oneOf") or field.get("anyOf")
    if isinstance(titled, list):
        return [one["const"] for one in titled if isinstance(one, Mapping) and "const" in one]
    listed = field.get("enum")
    return listed if isinstance(listed, list) else []


def _items(field: Mapping[str, JSON]) -> Mapping[str, JSON]:
    items = field.get("items")
    return items if isinstance(items, Mapping) else {}


def _choice(field: Mapping[str, JSON], given: JSON) -> str:
    choices = _choices(field)
    return "" if given in choices else f"choose one of {', '.join(map(str, choices))}"


def _list(field: Mapping[str, JSON], given: JSON) -> str:
    choices = _choices(_items(field))
    if not isinstance(given, list) or any(one not in choices for one in given):
        return f"give a list of {', '.join(map(str, choices))}"
    return _describe_range(field, len(given), ("minItems", "maxItems"), "choice")


def _text(field: Mapping[str, JSON], given: JSON) -> str:
    if not isinstance(given, str):
        return "a text is wanted"
    if len(given) > TEXT_CHARS_MAX:
        return f"at most {TEXT_CHARS_MAX:,} characters are taken"
    bounds = _describe_range(field, len(given), ("minLength", "maxLength"), "character")
    check = FORMATS.get(str(field.get("format", "")))
    return bounds or ("" if check is None else check(given))


def _number(field: Mapping[str, JSON], given: JSON) -> str:
    if isinstance(given, bool) or not isinstance(given, int | float):
        return "a number is wanted"
    return _describe_range(field, given, ("minimum", "maximum"), "")


def _integer(field: Mapping[str, JSON], given: JSON) -> str:
    if isinstance(given, bool) or not (isinstance(given, int) or (isinstance(given, float) and given.is_integer())):
        return "a whole number is wanted"
    return _describe_range(field, given, ("minimum", "maximum"), "")


def _boolean(field: Mapping[str, JSON], given: JSON) -> str:
    return "" if isinstance(given, bool) else "true or false is wanted"


def _describe_range(field: Mapping[str, JSON], size: float, names: tuple[str, str], unit: str) -> str:
    least, most = (field.get(name) for name in names)
    if isinstance(least, int | float) and size < least:
        return f"at least {_bound_words(least, unit)} wanted"
    if isinstance(most, int | float) and size > most:
        return f"at most {_bound_words(most, unit)} taken"
    return ""


def _bound_words(bound: float, unit: str) -> str:
    if not unit:
        return f"{bound} is"
    return f"{bound} {unit} is" if bound == 1 else f"{bound} {unit}s are"


def _email(given: str) -> str:
    name, at, host = given.rpartition("@")
    return "" if name and at and "." in host.strip(".") else "an e-mail address is wanted"


def _uri(given: str) -> str:
    try:
        return "" if urlsplit(given).scheme else "an address with its scheme is wanted, such as https://example.com"
    except ValueError:
        return "an address is wanted, such as https://example.com"


def _date(given: str) -> str:
    try:
        date.fromisoformat(given)
    except ValueError:
        return "a date is wanted, such as 2026-01-31"
    return ""


def _date_time(given: str) -> str:
    try:
        datetime.fromisoformat(given)
    except ValueError:
        return "a date with a time is wanted, such as 2026-01-31T12:00:00Z"
    return ""


KINDS: Mapping[str, Callable[[Mapping[str, JSON], JSON], str]] = {
    "choice": _choice,
    "array": _list,
    "string": _text,
    "number": _number,
    "integer": _integer,
    "boolean": _boolean,
}
"""Checks by the kind of a field: each returns the problem of a value."""
WORDS: Mapping[str, str] = {
    "choice": "one of",
    "array": "a list of",
    "string": "a text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
}
"""Words for the values of each kind of field. Total over ``KINDS``, by test."""
BOUNDS = (
    ("minimum", "at least"),
    ("maximum", "at most"),
    ("minLength", "characters at least"),
    ("maxLength", "characters at most"),
    ("minItems", "choices at least"),
    ("maxItems", "choices at most"),
)
"""The bounds of a field, and the words for them."""
FORMATS: Mapping[str, Callable[[str], str]] = {"email": _email, "uri": _uri, "date": _date, "date-time": _date_time}
"""Checks by the format of a text: each returns the problem. Other formats are not checked."""
