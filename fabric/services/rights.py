"""Rights: every service that changes something checks here first, and a refusal names in one sentence the roles that
may.

Some acts also need a sign-in of the last minutes: high-stakes answers, and acts that give or take others' access.
"""

from __future__ import annotations

import time

from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right, holders
from fabric.core.values.units import US
from fabric.services.errors import Refused

SIGN_IN_S = 900
"""Largest age of a fresh sign-in, in seconds."""
SIGN_IN = "sign_in"
"""Field of a refusal that ends after a fresh sign-in."""
TOKEN = "token:"  # noqa: S105 - What ``Actor.via`` begins with.


def right_wanted(actor: Actor, right: Right, doing: str, *, anywhere: bool = False) -> None:
    """Raise Refused forbidden without this right. ``doing``: the act as it follows "may not": ``start runs``.

    ``actor``: at the act's fabric (``Actor.at``), where it has one; else the right must cover the whole workspace.
    ``anywhere``: a right at any fabric is enough; the caller checks again when the fabric is known.
    """
    if not (actor.may_somewhere(right) if anywhere and not actor.place else actor.may(right)):
        if actor.fabrics and not actor.place:
            message = f"a token that is confined to fabrics may not {doing}: that is about the whole workspace"
            raise Refused(message, code="forbidden", field="actor")
        message = f"{actor.name} may not {doing}: that is for {holders(right)}"
        raise Refused(message, code="forbidden", field="actor")


def is_recent(actor: Actor) -> bool:
    """Return True if the actor signed in within ``SIGN_IN_S``; a token never did."""
    return actor.signed_in_at >= time.time_ns() // 1_000 - SIGN_IN_S * US


def is_fresh(actor: Actor) -> bool:
    """Return True after a fresh sign-in by the person alone. The maker of a sign-in link for another person may have
    used it too.
    """
    return is_recent(actor) and not actor.behind


def fresh_wanted(actor: Actor, doing: str, *, by_token: bool = False) -> None:
    """Raise Refused forbidden for an old sign-in. ``doing``: the act as it follows "to". ``by_token``: a token may
    do it, by its scope.

    A token was made in a fresh sign-in of its user, and its scope states its purpose: so it counts as fresh where
    ``by_token`` allows it.
    """
    if actor.via.startswith(TOKEN):
        if by_token:
            return
        message = f"a token cannot {doing}: sign in and do it in the browser"
        raise Refused(message, code="forbidden", field="actor")
    if is_recent(actor) and actor.behind:
        maker = actor.behind[0]
        message = f"{maker} made the link of this sign-in, so it does not show who signed in: sign in by a password, a passkey or a second factor that is yours, then {doing}"
        raise Refused(message, code="forbidden", field=SIGN_IN)
    if not is_fresh(actor):
        message = f"to {doing} wants a sign-in of the last {SIGN_IN_S // 60} minutes: sign in again, then do it"
        raise Refused(message, code="forbidden", field=SIGN_IN)
