"""The parts of the editor: which paths each of them edits, how it is built, and where a remark leads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from console.editor.draft import Editing
from console.editor.parts import agents as part_agents
from console.editor.parts import basics as part_basics
from console.editor.parts import decision_table as part_table
from console.editor.parts import gates as part_gates
from console.editor.parts import limits as part_limits
from console.editor.parts import models as part_models
from console.editor.parts import people as part_people
from console.editor.parts import tools as part_tools
from console.editor.parts import topology as part_topology
from console.editor.parts import yaml as part_yaml
from console.editor.subjects import subject
from fabric.core.values.flow import Stage
from fabric.services.fabrics.checks import CheckedText, TextFinding


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the editor's page."""

    name: str
    """In the address."""
    label: str
    owns: tuple[str, ...]
    """Paths that it edits, and all that is under them."""
    build: Callable[[Editing], dict[str, Any]]

    @property
    def template(self) -> str:
        """Template of the part."""
        return f"editor/parts/{self.name}.html"


OWN_TABLES = tuple(f"policy.stages.{stage}.decision_table" for stage in Stage)
"""The cells that single stages have of their own."""
PARTS: Mapping[str, Part] = {
    part.name: part
    for part in (
        Part(
            "basics", "Fabric", ("name", "title", "description", "example", "tiers", "safe_fallback"), part_basics.build
        ),
        Part("agents", "Agents", ("agents", "policy.budget.agents"), part_agents.build),
        Part("topology", "Topology", ("topology", "policy.fan_in", "policy.goal_gates"), part_topology.build),
        Part("gates", "Stages and gates", ("gates", "policy.tau"), part_gates.build),
        Part("limits", "Budgets and limits", ("policy",), part_limits.build),
        Part("table", "Decision table", ("decision_table", *OWN_TABLES), part_table.build),
        Part("people", "Review rules", ("reviewers", "policy.humans"), part_people.build),
        Part("tools", "Tools", ("tools", "mcp_servers", "memories"), part_tools.build),
        Part("models", "Models", ("models",), part_models.build),
        Part("yaml", "YAML", ("",), part_yaml.build),
    )
}
"""By name; the first where none is named. A path that no part owns is edited as YAML."""


def part_of(path: str) -> Part:
    """The part in which a path is edited: the one that owns most of it."""
    found = PARTS["yaml"]
    most = -1
    for part in PARTS.values():
        for own in part.owns:
            if (path == own or path.startswith(f"{own}.") or not own) and len(own) > most:
                found, most = part, len(own)
    return found


@dataclass(frozen=True, slots=True)
class Remark:
    """A finding as the list of problems shows it."""

    finding: TextFinding
    address: str
    """The part, and the field in it."""
    part: str
    """Its label."""
    subject: str
    """Place of the finding, as forms name it; ``""``: the whole text."""


def remarks(checked: CheckedText) -> list[Remark]:
    """Findings with where each leads."""
    tree = checked.tree.value if checked.tree else None
    return [_remark(one, tree) for one in checked.findings]


def _remark(finding: TextFinding, tree: Any) -> Remark:
    part = part_of(finding.path)
    place = f"f.{finding.path}" if part.name != "yaml" else f"L{finding.line or 1}"
    before, _, inside = finding.path.rpartition("decision_table.")
    cell = inside.split(".")[:2]
    opened = f"&cell={'.'.join(cell)}" if part.name == "table" and len(cell) == 2 else ""
    opened += f"&stage={before.split('.')[2]}" if opened and before else ""
    return Remark(finding, f"?part={part.name}{opened}#{place}", part.label, subject(finding.path, tree))
