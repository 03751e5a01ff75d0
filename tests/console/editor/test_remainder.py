"""A topology with something wrong in it: it is drawn as its kind, without that, and what was left out is told."""

from __future__ import annotations

from typing import Any

import pytest

from console.editor.picture import drawn
from console.forms.controls.fields import MISSING, at, path_of
from fabric.services.fabrics.yaml.edits import DropEdit, PutEdit, tree_edited
from fabric.services.fabrics.yaml.tree import read_yaml
from tests.console.editor.parts.test_topology import SOURCES


@pytest.mark.parametrize(
    ("sample", "path", "value", "instead"),
    [
        ("incident-triage", "topology.first", "ghost", MISSING),
        ("incident-triage", "topology.passes.network", ["ghost", "database"], ["database"]),
        ("incident-triage", "topology.passes.ghost", ["network"], MISSING),
        ("support-routing", "topology.transitions.1.when.kind", "never", MISSING),
        ("support-routing", "topology.initial_speaker", 5, "router"),
        ("support-routing", "topology.max_turns", "many", MISSING),
        ("contract-check", "topology.finalizer", "ghost", MISSING),
        ("vendor-debate", "topology.judge", "ghost", MISSING),
        ("research-teams", "topology.teams.auditor", 5, MISSING),
        ("research-teams", "topology.teams.auditor.topology.critic", "ghost", MISSING),
    ],
)
def test_a_topology_with_something_wrong_is_drawn_as_its_kind_without_that(
    sample: str, path: str, value: Any, instead: Any
) -> None:
    tree = read_yaml(SOURCES[sample]).value
    place = path_of(path)
    whole = place[:3] if "transitions" in place else place  # A rule goes as a whole.
    edits = (
        [DropEdit(whole) if instead is MISSING else PutEdit(place, instead)] if at(tree, path) is not MISSING else []
    )
    without = tree_edited(tree, edits)
    found = drawn(tree_edited(tree, [PutEdit(place, value)]), None)
    assert not found.whole
    assert ".".join(map(str, whole)) in " ".join(found.left_out)
    assert [(one.source, one.target, one.what) for one in found.links] == [
        (one.source, one.target, one.what) for one in drawn(without, None).links
    ]
    assert drawn(without, None).left_out == ()


def test_what_is_not_even_a_topology_of_its_kind_is_drawn_by_its_roles_and_told() -> None:
    tree = tree_edited(
        read_yaml(SOURCES["support-routing"]).value, [PutEdit(("topology", "workers"), ["ghost", "router"])]
    )
    shown = drawn(
        tree_edited(tree, [PutEdit(("topology", "transitions"), 5), PutEdit(("topology", "kind"), "ring")]), None
    )
    assert shown.left_out[0] == "Its topology cannot be read: the workers are drawn as a supervisor's."
    assert "router" in str(shown.picture)
