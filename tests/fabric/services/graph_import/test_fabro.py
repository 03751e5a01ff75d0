"""Fabro's workflows as graphs: S1's own examples, rule by rule; what was taken over and what was not, with line and reason."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.flow import RunState
from fabric.core.graph.conditions import ErrorClassIs
from fabric.core.graph.conversation import fold, opened
from fabric.core.graph.problems import problems
from fabric.core.graph.retry_targets import after_failure
from fabric.core.graph.state import NodeOutcome
from fabric.core.policy import FlowPolicy
from fabric.core.taxonomy import Cause, ErrorClass
from fabric.services.errors import Refused
from fabric.services.graph_import.fabro import LEFT_EDGE, LEFT_NODE, POLICY, fabro_read
from fabric.services.graph_import.texts import graph_read
from tests.fabric.core.graph.graphs import packet, sets
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import fails, summary
from tests.fabric.core.topologies.fabrics import talks, team

TEXT = """digraph Example {
    graph [retry_target="plan", fallback_retry_target=implement, max_node_visits="20", stall_timeout=300,
           default_max_retry=2, loop_restart_signature_limit=4, rankdir=LR]
    start [shape=Mdiamond]
    exit [shape=Msquare]
    start -> plan
    plan -> implement -> verify
    implement -> fix       [condition="failure_class=transient_infra"]
    implement -> escalate  [condition="failure_class=deterministic", label="give up"]
    verify [shape=box, goal_gate="true", retry_target="implement", retry_policy=standard, max_visits=3]
    verify -> exit [condition="outcome=success && context.tests=green"]
    verify -> implement [condition="outcome!=fail", loop_restart=true]
    fix -> implement [weight=2]
    escalate -> exit
}
"""
FAIL = NodeOutcome.FAIL


def after(read, node, key="tests", value=None, **fields):
    """Who speaks after a turn of a node, or why it ends."""
    state = opened(read.graph.model_copy(update={"initial_speaker": node}))
    found = fold(read.graph, state, packet(node, writes=sets(**{key: value}), **fields)).state
    return found.expected or found.close_reason


@pytest.fixture(scope="module")
def read():
    return fabro_read(TEXT)


def test_nodes_take_part_and_the_start_says_who_begins(read):
    assert read.graph.participants == ("plan", "implement", "verify", "fix", "escalate")
    assert read.graph.initial_speaker == "plan"
    assert [one for one in problems(read.graph) if not one.warning] == []


@pytest.mark.parametrize(
    ("node", "fields", "then"),
    [
        ("plan", {}, "implement"),
        ("implement", {}, "verify"),
        ("implement", {"outcome": FAIL, "error": ErrorClass.TRANSIENT_INFRA}, "fix"),
        ("implement", {"outcome": FAIL, "error": ErrorClass.DETERMINISTIC}, "escalate"),
        ("verify", {"value": "green"}, "exit"),
        ("verify", {"value": "red"}, "implement"),
        ("escalate", {}, "exit"),
        # No edge matches: what follows is the retry target's to say.
        ("implement", {"outcome": FAIL, "error": ErrorClass.STRUCTURAL}, "no_edge"),
        ("verify", {"outcome": FAIL, "error": ErrorClass.STRUCTURAL}, "no_edge"),
    ],
)
def test_edges_lead_where_they_lead_in_fabro(read, node, fields, then):
    assert after(read, node, **fields) == then


def test_retry_targets_stand_on_their_levels(read):
    levels = {node: [(str(way.level), way.to) for way in after_failure(read.graph, node)] for node in ("verify", "fix")}
    of_graph = [("graph", "plan"), ("graph_fallback", "implement")]
    assert levels == {"verify": [("node", "implement"), *of_graph], "fix": of_graph}
    assert read.graph.max_turns == 100  # 20 visits of 5 nodes.
    assert [one.sentence for one in read.taken if one.what == "retry targets"] == [
        "max_turns: 100, as many turns as max_node_visits lets all nodes have"
    ]


def test_visits_of_a_node_are_those_of_that_worker(read):
    assert read.visits == {"verify": 3}
    text = 'digraph { start -> a -> b; b -> a; b -> exit [condition="context.k=v"]; b [max_visits="2"] }'
    found = graph_read(text)
    assert found.topology["max_visits"] == {"b": 2}
    world = ran(team(found.topology), {**talks("a"), **talks("b")})
    assert [fact.agent for fact in world.of(ev.TurnOpened)] == ["a", "b", "a", "b", "a"]
    assert world.of(ev.ReactionDecided)[0].cause.cause is Cause.VISIT_LIMIT


def test_where_nothing_matches_it_ends():
    assert after(fabro_read('digraph { a -> b [condition="outcome=fail"] }'), "a") == "no_edge"


@pytest.mark.parametrize(
    ("outcome", "error", "then"),
    [
        (FAIL, Cause.SERVER_ERROR, ["a", "b", "a", "b"]),
        (FAIL, Cause.AUTH, ["a", "b"]),
        (NodeOutcome.SUCCESS, None, ["a", "b"]),
    ],
)
def test_only_transient_failures_cross_a_loop_restart(outcome, error, then):
    text = 'digraph { start -> a -> b; b -> a [condition="outcome!=success", loop_restart="true"] }'
    found = graph_read(text)
    answers = [fails(error, "down", status=503)] * 3 if error is not None else []
    world = ran(team(found.topology), {**talks("a"), "b": [*answers, summary("b has looked at it.")]})
    assert [fact.agent for fact in world.of(ev.TurnOpened)] == then
    assert world.end.state is (RunState.ABORTED if error is Cause.AUTH else RunState.COMPLETED)


@pytest.mark.parametrize(
    ("attributes", "restart", "then"),
    [
        ("", True, "a"),
        (', condition="context.k=v"', True, "a"),
        (', condition="outcome=fail"', True, "a"),
        (', condition="failure_class=deterministic"', False, "loop_restart_blocked"),
    ],
)
def test_a_loop_restart_is_a_restart_edge_where_anything_may_cross_it(attributes, restart, then):
    read = fabro_read(f"digraph {{ start -> a -> b; b -> a [loop_restart=true{attributes}] }}")
    (rule,) = (one for one in read.graph.transitions if "agent='b'" in repr(one.when))
    assert (rule.restart, getattr(rule.then, "agent", "") or rule.then.reason) == (restart, then)
    assert [one for one in problems(read.graph) if not one.warning] == []
    assert "loop_restart" not in " ".join(one.what for one in read.left)


def test_the_policy_is_one_that_a_fabric_can_have(read):
    assert read.policy == {
        "limits": {"max_node_visits": 20, "visits_preset": "fabro"},
        "stall_watchdog": {"after_s": 300.0},
        "retry_layers": {"max_retries": 2, "preset": "fabro"},
        "failure_signature": {"limit": 4, "restart_limit": 4},
        "goal_gates": {"nodes": ["verify"]},
    }
    policy = FlowPolicy.model_validate({"budget": {"run_usd_micros": 1}, **read.policy})
    assert (policy.limits.max_node_visits, policy.failure_signature.limit) == (20, 4)
    assert set(POLICY) <= {note.what.removeprefix("graph, ") for note in read.taken}


def test_what_was_not_taken_over_is_told_with_line_and_reason(read):
    told = [str(one) for one in read.left]
    assert [one.partition(": ")[0] for one in told] == [
        "line 3, graph, rankdir",
        "line 9, implement -> escalate, label",
        "line 10, node verify, retry_policy",
        "line 10, node verify, shape",
        "line 13, fix -> implement, weight",
    ]
    assert told[1] == f"line 9, implement -> escalate, label: {LEFT_EDGE['label']}"
    assert told[2] == f"line 10, node verify, retry_policy: {LEFT_NODE['retry_policy']}"


def test_everything_in_the_file_is_told_once_at_least(read):
    """No attribute is dropped in silence: each that stands in the text is in one of the two lists."""
    told = [note.what.rpartition(", ")[2] for note in (*read.taken, *read.left)]
    names = {
        "retry_target",
        "fallback_retry_target",
        "max_node_visits",
        "stall_timeout",
        "default_max_retry",
        "rankdir",
    }
    names |= {"loop_restart_signature_limit", "shape", "condition", "label", "goal_gate", "retry_policy", "max_visits"}
    assert names | {"loop_restart", "weight"} <= set(told)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            'a -> b [condition="outcome=retry"]',
            "no turn ends in 'retry' here; there are: success, partial_success, fail",
        ),
        ('a -> b [condition="failure_class=odd"]', "there is no class of failure 'odd'"),
        ('a -> b [condition="preferred_label=yes"]', "'preferred_label' is what a handler of Fabro asks for"),
        ('a -> b [condition="x > 3"]', "'x > 3' is no condition that is read"),
        ('a -> b [condition=""]', "'' is no condition that is read"),
        ("a [retry_target=zoe] a -> b", "there is no node 'zoe'"),
        ("a [retry_target=b, fallback_retry_target=a] a -> b", "what leads back needs a bound, and the file has no"),
        ("start [retry_target=a] start -> a -> b", "nobody has a turn there"),
        ("start -> a -> b -> exit; b -> exit [loop_restart=true]", "nothing begins anew where the workflow ends"),
        ("exit [max_visits=2] a -> b -> exit", "nobody has a turn there"),
        ("a [max_visits=often] a -> b", "'often' is no number of visits; give a whole one from 1 on"),
        ("a [max_visits=-1] a -> b", "'-1' is no number of visits"),
        ("a [max_visits=0] a -> b", "a worker has 1 to 100,000 visits; policy.limits.max_node_visits holds for it"),
        ("a [max_visits=100001] a -> b", "a worker has 1 to 100,000 visits"),
        ("max_node_visits=many; a -> b", "'many': input should be a valid integer"),
        ("retry_target=zoe; a -> b", "there is no node 'zoe'"),
        ("start -> a; start -> b; a -> b", "a conversation has one first speaker"),
        ("start -> a -> b -> start", "nothing leads back to the start"),
        ("a -> b; subgraph cluster_x { label=inner }", "has no counterpart"),
        ('a [prompt="Do it"] a -> b', "has no counterpart; agents, models and tools are written in the fabric"),
    ],
)
def test_what_cannot_be_taken_over_is_left(body, sentence):
    (left,) = fabro_read(f"digraph {{\n{body}\n}}").left
    assert (left.line, left.sentence[: len(sentence)]) == (2, sentence)


def test_conditions_may_be_joined():
    text = 'digraph { a -> b [condition="outcome=fail && failure_class=canceled || context.k = v"] a -> c }'
    read = fabro_read(text)
    assert after(read, "a", outcome=FAIL, error=ErrorClass.CANCELED) == "b"
    assert after(read, "a", outcome=FAIL, error=ErrorClass.STRUCTURAL) == "no_edge"
    assert after(read, "a", "k", "v") == "b"
    assert after(read, "a") == "c"
    assert (
        ErrorClassIs(failure_class=ErrorClass.CANCELED)
        in read.graph.transitions[0].when.conditions[1].conditions[0].conditions
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("digraph {\n a ->", "flow.fabro, line 2: has the end of the text where a node is expected"),
        ("digraph { a -> b -> a }", "flow.fabro, line 1: does not say where it begins; give a node of shape Mdiamond"),
        ("digraph { start -> exit }", "flow.fabro, line 1: has no node that does anything"),
        ("digraph { 'a' }", 'flow.fabro, line 1: has "\'" where nothing of DOT has it'),
        ('digraph {\n "a b" -> a_b\n "A b" }', "flow.fabro, line 3: 'A b' and 'a b' would both be named 'a-b'"),
    ],
)
def test_what_is_no_workflow_is_refused_with_its_line(text, message):
    with pytest.raises(Refused) as refused:
        fabro_read(text, origin="flow.fabro")
    assert refused.value.message.startswith(message)
