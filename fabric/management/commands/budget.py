"""`manage.py budget`: where the budgets stand that runs share; sets the cap of the workspace or of a session."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser

from fabric.core.words import dollars
from fabric.management.base import OK, FabricCommand, dollars_given
from fabric.selectors.budgets import budgets_of
from fabric.services.budgets import budget_set
from fabric.services.workspaces import owner_actor


class Command(FabricCommand):
    """Lists budgets, or sets one's cap."""

    help = (
        "List the budgets that runs share (a fabric's hour, sessions, the workspace), or set the cap of the workspace, or of a "
        "session. A fabric's are fields of its policy: publish it. Work that is reserved already is not taken back."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """What to do."""
        amount = parser.add_mutually_exclusive_group()
        amount.add_argument("--usd", metavar="AMOUNT", help="from now on no more than this, US dollars")
        amount.add_argument(
            "--tokens", metavar="N", type=int, help="of a session's tokens: from now on no more than so many"
        )
        parser.add_argument("--scope", default="", help="of this budget, as listed; default: the workspace's")
        parser.add_argument("--json", action="store_true", help="end with one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Does it."""
        actor = owner_actor()
        if options["usd"] is not None:
            found = [budget_set(actor=actor, amount=dollars_given(options["usd"]), scope=options["scope"])]
        elif options["tokens"] is not None:
            found = [budget_set(actor=actor, amount=options["tokens"], scope=options["scope"], unit="tokens")]
        else:
            found = [one for one in budgets_of(actor) if options["scope"] in ("", one.scope)]
        if options["json"]:
            self.put({"budgets": [asdict(one) | {"left": one.left, "unit": one.unit} for one in found]})
            return OK
        for one in found:
            per = " an hour" if one.hourly else ""
            spent, held, left, cap = (_said(each, one.unit) for each in (one.spent, one.granted, one.left, one.cap))
            self.stdout.write(f"{one.scope}: {spent} spent{per}, {held} held by workers, {left} left of {cap}")
        if not found:
            self.stdout.write("No budget is shared yet: give one with --usd, or publish a fabric with budget.fabric_hour_usd_micros.")  # fmt: skip
        return OK


def _said(amount: int, unit: str) -> str:
    return f"{amount:,} tokens" if unit == "tokens" else dollars(amount)
