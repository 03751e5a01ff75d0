"""`manage.py policy`: shows the workspace's policy and the spending under the caps of keys. Sets the policy from a file
of JSON or YAML.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from fabric.core.people.actor import Actor
from fabric.core.values.words import dollars
from fabric.core.workspace_policy.rules import RULES
from fabric.management.base import OK, FabricCommand, read_text
from fabric.management.payloads import payload_read
from fabric.selectors.workspaces.policies import PolicyView, standing_policy
from fabric.services.actors import owner_actor
from fabric.services.budgets.keys import key_budgets
from fabric.services.errors import Refused
from fabric.services.workspaces.policies import policy_set

BYTES_MAX = 256 * 1024


class Command(FabricCommand):
    """Shows the policy, or sets it."""

    help = "Show the workspace's policy, which holds for every fabric, or set it from a file of JSON or YAML."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the actions."""
        parser.add_argument(
            "--set", metavar="FILE", default="", help="set the policy that this file of JSON or YAML says"
        )
        parser.add_argument(
            "--expect",
            metavar="N",
            type=int,
            help="the version that it takes the place of; default: the one that stands",
        )
        parser.add_argument("--json", action="store_true", help="end with one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Carry out the chosen action."""
        actor = owner_actor()
        stands = standing_policy(actor.workspace_id)
        if options["set"]:
            expect = stands.number if options["expect"] is None else options["expect"]
            stands = _set(actor, options["set"], expect)
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


def _set(actor: Actor, path: str, expect: int) -> PolicyView:
    """Set the policy in a file. Raises Refused, with the file, the line and the field of each problem."""
    given = payload_read(path, read_text(Path(path), most=BYTES_MAX, what="a policy"), field="set")
    try:
        return policy_set(actor=actor, policy=given.value, expect=expect)
    except Refused as refused:
        if refused.code != "invalid":
            raise
        placed = tuple(given.place_problem(one) for one in refused.problems)
        raise Refused(placed[0], code="invalid", field=refused.field, problems=placed) from None
