"""Published revisions and drafts, compiled as this installation and a workspace's policy have them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from fabric.adapters.evaluators import evaluators_digest
from fabric.adapters.gate_evaluators import gate_evaluators
from fabric.adapters.tools.registry import offers, validator_of
from fabric.core import teams
from fabric.core.context import Compiled, compile_spec
from fabric.core.fingerprint import digest
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import Tier
from fabric.core.workspace_policy.policy import WorkspacePolicy
from fabric.core.workspace_policy.under import FREE, Under, drawn
from fabric.runtime.prompts import overhead_bytes
from fabric.selectors.fabrics import revision_spec
from fabric.selectors.workspace_policies import policy_version, standing_policy
from fabric.services import here
from fabric.services.publication import Installation


def compile_revision(
    spec: FabricSpec, *, revision: str = "", under: Under = FREE, where: Installation | None = None
) -> Compiled:
    """A spec with its prices, validators and prompt sizes, as this installation sees them; with its teams. ``revision``, ``under``: see ``compile_spec``.

    ``where``: what is known of the installation and the workspace; None: nothing of any workspace.
    """
    below = {lead: compile_revision(within, under=under, where=where) for lead, within in teams.specs_of(spec).items()}
    installed = where or here.installation()
    prices = {model.name: price for model in spec.models if (price := installed.price(model)) is not None}
    validators = {tool.name: validator_of(tool) for tool in spec.all_tools}
    offered = {tool.name: offers(tool) for tool in spec.asked_tools}
    overhead = {agent.name: overhead_bytes(spec, agent, offered) for agent in spec.agents}
    evaluators = gate_evaluators(spec)
    rules = evaluators_digest(sorted(validators.items()))
    return compile_spec(
        spec,
        prices=prices,
        validators=validators,
        digest=digest(rules, evaluators.digest) if evaluators.digest else rules,
        prompt_overhead=overhead,
        nested=below,
        evaluators=evaluators,
        registry=installed.registry,
        revision=revision,
        under=under,
        key_caps={model.name: caps for model in spec.models if (caps := installed.caps_of(model))},
    )


def compile_under(
    spec: FabricSpec, policy: WorkspacePolicy, tier: Tier, workspace_id: str, number: int = 0
) -> Compiled:
    """A spec as the runs of a tier see it under a workspace's policy. ``number``: that policy's version; 0: no run is driven by it."""
    held, under = drawn(spec, policy, tier, number)
    where = here.installation(workspace_id=workspace_id, policy=policy)
    return compile_revision(held, revision=spec.digest(), under=under, where=where)


def draft_compiler(workspace_id: str) -> Callable[[FabricSpec, Tier], Compiled]:
    """Compiles drafts as the runs of a tier would see them: under the policy that stands in a workspace."""
    policy = standing_policy(workspace_id).policy
    return lambda spec, tier: compile_under(spec, policy, tier, workspace_id)


@lru_cache(maxsize=256)
def compiled(revision_id: str) -> Compiled:
    """A published revision by row id, compiled once a process."""
    return compile_revision(revision_spec(revision_id))


@lru_cache(maxsize=256)
def compiled_under(revision_id: str, workspace_id: str, number: int, tier: Tier) -> Compiled:
    """A published revision as the runs of a tier see it under a version of their workspace's policy, compiled once a process. 0: it had none."""
    if not number:
        return compiled(revision_id)
    return compile_under(revision_spec(revision_id), policy_version(workspace_id, number), tier, workspace_id, number)
