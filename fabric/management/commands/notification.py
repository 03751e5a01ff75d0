"""`manage.py notification list|retry|channel`: lists messages sent outside the console, sends failed ones again, and
routes reviews to chats.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser
from django.views.decorators.debug import sensitive_variables

from fabric.core.people.actor import Actor
from fabric.core.texts.notifications import CHATS, NotificationState, rfc3339
from fabric.core.values.words import instant
from fabric.management.base import OK, FabricCommand
from fabric.management.secret_input import read_secret
from fabric.selectors.chat_routes import ChatRouteView, list_chat_routes
from fabric.selectors.notifications import NotificationView, notification_view, notifications_list
from fabric.selectors.whole_ids import whole_notification_id
from fabric.services.actors import owner_actor
from fabric.services.notifications.delivery import notification_resend
from fabric.services.people.chat_routes import ADDRESS_CHARS_MAX, chat_route_add, chat_route_remove


class Command(FabricCommand):
    """Lists notifications, sends one again, and routes reviews to chats."""

    help = (
        "List the messages by e-mail, webhook and chat, the newest first, or send one again: a worker does it within seconds, under the same id. "
        "Route the reviews of a fabric to a channel of Slack or Teams; its address is read from standard input or a variable."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the actions."""
        what = parser.add_subparsers(dest="what", required=True)
        listing = what.add_parser("list", help="the newest, with what became of each")
        listing.add_argument(
            "--state", choices=[state.value for state in NotificationState], help="only those that stand so"
        )
        again = what.add_parser("retry", help="have one sent again, with all its attempts")
        again.add_argument("id", help="as listed, or a part that begins or ends it")
        channels = what.add_parser("channel", help="channels of Slack and Teams to which reviews go").add_subparsers(
            dest="change", required=True, metavar="list|add|remove"
        )
        known = channels.add_parser("list", help="each with the fabric whose reviews it gets")
        adding = channels.add_parser("add", help="route the reviews of a fabric, or those that ask the owner")
        adding.add_argument("channel", choices=sorted(CHATS), metavar="CHAT", help="slack or teams")
        adding.add_argument(
            "--fabric", default="", metavar="NAME", help="the fabric (default: reviews that ask the owner)"
        )
        adding.add_argument(
            "--from-env",
            default="",
            metavar="NAME",
            help="the variable that holds the address (default: standard input)",
        )
        removing = channels.add_parser("remove", help="remove one, and erase its address")
        removing.add_argument("id", metavar="CHANNEL", help="as listed")
        for one in (listing, again, known, adding, removing):
            one.add_argument("--json", action="store_true", help="end with one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Carry out the chosen action."""
        actor = owner_actor()
        if options["what"] == "channel":
            return self._act_on_channels(actor, options)
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

    @sensitive_variables("address")
    def _act_on_channels(self, actor: Actor, options: dict[str, Any]) -> int:
        if options["change"] == "list":
            found = list_chat_routes(actor)
        elif options["change"] == "add":
            address = read_secret(options["from_env"], "address", ADDRESS_CHARS_MAX)
            asked = {"channel": options["channel"], "fabric": options["fabric"], "address": address}
            found = [chat_route_add(actor=actor, **asked)]
        else:
            found = [chat_route_remove(actor=actor, route_id=options["id"])]
        if options["json"]:
            self.put({"channels": [_channel_json(one) for one in found]})
            return OK
        ended = ", removed" if options["change"] == "remove" else ""
        for one in found:
            hears = f"reviews of {one.fabric}" if one.fabric else "reviews that ask the owner"
            self.stdout.write(f"{one.id} {one.channel} at {one.host}: {hears}{ended}")
        if not found:
            self.stdout.write("There are no channels.")
        return OK


def _channel_json(one: ChatRouteView) -> dict[str, Any]:
    names = ("id", "channel", "fabric", "host", "added_by")
    return {name: getattr(one, name) for name in names} | {"added_at": rfc3339(one.added_at)}


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
