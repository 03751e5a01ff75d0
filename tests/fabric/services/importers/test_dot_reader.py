"""DOT as it is read: nodes, edges, attributes and defaults with their lines; what is no DOT is refused with its line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.services.importers.fabro.dot import BYTES_MAX, DEPTH_MAX, DotAttribute, DotProblem, dot_read
from tests.sets import many

TEXT = """// A workflow
strict digraph "Two parts" {
    graph [goal="Ship it", max_node_visits=20]
    rankdir = LR; /* of
    two lines */ node [shape=box]
    plan -> "do it" -> check [condition="outcome=success", weight=2; label = "a \\"b\\"" ]
# a line of its own
    check:n [goal_gate=true,retry.target="pl" + "an"]
    subgraph cluster_0 { label="inner"; node [shape=oval]; a; b [x] }
    {a b} -> check
}
"""


def values(attributes: dict[str, DotAttribute]) -> dict[str, str]:
    return {name: one.value for name, one in attributes.items()}


def test_a_graph_with_everything():
    dot = dot_read(TEXT)
    assert dot.name == "Two parts"
    assert dot.attributes == {
        "goal": DotAttribute("Ship it", 3),
        "max_node_visits": DotAttribute("20", 3),
        "rankdir": DotAttribute("LR", 4),
    }
    assert [(one.id, one.line, values(one.attributes)) for one in dot.nodes.values()] == [
        ("plan", 6, {"shape": "box"}),
        ("do it", 6, {"shape": "box"}),
        ("check", 6, {"shape": "box", "goal_gate": "true", "retry.target": "plan"}),
        ("a", 9, {"shape": "oval"}),
        ("b", 9, {"shape": "oval", "x": "true"}),
    ]
    said = {"condition": "outcome=success", "weight": "2", "label": 'a "b"'}
    assert [(one.source, one.target, one.line, values(one.attributes)) for one in dot.edges] == [
        ("plan", "do it", 6, said),
        ("do it", "check", 6, said),
        ("a", "check", 10, {}),
        ("b", "check", 10, {}),
    ]
    assert dot.inner == [("label", DotAttribute("inner", 9))]
    assert dot.nodes["check"].attributes["goal_gate"].line == 8


def test_defaults_hold_from_where_they_stand_and_within_their_braces():
    dot = dot_read("digraph { a; edge [w=1] node [k=1] a -> b { edge [w=2] c -> d } c -> a [w=3] e -> a }")
    assert [values(one.attributes) for one in dot.edges] == [{"w": "1"}, {"w": "2"}, {"w": "3"}, {"w": "1"}]
    assert [values(one.attributes) for one in dot.nodes.values()] == [
        {},
        {"k": "1"},
        {"k": "1"},
        {"k": "1"},
        {"k": "1"},
    ]


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        ("", 1, "has the end of the text where digraph is expected"),
        ("graph { a -- b }", 1, "is an undirected graph; a workflow is a digraph"),
        ("digraph {\n a -- b }", 2, "has -- where -> in a digraph is expected"),
        ("digraph {\n\n a -> }", 3, "has } where a node is expected"),
        ("digraph {\n a [x=]", 2, "has ] where a value is expected"),
        ("digraph {\n a [x=1", 2, "has the end of the text where the name of an attribute is expected"),
        ("digraph {\n a", 2, "has the end of the text where a node is expected"),
        ("digraph { }\n digraph { }", 2, "has digraph where the end, after one graph, is expected"),
        ("digraph {\n a [label=<b>] }", 2, "has HTML text, which is not read"),
        ('digraph {\n a [label="b] }', 2, "has a quotation mark that no other one closes"),
        ("digraph {\n a ? b }", 2, "has '?' where nothing of DOT has it"),
        ('digraph { a [x="b" + c] }', 1, "has c where more text in quotation marks is expected"),
        ("digraph " + "{" * (DEPTH_MAX + 3), 1, "has subgraphs nested deeper than 16 levels"),
        (f"digraph {{ {'x' * BYTES_MAX} }}", 1, "is larger than 256 KB"),
        (
            "digraph { {"
            + " ".join(f"a{n}" for n in range(70))
            + "} -> {"
            + " ".join(f"b{n}" for n in range(70))
            + "} }",
            1,
            "has more than 4000",
        ),
    ],
)
def test_what_is_no_dot_is_refused_with_its_line(text, line, sentence):
    with pytest.raises(DotProblem) as refused:
        dot_read(text)
    assert (refused.value.line, str(refused.value)[: len(sentence)]) == (line, sentence)


@settings(max_examples=many(200))
@given(st.text(alphabet='digraph{}[]->;=,"a b\n/*#<+:', max_size=60))
def test_any_text_is_read_or_refused(text):
    refused = None
    try:
        dot_read(f"digraph {{{text}}}")
    except DotProblem as problem:
        refused = problem
    assert refused is None or 1 <= refused.line <= text.count("\n") + 1
