"""Who gave the answers in an inbox, and what they hold at this moment: looked up with the rows, and once more when they are consumed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

from fabric.core.frozen import replace
from fabric.runtime.ports import InboxItem, Standing

MARK = b'"decision_made"'
"""In the body of every answer, of whatever version, and of few other inputs."""
HOLDS_SQL = """
SELECT CASE WHEN m.service THEN 'decides,' || m.roles WHEN EXISTS (
    SELECT 1 FROM fabric_member o JOIN auth_user p ON p.id = o.user_id
    WHERE o.workspace_id = m.workspace_id AND o.id <> m.id AND o.removed_at IS NULL AND NOT o.service AND p.is_active
  ) THEN m.roles ELSE 'alone,' || m.roles END
FROM fabric_member m JOIN auth_user u ON u.id = m.user_id
WHERE m.workspace_id = coalesce((SELECT w.drills_of_id FROM fabric_workspace w WHERE w.id = {workspace}), {workspace})
  AND m.name = {name} AND m.removed_at IS NULL AND u.is_active"""
"""What somebody holds in a run's workspace, in the words of both databases, a program with ``eligibility.PROGRAM`` before it, the one
person who may sign in with ``eligibility.ALONE``; no row: they are no member there."""


def decider(body: bytes | str) -> str:
    """Who gave the answer that an inbox row holds; empty: it holds none, or cannot be read, which shows when it is taken."""
    raw = body.encode() if isinstance(body, str) else body  # Old programs left text in SQLite.
    if MARK not in raw:
        return ""
    try:
        given = json.loads(raw)
    except ValueError:
        return ""
    actor = given.get("actor") if isinstance(given, dict) and given.get("kind") == "decision_made" else ""
    return actor if isinstance(actor, str) else ""


Looks = Callable[[Sequence[tuple[str, str]]], Sequence[str | None]]
"""Takes runs with the names of deciders, gives what each holds there; None for who is no member."""


def with_standings(items: Iterable[InboxItem], look: Looks) -> list[InboxItem]:
    """The items, each answer with who gave it. Asked only where there is one."""
    found = list(items)
    named = {place: name for place, item in enumerate(found) if (name := decider(item.body))}
    if named:
        held = look([(found[place].run_id, name) for place, name in named.items()])
        for (place, name), roles in zip(named.items(), held, strict=True):
            found[place] = replace(found[place], standing=Standing(name, roles))
    return found
