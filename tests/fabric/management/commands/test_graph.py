"""`manage.py graph import|export`: graphs of other programs as topologies of fabrics, and for AG2."""

from __future__ import annotations

import json

import pytest

from fabric.core.graph.spec import TransitionGraph
from fabric.core.spec.topologies.kinds import BY_KIND
from fabric.services.fabrics.yaml.tree import read_yaml
from fabric.services.importers.ag2 import ag2_read, ag2_written
from fabric.services.importers.graphs.files import graph_read, yaml_text
from tests.fabric.management.console import command

AG2 = {
    "initial_speaker": "triage",
    "transitions": [
        {
            "when": {"name": "tool_called", "args": {"tool_name": "refund"}},
            "then": {"name": "agent", "args": {"agent_id": "billing"}},
            "priority": 0,
        },
        {
            "when": {"name": "from_speaker", "args": {"agent_id": "billing"}},
            "then": {"name": "terminate", "args": {"reason": "done"}},
            "priority": 1,
        },
    ],
    "default_target": {"name": "agent", "args": {"agent_id": "triage"}},
    "max_turns": 6,
}
FABRO = """digraph Flow {
  start [shape=Mdiamond]
  exit [shape=Msquare]
  start -> work -> verify
  verify -> exit [condition="outcome=success"]
  verify -> work [condition="outcome=fail"]
  work [prompt="Do it"]
}
"""
DESK = """
name: desk
title: Desk
models:
  - {name: m, provider: scripted, price: {input_usd_per_mtok: 0, output_usd_per_mtok: 0}}
tools:
  - {name: refund, target: search_documents}
agents:
  - {name: triage, model: m, instructions: Sort it., tools: [refund]}
  - {name: billing, model: m, instructions: Bill it.}
TOPOLOGY
policy: {budget: {run_usd_micros: 100000}}
reviewers: [owner]
"""


def graph_of(text: str) -> TransitionGraph:
    """The graph that the printed group ``topology`` is."""
    topology = BY_KIND["graph"].model_validate(read_yaml(text).value["topology"])
    return topology.graph  # type: ignore[attr-defined]


def test_a_graph_of_ag2_is_printed_as_a_topology_that_decides_the_same(actor, tmp_path):
    path = tmp_path / "workflow.json"
    path.write_text(json.dumps(AG2))
    done = command("graph", "import", str(path))
    assert done.code == 0
    assert graph_of(done.out) == ag2_read(AG2).graph
    assert "does not say who takes part" in done.err
    assert "# not taken over: AG2's graph does not say who takes part" in done.out


def test_and_goes_back_as_it_came(actor, tmp_path):
    fabric = tmp_path / "desk.yaml"
    fabric.write_text(DESK.replace("TOPOLOGY", yaml_text(graph_read(json.dumps(AG2)))))
    done = command("graph", "export", str(fabric))
    assert done.code == 0
    assert json.loads(done.out) == AG2
    assert ag2_written(ag2_read(json.loads(done.out)).graph) == AG2


def in_a_team(tmp_path):
    """A file whose worker leads a team that takes turns by the graph, beside one whose team is planned."""
    graph = read_yaml(yaml_text(graph_read(json.dumps(AG2)))).value["topology"]
    plan = {"exit_criteria": ["done"], "briefs": [{"agent": "triage", "instructions": "Go."}]}
    teams = {"desk": {"topology": graph}, "office": {"topology": {"workers": ["triage"], "plan": plan}}}
    briefs = [{"agent": lead, "instructions": "Go."} for lead in teams]
    topology = {"kind": "hierarchical", "workers": list(teams), "plan": {**plan, "briefs": briefs}, "teams": teams}
    path = tmp_path / "desk.yaml"
    people = "".join(f"\n  - {{name: {name}, model: m, instructions: Lead.}}" for name in teams)
    text = DESK.replace("TOPOLOGY", f"topology: {json.dumps(topology)}")
    path.write_text(text.replace("agents:", f"agents:{people}"))
    return str(path)


def test_a_team_s_graph_goes_back_too(actor, tmp_path):
    done = command("graph", "export", in_a_team(tmp_path), "--team", "desk")
    assert done.code == 0, done.err
    assert json.loads(done.out) == AG2


@pytest.mark.parametrize(
    ("team", "sentence"),
    [
        ((), "is no graph: its topology is hierarchical; --team takes desk"),
        (("--team", "office"), "the team of office in"),
        (("--team", "cellar"), "has no team that cellar leads: its teams are led by desk, office"),
    ],
)
def test_an_export_of_no_graph_says_what_there_is(actor, tmp_path, team, sentence):
    done = command("graph", "export", in_a_team(tmp_path), *team)
    assert done.code == 2
    assert sentence in done.err


def test_a_workflow_of_fabro_says_what_was_taken_over_and_what_was_not(actor, tmp_path):
    path = tmp_path / "flow.dot"
    path.write_text(FABRO)
    done = command("graph", "import", str(path), "--json")
    assert done.code == 0
    assert done.last["form"] == "fabro"
    assert done.last["topology"]["workers"] == ["work", "verify"]
    assert done.last["taken"]
    assert all(f"not taken over: {one}" in done.err for one in done.last["left"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hello", "neither AG2's JSON nor a DOT digraph"),
        ('{"initial_speaker": ', "line 1"),
        ("digraph {\n a ->", "flow.txt, line 2"),
        (json.dumps({"manifest": {"type": "workflow", "version": 9}, "graph": AG2}), "9"),
        (
            json.dumps(
                {**AG2, "transitions": [{"when": {"name": "from_speaker", "args": {}}, "then": AG2["default_target"]}]}
            ),
            "transitions.0.when.args",
        ),
    ],
)
def test_what_is_no_graph_is_one_sentence_with_its_place(actor, tmp_path, text, sentence):
    path = tmp_path / "flow.txt"
    path.write_text(text)
    done = command("graph", "import", str(path))
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_only_graphs_are_written_for_ag2(actor, tmp_path):
    path = tmp_path / "desk.yaml"
    plain = "topology: {workers: [triage, billing], plan: {exit_criteria: [done], briefs: [{agent: triage, instructions: Go.}]}}"
    path.write_text(DESK.replace("TOPOLOGY", plain))
    done = command("graph", "export", str(path))
    assert done.code == 2
    assert "is no graph: its topology is supervisor" in done.err
    assert command("graph", "export", str(tmp_path / "none.yaml")).code == 2
