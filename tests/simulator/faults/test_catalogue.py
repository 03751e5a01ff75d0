"""The catalogue of faults: nothing is missing, and what is asked of it is refused in a sentence."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from simulator.endpoint import player
from simulator.faults import catalogue
from simulator.faults.catalogue import (
    DRAWN,
    FAULTS,
    ODD_ANSWERS,
    PLAYED,
    STRUCK,
    FaultRefused,
    Rates,
    build_parameters,
    fault_named,
)
from simulator.faults.fault import NOT_LIVE, PORTS, Calls, Play
from simulator.texts.problems import Problem
from simulator.world import world

UNITS = ("_s", "_tokens", "_share")
COUNTS = {"times", "every", "from_call", "from_occurrence", "from_review", "at_effect", "branches"}
COUNTS |= {"calls", "briefs", "worker", "status", "score", "branch"}
WORDS = {"agent", "role", "stage", "provider", "tool", "document", "how"}
WORLD = Path(world.__file__).parents[1]
"""The room where the swarm's faults strike."""


def test_each_port_has_a_fault_that_strikes_and_says_if_it_is_live():
    assert {fault.port for fault in STRUCK.values()} == set(PORTS)
    assert {fault.port for fault in STRUCK.values() if not fault.live} == set(NOT_LIVE)
    assert {fault.port for fault in STRUCK.values() if fault.live} == set(PORTS) - set(NOT_LIVE)


def test_no_name_and_no_sentence_comes_twice():
    rows = (*catalogue._ROWS, *ODD_ANSWERS)
    assert len({fault.name for fault in rows}) == len({fault.says for fault in rows}) == len(rows)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=lambda fault: fault.name)
def test_a_fault_has_a_user_and_one_plain_sentence(fault):
    assert re.fullmatch(r"[a-z][a-z0-9_]*", fault.name)
    assert fault.top is not None or fault.strike is not None or fault.play is not None, "no room plays it"
    assert fault.says[0].isupper()
    assert not fault.says.endswith(".")
    assert ". " not in fault.says
    assert len(fault.says) <= 120
    assert fault.top is None or 0 < fault.top <= 1
    assert fault.top is not None or fault.drawn == "first", "only the swarm draws"


@pytest.mark.parametrize("fault", FAULTS.values(), ids=lambda fault: fault.name)
def test_a_fault_has_parameters_exactly_where_a_scenario_strikes(fault):
    assert (fault.parameters is None) == (fault.strike is None)
    if fault.parameters is not None:
        fields = fault.parameters.model_fields
        units = {name for name in fields if name.endswith(UNITS) or name == "bytes_per_s"}
        assert set(fields) - units <= COUNTS | WORDS, "a number without a unit in its name"


def test_the_world_strikes_each_fault_of_the_swarm_and_no_other():
    trees = [
        ast.parse(path.read_text())
        for room in ("agents", "cast", "stores", "world")
        for path in (WORLD / room).rglob("*.py")
    ]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    words = {node.value for node in nodes if isinstance(node, ast.Constant)}
    assert {name for name in DRAWN if name not in words} == set()
    asked = {name for node in nodes for name in names_asked(node)}
    assert len(asked) > 30
    assert asked - set(DRAWN) == {"nudge_doubled"}, "only scenarios double nudges"


def names_asked(node: ast.AST) -> Iterator[str]:
    """Yield the name in ``strikes("name")`` and in ``rates["name"]``."""
    if isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Attribute):
        given, of = node.args[0], node.func.attr
    elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute):
        given, of = node.slice, node.value.attr
    else:
        return
    if of in ("strikes", "_strikes", "rates") and isinstance(given, ast.Constant):
        yield str(given.value)


def test_the_endpoint_has_a_behaviour_for_each_fault_that_it_plays_and_no_other():
    for play in get_args(Play):
        assert set(player.ROOMS[play].BEHAVIOURS) == {name for name, one in PLAYED.items() if one.play == play}
    assert set(player.PLAYS) == {*player.HEALTHY, *PLAYED}


def test_a_rate_is_refused_for_a_fault_that_is_not_drawn():
    with pytest.raises(KeyError, match="nudge_doubled"):
        Rates({"nudge_doubled": 0.1})


def refused(name: str, **values: object) -> tuple[Problem, ...]:
    with pytest.raises(FaultRefused) as caught:
        build_parameters(fault_named(name, ("disturbance", 0)), values, ("disturbance", 0))
    return caught.value.problems


def test_an_unknown_fault_is_told_with_the_one_that_is_like_it():
    assert refused("rate_limits") == (
        Problem(("disturbance", 0, "fault"), "there is no fault 'rate_limits'; did you mean 'rate_limit'?"),
    )


def test_a_fault_that_no_scenario_plays_is_refused_with_the_nearest_one():
    [problem] = refused("retry_after_zero")
    assert problem.sentence == "no scenario plays the fault 'retry_after_zero'; did you mean 'retry_after'?"


def test_a_fault_of_the_world_is_refused_live():
    assert fault_named("crash").name == "crash"
    with pytest.raises(FaultRefused, match="crash cannot be injected live: a live drill ends no worker"):
        fault_named("crash", live=True)


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("rate_limit", {"time": 3}, "disturbance.0.time: there is no such key; did you mean 'times'?"),
        ("rate_limit", {"times": "3"}, "disturbance.0.times: '3' is no whole number"),
        ("rate_limit", {"times": True}, "disturbance.0.times: True is no whole number"),
        ("rate_limit", {"times": 0}, "disturbance.0.times: 0 is too small; at least 1"),
        ("slow", {"delay_s": "long"}, "disturbance.0.delay_s: 'long' is no number"),
        ("slow", {"delay_s": float("inf")}, "disturbance.0.delay_s: inf is no finite number"),
        ("outage", {}, "disturbance.0.to_s: is missing; give it a value"),
        ("outage", {"from_s": 5, "to_s": 5}, "disturbance.0: to_s (5) is not after from_s (5); name a later end"),
        (
            "rate_limit",
            {"role": "finaliser"},
            "disturbance.0.role: 'finaliser' is none of planner, worker, armed, aggregator, critic, finalizer; did you mean 'finalizer'?",
        ),
        (
            "rate_limit",
            {"role": "critic", "agent": "one"},
            "disturbance.0: an agent and a role are both named; name one of them",
        ),
        ("crash", {}, "disturbance.0.at_effect: is missing; give it a value"),
        ("flood", {"calls": 1}, "disturbance.0.calls: 1 is too small; at least 2"),
        (
            "handoff_cycle",
            {"how": "anyhow"},
            "disturbance.0.how: 'anyhow' is none of the_same, something_new",
        ),
    ],
)
def test_a_wrong_parameter_is_told_with_its_path(name, values, said):
    assert [str(problem) for problem in refused(name, **values)] == [said]


def test_every_mistake_is_told():
    told = refused("rate_limit", times=0, evry=2)
    assert [problem.path[-1] for problem in told] == ["times", "evry"]


def test_a_whole_number_of_seconds_is_a_number():
    assert build_parameters(STRUCK["slow"], {"delay_s": 5}) == build_parameters(STRUCK["slow"], {"delay_s": 5.0})


def test_what_is_not_said_has_a_default():
    assert build_parameters(STRUCK["rate_limit"], {}) == Calls(times=None, every=1, from_call=1)
