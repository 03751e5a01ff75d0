"""Rules of a workspace's policy: a table. Each rule refuses fabrics at publication, and tightens those that were
published before.

A fabric under a policy is the fabric with its own mechanisms tightened (``tighten``), so that the engine reviews,
stops and refuses as for any fabric. Calls that it may not make at all (``deny``) are refused by the mechanism
``policy`` under the cause ``workspace_policy``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.budgets import Budget
from fabric.core.spec.policies.gates import HTTP_TEST
from fabric.core.spec.tools import ToolSpec
from fabric.core.spec.tree import ModelSpec
from fabric.core.values.frozen import value
from fabric.core.values.taxonomy import Tier
from fabric.core.values.words import dollars
from fabric.core.workspace_policy import numbers
from fabric.core.workspace_policy.policy import (
    WorkspacePolicy,
    find_subject,
    goes_out,
    host_of_test,
    list_hosts,
    pattern_covers,
    patterns_meet,
    read_host,
)

Broken = tuple[str, str]
"""Path of a fabric, and its problem there without the person who may change it."""
WHO = "or have an owner change the policy"


@value(kw_only=True)
class Rule:
    """One rule. ``broken``: yields a fabric's violations. ``tighten``: returns the tightened fabric, for a run of a
    tier. ``deny``: yields the denied calls with the reason.
    """

    field: str
    """Field of ``WorkspacePolicy``."""
    says: str
    """The rule as a sentence for people."""
    broken: Callable[[FabricSpec, WorkspacePolicy], Iterator[Broken]]
    tighten: Callable[[FabricSpec, WorkspacePolicy, Tier], FabricSpec] | None = None
    deny: Callable[[FabricSpec, WorkspacePolicy], Iterator[tuple[str, str]]] | None = None


# -- irreversible ------------------------------------------------------------------------------------------------------


def list_irreversible_tools(spec: FabricSpec, policy: WorkspacePolicy) -> dict[str, str]:
    """Return the tools that a policy declares irreversible, by name, with the matching pattern."""
    found: dict[str, str] = {}
    for tool in spec.tools if policy.irreversible else ():
        subject = find_subject(tool, spec.mcp_servers)
        pattern = next((one for one in policy.irreversible if subject and patterns_meet(one, subject)), None)
        if pattern is not None:
            found[tool.name] = pattern
    return found


def _irreversible(spec: FabricSpec, policy: WorkspacePolicy) -> Iterator[Broken]:
    found = list_irreversible_tools(spec, policy)
    for n, tool in enumerate(spec.tools):
        if tool.name in found and tool.effect != "irreversible":
            subject = find_subject(tool, spec.mcp_servers)
            said = f"is {tool.effect}, and the workspace's policy declares {subject} irreversible ({found[tool.name]})"
            yield f"tools.{n}.effect", f"{said}; declare it irreversible, {WHO}"
        for field in ("compensation", "reconcile"):
            if (named := getattr(tool, field)) in found:
                said = f"is {named!r}, which the workspace's policy declares irreversible ({found[named]}), and no review comes before it"
                yield f"tools.{n}.{field}", f"{said}; name another tool, {WHO}"
    for n, check in enumerate(spec.gates.oracle or ()):
        if check.tool in found:
            said = f"is {check.tool!r}, which the workspace's policy declares irreversible ({found[check.tool]}), and no review comes before it"
            yield f"gates.oracle.{n}.tool", f"{said}; name another tool, {WHO}"


def _mark_irreversible(spec: FabricSpec, policy: WorkspacePolicy, tier: Tier) -> FabricSpec:
    found = list_irreversible_tools(spec, policy)
    if not found:
        return spec
    return spec.model_copy(update={"tools": tuple(_tool_under(tool, found) for tool in spec.tools)})


def _tool_under(tool: ToolSpec, found: dict[str, str]) -> ToolSpec:
    """Return the tool under the policy. A tool whose compensation is declared irreversible is irreversible too: its
    own call needs a review.
    """
    alone = {"compensation": None, "reconcile": None, "carry_over": False}
    if tool.effect != "irreversible" and (tool.name in found or tool.compensation in found):
        return tool.model_copy(update=alone | {"effect": "irreversible", "approval": "required"})
    return tool.model_copy(update={"reconcile": None}) if tool.reconcile in found else tool


def _irreversible_checks(spec: FabricSpec, policy: WorkspacePolicy) -> Iterator[tuple[str, str]]:
    found = list_irreversible_tools(spec, policy)
    for check in spec.gates.oracle or ():
        if check.tool in found:
            yield (
                f"tool:{check.tool}",
                f"it checks outcomes, and the workspace's policy declares it irreversible ({found[check.tool]})",
            )


# -- where calls may go ------------------------------------------------------------------------------------------------


def _unlisted_tools(spec: FabricSpec, policy: WorkspacePolicy) -> Iterator[tuple[int, ToolSpec, str]]:
    for n, tool in enumerate(spec.tools if policy.tools is not None else ()):
        subject = find_subject(tool, spec.mcp_servers)
        if goes_out(tool) and not any(pattern_covers(one, subject) for one in policy.tools or ()):
            yield n, tool, subject


def _tools(spec: FabricSpec, policy: WorkspacePolicy) -> Iterator[Broken]:
    for n, _, subject in _unlisted_tools(spec, policy):
        said = f"reaches {subject}, which is not among the tools that the workspace's policy allows"
        yield f"tools.{n}.target", f"{said}; name one that is, {WHO}"


def _denied_tools(spec: FabricSpec, policy: WorkspacePolicy) -> Iterator[tuple[str, str]]:
    for _, tool, subject in _unlisted_tools(spec, policy):
        yield f"tool:{tool.name}", f"{subject} is not among the tools that the workspace's policy allows"


def _hosts_named(spec: FabricSpec) -> Iterator[tuple[str, str, str]]:
    """Yield ``(path, name of the called thing, host)`` for each host that a fabric names."""
    for n, tool in enumerate(spec.tools):
        for host in list_hosts(tool, spec.mcp_servers):
            yield f"tools.{n}", f"tool:{tool.name}", host
    for n, check in enumerate(spec.gates.oracle or ()):
        if check.http is not None:
            yield f"gates.oracle.{n}.http.url", f"tool:{HTTP_TEST}{check.name}", host_of_test(check.http)
    for n, model in enumerate(spec.models):
        if model.base_url:
            yield f"models.{n}.base_url", f"model:{model.name}", read_host(model.base_url)


def _unlisted_hosts(spec: FabricSpec, policy: WorkspacePolicy) -> Iterator[tuple[str, str, str]]:
    for path, name, host in _hosts_named(spec) if policy.hosts is not None else ():
        if not any(pattern_covers(one, host) for one in policy.hosts or ()):
            yield path, name, host


def _hosts(spec: FabricSpec, policy: WorkspacePolicy) -> Iterator[Broken]:
    for path, _, host in _unlisted_hosts(spec, policy):
        said = f"names host {host or '(unknown)'}, which is not among those that the workspace's policy allows"
        yield path, f"{said}; name one that is, {WHO}"


def _denied_hosts(spec: FabricSpec, policy: WorkspacePolicy) -> Iterator[tuple[str, str]]:
    for _, name, host in _unlisted_hosts(spec, policy):
        yield name, _not_allowed(host)


def model_denied(spec: ModelSpec, policy: WorkspacePolicy) -> str:
    """Return why no fabric may call a model; "" if it may."""
    if policy.hosts is None or not spec.base_url:
        return ""
    host = read_host(spec.base_url)
    return "" if any(pattern_covers(one, host) for one in policy.hosts) else _not_allowed(host)


def tool_denied(tool: ToolSpec, policy: WorkspacePolicy) -> str:
    """Return why no fabric may call an HTTP tool without a review; "" if it may."""
    subject, host = find_subject(tool, ()), read_host(tool.target)
    if policy.tools is not None and not any(pattern_covers(one, subject) for one in policy.tools):
        return f"{subject} is not among the tools that the workspace's policy allows"
    if policy.hosts is not None and not any(pattern_covers(one, host) for one in policy.hosts):
        return _not_allowed(host)
    if any(patterns_meet(one, subject) for one in policy.irreversible if subject):
        return f"the workspace's policy declares {subject} irreversible"
    return ""


def _not_allowed(host: str) -> str:
    return f"host {host or '(unknown)'} is not among those that the workspace's policy allows"


# -- people ------------------------------------------------------------------------------------------------------------


def _four_eyes(spec: FabricSpec, policy: WorkspacePolicy) -> Iterator[Broken]:
    for tier in policy.four_eyes:
        if tier in spec.tiers.allowed and tier not in spec.policy.humans.four_eyes:
            said = f"lacks {tier}, in which the workspace's policy wants four eyes"
            yield "policy.humans.four_eyes", f"{said}; add it, leave the tier out of tiers.allowed, {WHO}"


def _require_four_eyes(spec: FabricSpec, policy: WorkspacePolicy, tier: Tier) -> FabricSpec:
    humans = spec.policy.humans
    more = tuple(one for one in policy.four_eyes if one not in humans.four_eyes)
    if not more:
        return spec
    humans = humans.model_copy(update={"four_eyes": (*humans.four_eyes, *more)})
    return spec.model_copy(update={"policy": spec.policy.model_copy(update={"humans": humans})})


def _may_waive(spec: FabricSpec, policy: WorkspacePolicy) -> bool:
    """Return True if all tiers of a fabric have four eyes, so that two people published it with the waiver."""
    if policy.waivers == "author":
        return True
    return policy.waivers == "four_eyes" and set(spec.tiers.allowed) <= set(spec.policy.humans.four_eyes)


def _waivers(spec: FabricSpec, policy: WorkspacePolicy) -> Iterator[Broken]:
    if _may_waive(spec, policy):
        return
    for n, tool in enumerate(spec.tools):
        if tool.approval == "waived":
            allowed = (
                "lets no one waive"
                if policy.waivers == "nobody"
                else "lets only fabrics waive that have four eyes in all their tiers"
            )
            said = f"is waived, and the workspace's policy {allowed}"
            yield f"tools.{n}.approval", f"{said}; take approval away, {WHO}"


def _drop_waivers(spec: FabricSpec, policy: WorkspacePolicy, tier: Tier) -> FabricSpec:
    if _may_waive(spec, policy):
        return spec
    tools = (tool.model_copy(update={"approval": "required"}) for tool in spec.tools)
    return spec.model_copy(update={"tools": tuple(tools)})


# -- caps --------------------------------------------------------------------------------------------------------------


def run_cap(policy: WorkspacePolicy, tier: Tier) -> int | None:
    """Return the most that a run of a tier may spend, in micro-dollars; None: no such rule."""
    caps = policy.caps
    found = [one for one in (caps.run_usd_micros, caps.session_usd_micros, caps.tiers.get(tier)) if one is not None]
    return min(found, default=None)


def _caps(spec: FabricSpec, policy: WorkspacePolicy) -> Iterator[Broken]:
    budget, caps = spec.policy.budget, policy.caps
    for tier in spec.tiers.allowed:
        most = run_cap(policy, tier)
        if most is not None and budget.run_usd_micros > most:
            said = f"is {dollars(budget.run_usd_micros)}, and the workspace's policy lets a run of tier {tier} spend {dollars(most)}"
            yield "policy.budget.run_usd_micros", f"{said}; lower it, {WHO}"
    most = caps.session_usd_micros
    if most is not None and (budget.session_usd_micros is None or budget.session_usd_micros > most):
        given = "is not given" if budget.session_usd_micros is None else f"is {dollars(budget.session_usd_micros)}"
        said = f"{given}, and the workspace's policy lets a session spend {dollars(most)}"
        yield "policy.budget.session_usd_micros", f"{said}; give no more than that, {WHO}"


def _cap_budget(spec: FabricSpec, policy: WorkspacePolicy, tier: Tier) -> FabricSpec:
    budget, most = spec.policy.budget, run_cap(policy, tier)
    session = policy.caps.session_usd_micros
    changed: dict[str, int] = {}
    if most is not None and budget.run_usd_micros > most:
        changed["run_usd_micros"] = most
    if session is not None and (budget.session_usd_micros is None or budget.session_usd_micros > session):
        changed["session_usd_micros"] = session
    return _replace_budget(spec, budget.model_copy(update=changed)) if changed else spec


def _replace_budget(spec: FabricSpec, budget: Budget) -> FabricSpec:
    return spec.model_copy(update={"policy": spec.policy.model_copy(update={"budget": budget})})


# -- limits and protections --------------------------------------------------------------------------------------------


def _limits(spec: FabricSpec, policy: WorkspacePolicy) -> Iterator[Broken]:
    for path, given, held in numbers.list_out_of_bounds(policy, spec.policy):
        if held.group == "limits":
            said = f"is {given:,}, and the workspace's policy allows {held.bound:,} at most ({held.field})"
            yield path, f"{said}; lower it, {WHO}"


def _numbers(spec: FabricSpec, policy: WorkspacePolicy, tier: Tier) -> FabricSpec:
    return spec.model_copy(update={"policy": numbers.clamp_policy(policy, spec.policy)})


GATES = {"credentials": "unguarded", "screening": "unscreened"}
"""The field of the gates by which a fabric switches a protection off."""


def _protections(spec: FabricSpec, policy: WorkspacePolicy) -> Iterator[Broken]:
    for kept, field in GATES.items():
        if kept in policy.protections and getattr(spec.gates, field) is not None:
            said = f"switches off {kept}, which the workspace's policy keeps on (protections)"
            yield f"gates.{field}", f"{said}; leave it out, {WHO}"
    if "loop_detector" in policy.protections:
        for path, what in numbers.detectors_off(spec.policy):
            said = f"{what}, and the workspace's policy keeps every loop detector on (protections)"
            yield path, f"{said}; leave it out, {WHO}"
    for path, given, held in numbers.list_out_of_bounds(policy, spec.policy):
        if held.group != "limits":
            said = f"is {given:g}, and the workspace's policy keeps {held.group} no weaker than {held.bound:g} (protections)"
            yield path, f"{said}; leave it out, {WHO}"


def _add_protections(spec: FabricSpec, policy: WorkspacePolicy, tier: Tier) -> FabricSpec:
    on = {field: None for kept, field in GATES.items() if kept in policy.protections}
    flow = spec.policy
    if "loop_detector" in policy.protections:
        flow = numbers.all_detectors(flow)
    return spec.model_copy(update={"gates": spec.gates.model_copy(update=on), "policy": flow})


RULES: tuple[Rule, ...] = (
    Rule(
        field="irreversible",
        says="A person approves each call of these tools. None of them undoes, reconciles or checks anything.",
        broken=_irreversible,
        tighten=_mark_irreversible,
        deny=_irreversible_checks,
    ),
    Rule(field="tools", says="Fabrics call these tools and no others.", broken=_tools, deny=_denied_tools),
    Rule(
        field="hosts",
        says="Tools, MCP servers, checks and models of fabrics name these hosts and no others.",
        broken=_hosts,
        deny=_denied_hosts,
    ),
    Rule(
        field="waivers",
        says="Who may waive the approval of an irreversible tool.",
        broken=_waivers,
        tighten=_drop_waivers,
    ),
    Rule(
        field="four_eyes",
        says="In these tiers two people approve what is asked, and each change of a fabric.",
        broken=_four_eyes,
        tighten=_require_four_eyes,
    ),
    Rule(
        field="caps",
        says="No run and no session spends more. No review raises a run's cap above it.",
        broken=_caps,
        tighten=_cap_budget,
    ),
    Rule(field="limits", says="No fabric has a higher limit.", broken=_limits, tighten=_numbers),
    Rule(
        field="protections",
        says="No fabric switches these protections off, or weakens them below the defaults.",
        broken=_protections,
        tighten=_add_protections,
    ),
)
"""Every rule, in the order of tightening. One for each field of ``WorkspacePolicy``, by test. ``waivers`` comes
before ``four_eyes``: a fabric's right to waive depends on the published fabric.
"""


def list_broken_rules(spec: FabricSpec, policy: WorkspacePolicy) -> Iterator[Broken]:
    """Yield everything of a fabric that a workspace's policy refuses, as path and sentence."""
    for rule in RULES:
        yield from rule.broken(spec, policy)
