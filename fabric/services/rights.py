"""What somebody may not do, they are told in one sentence that names who may. Every service that changes something asks here first.

Some acts want a sign-in of the last minutes as well: high-stakes answers, and whatever gives others a way in or takes theirs.
"""

from __future__ import annotations

import time

from fabric.core.actor import Actor
from fabric.core.roles import Right, holders
from fabric.services.errors import Refused

SIGN_IN_S = 900
"""How old a sign-in may be for what wants a fresh one, seconds."""
SIGN_IN = "sign_in"
"""The field of a refusal that a fresh sign-in does away with."""
TOKEN = "token:"  # noqa: S105 - What ``Actor.via`` begins with.
US = 1_000_000


def right_wanted(actor: Actor, right: Right, doing: str, *, anywhere: bool = False) -> None:
    """Refused forbidden for who has not this right. ``doing``: what they would do, after "may not": ``start runs``.

    ``actor``: at the fabric that it is about (``Actor.at``), where it is about one; else the right is wanted in the whole workspace.
    ``anywhere``: at some fabric is enough; at which it has to be is asked again when that is known.
    """
    if not (actor.may_somewhere(right) if anywhere and not actor.place else actor.may(right)):
        if actor.fabrics and not actor.place:
            message = f"a token that is confined to fabrics may not {doing}: that is about the whole workspace"
            raise Refused(message, code="forbidden", field="actor")
        message = f"{actor.name} may not {doing}: that is for {holders(right)}"
        raise Refused(message, code="forbidden", field="actor")


def is_recent(actor: Actor) -> bool:
    """Whether somebody signed in within ``SIGN_IN_S``; with a token nobody did."""
    return actor.signed_in_at >= time.time_ns() // 1_000 - SIGN_IN_S * US


def is_fresh(actor: Actor) -> bool:
    """Returns True after a fresh sign-in by the person alone. The maker of a sign-in link for somebody else may have used it too."""
    return is_recent(actor) and not actor.behind


def fresh_wanted(actor: Actor, doing: str, *, by_token: bool = False) -> None:
    """Refused forbidden for who signed in too long ago. ``doing``: what they would do, after "to". ``by_token``: a token does it too, by its scope.

    A token was made in a fresh sign-in of whoever it acts for, and says by its scope what it is for: so it counts as one where ``by_token`` says so.
    """
    if actor.via.startswith(TOKEN):
        if by_token:
            return
        message = f"nobody may {doing} with a token: sign in, and do it in the browser"
        raise Refused(message, code="forbidden", field="actor")
    if is_recent(actor) and actor.behind:
        maker = actor.behind[0]
        message = f"{maker} made the link of this sign-in, so it does not show who signed in: sign in by a password, a passkey or a second factor that is yours, then {doing}"
        raise Refused(message, code="forbidden", field=SIGN_IN)
    if not is_fresh(actor):
        message = f"to {doing} wants a sign-in of the last {SIGN_IN_S // 60} minutes: sign in again, then do it"
        raise Refused(message, code="forbidden", field=SIGN_IN)
