"""Problems of an input: each has a path and a sentence. Pydantic's errors become such sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from fabric.core.texts.wrong_values import describe_wrong_value, show_value
from fabric.core.values.units import JSON

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake and its place."""

    path: Path
    sentence: str

    def __str__(self) -> str:
        return f"{dotted_path(self.path)}: {self.sentence}" if self.path else self.sentence


MISTAKES_TOLD = 50
"""Number of reported mistakes of one text; more are counted."""


class Unreadable(ValueError):
    """A text with mistakes. ``told`` has a sentence with a place for each.

    Above ``MISTAKES_TOLD`` the last sentence has the number of the others.
    """

    def __init__(self, told: Iterable[str]) -> None:
        rest = iter(told)
        first = tuple(islice(rest, MISTAKES_TOLD))
        more = sum(1 for _ in rest)
        self.told = (*first, f"there are {more:,} more mistakes; mend these first") if more else first
        super().__init__("\n".join(self.told))


def dotted_path(path: Path) -> str:
    """Return a path in the form for people: ``disturbance.0.times``."""
    return ".".join(map(str, path))


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the nearest known name as the end of a sentence, else all known names."""
    names = list(known)
    close = get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"there are: {', '.join(names)}" if names else "there are none"


def shorten_value(value: JSON) -> str:
    """Return a value for a sentence, cut."""
    return show_value(value, "table")


def list_problems(error: ValidationError, model: type[BaseModel], at: Path = ()) -> list[Problem]:
    """Return the errors of a model, a sentence each. ``at``: the path of its value."""
    return [
        Problem((*at, *path), sentence) for detail in error.errors() for path, sentence in [_sentence(detail, model)]
    ]


def _sentence(detail: ErrorDetails, model: type[BaseModel]) -> tuple[Path, str]:
    path, kind, value = tuple(detail["loc"]), detail["type"], detail["input"]
    if kind == "extra_forbidden":
        return path, f"there is no such key; {nearest(str(path[-1]), fields_at(model, path[:-1]))}"
    if kind == "missing":
        return path, "is missing; give it a value"
    if kind == "value_error":
        return path, detail["msg"].removeprefix("Value error, ")
    if kind == "too_short":
        return path, "is empty; give at least one"
    if kind in ("literal_error", "enum"):
        known = str(detail.get("ctx", {}).get("expected", "")).replace("'", "").replace(" or ", ", ").split(", ")
        return path, f"{shorten_value(value)} is none of {', '.join(known)}{_suggest_word(value, known)}"
    return path, describe_wrong_value(detail, "table")


def _suggest_word(value: JSON, known: list[str]) -> str:
    close = get_close_matches(value, known, n=1, cutoff=0.6) if isinstance(value, str) else []
    return f"; did you mean {close[0]!r}?" if close else ""


def fields_at(model: type[BaseModel], path: Path) -> list[str]:
    """Names of the fields of the model at a path inside a model."""
    here: type[BaseModel] | None = model
    for part in path:
        if isinstance(part, str) and here is not None and part in here.model_fields:
            here = next(_models_in(here.model_fields[part].annotation), None)
    return list(here.model_fields) if here else []


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)
