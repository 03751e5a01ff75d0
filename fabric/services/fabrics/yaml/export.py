"""Exports a fabric's text as its author wrote it, or as the spec with a comment at each limit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from fabric.core.schema.topology import Tiers
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.flow_policy import FlowPolicy
from fabric.core.values.taxonomy import Tier
from fabric.selectors.fabrics.limits import DUE, LimitInForce, list_limits
from fabric.selectors.fabrics.lookup import RevisionPage
from fabric.services.fabrics.yaml.document import fabric_dump
from fabric.services.fabrics.yaml.tree import Path, read_yaml

HEADINGS: Mapping[str, str] = {
    "name": "A fabric, written out by Fabric Flow: every field, with its default where its author gave none.",
    "tiers": "Tiers that a run may have, and the one that it has if its caller names none.",
    "models": "Models that the agents use, each with its price.",
    "mcp_servers": "MCP servers, whose tools are declared under tools.",
    "tools": "Tools that the agents may call, and the effect of each on the world.",
    "memories": "Values that runs keep.",
    "agents": "Agents of the fabric, each with instructions, a model and tools.",
    "topology": "Agents by their work: who plans, works, merges, judges and answers.",
    "gates": "Checks of the outputs of stages, beside their schemas.",
    "policy": "Budgets, limits and protections.",
    "reviewers": "People who answer reviews: user names or roles.",
    "safe_fallback": "The answer that a run ends with where its cell says safe_fallback.",
    "decision_table": "Cells of the decision table that differ from the default.",
}
"""A line above each group, by its field; total by test over what is no plain text."""


def export_revision(page: RevisionPage) -> str:
    """Return a revision as a file. It is the text that was last published, byte for byte, or else written out with
    comments.
    """
    return page.source or written_out(page.spec)


def written_out(spec: FabricSpec) -> str:
    """Return the spec as YAML with a comment at each group, budget and limit. A comment has the unit, the default and
    its source.

    Reads back as an equal spec; equal specs give equal bytes.
    """
    text = fabric_dump(spec)
    above: dict[int, str] = {}
    keys = read_yaml(text).keys
    for path, comment in _comments(spec):
        if (mark := keys.get(path)) is not None:
            above[mark.line] = f"{' ' * (mark.column - 1)}# {comment}\n"
    lines = text.splitlines(keepends=True)
    return "".join(above.get(n, "") + line for n, line in enumerate(lines, start=1))


def _comments(spec: FabricSpec) -> Iterator[tuple[Path, str]]:
    for name, heading in HEADINGS.items():
        yield (name,), heading
    # Deadlines may be given for a tier that no run can pick.
    every = spec.model_copy(update={"tiers": Tiers(allowed=tuple(Tier))})
    for name, group in zip(FlowPolicy.model_fields, list_limits(every), strict=True):
        unset = dict.fromkeys(limit.path.rpartition(".")[2] for limit in group.limits if limit.value is None)
        yield ("policy", name), f"{group.title}. Not set: {', '.join(unset)}." if unset else f"{group.title}."
        for limit in group.limits:
            yield _path(limit), _limit_comment(limit)


def _path(limit: LimitInForce) -> Path:
    first, *rest = limit.path.split(".")
    if first == "deadlines" and limit.tier is not None:
        return ("policy", first, limit.tier.value, *rest)
    return ("policy", first, *rest)


def _limit_comment(limit: LimitInForce) -> str:
    parts = (
        limit.meaning,
        f"Unit: {limit.unit.file_unit}." if limit.unit else "",
        "" if limit.required else f"Default: {_default(limit)}.",
        f"Source: {limit.origin}.",
    )
    return " ".join(part for part in parts if part)


def _default(limit: LimitInForce) -> str:
    if limit.path == DUE:
        return "the tier's"
    if limit.default is None:
        return "none"
    default = sorted(limit.default) if isinstance(limit.default, frozenset) else limit.default
    return json.dumps(default, ensure_ascii=False, default=str)
