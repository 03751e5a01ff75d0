"""Files as users of Fabro and AG2 write them: read whole, sound, and deciding as there."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric.core.graph.conversation import fold, open_conversation
from fabric.core.graph.problems import problems
from fabric.core.graph.state import NodeOutcome
from fabric.core.spec.topologies.kinds import BY_KIND
from fabric.services.importers.graphs.files import graph_read
from tests.fabric.core.graph.graphs import packet, sets

FOLDER = Path(__file__).resolve().parents[3] / "data" / "graphs"
FAIL = NodeOutcome.FAIL
PLAYED = {
    "fix-loop.dot": (("draft", {}), ("check", {"outcome": FAIL}), ("mend", {}), ("check", {}), "exit"),
    "release-gate.dot": (
        ("notes", {}),
        ("gate", {"writes": sets(**{"human.gate.label": "Back", "human.gate.selected": "B"})}),
        ("notes", {}),
        ("gate", {"outcome": FAIL}),
        ("late", {}),
        "exit",
    ),
    "tiers.json": (
        ("front", {"writes": sets(level=2)}),
        ("front", {"writes": sets(level=3)}),
        ("engineer", {"calls": "resolve"}),
        "resolved",
    ),
    "feedback.json": (
        ("drafter", {}),
        ("reviewer", {}),
        ("drafter", {}),
        ("reviewer", {"writes": sets(approved=True)}),
        "approved",
    ),
}


def graph_of(name):
    found = graph_read((FOLDER / name).read_text(), origin=name)
    topology = BY_KIND["graph"].model_validate(found.topology)
    return topology.graph, topology.context, found


@pytest.mark.parametrize("name", PLAYED)
def test_a_conversation_goes_as_it_does_there(name):
    graph, context, _ = graph_of(name)
    assert [one for one in problems(graph) if not one.warning] == []
    state = open_conversation(graph, context)
    *turns, end = PLAYED[name]
    for speaker, fields in turns:
        assert state.expected == speaker
        calls = [fields.pop("calls")] if "calls" in fields else []
        state = fold(graph, state, packet(speaker, *calls, **fields)).state
    assert (state.expected, state.close_reason) == (None, end)


def test_there_are_two_of_each_kind():
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(PLAYED)


def test_a_channel_keeps_its_clocks_and_its_names():
    graph, context, found = graph_of("tiers.json")
    assert [(one.seconds, one.on_violation) for one in graph.expectations] == [(15, "warn"), (30, "auto_close")]
    assert (graph.ttl_s, context, graph.participants) == (3_600, {"level": 1}, ("front", "expert", "engineer"))


def test_what_is_no_agent_of_a_model_comes_as_parts_of_a_fabric():
    _, _, gate = graph_of("release-gate.dot")
    _, _, loop = graph_of("fix-loop.dot")
    assert [one["name"] for one in gate.parts["tools"]] == ["ask_person"]
    assert [one["name"] for one in loop.parts["tools"]] == ["run-check"]
    assert loop.policy["retry_layers"] == {
        "max_retries": 1,
        "preset": "fabro",
        "workers": {"mend": {"retry_policy": "patient"}},
    }
