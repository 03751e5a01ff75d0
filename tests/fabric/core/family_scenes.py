"""Families of runs for tests: fabrics that are cut, what is true of each that has ended."""

from __future__ import annotations

from typing import Any

from fabric.core import events as ev
from fabric.core.mechanisms import budget, find_state
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import JSON
from tests.fabric.core.fabrics import plan, spec
from tests.fabric.core.families import Household
from tests.fabric.core.family_member import Member
from tests.fabric.core.scripts import Answer, planned, say, summary

ROOM = {"plan_branches": 1_000, "sub_agents_alive": 1_000, "sub_agents_spawned": 2_000}


def cut(briefs: int = 10, inline: int = 4, *, roles: tuple[str, ...] = ("planner", "aggregator"), **more: JSON) -> Any:
    """A fabric whose plan is too large for one run."""
    limits = {**ROOM, "fan_out_inline_max": inline, **more.pop("limits", {})}
    topology = {} if "planner" in roles else {"plan": plan(briefs)}
    return spec(roles=roles, tools=(), limits=limits, topology=topology, **more)


def told(text: str) -> Any:
    """A worker that says which part it was given."""

    def answer(command: Any) -> Answer:
        return summary(f"{text} {(*command.messages,)[1].part}")

    return answer


def household(briefs: int = 10, script: dict[str, Any] | None = None, **fields: JSON) -> Household:
    given = {"planner": planned(briefs), "worker": summary("Found."), **(script or {})}
    tier = fields.pop("tier", Tier.INTERACTIVE)
    extra = {name: fields.pop(name) for name in ("full", "cut", "nested") if name in fields}
    return Household(cut(briefs, **fields), given, tier=tier, **extra).start()


def whole(family: Household) -> None:
    """Assert that a family whose root has ended is over: all have, none is held, and the sums agree."""
    assert family.held == []
    for member in family.runs.values():
        assert member.run.terminal, f"{member.run_id} is {member.run.state}"
        assert not member.run.family.alive
        ledger = find_state(member.run.guards, budget)
        assert not ledger.reserved
        below = [one for one in family.runs.values() if _parent(one) == member.run_id]
        own = sum(charged(fact) for fact in (event.fact for event in member.events))
        assert ledger.spent_usd_micros == own + sum(one.spent for one in below)
        lineage = member.run.family.lineage
        if lineage is not None:
            assert member.spent <= lineage.cap_usd_micros


def _parent(member: Member) -> str:
    lineage = member.run.family.lineage
    return lineage.parent_run_id if lineage else ""


def charged(fact: Any) -> int:
    if isinstance(fact, ev.ModelAnswered):
        return fact.cost_usd_micros
    return int(getattr(fact, "charged_usd_micros", 0))


def household_children(family: Household) -> list[Member]:
    return [child for child in family.children if child.run.state is RunState.RUNNING]


def once_bad(times: int, bad: Answer, good: Answer) -> Any:
    """The first ``times`` answers of the whole family are bad."""
    left = [times]

    def answer(command: Any) -> Answer:
        left[0] -= 1
        return bad if left[0] >= 0 else good

    return answer


BLOCKED = say("", finish="content_filter")
ASKED = {tier: {"rungs": [{"reaction": "escalate", "role": "reviewer"}]} for tier in Tier}
ABORTED = {tier: {"rungs": [{"reaction": "abort"}]} for tier in Tier}
