"""`manage.py notifications`: what was told outside the console, and sending again what failed."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from fabric.core.notifications import State, rfc3339
from fabric.core.words import instant
from fabric.management.base import OK, FabricCommand
from fabric.selectors.notifications import NotificationView, notification_view, notifications_list
from fabric.services.notification_sending import notification_resend
from fabric.services.workspaces import owner_actor


class Command(FabricCommand):
    """Lists notifications, or has one sent again."""

    help = (
        "List what was told by e-mail and webhook, the newest first, or have one sent again: a worker does it within seconds, "
        "under the same id."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """What to do."""
        what = parser.add_subparsers(dest="what", required=True)
        listing = what.add_parser("list", help="the newest, with what became of each")
        listing.add_argument("--state", choices=[state.value for state in State], help="only those that stand so")
        again = what.add_parser("retry", help="have one sent again, with all its attempts")
        again.add_argument("id", help="as listed")
        for one in (listing, again):
            one.add_argument("--json", action="store_true", help="end with one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Does it."""
        actor = owner_actor()
        if options["what"] == "retry":
            seen = notification_view(actor, notification_resend(actor=actor, notification_id=options["id"]).id)
            found, more = [seen] if seen else [], False
        else:
            found, more = notifications_list(actor, State(options["state"]) if options["state"] else None)
        if options["json"]:
            self.put({"notifications": [told(one) for one in found], "more": more})
            return OK
        for one in found:
            self.stdout.write(_line(one))
        if not found:
            self.stdout.write("There are no notifications.")
        return OK


def _line(one: NotificationView) -> str:
    stands = one.state.value
    if one.next_at is not None:
        stands += f", next {instant(one.next_at)}" if one.error else ""
    tries = f"{one.attempts} attempt{'s' if one.attempts != 1 else ''}"
    of = f"{one.came}, request {one.change_id}" if one.change_id else f"of run {one.run_id}"
    said = f"{one.id} {instant(one.made_at)} {one.told} {of} ({one.fabric}) to {one.shown}: {stands}, {tries}"
    return f"{said}; {one.error}" if one.error else said


def told(one: NotificationView) -> dict[str, Any]:
    """A notification as a program reads it."""
    return {
        "id": one.id,
        "told": one.told,
        "run_id": one.run_id,
        "change_id": one.change_id,
        "seq": one.seq,
        "fabric": one.fabric,
        "reason": one.reason,
        "failure_type": one.failure_type,
        "path": one.path,
        "channel": one.channel,
        "to": one.shown,
        "state": one.state.value,
        "attempts": one.attempts,
        "made_at": rfc3339(one.made_at),
        "next_at": None if one.next_at is None else rfc3339(one.next_at),
        "sent_at": None if one.sent_at is None else rfc3339(one.sent_at),
        "error": one.error,
    }
