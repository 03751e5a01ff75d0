"""Which breakers stand in front of a call: of what, in which row, and what its end says to them."""

import pytest

from fabric.core.breaker.gates import list_gates
from fabric.core.spec.policies.breakers import BreakerScope, endpoint, rate_limit, semantic
from fabric.core.values.frozen import replace
from tests.fabric.core.breaker.test_passing import MODEL, TOOL
from tests.fabric.core.fabrics import spec


def row(scope, command, there=None, *only):
    """The row of the breaker of a scope that a call meets; None: it meets none."""
    breaker = endpoint(scope).model_copy(update={"only": only})
    scopes = [gate.key.scope for gate in list_gates([breaker], "f", there or spec(), command, {})]
    return scopes[0] if scopes else None


@pytest.mark.parametrize(
    ("scope", "model", "tool"),
    [
        (BreakerScope.PROVIDER, "provider:scripted", None),
        (BreakerScope.TOOL, None, "tool:f:look"),
        (BreakerScope.AGENT, "agent:f:worker", "agent:f:worker"),
        (BreakerScope.STAGE, "stage:f:fan_out", "stage:f:fan_out"),
        (BreakerScope.FABRIC, "fabric:f", "fabric:f"),
    ],
)
def test_each_scope_names_its_row(scope, model, tool):
    assert (row(scope, MODEL), row(scope, TOOL)) == (model, tool)


def test_each_endpoint_of_a_provider_has_a_row_of_its_own():
    there = spec().model_copy(
        update={"models": tuple(one.model_copy(update={"base_url": "https://eu.host:8/v1/"}) for one in spec().models)}
    )
    assert row(BreakerScope.PROVIDER, MODEL, there) == "provider:scripted@eu.host:8/v1"
    assert row(BreakerScope.PROVIDER, MODEL, there, "scripted@eu.host:8/v1") == "provider:scripted@eu.host:8/v1"
    assert row(BreakerScope.PROVIDER, MODEL, there, "scripted") is None, "that is the provider's own address"


@pytest.mark.parametrize(
    ("scope", "name", "met"),
    [
        (BreakerScope.PROVIDER, "scripted", (True, False)),
        (BreakerScope.TOOL, "look", (False, True)),
        (BreakerScope.AGENT, "worker", (True, True)),
        (BreakerScope.STAGE, "fan_out", (True, True)),
    ],
)
def test_one_that_names_what_it_stands_in_front_of_is_met_there_alone(scope, name, met):
    for names in ((name,), ("other", name)):
        assert tuple(row(scope, call, spec(), *names) == row(scope, call) for call in (MODEL, TOOL)) == (True, True)
        assert tuple(row(scope, call, spec(), *names) is not None for call in (MODEL, TOOL)) == met
    assert [row(scope, call, spec(), "other") for call in (MODEL, TOOL)] == [None, None]


def test_what_the_oracle_asks_is_no_agent_s_call():
    assert row(BreakerScope.AGENT, replace(TOOL, agent="")) is None


def test_two_of_one_policy_have_one_row_and_a_call_passes_it_once():
    named = [endpoint(BreakerScope.AGENT).model_copy(update={"only": only}) for only in (("critic",), ("worker",), ())]
    (gate,) = list_gates(named, "f", spec(), MODEL, {})
    assert gate.breaker == named[1]


def test_what_a_tools_endpoint_does_counts_for_the_tool_alone():
    breakers = [endpoint(scope) for scope in BreakerScope]
    of_tool = {gate.breaker.scope: gate.counts for gate in list_gates(breakers, "f", spec(), TOOL, {})}
    assert of_tool == {"agent": False, "tool": True, "stage": False, "fabric": False}
    assert all(gate.counts for gate in list_gates(breakers, "f", spec(), MODEL, {}))


def test_the_names_it_stands_in_front_of_are_no_part_of_its_row_and_a_policy_of_before_keeps_its_own():
    """Digests as they stand in databases."""
    named = endpoint(BreakerScope.AGENT).model_copy(update={"only": ("worker",)})
    assert named.kind == endpoint(BreakerScope.AGENT).kind
    kinds = [endpoint().kind, semantic().kind, rate_limit().kind]
    assert kinds == ["circuit_breaker:92e507dd97e0", "circuit_breaker:1d914bc572cb", "circuit_breaker:8b630b80d18c"]


def test_those_with_one_policy_share_a_row_and_others_do_not():
    assert endpoint().kind == endpoint().kind != endpoint().model_copy(update={"cooldown_s": 5.0}).kind
