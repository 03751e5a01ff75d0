"""`manage.py member list|invite|roles|remove|service|link|revoke`: manages the members of the workspace at this
machine.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from fabric.core.people.names import COMMAND_LINE
from fabric.core.people.roles import PEOPLE_ONLY, Role
from fabric.core.texts.notifications import rfc3339
from fabric.core.values.units import JSON
from fabric.core.values.words import instant
from fabric.management.base import OK, FabricCommand
from fabric.program.name import program
from fabric.selectors.people import InvitationView, MemberView, invitations_open, member_get, members_list
from fabric.services.actors import owner_actor
from fabric.services.people.invitations import DAYS, DAYS_MAX, invitation_create, invitation_revoke
from fabric.services.people.members import (
    login_link_for,
    member_readmit,
    member_remove,
    member_roles_set,
    service_create,
)
from fabric.services.people.sign_in.second_factors import factors_reset


class Command(FabricCommand):
    """Lists, invites and removes members, gives and takes roles, and makes accounts of programs."""

    help = f"List the members, invite a person by a link, give roles ({', '.join(Role)}, or a label that fabrics ask for), or remove a member."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the actions and the members."""
        actions = parser.add_subparsers(
            dest="action", required=True, metavar="list|invite|roles|remove|readmit|service|link|factors|revoke"
        )
        listing = actions.add_parser("list", help="people, accounts of programs, and open invitations")
        inviting = actions.add_parser(
            "invite", help="make a link by which one person becomes a member; it is printed once"
        )
        inviting.add_argument("roles", nargs="+", metavar="ROLE")
        inviting.add_argument("--email", default="", metavar="E", help="for whom it is; nothing is sent there")
        inviting.add_argument("--days", type=int, default=DAYS, metavar="N", help=f"1 to {DAYS_MAX} (default: {DAYS})")
        setting = actions.add_parser("roles", help="give a member exactly these roles")
        setting.add_argument("name", metavar="NAME")
        setting.add_argument("roles", nargs="+", metavar="ROLE")
        removing = actions.add_parser("remove", help="end a membership: sign-ins and tokens are over at once")
        removing.add_argument("name", metavar="NAME")
        serving = actions.add_parser("service", help="make an account of programs, for `token create --user NAME`")
        serving.add_argument("name", metavar="NAME")
        others = ", ".join(role for role in Role if role not in PEOPLE_ONLY)
        serving.add_argument("roles", nargs="+", metavar="ROLE", help=f"{others}, or a name of your own")
        linking = actions.add_parser(
            "link", help="print a link that signs a member in once, within an hour, e.g. without a password"
        )
        linking.add_argument("name", metavar="NAME")
        revoking = actions.add_parser("revoke", help="end an invitation")
        revoking.add_argument("invitation", metavar="ID")
        admitting = actions.add_parser("readmit", help="let a removed person sign in again with the organisation")
        admitting.add_argument("name", metavar="NAME")
        losing = actions.add_parser("factors", help="take a member's second factors away, who lost them; sign-ins end")
        losing.add_argument("name", metavar="NAME")
        for action in (listing, inviting, setting, removing, admitting, serving, linking, losing, revoking):
            action.add_argument("--json", action="store_true", help="one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Carry out the chosen action."""
        action = getattr(self, f"_{options['action']}")
        said, text = action(options)
        if options["json"]:
            self.put(said)
        else:
            for line in text:
                self.stdout.write(line)
        return OK

    def _list(self, _: dict[str, Any]) -> tuple[JSON, list[str]]:
        actor = owner_actor()
        members, invited = members_list(actor), invitations_open(actor)
        width = max(len(one.name) for one in members)
        lines = [f"{one.name:<{width}}  {', '.join(one.roles)}  {_member_line(one)}" for one in members]
        lines += [
            f"invited {one.id}  {', '.join(one.roles)}  {one.email or 'anyone with the link'}, until {instant(one.expires_at)}"
            for one in invited
        ]
        return {
            "members": [_member(one) for one in members],
            "invitations": [_invitation(one) for one in invited],
        }, lines

    def _invite(self, options: dict[str, Any]) -> tuple[JSON, list[str]]:
        made = invitation_create(
            actor=owner_actor(), roles=options["roles"], email=options["email"], days=options["days"]
        )
        link = f"{settings.FABRIC_PUBLIC_URL.rstrip('/')}/people/invitations#{made.token}"
        if not options["json"]:
            self.tell(
                f"invitation {made.id} to {', '.join(made.roles)} works once, until {instant(made.expires_at)}; its link, shown this once:"
            )
        invitation = {
            "id": made.id,
            "roles": list(made.roles),
            "email": made.email,
            "expires_at": rfc3339(made.expires_at),
            "link": link,
        }
        return invitation, [link]

    def _roles(self, options: dict[str, Any]) -> tuple[JSON, list[str]]:
        given = sorted(member_roles_set(actor=owner_actor(), name=options["name"], roles=options["roles"]))
        return {"name": options["name"], "roles": given}, [
            f"{options['name']} has the roles {', '.join(given)} from now on"
        ]

    def _remove(self, options: dict[str, Any]) -> tuple[JSON, list[str]]:
        ended = member_remove(actor=owner_actor(), name=options["name"])
        counts = f"{_plural(ended.tokens, 'token')} and {_plural(ended.invitations, 'invitation')} revoked"
        told = {"tokens_revoked": ended.tokens, "invitations_revoked": ended.invitations}
        return {"name": options["name"], **told}, [
            f"{options['name']} is no member any more: sign-ins are over, {counts}"
        ]

    def _service(self, options: dict[str, Any]) -> tuple[JSON, list[str]]:
        actor = owner_actor()
        made = member_get(actor, service_create(actor=actor, name=options["name"], roles=options["roles"]))
        said = f"{made.name} is there; `{program()} token create NAME --user {made.name}` makes its token"
        return _member(made), [said]

    def _link(self, options: dict[str, Any]) -> tuple[JSON, list[str]]:
        link = f"{settings.FABRIC_PUBLIC_URL.rstrip('/')}/login/link#{login_link_for(actor=owner_actor(), name=options['name'])}"
        return {"name": options["name"], "login": link}, [link]

    def _readmit(self, options: dict[str, Any]) -> tuple[JSON, list[str]]:
        member_readmit(actor=owner_actor(), name=options["name"])
        return {"name": options["name"]}, [f"{options['name']} may come in again by the provider of identities"]

    def _factors(self, options: dict[str, Any]) -> tuple[JSON, list[str]]:
        actor = replace(owner_actor(), via=COMMAND_LINE)
        ended = factors_reset(actor=actor, name=options["name"])
        said = f"{options['name']} has no second factor any more; {_plural(len(ended), 'sign-in')} ended"
        return {"name": options["name"], "sign_ins_ended": len(ended)}, [said]

    def _revoke(self, options: dict[str, Any]) -> tuple[JSON, list[str]]:
        changed = invitation_revoke(actor=owner_actor(), invitation_id=options["invitation"])
        how = "is revoked; its link no longer works" if changed else "was revoked before; nothing changed"
        return {"id": options["invitation"], "revoked": True, "changed": changed}, [
            f"invitation {options['invitation']} {how}"
        ]


def _member_line(one: MemberView) -> str:
    if one.service:
        return f"account of programs, {one.tokens} token{'s' if one.tokens != 1 else ''}"
    if not one.active:
        return "switched off"
    return "never signed in" if one.last_sign_in is None else f"signed in {instant(one.last_sign_in)}"


def _member(one: MemberView) -> JSON:
    return {
        "name": one.name,
        "roles": list(one.roles),
        "service": one.service,
        "active": one.active,
        "since": rfc3339(one.since),
        "added_by": one.added_by,
        "last_sign_in": None if one.last_sign_in is None else rfc3339(one.last_sign_in),
        "tokens": one.tokens,
    }


def _invitation(one: InvitationView) -> JSON:
    return {
        "id": one.id,
        "roles": list(one.roles),
        "email": one.email,
        "created_at": rfc3339(one.created_at),
        "created_by": one.created_by,
        "expires_at": rfc3339(one.expires_at),
    }


def _plural(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
