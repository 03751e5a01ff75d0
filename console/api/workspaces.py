"""Operations on the workspace's policy, which binds every fabric."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Body, Router
from pydantic import Field

from console.api.shapes.common import Instant, RequestShape, ResponseShape, instant
from console.site.access.callers import find_actor
from fabric.core.workspace_policy.rules import RULES
from fabric.selectors.workspaces.policies import PolicyView, standing_policy
from fabric.services.budgets.keys import key_budgets
from fabric.services.workspaces.policies import policy_set

router = Router(tags=["policy"])
POLICY = {
    "irreversible": ["http:api.example.com/pay/*"],
    "hosts": ["*.example.com"],
    "four_eyes": ["high_stakes"],
    "caps": {"run_usd_micros": 5_000_000},
    "keys": {"https://api.openai.com:443": {"day_usd_micros": 20_000_000}},
}


class RuleOut(ResponseShape):
    """One rule."""

    field: str = Field(description="Field of the policy.", examples=["hosts"])
    says: str = Field(description="Content of the policy.", examples=["Fabrics call these tools and no others."])


class KeyBudgetOut(ResponseShape):
    """Spending of a key under its cap."""

    origin: str = Field(description="The endpoint.", examples=["https://api.openai.com:443"])
    period: str = Field(description="day or month (UTC).", examples=["day"])
    cap_usd_micros: int = Field(description="Spending limit.", examples=[20_000_000])
    spent_usd_micros: int = Field(description="Amount spent.", examples=[4_000_000])
    held_usd_micros: int = Field(description="Amount that workers reserved, spent or not.", examples=[0])
    operators: bool = Field(description="True if the operator sets it (FABRIC_KEY_CAPS).", examples=[False])


class PolicyOut(ResponseShape):
    """The present policy."""

    number: int = Field(description="Version of the policy; 0: none set.", examples=[3])
    set_at: Instant | None = Field(description="When it was set; null: never.")
    set_by: str = Field(description="Owner who set it; empty: none set.", examples=["owner"])
    policy: dict[str, Any] = Field(description="Its fields; one that is not there says nothing.", examples=[POLICY])
    rules: list[RuleOut] = Field(description="Every rule that there is.")
    keys: list[KeyBudgetOut] = Field(description="Spending on the caps of keys.")


class PolicyIn(RequestShape):
    """A policy that replaces the present one."""

    policy: dict[str, Any] = Field(description="All its fields; one that is not there says nothing.", examples=[POLICY])
    expect: int = Field(ge=0, le=2**31, description="The version that it takes the place of; 0: none.", examples=[3])


@router.get("/policy", response=PolicyOut, url_name="api-policy", operation_id="getPolicy")
def get_policy(request: HttpRequest) -> PolicyOut:
    """Get the workspace's policy. It binds every fabric, at publication and at each call."""
    return _policy_shape(request, standing_policy(find_actor(request).workspace_id))


@router.post("/policy", response=PolicyOut, url_name="api-policy", operation_id="setPolicy")
def set_policy(request: HttpRequest, body: Annotated[PolicyIn, Body()]) -> PolicyOut:
    """Set the workspace's policy. It binds fabrics at once, and each run from its next claim on. 409 if the policy
    has changed. For owners.
    """
    return _policy_shape(request, policy_set(actor=find_actor(request), policy=body.policy, expect=body.expect))


def _policy_shape(request: HttpRequest, stands: PolicyView) -> PolicyOut:
    return PolicyOut(
        number=stands.number,
        set_at=instant(stands.set_at or None),
        set_by=stands.set_by,
        policy=stands.policy.model_dump(mode="json", exclude_defaults=True),
        rules=[RuleOut(field=rule.field, says=rule.says) for rule in RULES],
        keys=[
            KeyBudgetOut(
                origin=one.origin,
                period=one.period,
                cap_usd_micros=one.cap,
                spent_usd_micros=one.spent,
                held_usd_micros=one.granted,
                operators=one.operators,
            )
            for one in key_budgets(find_actor(request))
        ],
    )
