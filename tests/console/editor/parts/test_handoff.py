"""Peers of a handoff in a draft, a row each; and what is said of single workers under their names."""

from __future__ import annotations

import re

from django.http import QueryDict

from console.forms.drafts.edits import GROUND, changes_in
from fabric.services.fabrics.yaml.edits import PutEdit, text_edited
from fabric.services.fabrics.yaml.tree import read_yaml
from tests.console.editor.parts.test_topology import SOURCES, page, pressed, sent

TRIAGE = SOURCES["incident-triage"]


def passed_on(html: str, who: str) -> list[str]:
    boxes = re.findall(rf'name="f\.topology\.passes\.{who}" value="([^"]+)"( checked)?', html)
    return [name for name, checked in boxes if checked]


def test_peers_have_a_row_each_of_whom_they_may_pass_on_to() -> None:
    html = page(TRIAGE)
    assert [passed_on(html, who) for who in ("on-call", "network", "application")] == [
        ["network", "database", "application"],
        ["database", "application"],
        [],
    ]
    assert 'name="f.topology.passes.network" value="network"' not in html
    assert "Every worker to every other" in html
    data = QueryDict("p.topology.passes.application=1&f.topology.passes.application=network", mutable=True)
    data.setlist("f.topology.passes.network", ["application"])
    text = text_edited(TRIAGE, changes_in(read_yaml(TRIAGE).value, data).edits)
    passes = read_yaml(text).value["topology"]["passes"]
    assert (passes["application"], passes["network"], passes["database"]) == (
        ["network"],
        ["application"],
        ["network", "application"],
    )


def test_where_nothing_is_said_every_agent_may_and_a_tick_less_says_it_of_all() -> None:
    free = pressed(TRIAGE, "reset topology.passes")
    assert "passes" not in free["topology"]
    text = text_edited(TRIAGE, GROUND.pressed(read_yaml(TRIAGE).value, "reset topology.passes")[0])
    html = page(text)
    assert passed_on(html, "application") == ["on-call", "network", "database"]
    assert "reset topology.passes" not in html
    data = QueryDict("p.topology.passes.application=1&f.topology.passes.application=network", mutable=True)
    passes = read_yaml(text_edited(text, changes_in(read_yaml(text).value, data).edits)).value["topology"]["passes"]
    assert passes["application"] == ["network"]
    assert sorted(passes["on-call"]) == ["application", "database", "network"]
    unticked = QueryDict("p.topology.passes.application=1")
    passes = read_yaml(text_edited(text, changes_in(read_yaml(text).value, unticked).edits)).value["topology"]["passes"]
    assert passes["application"] == []
    null = page(text.replace("topology:\n", "topology:\n  passes: null\n", 1))
    assert passed_on(null, "application") == ["on-call", "network", "database"]


def test_a_row_of_an_unknown_worker_is_told_and_can_be_taken_out() -> None:
    text = TRIAGE.replace("    network: [", "    ghost: [", 1)
    html = page(text)
    assert "&#x27;ghost&#x27; is not one of the workers" in html
    assert 'value="remove topology.passes.ghost"' in html
    assert "ghost" not in pressed(text, "remove topology.passes.ghost")["topology"]["passes"]


def test_rows_and_visits_follow_a_worker_that_is_called_otherwise() -> None:
    names = [one["name"] for one in read_yaml(TRIAGE).value["agents"]]
    renamed = sent(TRIAGE, **{f"agents__{names.index('network')}__name": "wires"})["topology"]["passes"]
    assert (renamed["wires"], renamed["on-call"]) == (["database", "application"], ["wires", "database", "application"])
    graph = SOURCES["support-routing"].replace("  kind: graph\n", "  kind: graph\n  max_visits: {billing: 2}\n", 1)
    names = [one["name"] for one in read_yaml(graph).value["agents"]]
    visits = sent(graph, **{f"agents__{names.index('billing')}__name": "money"})["topology"]["max_visits"]
    assert visits == {"money": 2}


def test_turns_of_single_workers_are_numbers_and_go_when_they_are_empty() -> None:
    graph = SOURCES["support-routing"]
    assert 'name="f.topology.max_visits.billing"' in page(graph)
    tree = sent(graph, topology__max_visits__billing="3")
    assert tree["topology"]["max_visits"] == {"billing": 3}
    text = text_edited(graph, [PutEdit(("topology", "max_visits"), {"billing": 3, "ghost": 1})])
    html = page(text)
    assert "&#x27;ghost&#x27; is not one of the workers" in html
    assert "max_visits" not in sent(text, topology__max_visits__billing="", topology__max_visits__ghost="")["topology"]
