"""`manage.py token create NAME`, `token list` and `token revoke NAME`: bearer tokens for the API."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import CommandParser

from fabric.core.people.scopes import Scope
from fabric.core.values.units import JSON
from fabric.core.values.words import instant
from fabric.management.base import OK, FabricCommand
from fabric.program.name import program
from fabric.selectors.people import TokenView, tokens_list
from fabric.services.actors import owner_actor
from fabric.services.people.tokens import DAYS, DAYS_MAX, FABRICS_MAX, token_create, token_revoke


class Command(FabricCommand):
    """Makes, lists and revokes bearer tokens."""

    help = "Make a bearer token for the API, list the tokens, or revoke one."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add ``create NAME``, ``list`` and ``revoke NAME``."""
        actions = parser.add_subparsers(dest="action", required=True, metavar="create|list|revoke")
        making = actions.add_parser("create", help="make a token; it is printed once and cannot be shown again")
        making.add_argument("name", metavar="NAME", help="name of the token in the list, e.g. the program's name")
        making.add_argument(
            "--user", default="", metavar="U", help="the service account for which it acts (default: the local owner)"
        )
        making.add_argument(
            "--expires", type=int, default=DAYS, metavar="DAYS", help=f"1 to {DAYS_MAX} (default: {DAYS})"
        )
        making.add_argument(
            "--scope",
            nargs="+",
            default=[Scope.READ.value],
            metavar="SCOPE",
            help=f"scopes of the token: {', '.join(Scope)} (default: read)",
        )
        making.add_argument(
            "--fabric",
            nargs="+",
            default=[],
            metavar="FABRIC",
            help=f"the fabrics to which it is confined, at most {FABRICS_MAX} (default: all)",
        )
        listing = actions.add_parser("list", help="the tokens, those that ended among them")
        revoking = actions.add_parser("revoke", help="end a token at once")
        revoking.add_argument("name", metavar="NAME")
        for action in (making, listing, revoking):
            action.add_argument("--json", action="store_true", help="one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Carry out the chosen action."""
        action = {"create": self._create, "list": self._list, "revoke": self._revoke}[options["action"]]
        return action(options)

    def _create(self, options: dict[str, Any]) -> int:
        made = token_create(
            actor=owner_actor(),
            name=options["name"],
            user=options["user"],
            scopes=options["scope"],
            fabrics=options["fabric"],
            expires_days=options["expires"],
        )
        if options["json"]:
            self.put(
                {
                    "name": made.name,
                    "user": made.user,
                    "scopes": list(made.scopes),
                    "fabrics": list(made.fabrics),
                    "expires_at": made.expires_at,
                    "token": made.secret,
                }
            )
            return OK
        where = f" at {', '.join(made.fabrics)} alone" if made.fabrics else ""
        may = f"may {', '.join(made.scopes)}{where}, and expires at {instant(made.expires_at)}"
        self.tell(f"token {made.name} acts for {made.user}, {may}; keep it now:")
        # Alone on standard output, so that a script can take it as it is.
        self.stdout.write(made.secret)
        return OK

    def _list(self, options: dict[str, Any]) -> int:
        found, now = tokens_list(owner_actor()), time.time_ns() // 1_000
        if options["json"]:
            self.put([_token_json(view, now) for view in found])
            return OK
        width = max((len(view.name) for view in found), default=0)
        for view in found:
            used = "never used" if view.last_used_at is None else f"used {instant(view.last_used_at)}"
            where = f"  at {','.join(view.fabrics)}" if view.fabrics else ""
            until = f"  until {instant(view.expires_at)}"
            scopes = ",".join(view.scopes)
            self.stdout.write(
                f"{view.name:<{width}}  {view.state(now):<7}  {scopes:<15}  {view.user}{where}  {used}{until}"
            )
        if not found:
            self.tell(f"there is no token yet; make one with `{program()} token create NAME`")
        return OK

    def _revoke(self, options: dict[str, Any]) -> int:
        fresh = token_revoke(actor=owner_actor(), name=options["name"])
        if options["json"]:
            self.put({"name": options["name"], "revoked": True, "changed": fresh})
        else:
            how = "is revoked and no longer works" if fresh else "was revoked before; nothing changed"
            self.stdout.write(f"token {options['name']} {how}")
        return OK


def _token_json(view: TokenView, now: int) -> JSON:
    return {
        "name": view.name,
        "state": view.state(now),
        "user": view.user,
        "scopes": list(view.scopes),
        "fabrics": list(view.fabrics),
        "created_at": view.created_at,
        "created_by": view.created_by,
        "expires_at": view.expires_at,
        "revoked_at": view.revoked_at,
        "last_used_at": view.last_used_at,
    }
