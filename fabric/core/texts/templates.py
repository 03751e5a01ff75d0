"""Fills places in a text from an outcome: ``{outcome.text}``, ``{outcome.citations.0}``, ``{exit_criteria.0}``,
``{run.id}`` (docs/specification/reviews.md).

Pure. A place that is the whole text becomes the value itself; inside a text it becomes text. In an address it is
escaped, and the host has no places.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote

from fabric.core.values.units import JSON

PLACE = re.compile(r"\{([^{}\n]{1,200})\}")
FIELDS: Mapping[str, tuple[str, ...]] = {
    "outcome": ("text", "citations"),
    "exit_criteria": (),
    "run": ("id", "tier", "epoch", "depth", "request", "documents"),
}
"""Beginnings of a place, each with its possible continuations; for ``exit_criteria`` a number."""
_AUTHORITY = re.compile(r"https?://([^/?#\s{}@\\]+)(?=[/?#]|$)", re.IGNORECASE)


class NoValue(LookupError):
    """A place has no value here. The message is one sentence."""


def read_host(url: str) -> str:
    """Return the host of an address, with its port if it names one. "": the host has a place in it, or is missing."""
    found = _AUTHORITY.match(url)
    return found[1].lower() if found else ""


def problems(text: str) -> list[str]:
    """Return the problems of a text's places, a sentence each."""
    found = []
    for place in PLACE.findall(text):
        root, _, rest = place.partition(".")
        known = FIELDS.get(root)
        first = rest.partition(".")[0]
        fits = known is not None and (first in known if known else first.isdigit())
        if root == "outcome" and not rest:
            fits = True
        if not fits:
            found.append(
                f"{{{place}}} is no place; there are outcome.text, outcome.citations.0, exit_criteria.0 and run.id"
            )
    return found


def problems_in(given: JSON) -> list[str]:
    """Return the problems of the places in every text of a value, a sentence each."""
    if isinstance(given, str):
        return problems(given)
    items = given.values() if isinstance(given, dict) else given if isinstance(given, list | tuple) else ()
    return [problem for one in items for problem in problems_in(one)]


def fill_places(given: JSON, about: Mapping[str, JSON]) -> JSON:
    """Return a value with its places filled. Raises NoValue for a place that has none."""
    if isinstance(given, str):
        alone = PLACE.fullmatch(given)
        return _value(alone[1], about) if alone else PLACE.sub(lambda found: _text(found[1], about), given)
    if isinstance(given, dict):
        return {key: fill_places(one, about) for key, one in given.items()}
    if isinstance(given, list | tuple):
        return [fill_places(one, about) for one in given]
    return given


def filled_url(url: str, about: Mapping[str, JSON]) -> str:
    """Return an address with its places filled and escaped, so that no value can end its segment or its parameter.
    Raises NoValue for a place without a value.
    """
    return PLACE.sub(lambda found: _escape_value(found[1], about), url)


def _escape_value(place: str, about: Mapping[str, JSON]) -> str:
    text = _text(place, about)
    if not text.strip("."):
        raise NoValue(f"{{{place}}} is empty or nothing but dots, which leads elsewhere in an address")
    return quote(text, safe="")


def _value(place: str, about: Mapping[str, JSON]) -> JSON:
    found: JSON = about
    for part in place.split("."):
        try:
            found = found[int(part)] if isinstance(found, list | tuple) else found[part]
        except (KeyError, IndexError, ValueError, TypeError):
            raise NoValue(f"{{{place}}} has no value") from None
    return found


def _text(place: str, about: Mapping[str, JSON]) -> str:
    found = _value(place, about)
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, str | int | float):
        return str(found)
    raise NoValue(f"{{{place}}} is no text, so it cannot stand inside one")
