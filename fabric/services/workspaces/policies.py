"""Sets a workspace's policy: owners alone, after a fresh sign-in, over the version that they saw."""

from __future__ import annotations

import json
import time
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Value
from django.db.models.functions import Greatest
from pydantic import ValidationError

from fabric.core.audit.lines import Act
from fabric.core.budgets.grants import SESSION
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.values.units import JSON
from fabric.core.workspace_policy.policy import WorkspacePolicy
from fabric.models import SharedBudget, WorkspacePolicyVersion, new_id
from fabric.selectors.workspaces.policies import PolicyView, standing_policy
from fabric.services.acts import audit_record
from fabric.services.budgets.keys import caps_follow
from fabric.services.errors import Refused
from fabric.services.installation.facts import list_key_caps
from fabric.services.rights import fresh_wanted, right_wanted

_SETTING = "set the workspace's policy"
PROBLEMS_MAX = 20


def policy_set(*, actor: Actor, policy: JSON, expect: int) -> PolicyView:
    """Set the policy of the actor's workspace, and return the one in force. ``expect``: number of the version that
    it replaces, 0: none.

    It applies to later publications, and to each run from its next claim on. A larger budget of a session is lowered
    at once, to no less than its spent and granted amount. An equal policy is no new version. Raises Refused:
    forbidden; conflict where another version is in force; invalid, with every problem in ``problems``.
    """
    right_wanted(actor, Right.POLICY, _SETTING)
    fresh_wanted(actor, _SETTING, by_token=True)
    read = policy_read(policy)
    before = standing_policy(actor.workspace_id)
    if before.number != expect:
        raise _moved_refusal(before)
    if read == before.policy:
        return before
    try:
        with transaction.atomic():
            WorkspacePolicyVersion.objects.create(
                id=new_id(),
                workspace_id=actor.workspace_id,
                number=expect + 1,
                policy=read.model_dump_json(exclude_defaults=True),
                set_at=time.time_ns() // 1_000,
                set_by=actor.name,
            )
            _sessions_lowered(actor.workspace_id, read)
            caps_follow(actor.workspace_id, list_key_caps(read, actor.workspace_id))
            audit_record(
                actor=actor,
                act=Act.POLICY_SET,
                subject=f"version {expect + 1}",
                before=_policy_fields(before.policy),
                after=_policy_fields(read),
            )
    except IntegrityError:
        raise _moved_refusal(standing_policy(actor.workspace_id)) from None
    return standing_policy(actor.workspace_id)


def policy_read(given: JSON) -> WorkspacePolicy:
    """Return a policy from JSON. Raises Refused invalid, with a sentence for each problem."""
    try:
        return WorkspacePolicy.model_validate_json(json.dumps(given))
    except ValidationError as error:
        problems = tuple(_problem(one) for one in error.errors()[:PROBLEMS_MAX])
        field = ".".join(str(part) for part in error.errors()[0]["loc"]) or "policy"
        raise Refused(problems[0], code="invalid", field=field, problems=problems) from None
    except (TypeError, ValueError):
        raise Refused("policy is no JSON object: give its fields by name", code="invalid", field="policy") from None


def _problem(error: Any) -> str:
    path = ".".join(str(part) for part in error["loc"] if part != "[key]") or "policy"
    return f"{path}: {error['msg'].removeprefix('Value error, ')}"


def _policy_fields(policy: WorkspacePolicy) -> JSON:
    return policy.model_dump(mode="json", exclude_defaults=True)


def _moved_refusal(stands: PolicyView) -> Refused:
    message = f"version {stands.number} of the policy is in force, and another was expected: look at what changed, and set it again"
    return Refused(message, code="conflict", field="expect")


def _sessions_lowered(workspace_id: str, policy: WorkspacePolicy) -> None:
    """Lower the budgets of sessions by one UPDATE that judges each row as it then is, as ``budgets.budget_set``
    does.
    """
    most = policy.caps.session_usd_micros
    if most is not None:
        rows = SharedBudget.objects.filter(workspace_id=workspace_id, scope__startswith=f"{SESSION}:")
        held = Greatest(Value(most), F("spent") + F("granted"))
        rows.filter(cap_wanted__gt=most).update(cap_wanted=most, cap=held)
