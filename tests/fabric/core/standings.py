"""People of a scripted world answer with what they hold: as the stores look it up with an inbox row."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core.people.roles import Role, write_roles
from fabric.runtime.ports.journal import InboxItem
from fabric.stores.rows import add_standings

ALL = write_roles(list(Role))
"""Every role, as a member's row has them."""


def stood(item: InboxItem, people: Mapping[str, str | None] | None = None) -> InboxItem:
    """The item, with who gives the answer that it holds. ``people``: what each of them holds; None: each answers with every role."""
    [found] = add_standings([item], lambda asked: [ALL if people is None else people.get(name) for _, name in asked])
    return found
