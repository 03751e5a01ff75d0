"""`manage.py budget list|set`: shows the budgets that runs share; sets the cap of the workspace or of a session."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser

from fabric.core.values.words import dollars
from fabric.management.base import OK, FabricCommand, dollars_given
from fabric.selectors.budgets import list_budgets
from fabric.services.actors import owner_actor
from fabric.services.budgets.caps import budget_set


class Command(FabricCommand):
    """Lists budgets, or sets one's cap."""

    help = "List the shared budgets of runs (a fabric's hour, sessions, the workspace), or set the cap of the workspace or of a session. A fabric's caps are fields of its policy: publish it. Reserved work continues."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the actions."""
        actions = parser.add_subparsers(dest="action", required=True, metavar="VERB")
        listing = actions.add_parser("list", help="the budgets that runs share")
        setting = actions.add_parser("set", help="set the cap of the workspace or of a session")
        amount = setting.add_mutually_exclusive_group(required=True)
        amount.add_argument("--usd", metavar="AMOUNT", help="new cap, US dollars")
        amount.add_argument("--tokens", metavar="N", type=int, help="new cap of a session, tokens")
        setting.add_argument("--scope", default="", help="the budget, as listed; default: the workspace's")
        listing.add_argument("--scope", default="", help="only this budget")
        for one in (listing, setting):
            one.add_argument("--json", action="store_true", help="end with one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Carry out the chosen action."""
        actor = owner_actor()
        if options["action"] == "list":
            found = [one for one in list_budgets(actor) if options["scope"] in ("", one.scope)]
        elif options["usd"] is not None:
            found = [budget_set(actor=actor, amount=dollars_given(options["usd"]), scope=options["scope"])]
        else:
            found = [budget_set(actor=actor, amount=options["tokens"], scope=options["scope"], unit="tokens")]
        if options["json"]:
            self.put({"budgets": [asdict(one) | {"left": one.grantable, "unit": one.unit} for one in found]})
            return OK
        for one in found:
            per = " an hour" if one.hourly else ""
            spent, held, left, cap = (
                _amount_in_words(each, one.unit) for each in (one.spent, one.granted, one.grantable, one.cap)
            )
            self.stdout.write(f"{one.scope}: {spent} spent{per}, {held} reserved by workers, {left} left of {cap}")
        if not found:
            self.stdout.write("No budget is shared yet: give one with `budget set --usd`, or publish a fabric with budget.fabric_hour_usd_micros.")  # fmt: skip
        return OK


def _amount_in_words(amount: int, unit: str) -> str:
    return f"{amount:,} tokens" if unit == "tokens" else dollars(amount)
