"""What publication and prices know of this installation, from its settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from django.conf import settings

from fabric.adapters.graph_rules import registry_of
from fabric.adapters.key_ring import ring_of
from fabric.adapters.secret_box import SecretBox
from fabric.adapters.tools import named
from fabric.adapters.tools.outbound import Gate
from fabric.adapters.tools.permits import Permits
from fabric.core.graph.registry import Registry
from fabric.core.key_caps import ENVIRONMENT, KeyCap
from fabric.core.workspace_policy.policy import NOTHING as NO_POLICY
from fabric.core.workspace_policy.policy import WorkspacePolicy
from fabric.selectors.workspace_policies import standing_policy
from fabric.services.publication import Installation


@dataclass(frozen=True, slots=True)
class OwnEndpoint:
    """An endpoint of the operator's, as the environment names it."""

    url: str
    model: str
    """The model id that stands in for fabrics that name none; empty: there is none."""
    key_from: str
    """Name of the variable that its key is from; empty: it has none."""


def installation(
    providers: Collection[str] = (),
    *,
    people: Mapping[str, frozenset[str]] | None = None,
    workspace_id: str = "",
    policy: WorkspacePolicy | None = None,
) -> Installation:
    """What is known here. ``providers``: the provider adapters that there are; ``people``: who may be asked, with their roles. Without them neither is checked.

    ``workspace_id``: whose policy holds; empty: nobody's. ``policy``: a version of it; None: the one in force.
    """
    if policy is None:
        policy = standing_policy(workspace_id).policy if workspace_id else NO_POLICY
    return Installation(
        gate=Gate.of(settings.FABRIC_ALLOWED_HOSTS),
        permits=permits(),
        default_model=settings.FABRIC_MODEL,
        default_url=settings.FABRIC_MODEL_URL,
        urls={
            "anthropic": settings.FABRIC_ANTHROPIC_URL,
            "google": settings.FABRIC_GOOGLE_URL,
            "azure": settings.FABRIC_AZURE_URL,
            "bedrock": settings.FABRIC_BEDROCK_URL,
            "vertex": settings.FABRIC_VERTEX_URL,
        },
        providers=frozenset(providers),
        held=None if people is None else frozenset(word for name, roles in people.items() for word in (name, *roles)),
        people=people,
        registry=graph_rules(),
        extra_body=frozenset(settings.FABRIC_EXTRA_BODY),
        below_list=frozenset(settings.FABRIC_BELOW_LIST_PRICE),
        policy=policy,
        key_caps=key_caps_of(policy, workspace_id),
    )


def key_caps_of(policy: WorkspacePolicy, workspace_id: str) -> tuple[KeyCap, ...]:
    """The caps of keys that hold in a workspace: the operator's, then its own."""
    periods: dict[str, dict[str, int]] = {}
    for origin, period, amount in settings.FABRIC_KEY_CAPS:
        periods.setdefault(origin, {})[f"{period}_usd_micros"] = amount
    operators = (KeyCap(ENVIRONMENT, origin, **caps) for origin, caps in periods.items())
    own = (
        KeyCap(workspace_id, origin, one.day_usd_micros, one.month_usd_micros) for origin, one in policy.keys.items()
    )
    return (*operators, *own)


def graph_rules() -> Registry:
    """The conditions and targets that this installation registers for graphs. RulesUnusable."""
    return _registry(tuple(settings.FABRIC_GRAPH_RULES))


@lru_cache(maxsize=8)
def _registry(paths: tuple[str, ...]) -> Registry:
    return registry_of(paths)


def permits() -> Permits:
    """What the operator lets fabrics run and hand out. ToolsUnusable."""
    commands, variables = settings.FABRIC_MCP_COMMANDS, frozenset(settings.FABRIC_TOOL_VARIABLES)
    return Permits(commands, variables, tools=named.tools_of(settings.FABRIC_TOOLS))


def secret_box() -> SecretBox:
    """What stored secrets are sealed with. Its methods raise KeyUnusable while the key ring cannot be had."""
    return SecretBox(partial(ring_of, Path(settings.FABRIC_DATA), settings.FABRIC_KEY_RING))


def environment() -> Mapping[str, OwnEndpoint]:
    """The operator's endpoints by provider, without their keys: those of ``openai`` only where one is set."""
    found = {
        "openai": OwnEndpoint(
            settings.FABRIC_MODEL_URL, settings.FABRIC_MODEL, "FABRIC_MODEL_KEY" if settings.FABRIC_MODEL_KEY else ""
        ),
        "anthropic": OwnEndpoint(
            settings.FABRIC_ANTHROPIC_URL, "", "FABRIC_ANTHROPIC_KEY" if settings.FABRIC_ANTHROPIC_KEY else ""
        ),
        "google": OwnEndpoint(
            settings.FABRIC_GOOGLE_URL, "", "FABRIC_GOOGLE_KEY" if settings.FABRIC_GOOGLE_KEY else ""
        ),
        "azure": OwnEndpoint(settings.FABRIC_AZURE_URL, "", "FABRIC_AZURE_KEY" if settings.FABRIC_AZURE_KEY else ""),
        "bedrock": OwnEndpoint(
            settings.FABRIC_BEDROCK_URL, "", "FABRIC_BEDROCK_KEY" if settings.FABRIC_BEDROCK_KEY else ""
        ),
        "vertex": OwnEndpoint(
            settings.FABRIC_VERTEX_URL, "", "FABRIC_VERTEX_KEY" if settings.FABRIC_VERTEX_KEY else ""
        ),
    }
    return {name: one for name, one in found.items() if one.url}
