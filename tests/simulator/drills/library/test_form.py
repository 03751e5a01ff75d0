"""A scenario as four choices: what the form can say is the same scenario as its TOML, and what it cannot say has a reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulator.drills.library import form
from simulator.drills.library.form import (
    BEGINNING,
    PARTS,
    Unsayable,
    build_tree,
    read_choices,
    read_value,
    write_source,
)
from simulator.drills.library.services import check_scenario
from simulator.faults.catalogue import STRUCK, FaultRefused
from simulator.scenarios.spec.collection import library
from simulator.scenarios.spec.toml import parse_scenario, read_scenario

TEXT = write_source(BEGINNING)


SEVERAL = {name for name, one in library().items() if len(one.disturbance) > 1}
"""Built-in scenarios that the form cannot say: they have more than one disturbance."""


def sayable():
    for name, one in library().items():
        try:
            yield name, one, read_choices(one)
        except Unsayable:
            continue


def test_each_parameter_of_each_fault_belongs_to_one_choice():
    assert set(PARTS) == {key for one in STRUCK.values() for key in one.parameters.model_fields}


def test_a_form_and_its_toml_are_equal_scenarios():
    found = list(sayable())
    assert set(library()) - {name for name, _, _ in found} == SEVERAL
    for name, one, choices in found:
        source = write_source(choices)
        assert parse_scenario(source) == one, name
        assert read_choices(parse_scenario(source)) == choices, name


def test_expectations_go_there_and_back():
    probes = (
        ("answer", "yes, it is"),
        ("reviews", "[0, 2]"),
        ("model_calls", "4"),
        ("answer", '"4"'),
        ("citations", "[1, 2, 3]"),
    )
    choices = replace(BEGINNING, end="failed", probes=probes, tiers=("batch",), failure="")
    scenario = read_scenario(build_tree(choices))
    assert [one.probe for one in scenario.expect] == ["state", *(name for name, _ in probes)]
    assert read_choices(parse_scenario(write_source(choices))) == choices


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("[[disturbance]]", '[[disturbance]]\nfault = "slow"\n[[disturbance]]', "it has more than one disturbance"),
        ("times = 2", 'times = "${often}"\n[parameters]\noften = 2', "a parameter has another name than the field that it sets"),
        ("[[disturbance]]\nfault = \"unavailable\"\nrole = \"finalizer\"\ntimes = 2", '[[recorded]]\nkind = "act"\nact = "cancel"\nat_s = 1.0', "it replays a recorded run"),
        ("times = 2", 'times = "${times}"\n[parameters]\ntimes = 2', ""),
        ("[[disturbance]]", '[workload]\nrequest = "Why?"\n[[disturbance]]', "it has a test input of its own"),
        ('title = "The run', 'title = "Our run', "it has a steady state of its own"),
        ("virtual_s = 400000.0", "virtual_s = 10.0", "it has abort conditions of its own"),
        ("failure =", "seed = 2\nfailure =", "it has a seed of its own"),
        ("failure =", 'tags = ["mine"]\nfailure =', "it has tags"),
        ("failure =", 'contributions = {safety = "high"}\nfailure =', "it has contributions"),
        ("[steady_state]", '[[expect]]\nprobe = "answer"\ntolerance = {type = "regex", pattern = "x"}\n[steady_state]', "an expectation has a tolerance with a type"),
        ("failure =", 'tiers = ["batch", "interactive"]\nfailure =', ""),
    ],
)  # fmt: skip
def test_what_the_form_cannot_say_has_one_reason(old, new, why):
    changed = TEXT.replace(old, new, 1)
    assert changed != TEXT
    if not why:
        choices = read_choices(check_scenario(changed))
        assert (choices.tiers, choices.settable) in ((("batch", "interactive"), ()), (BEGINNING.tiers, ("times",)))
        return
    with pytest.raises(Unsayable) as refused:
        read_choices(check_scenario(changed))
    assert str(refused.value) == f"The form cannot say this scenario: {why}."


def test_each_limit_is_tried():
    assert len(form.LIMITS) == 10


def test_the_beginning_is_what_the_form_writes():
    assert read_choices(parse_scenario(TEXT)) == BEGINNING


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("completed", "completed"), ("[1, 5]", [1, 5]), ('"4"', "4"), ("true", True), ("1979-05-27", "1979-05-27"), ("1\nb = 2", "1\nb = 2"), ("", "")],
)  # fmt: skip
def test_a_tolerance_is_a_value_or_the_text_itself(text, value):
    assert read_value(text) == value


def test_all_mistakes_of_a_form_are_told_at_once():
    wrong = replace(BEGINNING, name="My name", title="", fault="unavailable", values={"role": "nobody", "times": "-1", "every": "x"}, probes=(("stat", "1"),))  # fmt: skip
    with pytest.raises(FaultRefused) as refused:
        read_scenario(build_tree(wrong))
    assert {one.path[:3] for one in refused.value.problems} == {
        ("name",), ("title",), ("disturbance", 0, "role"), ("disturbance", 0, "times"), ("disturbance", 0, "every"), ("expect", 0, "probe"),
    }  # fmt: skip
