"""`manage.py notification list|retry`: lists messages sent outside the console, and sends failed ones again."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from fabric.core.texts.notifications import NotificationState, rfc3339
from fabric.core.values.words import instant
from fabric.management.base import OK, FabricCommand
from fabric.selectors.notifications import NotificationView, notification_view, notifications_list
from fabric.selectors.whole_ids import whole_notification_id
from fabric.services.actors import owner_actor
from fabric.services.notifications.delivery import notification_resend


class Command(FabricCommand):
    """Lists notifications, or sends one again."""

    help = "List the messages by e-mail and webhook, the newest first, or send one again: a worker does it within seconds, under the same id."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the actions."""
        what = parser.add_subparsers(dest="what", required=True)
        listing = what.add_parser("list", help="the newest, with what became of each")
        listing.add_argument(
            "--state", choices=[state.value for state in NotificationState], help="only those that stand so"
        )
        again = what.add_parser("retry", help="have one sent again, with all its attempts")
        again.add_argument("id", help="as listed, or a part that begins or ends it")
        for one in (listing, again):
            one.add_argument("--json", action="store_true", help="end with one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Carry out the chosen action."""
        actor = owner_actor()
        if options["what"] == "retry":
            whole = whole_notification_id(actor, options["id"])
            seen = notification_view(actor, notification_resend(actor=actor, notification_id=whole).id)
            found, more = [seen] if seen else [], False
        else:
            found, more = notifications_list(actor, NotificationState(options["state"]) if options["state"] else None)
        if options["json"]:
            self.put({"notifications": [notification_json(one) for one in found], "more": more})
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


def notification_json(one: NotificationView) -> dict[str, Any]:
    """Return a notification as a program reads it."""
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
