"""What somebody may not do, they are told in one sentence that names who may. Every service that changes something asks here first."""

from __future__ import annotations

from fabric.core.actor import Actor
from fabric.core.roles import Right, holders
from fabric.services.errors import Refused


def right_wanted(actor: Actor, right: Right, doing: str) -> None:
    """Refused forbidden for who has not this right. ``doing``: what they would do, after "may not": ``start runs``."""
    if not actor.may(right):
        message = f"{actor.name} may not {doing}: that is for {holders(right)}"
        raise Refused(message, code="forbidden", field="actor")
