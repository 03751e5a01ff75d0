"""The workspace's policy: what holds for every fabric, whoever wrote it."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Body, Router
from pydantic import Field

from console.api.callers import actor_of
from console.api.schemas import Given, Instant, Told, instant
from fabric.core.workspace_policy.rules import RULES
from fabric.selectors.workspace_policies import PolicyView, standing_policy
from fabric.services.key_budgets import key_budgets
from fabric.services.workspace_policies import policy_set

router = Router(tags=["policy"])
POLICY = {
    "irreversible": ["http:api.example.com/pay/*"],
    "hosts": ["*.example.com"],
    "four_eyes": ["high_stakes"],
    "caps": {"run_usd_micros": 5_000_000},
    "keys": {"https://api.openai.com:443": {"day_usd_micros": 20_000_000}},
}


class RuleOut(Told):
    """One rule."""

    field: str = Field(description="Field of the policy.", examples=["hosts"])
    says: str = Field(description="What it says.", examples=["Fabrics call these tools and no others."])


class KeyBudgetOut(Told):
    """Where a cap of a key stands."""

    origin: str = Field(description="The endpoint.", examples=["https://api.openai.com:443"])
    period: str = Field(description="day or month (UTC).", examples=["day"])
    cap_usd_micros: int = Field(description="What may be spent.", examples=[20_000_000])
    spent_usd_micros: int = Field(description="What was spent.", examples=[4_000_000])
    held_usd_micros: int = Field(description="What workers hold of it, spent or not.", examples=[0])
    operators: bool = Field(description="Whether the operator sets it (FABRIC_KEY_CAPS).", examples=[False])


class PolicyOut(Told):
    """The policy as it stands."""

    number: int = Field(description="Its version; 0: nobody has set one.", examples=[3])
    set_at: Instant | None = Field(description="When it was set; null: never.")
    set_by: str = Field(description="By whom; empty: nobody.", examples=["owner"])
    policy: dict[str, Any] = Field(description="Its fields; one that is not there says nothing.", examples=[POLICY])
    rules: list[RuleOut] = Field(description="Every rule that there is.")
    keys: list[KeyBudgetOut] = Field(description="What is spent of the caps of keys.")


class PolicyIn(Given):
    """A policy in place of the one that stands."""

    policy: dict[str, Any] = Field(description="All its fields; one that is not there says nothing.", examples=[POLICY])
    expect: int = Field(ge=0, le=2**31, description="The version that it takes the place of; 0: none.", examples=[3])


@router.get("/policy", response=PolicyOut, url_name="api-policy", operation_id="getPolicy")
def get_policy(request: HttpRequest) -> PolicyOut:
    """Get the workspace's policy. It holds for every fabric, at publication and at each call."""
    return _told(request, standing_policy(actor_of(request).workspace_id))


@router.post("/policy", response=PolicyOut, url_name="api-policy", operation_id="setPolicy")
def set_policy(request: HttpRequest, body: Annotated[PolicyIn, Body()]) -> PolicyOut:
    """Set the workspace's policy. Fabrics are held to it at once, and each run from its next claim on. 409 where another version stands. For owners."""
    return _told(request, policy_set(actor=actor_of(request), policy=body.policy, expect=body.expect))


def _told(request: HttpRequest, stands: PolicyView) -> PolicyOut:
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
            for one in key_budgets(actor_of(request))
        ],
    )
