"""Who answers in a scripted world, and what they hold: as the stores look it up with an inbox row."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.adapters.deciders import with_standings
from fabric.core.roles import Role, written
from fabric.runtime.ports import InboxItem

ALL = written(list(Role))
"""Every role, as a member's row has them."""


def stood(item: InboxItem, people: Mapping[str, str | None] | None = None) -> InboxItem:
    """The item, with who gives the answer that it holds. ``people``: what each of them holds; None: whoever answers holds every role."""
    [found] = with_standings([item], lambda asked: [ALL if people is None else people.get(name) for _, name in asked])
    return found
