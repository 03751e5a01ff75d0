"""What older versions of the program wrote, brought to the form that this one reads.

From 1.0.0 on an event's or input's shape never changes under its version: old rows are read for good, and a program that is older must not drop a
field that it does not know. So a changed shape is a new version, and so is an added field with a default. Its row in ``UPCAST`` (``UPCAST_INPUT``)
makes the old form into the new one. Its row in ``SINCE`` (``SINCE_INPUT``) has the ``flow.FORMAT`` that was raised for it.
``tests/fabric/core/test_upcasters.py`` holds the shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

JSON = Any
Upcast = Callable[[JSON], JSON]
"""The form of the next version. It may change what it is given."""


UPCAST: Mapping[tuple[str, int], Upcast] = {}
"""By event kind and version: a header (``e`` the envelope, ``d`` the fact) of that version to one of the next. Total by test."""
UPCAST_INPUT: Mapping[tuple[str, int], Upcast] = {}
"""By input kind and version: an inbox row's body likewise. Total by test."""
SINCE: Mapping[str, int] = {}
"""The first format that reads an event kind in its present version; 1 for those that are not named."""
SINCE_INPUT: Mapping[str, int] = {}
"""The same for inputs."""


def upcast(given: JSON, kind: str, version: int, known: int, table: Mapping[tuple[str, int], Upcast] = UPCAST) -> JSON:
    """``given``, written as ``version``, as version ``known`` has it: one step of the table after the other. KeyError for a missing step."""
    for step in range(version, known):
        given = table[kind, step](given)
    return given
