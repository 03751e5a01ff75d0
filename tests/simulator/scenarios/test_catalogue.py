"""The catalogue of faults: nothing is missing, and what is asked of it is refused in a sentence."""

from __future__ import annotations

import re

import pytest

from simulator.scenarios.catalogue import (
    FAULTS,
    NOT_AT_THE_SEAM,
    PORTS,
    SEAM_PORTS,
    Refused,
    fault_named,
    parameters_of,
)
from simulator.scenarios.parameters import Calls, Parameters
from simulator.scenarios.problems import Problem

ASKED = {
    "429": ("rate_limit", "rate_limit_retry_after"),
    "endpoint": ("unavailable", "slow", "hang", "trickle", "dropped_stream", "outage"),
    "answers": ("malformed", "off_schema", "html", "nul", "ungrounded", "low_confidence", "unsafe", "malformed_plan"),
    "loops": ("tool_loop", "paraphrased_loop", "handoff_cycle", "supervisor_stuck"),
    "spread": ("spawning", "cost_spike_price", "cost_spike_tokens", "partial_fan_in"),
    "world": ("message_lost", "message_doubled", "crash", "zombie", "clock_skew"),
    "people": ("person_late", "person_double_click", "person_edits", "person_rejects"),
}
"""What a drill has to be able to do, in the words of who asked for it."""
UNITS = ("_s", "_tokens", "_share")
COUNTS = {"times", "every", "from_call", "from_occurrence", "from_question", "at_effect", "period", "branches", "peers"}
COUNTS |= {"calls", "briefs", "worker", "status", "score", "branch"}
WORDS = {"agent", "role", "stage", "provider", "tool", "document", "how", "billed"}


def test_every_fault_that_was_asked_for_is_there():
    assert {name for names in ASKED.values() for name in names} <= set(FAULTS)


def test_each_port_has_a_fault_and_says_whether_it_is_live():
    assert {fault.port for fault in FAULTS.values()} == set(PORTS)
    assert set(NOT_AT_THE_SEAM) == set(PORTS) - SEAM_PORTS


@pytest.mark.parametrize("fault", FAULTS.values(), ids=lambda fault: fault.name)
def test_a_fault_has_a_sentence_typed_parameters_and_reasons(fault):
    assert FAULTS[fault.name] is fault
    assert re.fullmatch(r"[a-z][a-z_]*", fault.name)
    assert fault.says
    assert not fault.says.endswith(".")
    assert issubclass(fault.parameters, Parameters)
    assert fault.live == (fault.port in SEAM_PORTS)
    units = {name for name in fault.parameters.model_fields if name.endswith(UNITS) or name == "bytes_per_s"}
    assert set(fault.parameters.model_fields) - units <= COUNTS | WORDS, "a number without a unit in its name"


def refused(name: str, **values: object) -> tuple[Problem, ...]:
    with pytest.raises(Refused) as caught:
        parameters_of(fault_named(name, ("disturbance", 0)), values, ("disturbance", 0))
    return caught.value.problems


def test_an_unknown_fault_is_told_with_the_one_that_is_like_it():
    assert refused("rate_limits") == (
        Problem(("disturbance", 0, "fault"), "there is no fault 'rate_limits'; did you mean 'rate_limit'?"),
    )


def test_a_fault_of_the_world_is_refused_live():
    assert fault_named("crash").name == "crash"
    with pytest.raises(Refused, match="crash cannot be injected live: a live drill ends no worker"):
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
        ("crash", {}, "disturbance.0: give at_s or at_effect, one of them"),
        (
            "crash",
            {"at_s": 1, "times": 2},
            "disturbance.0: times goes with at_effect; for a second instant write a second disturbance",
        ),
        ("hang", {"billed": 1}, "disturbance.0.billed: 1 is neither true nor false"),
        ("handoff_cycle", {"peers": 4}, "disturbance.0.peers: 4 is none of 2, 3"),
        ("tool_loop", {"period": 4}, "disturbance.0.period: 4 is none of 1, 2, 3"),
    ],
)
def test_a_wrong_parameter_is_told_with_its_path(name, values, said):
    assert [str(problem) for problem in refused(name, **values)] == [said]


def test_every_mistake_is_told():
    told = refused("rate_limit", times=0, evry=2)
    assert [problem.path[-1] for problem in told] == ["times", "evry"]


def test_a_whole_number_of_seconds_is_a_number():
    assert parameters_of(FAULTS["slow"], {"delay_s": 5}) == parameters_of(FAULTS["slow"], {"delay_s": 5.0})


def test_what_is_not_said_has_a_default():
    assert parameters_of(FAULTS["rate_limit"], {}) == Calls(times=None, every=1, from_call=1)
