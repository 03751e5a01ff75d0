"""Defines the roles of people in a workspace, the rights of each, and their places (docs/specification/roles.md).

A member has any number of roles. Nine of them carry rights. Any other word among them is a name by which fabrics may
address people (``reviewers``, a cell's ``role``, ``onward_to``), and carries none.

A role applies in the whole workspace, or at one fabric or one folder of fabrics. ``editor`` applies everywhere,
``editor@refunds`` at the fabric of this name, ``editor@payments-*`` at the folder of all whose names begin with
``payments-``. A fabric's name never changes, so that nothing moves into or out of a folder.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from enum import StrEnum


class Role(StrEnum):
    """A role that carries rights."""

    OWNER = "owner"
    EDITOR = "editor"
    OPERATOR = "operator"
    REVIEWER = "reviewer"
    FINANCE = "finance"
    SAFETY = "safety"
    READER = "reader"
    AUDITOR = "auditor"
    VIEWER = "viewer"


class Right(StrEnum):
    """A right that a role may carry. Answering a review is none of them: that depends on the review
    (``eligibility``).
    """

    LOOK = "look"
    """See fabrics, runs, reviews and drills, without their contents."""
    CONTENTS = "contents"
    """Read what runs carry: requests, documents, prompts, answers, arguments, results, memories, messages, and
    sentences that may quote them.
    """
    RUN = "run"
    """Start and fork runs, ask for virtual drills."""
    CONTROL = "control"
    """Cancel, terminate, pause and resume runs, and speak in their conversations."""
    EDIT = "edit"
    """Change and publish fabrics and scenarios."""
    OPERATE = "operate"
    """Move breakers, write memories by hand, drill live, pull the drill stop, have notifications sent again, hand
    reviews to others.
    """
    STOP = "stop"
    """Stop new runs of a fabric or of the workspace, and allow them again."""
    MEMBERS = "members"
    """Invite people, give and take roles, make and revoke others' tokens."""
    KEYS = "keys"
    """Store, replace and delete keys of model endpoints."""
    POLICY = "policy"
    """Set the workspace's policy: rules for every fabric, whichever author wrote it."""
    AUDIT = "audit"
    """Read the audit stream and export decisions; with the right to contents, take runs away byte for byte."""
    REVEAL = "reveal"
    """Reveal hidden parts of a content. The audit stream records each look."""


_ALL = frozenset(Role)
RIGHTS: Mapping[Right, frozenset[Role]] = {
    Right.LOOK: _ALL,
    Right.CONTENTS: frozenset({Role.OWNER, Role.EDITOR, Role.OPERATOR, Role.REVIEWER, Role.SAFETY, Role.READER}),
    Right.RUN: frozenset({Role.OWNER, Role.EDITOR, Role.OPERATOR}),
    Right.CONTROL: frozenset({Role.OWNER, Role.EDITOR, Role.OPERATOR}),
    Right.EDIT: frozenset({Role.OWNER, Role.EDITOR}),
    Right.OPERATE: frozenset({Role.OWNER, Role.OPERATOR}),
    Right.STOP: frozenset({Role.OWNER, Role.OPERATOR}),
    Right.MEMBERS: frozenset({Role.OWNER}),
    Right.KEYS: frozenset({Role.OWNER}),
    Right.POLICY: frozenset({Role.OWNER}),
    Right.AUDIT: frozenset({Role.OWNER, Role.AUDITOR}),
    Right.REVEAL: frozenset({Role.SAFETY}),
}
"""Roles that carry each right; total by test."""

MEANS: Mapping[Role, str] = {
    Role.OWNER: "runs the workspace: members, keys, policy, fabrics, operations and audit; decides reviews that ask for an owner",
    Role.EDITOR: "changes and publishes fabrics, starts and stops runs",
    Role.OPERATOR: "starts and stops runs, stops new runs, moves breakers, drills live, assigns reviews to others",
    Role.REVIEWER: "answers reviews without a specific assignee",
    Role.FINANCE: "decides reviews about costs and sets new caps",
    Role.SAFETY: "approves blocked outputs and reveals credentials in them",
    Role.READER: "reads contents: requests, documents, prompts, answers, memories; an auditor with it exports exact runs",
    Role.AUDITOR: "reads the audit stream and exports decisions; reads no contents",
    Role.VIEWER: "read only, without contents",
}
"""Description of each role for people; total by test."""

PEOPLE_ONLY = frozenset({Role.OWNER, Role.REVIEWER, Role.FINANCE, Role.SAFETY})
"""Roles that no service account may have: it would decide, or appoint deciders."""


def holders(right: Right) -> str:
    """Return the roles with a right as a phrase: ``editor, operator or owner``."""
    *most, last = sorted(RIGHTS[right])
    return f"{', '.join(most)} or {last}" if most else last


def has(held: Collection[str], right: Right) -> bool:
    """Return True if one of these roles carries a right."""
    return not RIGHTS[right].isdisjoint(held)


def held_in(text: str) -> frozenset[str]:
    """Return the roles in a member's row, which separates them by commas."""
    return frozenset(text.split(",")) - {""}


def write_roles(roles: Collection[str]) -> str:
    """Return roles as text for a member's row, in alphabetical order, so that equal roles are equal text."""
    return ",".join(sorted(roles))


AT = "@"
ALL = "*"
DRAFT_OF = " (draft of "
"""Text between the names of a fabric and of an author in the name of a drilled draft. No fabric's name contains it."""
NAME = r"[a-z][a-z0-9_-]{0,62}"
"""A fabric's name (``fabric.core.schema.parts.Name``)."""
_place = re.compile(rf"{NAME}|[a-z][a-z0-9_-]{{0,60}}[-_]\*")


def is_place(text: str) -> bool:
    """Return True for a fabric's name, or a folder. A folder is the beginning of names up to a - or _, and ``*``."""
    return _place.fullmatch(text) is not None


def own_name(fabric: str) -> str:
    """Return the fabric's own name, for a drilled draft of it too."""
    return fabric.partition(DRAFT_OF)[0]


def holds_at(place: str, fabric: str) -> bool:
    """Return True for the fabric that a place names, and for each in the folder that it names."""
    return fabric.startswith(place[:-1]) if place.endswith(ALL) else fabric == place


def read_place(word: str) -> str:
    """Return the place of a member's role; "": the whole workspace."""
    return word.partition(AT)[2]


def roles_at(held: Collection[str], fabric: str) -> frozenset[str]:
    """Return the roles that apply at a fabric, without places: those of the whole workspace, and those of that
    place.
    """
    split = (word.partition(AT) for word in held)
    return frozenset(role for role, at, place in split if not at or holds_at(place, fabric))


def everywhere(held: Collection[str]) -> frozenset[str]:
    """Return the roles that apply in the whole workspace."""
    return frozenset(word for word in held if AT not in word)


def reached_places(held: Collection[str]) -> tuple[str, ...] | None:
    """Return the places that a person with these roles sees. None: the whole workspace, by a role in it or without any
    role.
    """
    return None if everywhere(held) or not held else tuple(sorted({read_place(word) for word in held}))
