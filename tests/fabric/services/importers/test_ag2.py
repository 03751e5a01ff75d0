"""Graphs from AG2: they decide as they do there, which AG2 itself says; what is not known is refused.

What AG2 said of a few hundred conversations is kept in ``tests/data/ag2/played.json`` and compared in every run. Where ``FABRIC_AG2_PYTHON`` names a Python that has
what ``tests/data/ag2/ag2.txt`` names, new ones are drawn and AG2 is asked; ``python -m tests.fabric.services.importers.recording`` writes the file anew.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from hypothesis import given, settings

from fabric.core.graph.conditions import Terminate
from fabric.core.graph.problems import problems
from fabric.core.graph.spec import from_dict
from fabric.core.graph.state import SpeakerReason
from fabric.services.errors import Refused
from fabric.services.importers.ag2 import CONDITIONS, HOPS_SAID, TARGETS, ag2_read, ag2_written
from tests.fabric.core.graph.factories import round_robin, sequence
from tests.fabric.core.graph.graphs import decided, handing, packet
from tests.fabric.services.importers.ag2_cases import CASES, GRAPHS, channel, played
from tests.fabric.services.importers.ag2_process import AG2, PYTHON, VERSION
from tests.sets import many

DATA = Path(django_settings.BASE_DIR) / "tests" / "data" / "ag2"
PLAYED = json.loads((DATA / "played.json").read_text())
asked = pytest.mark.skipif(PYTHON is None, reason="FABRIC_AG2_PYTHON names no Python that has AG2")


@pytest.fixture(scope="module")
def ag2():
    with AG2() as started:
        yield started


# -- it decides as AG2 does --------------------------------------------------------------------------------------------


def test_recorded_conversations_go_as_they_went_in_ag2():
    assert PLAYED["version"] == VERSION
    assert len(PLAYED["cases"]) >= 200
    for case in PLAYED["cases"]:
        told, steps = played(case)
        assert steps == case["steps"]
        assert told == case["told"], case


def test_the_recorded_conversations_hold_what_there_is():
    """Every condition and target decided something, every way to end was taken, and something was refused."""
    kinds = {
        rule[part]["name"]
        for case in PLAYED["cases"]
        for rule in case["graph"]["transitions"]
        for part in rule
        if part != "priority"
    }
    assert kinds == set(CONDITIONS) | set(TARGETS)
    told = [one for case in PLAYED["cases"] for one in case["told"]]
    reasons = {one["reason"] for one in told if one != "refused"}
    assert reasons == {"", "done", "after_work", "workflow_terminated", "max_turns", "enough", "finished"}
    assert "refused" in told


@asked
@pytest.mark.ag2
@settings(max_examples=many(400), deadline=None)
@given(case=CASES)
def test_any_conversation_goes_as_it_goes_in_ag2(ag2, case):
    told, steps = played(case)
    assert told == ag2.ask({**case, "steps": steps})


@asked
@pytest.mark.ag2
@settings(max_examples=many(200), deadline=None)
@given(graph=GRAPHS)
def test_what_is_written_ag2_reads_as_it_was(ag2, graph):
    """An end without a reason and a bound below one are written out as what they mean."""
    plain = json.loads(json.dumps(graph).replace('"reason": ""', '"reason": "workflow_terminated"'))
    plain["max_turns"] = None if graph["max_turns"] is None else max(graph["max_turns"], 1)
    plain["default_target"] = plain["default_target"] or {"name": "terminate", "args": {"reason": "after_work"}}
    assert ag2.ask({"graph": ag2_written(ag2_read(graph).graph)}) == plain


def test_the_seed_s_example_ends_with_its_sequence():
    graph = {
        "initial_speaker": "alice",
        "transitions": [
            {
                "when": {"name": "from_speaker", "args": {"agent_id": a}},
                "then": {"name": "agent", "args": {"agent_id": b}},
                "priority": 0,
            }
            for a, b in (("alice", "bob"), ("bob", "carol"))
        ],
        "default_target": {"name": "terminate", "args": {"reason": "sequence_complete"}},
        "max_turns": 3,
    }
    read = ag2_read(graph)
    assert read.graph == sequence(["alice", "bob", "carol"])
    assert ag2_written(read.graph) == graph
    assert (read.renamed, read.notes) == (
        {},
        ("AG2's graph does not say who takes part: whom it names does, in that order",),
    )
    assert problems(read.graph) == []


# -- names, and what is assumed ----------------------------------------------------------------------------------------


def _rule(when, then, priority=0):
    return {
        "when": {"name": when[0], "args": when[1]},
        "then": {"name": then[0], "args": then[1]},
        "priority": priority,
    }


def _graph(*rules, **fields):
    return {"initial_speaker": "Ann B.", "transitions": list(rules), "default_target": None, "max_turns": None} | fields


SPOKEN, TO_7 = ("tool_called", {"tool_name": "Ask It"}), ("agent", {"agent_id": "7f"})


def test_ids_that_are_no_names_are_given_some():
    read = ag2_read(_graph(_rule(SPOKEN, TO_7)), names={"7f": "searcher"})
    assert read.graph.participants == ("ann-b", "searcher")
    assert read.renamed == {"Ann B.": "ann-b", "7f": "searcher", "Ask It": "ask-it"}
    assert read.graph.default_target == Terminate(reason="after_work")


def test_who_opened_it_is_the_channel_s_creator_or_the_first_speaker():
    case = {
        "graph": _graph(_rule(SPOKEN, ("revert_to_initiator", {})), initial_speaker="b"),
        "participants": ["b", "a"],
        "creator": "a",
        "context": {"k": 1},
    }
    read = ag2_read(channel(case))
    assert (read.graph.participants, read.graph.initiator, read.context, read.notes) == (
        ("b", "a"),
        "a",
        {"k": 1},
        (HOPS_SAID,),
    )
    assert ag2_read(case["graph"], participants=["b", "a"]).notes == (
        "AG2's graph does not say who opened the conversation: the first speaker did",
        HOPS_SAID,
    )


def test_a_registered_tool_stays_so_and_is_refused_where_it_is_not_registered_here():
    read = ag2_read(_graph(_rule(("context_threshold", {"key": "k", "above": 3}), TO_7)))
    assert read.graph.transitions[0].when.model_dump() == {
        "kind": "registered",
        "name": "context_threshold",
        "args": {"key": "k", "above": 3},
    }
    assert [one.path for one in problems(read.graph)] == ["transitions.0.when"]


def test_a_handoff_to_an_unknown_agent_is_an_error_here():
    """AG2 1.2.1 would expect a speaker who never can."""
    found = decided(
        ag2_read(_graph(initial_speaker="a"), participants=["a", "b"]).graph, packet("a", handing("t", "zoe"))
    )
    assert (found.why, len(found.errors)) == (SpeakerReason.DEFAULT, 1)


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "sentence"),
    [
        ([], "the graph is not AG2's dict form; give what TransitionGraph.to_dict() gives"),
        ({"agents": []}, "the graph is not AG2's dict form: it has no initial_speaker"),
        (_graph(version=2), "version: is no field of AG2 1.2's graphs"),
        (_graph({"when": {}, "then": {}, "order": 1}), "transitions: is not AG2 1.2's list of rules"),
        (_graph({"when": "always", "then": {}}), "transitions.0.when: is not AG2's form of a condition or target"),
        (
            _graph(_rule(("always", {"of": 1}), TO_7)),
            "transitions.0.when.args: has not the fields that AG2 1.2 gives 'always': none",
        ),
        (
            _graph(_rule(SPOKEN, ("agent", {}))),
            "transitions.0.then.args: has not the fields that AG2 1.2 gives 'agent': agent_id",
        ),
        (_graph(_rule(SPOKEN, ("agent", {"agent_id": ""}))), "transitions.0.then.args.agent_id: names no agent: ''"),
        (
            _graph(_rule(SPOKEN, ("agent", {"agent_id": "ann-b"}))),
            "participants: 'ann-b' and 'Ann B.' would both be named 'ann-b'",
        ),
        (
            _graph(_rule(("context_equals", {"key": "outcome", "value": 1}), TO_7)),
            "transitions.0.when.args.key: names failure_class or outcome",
        ),
        (_graph(_rule(SPOKEN, TO_7, 1.5)), "transitions.0.priority: is 1.5; give a whole number"),
        (_graph(max_turns="6"), "max_turns: is '6'; give a whole number"),
        (_graph(_rule(("My Own", {}), TO_7)), "transitions.0.when.name: is no name"),
        (
            {"manifest": {"type": "workflow", "version": 2}},
            "manifest: is of type 'workflow', version 2; channels of type 'workflow', version 1, are read",
        ),
        ({"manifest": {"type": "discussion", "version": 1}}, "manifest: is of type 'discussion', version 1"),
        ({"manifest": {"type": "workflow", "version": 1}}, "knobs: is missing"),
        (
            {"manifest": {"type": "workflow", "version": 1}, "knobs": {}, "participants": [{}]},
            "participants: is not a list",
        ),
        (
            channel({"graph": _graph(), "participants": ["Ann B."], "creator": "Ann B.", "context": {"outcome": 1}}),
            "knobs.context_vars: names failure_class or outcome",
        ),
    ],
)
def test_what_is_not_known_is_refused_in_one_sentence(tree, sentence):
    with pytest.raises(Refused) as refused:
        ag2_read(tree)
    assert refused.value.message.startswith(sentence)
    assert "\n" not in refused.value.message


def test_what_ag2_has_not_is_not_written():
    graph = round_robin(["a", "b"]).to_dict()
    graph["transitions"].append(
        {"when": {"kind": "not", "condition": {"kind": "always"}}, "then": {"kind": "registered", "name": "best"}}
    )
    graph["transitions"].append(
        {"when": {"kind": "context_equals", "key": "outcome", "value": "fail"}, "then": {"kind": "stay"}}
    )
    graph["transitions"].append({"when": {"kind": "always"}, "then": {"kind": "agent", "agent": "a"}, "restart": True})
    graph["default_target"] = {"kind": "registered", "name": "best"}
    graph |= {"retry_target": "a", "goal_target": "b", "retry_targets": {"b": {"fallback_retry_target": "a"}}}
    with pytest.raises(Refused) as refused:
        ag2_written(from_dict(graph))
    assert [one.partition(":")[0] for one in refused.value.problems] == [
        "transitions.1.when",
        "transitions.1.then",
        "transitions.2.when.key",
        "transitions.3.restart",
        "retry_targets.b.fallback_retry_target",
        "retry_target",
        "goal_target",
        "default_target",
    ]


# -- a channel as its hub keeps it -------------------------------------------------------------------------------------

HUB = {"18ec0995a1b2c3d4": "triage", "77aa0995a1b2c3d4": "billing"}


def hub(named=(), **fields):
    """A channel between two whose ids are a hub's. ``named``: who says its name there."""
    first, second = HUB
    tree = channel({"graph": _graph(initial_speaker=first), "participants": list(HUB), "creator": first, "context": {}})
    for one in tree["participants"]:
        if (name := HUB[one["agent_id"]]) in named:
            one["name"] = name
    tree["manifest"] |= fields.pop("manifest", {})
    return tree | fields


