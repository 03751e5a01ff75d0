"""What a bearer token may do within what its user may, and the rights without which a scope is worth nothing (docs/semantics.md "Roles")."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum

from fabric.core.eligibility import PROGRAM
from fabric.core.roles import Right, has


class Scope(StrEnum):
    """What a token may do. None of them includes another."""

    READ = "read"
    """Look at fabrics, runs, events and escalations."""
    RUN = "run"
    """Start and cancel runs; move circuit breakers; make test calls of models."""
    DECIDE = "decide"
    """Answer escalations in the user's name."""
    MANAGE = "manage"
    """Invite people, give and take roles, remove members; store and delete keys of model endpoints; set the policy."""


NEEDS: Mapping[Scope, tuple[Right, ...]] = {
    Scope.READ: (),
    Scope.RUN: (Right.RUN, Right.CONTROL, Right.EDIT, Right.OPERATE),
    Scope.DECIDE: (),
    Scope.MANAGE: (Right.MEMBERS, Right.KEYS, Right.POLICY),
}
"""The rights of which one at least carries a scope; none: every member looks, and is asked what they are asked (a program what is named). Total by test."""


def carried(scope: Scope, roles: Collection[str], *, service: bool) -> bool:
    """Whether a scope is worth anything to who holds these roles."""
    if scope is Scope.DECIDE:
        return not service or any(role.startswith(f"{PROGRAM}:") for role in roles)
    return not NEEDS[scope] or any(has(roles, right) for right in NEEDS[scope])


def lost(before: Collection[str], after: Collection[str], *, service: bool) -> frozenset[Scope]:
    """The scopes that were worth something with the roles of before, and are not any more."""
    return frozenset(
        scope
        for scope in Scope
        if carried(scope, before, service=service) and not carried(scope, after, service=service)
    )
