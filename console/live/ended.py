"""Sign-ins that have ended, as the database has it: every server finds them at its next look, whatever became of a message."""

from __future__ import annotations

from collections.abc import Iterable

from fabric.services.identities import identity_known
from fabric.services.sign_ins import sign_in_end, sign_ins_going


def remember(mark: str) -> None:
    """Ends a sign-in: a cookie that was kept from it lets nobody in."""
    sign_in_end(mark)


def ended_among(marks: Iterable[str]) -> set[str]:
    """Those of the sign-ins that go on no more, and of those by the provider of identities the ones of which it has not said so for too long."""
    asked = set(marks)
    going = sign_ins_going(asked)
    known = {user_id: identity_known(user_id) for way, user_id in going.values() if "sso" in way}
    return {mark for mark in asked if mark not in going or not known.get(going[mark][1], True)}
