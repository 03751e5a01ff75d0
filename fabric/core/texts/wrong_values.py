"""Says in one sentence why a field does not take a value, in place of pydantic's words for programmers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic_core import ErrorDetails

from fabric.core.values.units import JSON
from fabric.core.values.words import count

GROUP: Final = "group of fields"
SHOWN_CHARS: Final = 60
"""Characters of a value that a sentence shows."""

SENTENCES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("int_type", "int_parsing", "int_parsing_size", "int_from_float"), "is no whole number"),
    **dict.fromkeys(("float_type", "float_parsing", "decimal_parsing"), "is no number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "is neither true nor false"),
    "string_type": "is no text; write it in quotes",
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type"), "is no list"),
    **dict.fromkeys(
        ("dict_type", "mapping_type", "model_type", "model_attributes_type", "dataclass_type"),
        "is no {group}; give fields with values",
    ),
    **dict.fromkeys(("literal_error", "enum"), "is none of {expected}"),
    "greater_than": "is too small; it has to be more than {gt}",
    "greater_than_equal": "is too small; at least {ge}",
    "less_than": "is too large; it has to be less than {lt}",
    "less_than_equal": "is too large; at most {le}",
    "multiple_of": "is no multiple of {multiple_of}",
    "finite_number": "is no finite number",
    "string_too_short": "is too short; at least {min_length}",
    "string_too_long": "is too long; at most {max_length}",
    "too_long": "has {actual_length} items; at most {max_length}",
}
"""End of a sentence that begins with the value, by pydantic's name of the error. The error fills the brackets."""

EMPTY: Final = "is empty; give it a value"


def describe_wrong_value(detail: ErrorDetails, group: str = GROUP) -> str:
    """Return why a field does not take a value. ``group``: the word for several fields together in its file."""
    kind, value, message = detail["type"], detail["input"], detail["msg"]
    if (value is None or value == "") and kind in SENTENCES:
        return EMPTY
    known = SENTENCES.get(kind)
    if known is None:
        lowered = message if message[1:2].isupper() else message[:1].lower() + message[1:]
        return f"{show_value(value, group)}: {lowered}"
    words = {name: _show_bound(one, kind) for name, one in detail.get("ctx", {}).items()}
    return f"{show_value(value, group)} {known.format(group=group, **words)}"


def _show_bound(bound: JSON, kind: str) -> str:
    if kind.startswith("string_too_") and isinstance(bound, int):
        return count(bound, "character")
    if isinstance(bound, float):
        return f"{bound:.15g}"
    return str(bound).replace("'", "").replace(" or ", ", ")


def show_value(value: JSON, group: str = GROUP) -> str:
    """Return a value for a sentence, shortened."""
    if isinstance(value, dict | list | tuple):
        return f"a {group}" if isinstance(value, dict) else "a list"
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[: SHOWN_CHARS - 3]}..."
