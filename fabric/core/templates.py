"""Places in a text that an outcome goes into: ``{outcome.text}``, ``{outcome.citations.0}``, ``{exit_criteria.0}``, ``{run.id}`` (docs/semantics.md 10).

Pure. A place that stands alone becomes the value itself; inside a text it becomes text. In an address it is escaped, and the host holds none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

JSON = Any
PLACE = re.compile(r"\{([^{}\n]{1,200})\}")
FIELDS: Mapping[str, tuple[str, ...]] = {
    "outcome": ("text", "citations"),
    "exit_criteria": (),
    "run": ("id", "tier", "epoch", "depth", "request", "documents"),
}
"""What a place may begin with, and what may follow; of ``exit_criteria`` it is a number."""
_AUTHORITY = re.compile(r"https?://([^/?#\s{}@\\]+)(?=[/?#]|$)", re.IGNORECASE)


class NoValue(LookupError):
    """A place has no value here. The message is one sentence."""


def host_of(url: str) -> str:
    """The host of an address, with its port where it names one; empty where it has none without a place in it."""
    found = _AUTHORITY.match(url)
    return found[1].lower() if found else ""


def problems(text: str) -> list[str]:
    """What is wrong with the places of a text, a sentence each."""
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
    """The same of every text in a value."""
    if isinstance(given, str):
        return problems(given)
    items = given.values() if isinstance(given, dict) else given if isinstance(given, list | tuple) else ()
    return [problem for one in items for problem in problems_in(one)]


def filled(given: JSON, about: Mapping[str, JSON]) -> JSON:
    """A value with its places filled. NoValue for a place that has none."""
    if isinstance(given, str):
        alone = PLACE.fullmatch(given)
        return _value(alone[1], about) if alone else PLACE.sub(lambda found: _text(found[1], about), given)
    if isinstance(given, dict):
        return {key: filled(one, about) for key, one in given.items()}
    if isinstance(given, list | tuple):
        return [filled(one, about) for one in given]
    return given


def filled_url(url: str, about: Mapping[str, JSON]) -> str:
    """An address with its places filled and escaped: what goes in can end neither its segment nor its parameter. NoValue as above."""
    return PLACE.sub(lambda found: _escaped(found[1], about), url)


def _escaped(place: str, about: Mapping[str, JSON]) -> str:
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