def test_names_of_passports_are_given_or_asked_for():
    with pytest.raises(Refused) as refused:
        ag2_read(hub(named=["triage"]))
    assert [one.partition(":")[0] for one in refused.value.problems[:-1]] == ["participant 77aa0995a1b2c3d4"]
    assert "--name 77aa0995a1b2c3d4=NAME" in refused.value.problems[0]
    assert ag2_read(hub(), names=HUB).graph.participants == ("triage", "billing")
    assert ag2_read(hub(named=["triage", "billing"])).graph.participants == ("triage", "billing")
    partial = ag2_read(hub(), partial=True)
    assert (partial.graph.participants[0], len(partial.lost)) == ("n-18ec0995a1b2c3d4", 2)


def test_what_a_channel_expects_and_when_it_expires_is_kept():
    pace = [
        {"name": "turn_within", "on_violation": "warn", "params": {"seconds": 15}},
        {"name": "turn_within", "on_violation": "auto_close", "params": {"seconds": 30}},
        {"name": "turn_within", "on_violation": "audit", "params": {"seconds": 5}},
    ]
    instants = {"created_at": "2026-05-01T10:00:00+00:00", "expires_at": "2026-05-01T11:30:00Z"}
    read = ag2_read(hub(manifest={"expectations": pace}, **instants), names=HUB)
    assert [(one.seconds, one.on_violation) for one in read.graph.expectations] == [(15, "warn"), (30, "auto_close")]
    assert read.graph.ttl_s == 5400
    assert read.notes[-1] == "manifest.expectations.2: audit is a line in a record, and every event is one here"
    assert ag2_read(hub(), names=HUB).graph.ttl_s is None


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"manifest": {"expectations": [{"name": "max_silence", "params": {"seconds": 9}}]}},
            "manifest.expectations.0: nothing of the kind 'max_silence'",
        ),
        (
            {"manifest": {"expectations": [{"name": "turn_within", "on_violation": "hide"}]}},
            "manifest.expectations.0: a late turn is met by warn or auto_close",
        ),
        (
            {"manifest": {"expectations": [{"name": "turn_within", "params": {"seconds": 0}}]}},
            "manifest.expectations.0: 0 is no number of seconds",
        ),
        ({"expires_at": "soon"}, "expires_at: 'soon' is no instant after created_at"),
    ],
)
def test_what_would_make_it_another_conversation_refuses_it(fields, sentence):
    with pytest.raises(Refused) as refused:
        ag2_read(hub(**fields), names=HUB)
    assert refused.value.message.startswith(sentence)
    assert ag2_read(hub(**fields), names=HUB, partial=True).lost[0].startswith(sentence)


def test_a_handover_more_than_the_limit_of_hops_is_said_where_there_may_be_one():
    assert HOPS_SAID not in ag2_read(_graph(max_turns=5)).notes
    assert HOPS_SAID in ag2_read(_graph(max_turns=6)).notes
