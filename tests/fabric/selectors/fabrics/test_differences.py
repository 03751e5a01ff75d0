"""A comparison names what a version changed: by path and name, each place once, nothing that a run would not notice."""

from __future__ import annotations

import pytest

from fabric.selectors.fabrics.differences import CHANGES_MAX, VALUE_CHARS_MAX, SpecChange, differences, revision_changes
from fabric.selectors.fabrics.lookup import fabric_get
from fabric.services.fabrics.revisions import fabric_publish
from tests.fabric.services.world import SMALL

NAMED = [{"name": "a", "x": 1}, {"name": "b", "x": 2}]

CASES = {
    "equal": ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}, []),
    "changed": ({"a": {"b": 1}}, {"a": {"b": 2}}, [SpecChange("a.b", "changed", "1", "2")]),
    "added": ({}, {"a": "text"}, [SpecChange("a", "added", "", "text")]),
    "removed": ({"a": [1, 2]}, {}, [SpecChange("a", "removed", "[1, 2]", "")]),
    "none is not there": ({"a": None, "b": None}, {"b": 1}, [SpecChange("b", "added", "", "1")]),
    "given up": ({"b": 1}, {"b": None}, [SpecChange("b", "removed", "1", "")]),
    "false is a value": ({"a": False}, {"a": True}, [SpecChange("a", "changed", "false", "true")]),
    "nothing is a value": ({"a": 0}, {"a": ""}, [SpecChange("a", "changed", "0", "")]),
    "by name": ({"l": NAMED}, {"l": [NAMED[0], {"name": "b", "x": 3}]}, [SpecChange("l.b.x", "changed", "2", "3")]),
    "one more": ({"l": NAMED[:1]}, {"l": NAMED}, [SpecChange("l.b", "added", "", '{"name": "b", "x": 2}')]),
    "other order": ({"l": NAMED}, {"l": NAMED[::-1]}, [SpecChange("l", "moved", "a, b", "b, a")]),
    "plain lists whole": ({"l": [1, 2]}, {"l": [2, 1]}, [SpecChange("l", "changed", "[1, 2]", "[2, 1]")]),
    "another kind": ({"a": {"b": 1}}, {"a": 1}, [SpecChange("a", "changed", '{"b": 1}', "1")]),
}


@pytest.mark.parametrize("case", CASES)
def test_differences(case):
    before, after, expected = CASES[case]
    assert list(differences(before, after)) == expected


def test_long_values_are_cut():
    (change,) = differences({}, {"a": "x" * 9_000})
    assert len(change.after) == VALUE_CHARS_MAX
    assert change.after.endswith("…")


def publish(actor, **replaced: tuple[str, str]) -> None:
    source = SMALL
    for old, new in replaced.values():
        assert old in source
        source = source.replace(old, new)
    fabric_publish(actor=actor, source=source)


def test_versions_of_a_fabric(actor, small):
    publish(
        actor, a=("instructions: Read.", "instructions: Read twice."), b=("reviewers: [owner]", "reviewers: [reviewer]")
    )
    fabric = fabric_get(actor, small)
    found = revision_changes(actor, fabric.id, [2, 1])
    assert (found[1].against, found[1].changes) == (None, ())
    assert found[2].against == 1
    assert [(change.path, change.kind) for change in found[2].changes] == [
        ("agents.reader.instructions", "changed"),
        ("reviewers", "changed"),
    ]


def test_a_cell_reads_as_what_holds_before_and_after(actor, small):
    publish(
        actor,
        a=(
            "reviewers:",
            "decision_table:\n  cost_overrun:\n    batch: {rungs: [{reaction: escalate, role: finance}]}\nreviewers:",
        ),
    )
    fabric_publish(actor=actor, source=SMALL.replace("instructions: Plan.", "instructions: Plan well."))
    found = revision_changes(actor, fabric_get(actor, small).id, [2, 3])
    ladder = "decision_table.cost_overrun.batch.rungs"
    default = "alert + cheaper model ×1 → abort"
    assert found[2].changes == (SpecChange(ladder, "changed", default, "escalate to finance"),)
    assert SpecChange(ladder, "changed", "escalate to finance", default) in found[3].changes


def test_others_see_nothing_of_it(actor, stranger, small):
    assert revision_changes(stranger, fabric_get(actor, small).id, [1]) == {}


def test_a_flood_of_changes_is_counted(actor, small):
    many = "".join(f"  - name: t{n}\n    kind: builtin\n    target: read_document\n" for n in range(CHANGES_MAX + 5))
    publish(actor, a=("tools:\n", f"tools:\n{many}"))
    found = revision_changes(actor, fabric_get(actor, small).id, [2])[2]
    assert len(found.changes) == CHANGES_MAX
    assert found.more >= 5


def test_a_replan_with_the_critic_is_told_from_one_without(actor, small):
    rung = "rungs: [{reaction: replan, times: 2}, {reaction: abort}]"
    publish(actor, a=("reviewers:", f"decision_table:\n  plan_malformed:\n    batch: {{{rung}}}\nreviewers:"))
    (change,) = revision_changes(actor, fabric_get(actor, small).id, [2])[2].changes
    assert (change.before, change.after) == ("replan with critic ×2 → abort", "replan ×2 → abort")
