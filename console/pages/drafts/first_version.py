"""Shows what a person weighs in the first version of a fabric, for which there is nothing to compare."""

from __future__ import annotations

from dataclasses import dataclass

from console.pages.drafts.change import DraftBoard, build_board
from console.words.fabrics import LimitLine, limit_lines
from fabric.core.people.actor import Actor
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.tools import ToolSpec
from fabric.core.values.taxonomy import Tier
from fabric.core.workspace_policy.policy import list_hosts
from fabric.selectors.fabrics.limits import LimitGroup, list_limits
from fabric.selectors.reviews.subjects import EFFECTS
from simulator.drills.services.drafts import draft_drills

BUDGET = "budget."
WORST_FIRST = tuple(EFFECTS)[::-1]


@dataclass(frozen=True, slots=True)
class FirstTool:
    """A tool with what a call does."""

    tool: ToolSpec
    users: tuple[str, ...]
    """Agents that may call it."""
    hosts: tuple[str, ...]

    @property
    def safeguard(self) -> str:
        """Return what stands between an agent and the call's effect."""
        tool = self.tool
        if tool.effect == "irreversible" and tool.approval == "required":
            return "a person approves each call"
        if tool.approve_when:
            return f"a person approves when {tool.approve_when}"
        return f"undone by {tool.compensation}" if tool.compensation else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstVersion:
    """A content that would be a fabric's first version."""

    spec: FabricSpec
    tools: tuple[FirstTool, ...]
    """Tools, the most harmful effect first."""
    budgets: tuple[LimitLine, ...]
    """Budgets that are set."""
    hosts: tuple[str, ...]
    """Hosts that its tools call."""
    board: DraftBoard
    """Drill results of the author's draft."""

    @property
    def four_eyes(self) -> tuple[Tier, ...]:
        """Return the tiers in which two people approve."""
        return self.spec.policy.humans.four_eyes


def build_first_version(actor: Actor, spec: FabricSpec, author: str) -> FirstVersion:
    """Return what a first version may do, may spend and whom it asks. ``author``: the draft's."""
    tools = sorted((_tool(spec, one) for one in spec.tools), key=lambda one: WORST_FIRST.index(one.tool.effect))
    limits = [limit for group in list_limits(spec) for limit in group.limits if limit.path.startswith(BUDGET)]
    budgets = LimitGroup("", tuple(limit for limit in limits if limit.value not in (None, (), {})))
    return FirstVersion(
        spec=spec,
        tools=tuple(tools),
        budgets=tuple(limit_lines(budgets)),
        hosts=tuple(sorted({host for one in tools for host in one.hosts})),
        board=build_board(draft_drills(actor, spec, author)),
    )


def _tool(spec: FabricSpec, tool: ToolSpec) -> FirstTool:
    users = tuple(agent.name for agent in spec.agents if tool.name in agent.tools)
    return FirstTool(tool, users, tuple(host for host in list_hosts(tool, spec.mcp_servers) if host))
