"""Conditions on the text of a context variable: what holds, what is refused, and that the derivation judges alike (docs/specification/topologies.md)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from fabric.core.graph.conditions import LOOKED_AT, ContextText, holds
from fabric.core.graph.conversation import open_conversation
from fabric.core.graph.registry import BUILT_IN
from fabric.core.graph.state import Turn
from simulator.rules.facts import conditions as anew
from tests.fabric.core.graph.graphs import graph, packet

CASES = (
    ("equals", "true", True, True),
    ("equals", "true", "true", True),
    ("equals", "90", 90, True),
    ("equals", "", None, True),
    ("equals", "a", "b", False),
    ("greater", "80", 90, True),
    ("greater", "80", "80", False),
    ("at_least", "80", "80", True),
    ("less", "0.5", 0.25, True),
    ("at_most", "3", 4, False),
    ("at_most", "3", "many", False),
    ("greater", "3", None, False),
    ("contains", "error", "an error occurred", True),
    ("contains", "Error", "an error occurred", False),
    ("contains", "urgent", ["urgent", "low"], True),
    ("contains", "urg", ["urgent", "low"], False),
    ("contains", "1", [1, 2], True),
    ("matches", r"^v\d+", "v12", True),
    ("matches", r"^v\d+", "12", False),
    ("matches", "x$", "y" * LOOKED_AT + "x", False),
    ("is_set", "", "yes", True),
    ("is_set", "", None, False),
    ("is_set", "", "", False),
    ("is_set", "", "false", False),
    ("is_set", "", False, False),
    ("is_set", "", 0, False),
    ("is_set", "", [0], True),
)


def test_what_holds_and_that_it_is_judged_alike_anew():
    state = open_conversation(graph())
    for compares, value, held, wanted in CASES:
        condition = ContextText(key="k", compares=compares, value=value)
        context = {} if held is None else {"k": held}
        turn = Turn(open_conversation(graph(), context), packet("alice"))
        assert holds(condition, turn, BUILT_IN) is wanted, (compares, value, held)
        again = SimpleNamespace(speaker="alice", outcome="success", error=None)
        assert anew.holds(condition.model_dump(), again, context, "") is wanted, (compares, value, held)
    assert state.context == {}


@pytest.mark.parametrize(
    ("compares", "value", "sentence"),
    [
        ("greater", "many", "'many', which is no number"),
        ("matches", "(a+)+", "repeats a group"),
        ("matches", "a(?=b)", "looks around"),
        ("matches", r"(a)\1", "refers back"),
        ("matches", ".*a.*b.*", "has 3 open repetitions"),
        ("matches", "[", "is no pattern"),
        ("matches", "x" * 201, "has 201 characters as a pattern"),
    ],
)
def test_what_cannot_be_compared_is_refused(compares, value, sentence):
    with pytest.raises(ValidationError, match="1 validation error") as refused:
        ContextText(key="k", compares=compares, value=value)
    assert sentence in str(refused.value)


def test_plain_patterns_with_classes_and_escapes_are_taken():
    for pattern in (r"^v2\.", "[)*+]*x", r"\(a\)*", "(a|b)c", "a{2,3}"):
        ContextText(key="k", compares="matches", value=pattern)
