"""Fabro's workflows as graphs: S1's own examples, rule by rule; what was taken over and what was not, with line and reason."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.graph.conditions import ErrorClassIs
from fabric.core.graph.conversation import fold, open_conversation
from fabric.core.graph.problems import problems
from fabric.core.graph.retry_targets import after_failure
from fabric.core.graph.state import NodeOutcome
from fabric.core.spec.policies.flow_policy import FlowPolicy
from fabric.core.spec.policies.retries import PRESETS, PresetName
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.taxonomy import Cause, ErrorClass
from fabric.services.errors import Refused
from fabric.services.importers.fabro.workflows import PARTIAL, fabro_read
from fabric.services.importers.graphs.files import graph_read
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
    """Return who speaks after a turn of a node, or why it ends."""
    state = open_conversation(read.graph.model_copy(update={"initial_speaker": node}))
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
        # An edge without a condition leads on after a failure too.
        ("implement", {"outcome": FAIL, "error": ErrorClass.STRUCTURAL}, "verify"),
        # No edge matches: what follows is the retry target's to say.
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
    assert "loop_restart" not in " ".join(read.left)


def test_the_policy_is_one_that_a_fabric_can_have(read):
    assert read.policy == {
        "limits": {"max_node_visits": 20, "visits_preset": "fabro"},
        "stall_watchdog": {"after_s": 300.0},
        "retry_layers": {"max_retries": 2, "preset": "fabro", "workers": {"verify": {"retry_policy": "standard"}}},
        "failure_signature": {"limit": 4, "restart_limit": 4},
        "goal_gates": {"nodes": ["verify"]},
    }
    policy = FlowPolicy.model_validate({"budget": {"run_usd_micros": 1}, **read.policy})
    assert (policy.limits.max_node_visits, policy.failure_signature.limit) == (20, 4)
    assert str(policy.retry_layers.retries_of(Stage.FAN_OUT, "verify")) == str(PRESETS[PresetName.STANDARD])


def test_all_that_decides_nothing_is_told_in_one_line(read):
    assert read.left == (
        "label (line 9), rankdir (line 3): these decide nothing here; agents, models and prompts are written in the fabric",
    )
    assert read.lost == ()


LOST = {
    'a -> b [condition="outcome=retry"]': "no turn ends in 'retry'; there are: succeeded, success, failed",
    'a -> b [condition="failure_class=odd"]': "there is no class of failure 'odd'",
    'a -> b [condition="preferred_label=yes"]': "'preferred_label' is what Fabro's model asks for",
    'a -> b [condition="context.internal.node_visit_count >= 5"]': "'internal.node_visit_count' is written by Fabro itself",
    'a -> b [condition="x ~ 3"]': "'x ~ 3' is no condition",
    'a -> b [condition="x > many"]': "compares with 'many', which is no number",
    'a -> b [condition="x matches (a+)+"]': "'(a+)+' repeats a group",
    'a -> b [condition="k=v ||"]': "'' is no condition",
    'a -> b [condition="outcome > success"]': "'outcome > success': how a turn ended is one of a few words",
    "a -> b [weight=heavy]": "'heavy' is no number",
    "a -> b -> c; a -> c": "only one edge without a condition leads on",
    "a [retry_target=zoe] a -> b": "there is no node 'zoe'",
    "retry_target=zoe; a -> b": "there is no node 'zoe'",
    "a [max_visits=often] a -> b": "'often' is no whole number from 0 on",
    "a [max_visits=-1] a -> b": "'-1' is no whole number from 0 on",
    "a [max_visits=100001] a -> b": "a worker has 1 to 100,000 visits",
    "a [max_retries=21] a -> b": "21 is too large; at most 20",
    "a [retry_policy=often] a -> b": "'often' is none of",
    "max_node_visits=many; a -> b": "'many' is no whole number from 0 on",
    "stall_timeout=often; a -> b": "'often' is no duration",
    "start -> a; start -> b; a -> b": "a conversation has one first speaker",
    'start -> a [condition="k=v"] a -> b': "nothing has happened yet that it could ask for",
    "start -> a -> b -> start": "nothing leads back to the start",
    "a [auto_status=true] a -> b": "makes every failure a success",
    "a [selection=random] a -> b": "picks the next node at random",
    "a [on_failure=succeed] a -> b": "says what follows a failure",
    "a [on_failure=exit] a -> b": "says what follows a failure",
    "a [on_retries_exhausted=partially_succeed] a -> b": "write allow_partial=true, which says the same",
    "on_failure=stop; a -> b": "says what follows a failure",
    "a -> b; b [shape=component]": "does several things at once",
    'a -> b; b [type="parallel.fan_in"]': "does several things at once",
    "a -> b; b [shape=insulator, duration=2m]": "waits, which a fabric cannot",
    "a -> b; b [shape=house]": "runs another workflow",
    "a -> b; b [shape=hexagon, human.default_choice=yes]": "treats silence as an answer",
    "a -> b -> c; b [shape=diamond, goal_gate=true]": "a node that only branches has no turn",
    "a -> b -> c -> b; b [shape=diamond]; c [shape=diamond]": "leads through more than 6 nodes that only branch",
}


@pytest.mark.parametrize("body", LOST)
def test_a_file_with_a_part_whose_loss_makes_another_graph_is_refused(body):
    text = f"digraph {{\n{body}\n}}"
    with pytest.raises(Refused) as refused:
        fabro_read(text, origin="flow.fabro")
    said = [one for one in refused.value.problems if f": {LOST[body]}" in one]
    assert said, refused.value.problems
    assert said[0].startswith("flow.fabro, line 2, ")
    assert refused.value.problems[-1] == PARTIAL
    lost = fabro_read(text, partial=True)
    assert [str(one) for one in lost.lost] == [one.removeprefix("flow.fabro, ") for one in refused.value.problems[:-1]]
    assert set(map(str, lost.lost)) <= set(lost.left)


def test_all_of_them_are_named_at_once():
    text = 'digraph {\n a -> b [condition="x ~ 1"]\n b -> c [condition="y ~ 2"]\n c [shape=house]\n start -> a }'
    with pytest.raises(Refused) as refused:
        fabro_read(text)
    assert [one.partition(":")[0] for one in refused.value.problems[:-1]] == [
        "line 2, a -> b, condition",
        "line 3, b -> c, condition",
        "line 3, node c",
    ]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            "a [retry_target=b, fallback_retry_target=a] a -> b",
            "edges that lead back need a bound, and the file has no",
        ),
        ("start [retry_target=a] start -> a -> b", "no node takes a turn there"),
        ("exit [max_visits=2] a -> b -> exit", "no node takes a turn there"),
        ("a -> b -> exit [loop_restart=true]", "nothing starts over where the workflow ends"),
        ("a [timeout=900s] a -> b", "a node has no time of its own here"),
        ("a [max_visits=0] a -> b", "0 is no bound, and policy.limits.max_node_visits holds"),
        ("max_node_visits=0; a -> b", "0 is no bound, and leaving it out is none here"),
        ('a -> b; a -> c [condition="outcome=skipped"]', "no turn is skipped here"),
    ],
)
def test_what_its_author_should_know_is_told_by_its_line(body, sentence):
    read = fabro_read(f"digraph {{\n start -> a\n {body}\n}}" if "start" not in body else f"digraph {{\n\n{body}\n}}")
    assert [one for one in read.left if one.startswith("line 3, ") and sentence in one], read.left
    assert read.lost == ()


# -- edges -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("good", "bad", "some"), [("succeeded", "failed", "partially_succeeded"), ("success", "fail", "partial_success")]
)
def test_both_vocabularies_of_outcomes_are_read(good, bad, some):
    edges = (
        f'a -> b [condition="outcome={good}"] a -> c [condition="outcome={bad}"] a -> d [condition="outcome={some}"]'
    )
    read = fabro_read(f"digraph {{ start -> a; {edges} }}")
    ends = {"b": {}, "c": {"outcome": FAIL}, "d": {"outcome": NodeOutcome.PARTIAL_SUCCESS}}
    assert {then: after(read, "a", **fields) for then, fields in ends.items()} == {"b": "b", "c": "c", "d": "d"}


CONDITIONS = {
    "k = v": ("v", "w"),
    "k != v": ("w", "v"),
    "k=true": (True, False),
    "!k=v": ("w", "v"),
    "!!k": ("x", ""),
    "k": ("x", "0"),
    "context.k > 80": (90, 80),
    "k<=3": ("3", "4"),
    "k contains err": ("an error", "all good"),
    "k contains urgent": (["urgent"], ["low"]),
    "k matches ^v\\d": ("v2", "2"),
    'k="a && b"': ("a && b", "a"),
    "k=a && !k=b || k=c": ("c", "b"),
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_hold_as_in_fabro(condition):
    written = condition.replace("\\", "\\\\").replace('"', '\\"')
    read = fabro_read(f'digraph {{ start -> a; a -> b [condition="{written}"] a -> c }}')
    holds, fails = CONDITIONS[condition]
    assert (after(read, "a", "k", holds), after(read, "a", "k", fails)) == ("b", "c")


def test_the_heavier_edge_goes_first_and_then_the_target_by_name():
    read = fabro_read(
        'digraph { start -> a; a -> c [condition="k"] a -> b [condition="k"] a -> d [condition="j", weight=2] }'
    )
    rules = [rule.then.agent for rule in read.graph.transitions if "agent='a'" in repr(rule.when)]
    assert rules == ["d", "b", "c"]


def test_a_node_that_only_branches_has_no_turn_and_its_edges_are_those_of_its_predecessors():
    text = """digraph { start -> work -> verify -> gate
      gate [shape=diamond] gate -> exit [condition="outcome=succeeded"] gate -> work }"""
    read = fabro_read(text)
    assert read.graph.participants == ("work", "verify")
    assert (after(read, "verify"), after(read, "verify", outcome=FAIL)) == ("exit", "work")
    alone = fabro_read('digraph { start -> a -> g; g [shape=diamond] g -> b [condition="k=v"] a -> c [condition="j"] }')
    assert (after(alone, "a", "k", "v"), after(alone, "a")) == ("b", "no_edge")


# -- people and commands -----------------------------------------------------------------------------------------------

GATE = """digraph { start -> plan -> approve
  approve [shape=hexagon, label="Approve the plan?"]
  approve -> implement [label="[A] Approve"]
  approve -> plan [label="R) Revise"]
  approve -> exit [label="stop"]
  implement -> exit }"""


def test_a_hexagon_asks_a_person_and_its_labels_are_the_answers():
    read = fabro_read(GATE)
    (call,) = read.parts["models"][0]["options"]["agents"].values()
    answers = {"A": "Approve", "stop": "stop", "R": "Revise"}
    assert call == {
        "tool": "ask_person",
        "args": {"question": "Approve the plan?", "keeps_as": "human.gate", "answers": answers},
    }
    assert [one["name"] for one in read.parts["agents"]] == ["approve"]
    for label, then in (("Approve", "implement"), ("Revise", "plan"), ("stop", "exit"), ("other", "no_edge")):
        assert after(read, "approve", "human.gate.label", label) == then
    assert after(read, "approve", "human.gate.label", "Approve", outcome=FAIL) == "no_edge"


def test_a_person_may_write_something_else_where_an_edge_is_for_it():
    read = fabro_read(
        'digraph { start -> g; g [shape=hexagon] g -> b [freeform=true] g -> c [label=No, condition="outcome=failed"] }'
    )
    (call,) = read.parts["models"][0]["options"]["agents"].values()
    assert call["args"] == {"question": "g", "keeps_as": "human.gate", "other": True}
    assert after(read, "g", "human.gate.selected", "freeform") == "b"
    assert after(read, "g", outcome=FAIL) == "c"


def test_a_command_is_a_tool_that_its_author_declares():
    read = fabro_read('digraph { start -> verify -> exit; verify [shape=parallelogram, script="make test"] }')
    assert read.parts["tools"] == [
        {"name": "run-verify", "kind": "http", "effect": "mutating", "description": "Does: make test"}
    ]
    assert "declare what run-verify is" in read.left[0]


def test_retries_of_a_single_node_are_those_of_that_worker():
    read = fabro_read("digraph { start -> a -> b; a [max_retries=1, allow_partial=true] b [retry_policy=none] }")
    assert read.policy["retry_layers"] == {
        "preset": "fabro",
        "max_retries": 0,
        "workers": {"a": {"max_retries": 1, "allow_partial": True}, "b": {"retry_policy": "none"}},
    }


@pytest.mark.parametrize(
    ("given", "seconds"), [('"1800s"', 1800), ("30m", 1800), ('"0s"', 0), ("2h", 7200), ("1d", 86_400), ("300", 300)]
)
def test_durations_are_read_as_fabro_writes_them(given, seconds):
    assert fabro_read(f"digraph {{ stall_timeout={given}; a -> b }}").policy == {"stall_watchdog": {"after_s": seconds}}


def test_conditions_may_be_joined():
    text = 'digraph { a -> b [condition="outcome=fail && failure_class=canceled || context.k = v"] a -> c }'
    read = fabro_read(text)
    assert after(read, "a", outcome=FAIL, error=ErrorClass.CANCELED) == "b"
    assert after(read, "a", outcome=FAIL, error=ErrorClass.STRUCTURAL) == "c"
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
        (
            'digraph { start -> pick a b pick [shape=diamond] pick -> a [condition="x=1"] pick -> b }',
            "flow.fabro, line 1: start -> pick: no node takes a turn there; lead from the start to the first node that takes one",
        ),
        ("digraph { start -> exit }", "flow.fabro, line 1: has no node that does anything"),
        ("digraph { 'a' }", 'flow.fabro, line 1: has "\'" where nothing of DOT has it'),
        ('digraph {\n "a b" -> a_b\n "A b" }', "flow.fabro, line 3: 'A b' and 'a b' would both be named 'a-b'"),
    ],
)
def test_what_is_no_workflow_is_refused_with_its_line(text, message):
    with pytest.raises(Refused) as refused:
        fabro_read(text, origin="flow.fabro")
    assert refused.value.message.startswith(message)
