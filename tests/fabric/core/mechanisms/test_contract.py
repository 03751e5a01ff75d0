"""Every mechanism has the one shape, and none knows another."""

from __future__ import annotations

import ast
import inspect
from dataclasses import is_dataclass
from pathlib import Path
from typing import get_args

import pytest

from fabric.core import mechanisms
from fabric.core.envelope import KINDS
from fabric.core.mechanisms import ORDER, contract, observe, scope_key
from fabric.core.mechanisms.contract import ProposalKind, Scope
from fabric.core.policy import FlowPolicy
from fabric.core.verdict import Pass, Trip
from tests.fabric.core.fabrics import proposal, view
from tests.fabric.core.mechanisms.facts import at, issued

FOLDER = Path(mechanisms.__file__).parent
POLICY = FlowPolicy.model_validate({"budget": {"run_usd_micros": 1}})
each = pytest.mark.parametrize("module", ORDER, ids=lambda module: module.NAME)


def test_the_guard_order_is_the_documents():
    # policy, budget, cost_velocity, deadline, hop_limit, run_caps, retry_budget, circuit_breaker, loop_detector, deadlock_monitor, progress, saga,
    # (bulkhead;) validation_gate, goal_gate, failure_signature, stall_watchdog, escalation
    assert [module.NAME for module in ORDER] == [
        *("policy", "budget", "cost_velocity", "deadline", "hop_limit", "run_caps", "retry_budget"),
        *("circuit_breaker", "loop_detector", "deadlock_monitor", "progress", "saga"),
        *("validation_gate", "goal_gate", "failure_signature", "stall_watchdog", "escalation"),
    ]


def test_every_module_of_the_package_is_in_the_order():
    files = {path.stem for path in FOLDER.glob("*.py")} - {"__init__", "contract"}
    assert files == {module.__name__.rpartition(".")[2] for module in ORDER}


@each
def test_it_has_the_shape(module):
    assert module.__name__.rpartition(".")[2] == module.NAME
    assert isinstance(module.SCOPE, Scope)
    assert set(get_args(ProposalKind)) >= module.APPLIES_TO
    assert module.APPLIES_TO
    assert set(KINDS) >= module.OBSERVES
    assert list(inspect.signature(module.config).parameters) == ["policy"]
    assert list(inspect.signature(module.observe).parameters) == ["state", "event"]
    assert list(inspect.signature(module.check).parameters) == ["config", "state", "proposal", "view"]


@each
def test_its_state_begins_empty_is_frozen_and_compares_by_value(module):
    assert module.State() == module.State()
    assert is_dataclass(module.State)
    assert module.State.__struct_config__.frozen


@each
def test_its_config_is_cut_out_of_the_policy(module):
    config = module.config(POLICY)
    assert config == module.config(POLICY)
    assert isinstance(config, module.Config)


@each
def test_it_says_what_it_stops_and_what_it_does_not(module):
    assert "Stops" in module.__doc__ or module.NAME == "policy"
    assert "oes not stop" in module.__doc__ or module.NAME == "policy"


@each
def test_it_changes_nothing_when_it_judges(module):
    state = module.State()
    for kind in module.APPLIES_TO:
        judged = proposal(kind=kind, payload={"text": "x"}, timeout_s=1.0)
        verdict = module.check(module.config(POLICY), state, judged, view())
        assert isinstance(verdict, Pass | Trip)
        assert verdict == module.check(module.config(POLICY), state, judged, view())
    assert state == module.State()


@each
def test_it_knows_no_other_mechanism(module):
    names = {other.NAME for other in ORDER}
    tree = ast.parse(Path(module.__file__).read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("fabric.core.mechanisms"):
            assert node.module == "fabric.core.mechanisms.contract"
        if isinstance(node, ast.ImportFrom) and node.module == "fabric.core":
            assert not {alias.name for alias in node.names} & names


def test_policy_without_policies_and_guardrails_allows_everything():
    assert mechanisms.policy.check(mechanisms.policy.Config(), mechanisms.policy.State(), proposal(), view()) == Pass()


def test_states_are_kept_by_run_by_branch_or_by_step():
    step = "fan_out.0.e1.r2"
    of = {Scope.RUN: "", Scope.BRANCH: "/fan_out.0.e1", Scope.STEP: f"/{step}"}
    for module in ORDER:
        assert scope_key(module, step) == f"{module.NAME}{of[module.SCOPE]}"


def test_an_event_changes_the_states_of_those_that_observe_it_and_no_other():
    before = {}
    after = observe(before, at(issued(call="tool", target="look")))
    assert before == {}
    assert set(after) == {"budget", "retry_budget", "loop_detector/fan_out.0.e0", "saga/fan_out.0.e0.r0"}
    observers = {scope_key(m, "fan_out.0.e0.r0") for m in ORDER if "call_issued" in m.OBSERVES}
    assert observers - set(after) == {"cost_velocity"}  # A tool costs nothing.


def test_the_contract_is_the_protocol_that_is_written_down():
    described = {name for name in dir(contract.Mechanism) if not name.startswith("_")}
    described |= set(contract.Mechanism.__annotations__)
    assert described == {"NAME", "SCOPE", "APPLIES_TO", "OBSERVES", "config", "State", "observe", "check"}
