"""Facts about this installation that publication and prices need; they are read from the settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

from django.conf import settings

from fabric.core.budgets.key_caps import ENVIRONMENT, KeyCap
from fabric.core.graph.registry import BUILT_IN, Registry
from fabric.core.spec.tree import ModelSpec
from fabric.core.values.cost import Price
from fabric.core.workspace_policy.policy import NOTHING as NO_POLICY
from fabric.core.workspace_policy.policy import WorkspacePolicy
from fabric.http.transport import Gate
from fabric.policies.graph_rules import build_registry
from fabric.providers.exchange.keys import origin_text
from fabric.providers.exchange.prices import OperatorModels, build_address, find_price
from fabric.providers.exchange.wire import origin
from fabric.secrets.key_ring import read_ring
from fabric.secrets.secret_box import SecretBox
from fabric.selectors.workspaces.policies import standing_policy
from fabric.tools.functions import named_tools as named
from fabric.tools.functions.permits import NOTHING, Permits

DRILL_PROVIDER = "drill"
"""Provider adapter that live drills call in place of any model: only a drill's own revision may name it."""


@dataclass(frozen=True, slots=True)
class InstallationFacts:
    """Facts about the installation that publication judges by."""

    gate: Gate
    permits: Permits = NOTHING
    default_model: str = ""
    """FABRIC_MODEL, and FABRIC_MODEL_URL in the next field: for models that name neither."""
    default_url: str = ""
    urls: Mapping[str, str] | None = None
    """The operator's addresses of the other providers, by provider."""
    providers: frozenset[str] = frozenset()
    """Names of the provider adapters; empty: not known, and not checked."""
    held: frozenset[str] | None = None
    """Users who can be asked, and their roles; None: not known, and not checked."""
    people: Mapping[str, frozenset[str]] | None = None
    """Roles of each member by name; None: not known, and not checked."""

    registry: Registry = BUILT_IN
    """Conditions and targets of graphs that are registered here."""

    extra_body: frozenset[str] = frozenset()
    """Fields that the operator lets fabrics send to a model's endpoint (FABRIC_EXTRA_BODY)."""
    below_list: frozenset[str] = frozenset()
    """Models whose own price may be below the list's (FABRIC_BELOW_LIST_PRICE)."""
    policy: WorkspacePolicy = NO_POLICY
    """Policy of the workspace."""
    key_caps: tuple[KeyCap, ...] = ()
    """Caps of keys: the operator's (FABRIC_KEY_CAPS), and the workspace's."""

    @property
    def operator(self) -> OperatorModels:
        """Return the operator's settings for models."""
        return OperatorModels(self.default_model, self.default_url, self.urls or {}, self.below_list)

    def caps_of(self, model: ModelSpec) -> tuple[KeyCap, ...]:
        """Return the caps of the keys at a model's endpoint: the operator's, then the workspace's."""
        if not self.key_caps:
            return ()
        found = origin(build_address(model, self.operator))
        at = origin_text(found) if found else ""
        return tuple(one for one in self.key_caps if one.origin == at)

    def operator_for(self, model: ModelSpec) -> OperatorModels:
        """Return the operator's settings for one model: where its key has a cap, no price counts as below the
        list's.
        """
        return replace(self.operator, below_list=frozenset()) if self.caps_of(model) else self.operator

    def price(self, model: ModelSpec) -> Price | None:
        """Return the price of a model here; None when it is unknown."""
        return find_price(model, self.operator_for(model))


@dataclass(frozen=True, slots=True)
class OwnEndpoint:
    """An endpoint of the operator's, as the environment names it."""

    url: str
    model: str
    """Model id for fabrics that name none; empty: there is none."""
    key_from: str
    """Name of the variable with its key; empty: it has none."""


def installation(
    providers: Collection[str] = (),
    *,
    people: Mapping[str, frozenset[str]] | None = None,
    workspace_id: str = "",
    policy: WorkspacePolicy | None = None,
) -> InstallationFacts:
    """Return the facts about this installation. ``providers``: existing provider adapters; ``people``: members who
    can be asked, with their roles.

    Without these, neither is checked. ``workspace_id``: workspace whose policy applies; empty: none. ``policy``: a
    version of it; None: the one in force.
    """
    if policy is None:
        policy = standing_policy(workspace_id).policy if workspace_id else NO_POLICY
    return InstallationFacts(
        gate=Gate.trust_hosts(settings.FABRIC_ALLOWED_HOSTS),
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
        key_caps=list_key_caps(policy, workspace_id),
    )


def list_key_caps(policy: WorkspacePolicy, workspace_id: str) -> tuple[KeyCap, ...]:
    """Return the caps of keys in a workspace: the operator's, then its own."""
    periods: dict[str, dict[str, int]] = {}
    for address, period, amount in settings.FABRIC_KEY_CAPS:
        periods.setdefault(address, {})[f"{period}_usd_micros"] = amount
    operators = (KeyCap(ENVIRONMENT, address, **caps) for address, caps in periods.items())
    own = (
        KeyCap(workspace_id, address, one.day_usd_micros, one.month_usd_micros) for address, one in policy.keys.items()
    )
    return (*operators, *own)


def graph_rules() -> Registry:
    """Return the conditions and targets that this installation registers for graphs. Raises RulesUnusable."""
    return _registry(tuple(settings.FABRIC_GRAPH_RULES))


@lru_cache(maxsize=8)
def _registry(paths: tuple[str, ...]) -> Registry:
    return build_registry(paths)


def permits() -> Permits:
    """Return the commands, variables and functions that the operator permits to fabrics. Raises ToolsUnusable."""
    commands, variables = settings.FABRIC_MCP_COMMANDS, frozenset(settings.FABRIC_TOOL_VARIABLES)
    return Permits(commands, variables, tools=named.build_tools(settings.FABRIC_TOOLS))


def secret_box() -> SecretBox:
    """Return the box that seals stored secrets. Its methods raise KeyUnusable while the key ring is unavailable."""
    return SecretBox(partial(read_ring, Path(settings.FABRIC_DATA), settings.FABRIC_KEY_RING))


def environment() -> Mapping[str, OwnEndpoint]:
    """Return the operator's endpoints by provider, without their keys: those of ``openai`` only where one is set."""
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
