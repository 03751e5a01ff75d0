"""Publication: tools that change the world have a way back, or a person's word before them, and rules of approval that say something."""

from typing import Any

import pytest

from fabric.core.spec.fabric import FabricSpec
from fabric.services.fabrics.publication.rules import deviations
from tests.fabric.services.fabrics.publication.test_rules import cell, small, told, tool


def outside(name: str, **changes: Any) -> dict[str, Any]:
    target = f"https://example.org/{name}"
    return {
        "name": name,
        "kind": "http",
        "target": target,
        "description": "D.",
        "parameters": {"type": "object"},
    } | changes


BOOK, CANCEL = outside("book", effect="mutating", compensation="cancel"), outside("cancel", effect="idempotent")


def changing(*tools: dict[str, Any]) -> FabricSpec:
    return small(tools=[tool(), *tools])


@pytest.mark.parametrize(
    "tools",
    [
        (BOOK, CANCEL),
        (BOOK | {"carry_over": True, "reconcile": "find"}, CANCEL, outside("find", effect="read_only", method="GET")),
        (outside("pay", effect="irreversible"),),
        (outside("pay", effect="irreversible", approval="waived", deviation="Small sums only."),),
        (outside("pay", effect="irreversible", approval="waived", deviation="Small.", approve_when="args.usd > 5"),),
        (BOOK | {"approve_when": "args.usd > 5 && run.tier == 'batch'"}, CANCEL),
    ],
)
def test_what_changes_the_world_may_be_published_with_its_way_back_or_a_persons_word(tools):
    assert [path for path, _ in told(changing(*tools)) if path.startswith("tools")] == []


@pytest.mark.parametrize(
    ("tools", "path", "said"),
    [
        ((BOOK | {"compensation": "book"},), "tools.1.compensation", "cannot undo itself"),
        ((BOOK, CANCEL | {"effect": "read_only"}), "tools.1.compensation", "must be idempotent"),
        ((BOOK, CANCEL | {"effect": "mutating", "compensation": "book"}), "tools.1.compensation", "must be idempotent"),
        ((BOOK, CANCEL | {"method": "DELETE"}), "tools.1.compensation", "use POST, PUT or PATCH"),
        ((BOOK | {"reconcile": "cancel"}, CANCEL), "tools.1.reconcile", "name a read_only tool"),
        (
            (outside("pay", effect="irreversible", compensation="cancel"), CANCEL),
            "tools.1.compensation",
            "leave it out",
        ),
        ((outside("look", carry_over=True),), "tools.1.carry_over", "leave it out"),
        ((outside("pay", effect="irreversible", approval="waived"),), "tools.1.deviation", "give a `deviation`"),
        ((outside("look", approval="waived", deviation="x"),), "tools.1.approval", "leave it out"),
        (
            (outside("pay", effect="irreversible", approve_when="args.usd > 5"),),
            "tools.1.approve_when",
            "is irreversible, so each call needs a review already; leave the rule out",
        ),
        ((outside("look", approve_when="false"),), "tools.1.approve_when", "so no call would need a review"),
        ((outside("look", approve_when="args.usd >"),), "tools.1.approve_when", "does not compile"),
        (
            (outside("look", approve_when="size(usd) > 1"),),
            "tools.1.approve_when",
            "names 'usd'; there are: args, agent",
        ),
    ],
)
def test_a_way_back_that_leads_nowhere_is_refused_with_its_path(tools, path, said):
    found = [sentence for where, sentence in told(changing(*tools)) if where == path]
    assert len(found) == 1
    assert said in found[0]


def test_what_changes_the_world_needs_a_reviewer():
    alone = {"tiers": {"default": "interactive", "allowed": ["interactive"]}, "reviewers": []}
    silent = cell("infinite_tool_loop", "interactive", {"reaction": "terminate"})
    assert told(small(**alone, decision_table=silent)) == []
    lonely = small(**alone, decision_table=silent, tools=[tool(), BOOK, CANCEL])
    assert any(path == "reviewers" and "an unknown outcome" in said for path, said in told(lonely))


def test_a_waived_approval_is_told_as_a_deviation():
    waived = changing(outside("pay", effect="irreversible", approval="waived", deviation="Small sums only."))
    assert [(one.path, one.reason) for one in deviations(waived)] == [("tools.1.approval", "Small sums only.")]
