"""`manage.py policy`: the workspace's policy, and what is spent of the caps of keys; sets it from a file of JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from fabric.core.words import dollars
from fabric.core.workspace_policy.rules import RULES
from fabric.management.base import OK, FabricCommand
from fabric.selectors.workspace_policies import standing_policy
from fabric.services.errors import Refused
from fabric.services.key_budgets import key_budgets
from fabric.services.workspace_policies import policy_set
from fabric.services.workspaces import owner_actor

BYTES_MAX = 1_000_000


class Command(FabricCommand):
    """Shows the policy, or sets it."""

    help = "Show the workspace's policy, which holds for every fabric whoever wrote it, or set it from a file of JSON."

    def add_arguments(self, parser: CommandParser) -> None:
        """What to do."""
        parser.add_argument("--set", metavar="FILE", default="", help="set the policy that this file of JSON says")
        parser.add_argument(
            "--expect",
            metavar="N",
            type=int,
            help="the version that it takes the place of; default: the one that stands",
        )
        parser.add_argument("--json", action="store_true", help="end with one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Does it."""
        actor = owner_actor()
        stands = standing_policy(actor.workspace_id)
        if options["set"]:
            expect = stands.number if options["expect"] is None else options["expect"]
            stands = policy_set(actor=actor, policy=_read(Path(options["set"])), expect=expect)
        policy = stands.policy.model_dump(mode="json", exclude_defaults=True)
        if options["json"]:
            self.put({"number": stands.number, "set_by": stands.set_by, "policy": policy})
            return OK
        self.stdout.write(f"Version {stands.number}, set by {stands.set_by}." if stands.number else "No policy is set.")
        for rule in RULES:
            if rule.field in policy:
                self.stdout.write(f"{rule.field}: {json.dumps(policy[rule.field])}")
        for one in key_budgets(actor):
            self.stdout.write(
                f"key of {one.origin}: {dollars(one.spent)} of {dollars(one.cap)} spent this {one.period}"
            )
        return OK


def _read(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            return json.loads(file.read(BYTES_MAX))
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}", code="invalid", field="set") from None
    except (ValueError, RecursionError):
        raise Refused(
            f"{path} is no JSON: write the policy's fields as one object", code="invalid", field="set"
        ) from None
