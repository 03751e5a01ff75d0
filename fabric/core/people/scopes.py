"""Defines bearer tokens: their text, and their scopes within the rights of their user.

The text has a prefix that secret scanners know, 256 random bits, and a checksum of those (like GitHub's tokens). By the
checksum a scanner tells a token from similar text, and a mistyped token is rejected before any look-up.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from zlib import crc32

from fabric.core.people.eligibility import PROGRAM
from fabric.core.people.roles import AT, Right, has


class Scope(StrEnum):
    """A permission of a token. None of them includes another."""

    READ = "read"
    """Look at fabrics, runs, events and reviews."""
    START = "start"
    """Start, fork, hold and end runs, speak in them, and ask for virtual drills."""
    DECIDE = "decide"
    """Answer reviews in the user's name."""
    PUBLISH = "publish"
    """Write drafts, ask for changes and agree to them, publish fabrics and scenarios; make test calls of models."""
    OPERATE = "operate"
    """Move circuit breakers, write memories by hand, drill live, schedule drills, pull the drill stop. Stop new runs,
    have notifications sent again.
    """
    MANAGE = "manage"
    """Change members, roles, keys of model endpoints, the policy and legal holds. It includes invitations and removals.
    """


NEEDS: Mapping[Scope, tuple[Right, ...]] = {
    Scope.READ: (),
    Scope.START: (Right.RUN, Right.CONTROL),
    Scope.DECIDE: (),
    Scope.PUBLISH: (Right.EDIT,),
    Scope.OPERATE: (Right.OPERATE, Right.STOP),
    Scope.MANAGE: (Right.MEMBERS, Right.KEYS, Right.POLICY, Right.AUDIT),
}
"""Rights of which a scope needs at least one. None: every member looks, and answers their own reviews (a program the
named ones). Total by test.
"""

MEANS: Mapping[Scope, str] = {
    Scope.READ: "look at fabrics, runs, events and reviews",
    Scope.START: "start, hold, fork and end runs, speak in them, drill in simulated time",
    Scope.DECIDE: "answer reviews in this person's name, but in high-stakes",
    Scope.PUBLISH: "write drafts, ask for changes and agree to them, publish fabrics and scenarios, test models",
    Scope.OPERATE: "move breakers, write memories, drill live, schedule drills, stop drills and new runs, send notifications again",
    Scope.MANAGE: "invite and remove people, change roles, store keys of model endpoints, revoke tokens, place and lift legal holds",
}
"""Description of each scope for people, within its member's rights. Total by test."""


def has_effect(scope: Scope, roles: Collection[str], *, service: bool) -> bool:
    """Return True if a scope has any effect for a member with these roles, anywhere."""
    if scope is Scope.DECIDE:
        return not service or any(role.startswith(f"{PROGRAM}:") for role in roles)
    bare = {role.partition(AT)[0] for role in roles}
    return not NEEDS[scope] or any(has(bare, right) for right in NEEDS[scope])


def find_lost_scopes(before: Collection[str], after: Collection[str], *, service: bool) -> frozenset[Scope]:
    """Return the scopes that had an effect with the earlier roles, and have none any more."""
    return frozenset(
        scope
        for scope in Scope
        if has_effect(scope, before, service=service) and not has_effect(scope, after, service=service)
    )


PREFIX = "ff_"
DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
"""Base 62, in the order in which they count."""
RANDOM_CHARS = 43
"""62^43 is more than 2^256."""
CHECK_CHARS = 6
"""62^6 is more than 2^32."""
PATTERN = rf"{PREFIX}[0-9A-Za-z]{{{RANDOM_CHARS + CHECK_CHARS}}}"
"""For secret scanners."""


def token_text(choice: Callable[[str], str]) -> str:
    """Return a new token. ``choice``: picks one of the given characters unpredictably."""
    random = "".join(choice(DIGITS) for _ in range(RANDOM_CHARS))
    return f"{PREFIX}{random}{checksum(random)}"


def checksum(random: str) -> str:
    """Return the CRC32 of a token's random part (ISO 3309), in base 62, filled up with zeros."""
    left, found = crc32(random.encode("utf-8", "surrogatepass")), ""
    while left:
        left, digit = divmod(left, len(DIGITS))
        found = DIGITS[digit] + found
    return found.rjust(CHECK_CHARS, DIGITS[0])


def is_whole(text: str) -> bool:
    """Return True if a text is a token with a correct checksum, so that it might be known."""
    body = text.removeprefix(PREFIX)
    if not text.startswith(PREFIX) or len(body) != RANDOM_CHARS + CHECK_CHARS:
        return False
    return checksum(body[:RANDOM_CHARS]) == body[RANDOM_CHARS:]
