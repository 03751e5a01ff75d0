"""Every mechanism has the one shape, and none knows another."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import is_dataclass
from pathlib import Path
from typing import get_args

import pytest

from console.launch.processes.data_directory import ROOT
from fabric.core import mechanisms
from fabric.core.events.envelope import KINDS
from fabric.core.mechanisms import ORDER, contract, observe, scope_key
from fabric.core.mechanisms.contract import ProposalKind, Scope
from fabric.core.spec.policies.flow_policy import FlowPolicy
from fabric.core.values.taxonomy import Pass, Tier, Trip
from tests.fabric.core.fabrics import proposal, view
from tests.fabric.core.mechanisms.facts import at, issued

FOLDER = Path(mechanisms.__file__).parent
BESIDE = {"__init__", "contract", "permissions"}
"""The shape that all have, and what two of them ask policies about a proposal."""
POLICY = FlowPolicy.model_validate({"budget": {"run_usd_micros": 1}})
each = pytest.mark.parametrize("module", ORDER, ids=lambda module: module.NAME)


def test_the_guard_order_is_the_documents():
    rows = re.findall(r"^\| `(\w+)`", (ROOT / "docs/specification/protections.md").read_text(), re.MULTILINE)
    assert list(dict.fromkeys(rows)) == [module.NAME for module in ORDER]


def test_every_module_of_the_package_is_in_the_order():
    files = {path.stem for path in FOLDER.glob("*.py")} - BESIDE
    assert files == {module.__name__.rpartition(".")[2] for module in ORDER}


@each
def test_it_has_the_shape(module):
    assert module.__name__.rpartition(".")[2] == module.NAME
    assert module.TITLE
    assert module.STOPS
    assert (ROOT / module.PAGE).is_file()
    assert module.CLASSES
    assert isinstance(module.SCOPE, Scope)
    assert set(get_args(ProposalKind)) >= module.APPLIES_TO
    assert module.APPLIES_TO
    assert set(KINDS) >= module.OBSERVES
    assert list(inspect.signature(module.config).parameters) == ["policy"]
    assert list(inspect.signature(module.observe).parameters) == ["state", "event"]
    assert list(inspect.signature(module.check).parameters) == ["config", "state", "proposal", "view"]


@each
def test_each_of_its_settings_is_a_field_of_the_policy(module):
    for setting in module.SETTINGS:
        group, _, field = setting.partition(".")
        part = POLICY.deadlines_of(Tier.BATCH) if group == "deadlines" else getattr(POLICY, group)
        assert not field or field in type(part).model_fields


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
            assert {node.module.rpartition(".")[2]} <= {"contract", "mechanisms"}
            assert node.module != "fabric.core.mechanisms" or {alias.name for alias in node.names} <= BESIDE
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
    observers = {scope_key(m, "fan_out.0.e0.r0") for m in ORDER if "call_issued" in m.OBSERVES}
    assert set(after) <= observers
    assert {"budget", "retry_budget", "loop_detector/fan_out.0.e0", "saga/fan_out.0.e0.r0"} <= set(after)
    assert not {"cost_velocity", "progress"} & set(after), "a tool costs nothing, and has brought nothing yet"


@each
def test_it_has_all_that_the_protocol_writes_down(module):
    described = {name for name in {*dir(contract.Mechanism), *contract.Mechanism.__annotations__} if name[0] != "_"}
    assert {"NAME", "CLASSES", "UNCOUNTED", "State", "check"} <= described
    assert described <= set(dir(module))
