"""What a bearer token may do within what its user may, and the rights without which a scope is worth nothing (docs/semantics.md "Roles")."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum

from fabric.core.eligibility import PROGRAM
from fabric.core.reach import AT
from fabric.core.roles import Right, has


class Scope(StrEnum):
    """What a token may do. None of them includes another."""

    READ = "read"
    """Look at fabrics, runs, events and escalations."""
    START = "start"
    """Start, fork, hold and end runs, speak in them, and ask for virtual drills."""
    DECIDE = "decide"
    """Answer escalations in the user's name."""
    PUBLISH = "publish"
    """Write drafts, ask for changes and agree to them, publish fabrics and scenarios; make test calls of models."""
    OPERATE = "operate"
    """Move circuit breakers, write memories by hand, drill live, schedule drills, pull the lever, have notifications sent again."""
    MANAGE = "manage"
    """Invite people, give and take roles, remove members; store and delete keys of model endpoints; set the policy; place and lift legal holds."""


NEEDS: Mapping[Scope, tuple[Right, ...]] = {
    Scope.READ: (),
    Scope.START: (Right.RUN, Right.CONTROL),
    Scope.DECIDE: (),
    Scope.PUBLISH: (Right.EDIT,),
    Scope.OPERATE: (Right.OPERATE,),
    Scope.MANAGE: (Right.MEMBERS, Right.KEYS, Right.POLICY, Right.AUDIT),
}
"""The rights of which one at least carries a scope; none: every member looks, and is asked what they are asked (a program what is named). Total by test."""

MEANS: Mapping[Scope, str] = {
    Scope.READ: "look at fabrics, runs, events and questions",
    Scope.START: "start, hold, fork and end runs, speak in them, drill in virtual time",
    Scope.DECIDE: "answer questions in this person's name, but in high-stakes",
    Scope.PUBLISH: "write drafts, ask for changes and agree to them, publish fabrics and scenarios, test models",
    Scope.OPERATE: "move breakers, write memories, drill live, schedule drills, pull the lever, send notifications again",
    Scope.MANAGE: "invite and remove people, change roles, store keys of model endpoints, revoke tokens, place and lift legal holds",
}
"""What people are told that a scope lets a token do, within what its member may. Total by test."""


def carried(scope: Scope, roles: Collection[str], *, service: bool) -> bool:
    """Whether a scope is worth anything to who holds these roles, anywhere."""
    if scope is Scope.DECIDE:
        return not service or any(role.startswith(f"{PROGRAM}:") for role in roles)
    bare = {role.partition(AT)[0] for role in roles}
    return not NEEDS[scope] or any(has(bare, right) for right in NEEDS[scope])


def lost(before: Collection[str], after: Collection[str], *, service: bool) -> frozenset[Scope]:
    """The scopes that were worth something with the roles of before, and are not any more."""
    return frozenset(
        scope
        for scope in Scope
        if carried(scope, before, service=service) and not carried(scope, after, service=service)
    )
