"""Roles of people in a workspace, and what each lets them do (docs/semantics.md "Roles").

A member holds any number of roles. Nine of them carry rights; any other word that a member holds is a name under which fabrics may ask for
people (``reviewers``, a cell's ``role``, ``onward_to``), and carries none.
"""

from __future__ import annotations

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
    """What a role may carry. Answering a question is none of them: that is for whoever the question asks (``eligibility``)."""

    LOOK = "look"
    """See fabrics, runs, reviews and drills, without what stands in them."""
    CONTENTS = "contents"
    """Read what runs carry: requests, documents, prompts, answers, arguments, results, memories, messages, and sentences that may quote them."""
    RUN = "run"
    """Start and fork runs, ask for virtual drills."""
    CONTROL = "control"
    """Cancel, terminate, pause and resume runs, and speak in their conversations."""
    EDIT = "edit"
    """Change and publish fabrics and scenarios."""
    OPERATE = "operate"
    """Move breakers, write memories by hand, drill live, pull the lever, have notifications sent again, hand reviews to others."""
    MEMBERS = "members"
    """Invite people, give and take roles, make and revoke others' tokens."""
    KEYS = "keys"
    """Store, replace and delete keys of model endpoints."""
    POLICY = "policy"
    """Set the workspace's policy: what holds for every fabric, whoever wrote it."""
    AUDIT = "audit"
    """Read the audit stream and export decisions; with the right to contents, take runs away byte for byte."""
    REVEAL = "reveal"
    """See what pages and programs withhold of a content. Each look is told to the audit stream."""


_ALL = frozenset(Role)
RIGHTS: Mapping[Right, frozenset[Role]] = {
    Right.LOOK: _ALL,
    Right.CONTENTS: frozenset({Role.OWNER, Role.EDITOR, Role.OPERATOR, Role.REVIEWER, Role.SAFETY, Role.READER}),
    Right.RUN: frozenset({Role.OWNER, Role.EDITOR, Role.OPERATOR}),
    Right.CONTROL: frozenset({Role.OWNER, Role.EDITOR, Role.OPERATOR}),
    Right.EDIT: frozenset({Role.OWNER, Role.EDITOR}),
    Right.OPERATE: frozenset({Role.OWNER, Role.OPERATOR}),
    Right.MEMBERS: frozenset({Role.OWNER}),
    Right.KEYS: frozenset({Role.OWNER}),
    Right.POLICY: frozenset({Role.OWNER}),
    Right.AUDIT: frozenset({Role.OWNER, Role.AUDITOR}),
    Right.REVEAL: frozenset({Role.SAFETY}),
}
"""Who has a right; total by test."""

MEANS: Mapping[Role, str] = {
    Role.OWNER: "runs the workspace: members, keys, policy, fabrics, operations and audit; answers what asks for an owner",
    Role.EDITOR: "changes and publishes fabrics, starts and stops runs",
    Role.OPERATOR: "starts and stops runs, moves breakers, drills live, hands reviews to others",
    Role.REVIEWER: "answers questions that name nobody else",
    Role.FINANCE: "answers what costs too much, and names new caps",
    Role.SAFETY: "lets outputs pass that a gate held back, and has credentials in them revealed",
    Role.READER: "reads contents: requests, documents, prompts, answers, memories; for an auditor, runs byte for byte",
    Role.AUDITOR: "reads the audit stream and exports decisions; reads no contents",
    Role.VIEWER: "looks on; reads no contents",
}
"""What people are told of a role; total by test."""

PEOPLE_ONLY = frozenset({Role.OWNER, Role.REVIEWER, Role.FINANCE, Role.SAFETY})
"""Roles that no service account may hold: it would decide, or say who does."""


def holders(right: Right) -> str:
    """Who has a right, as a sentence says it: ``editor, operator or owner``."""
    *most, last = sorted(RIGHTS[right])
    return f"{', '.join(most)} or {last}" if most else last


def has(held: Collection[str], right: Right) -> bool:
    """Whether somebody with these roles has a right."""
    return not RIGHTS[right].isdisjoint(held)


def held_in(text: str) -> frozenset[str]:
    """The roles in a member's row, where they stand with commas between."""
    return frozenset(text.split(",")) - {""}


def written(roles: Collection[str]) -> str:
    """Roles as a member's row has them: in the order of the alphabet, so that the same ones are the same text."""
    return ",".join(sorted(roles))
