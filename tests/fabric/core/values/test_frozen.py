"""``frozen.replace`` does for the engine's values what the standard function does, and no less."""

from __future__ import annotations

import dataclasses
from typing import get_args

import pytest

from fabric.core import events as ev
from fabric.core.mechanisms import ORDER
from fabric.core.state.run import CallRecord, Pending, Run, Step, Turn
from fabric.core.values.frozen import replace
from tests.fabric.core.events.samples import sample

VALUES = [Run("run-1"), Turn("ref", "output"), CallRecord("c", "look", "h"), *(module.State() for module in ORDER)]
VALUES += [Pending(sample(ev.CallIssued), 0), *(sample(kind) for kind in get_args(ev.Fact))]


def test_it_equals_the_standard_function():
    for value in VALUES:
        assert replace(value) == dataclasses.replace(value) == value
        for field in dataclasses.fields(value):
            if field.init:
                changed = replace(value, **{field.name: "changed"})
                assert changed == dataclasses.replace(value, **{field.name: "changed"}), (value, field.name)
                assert changed is not value, (value, field.name)


def test_the_value_it_copies_stays_as_it_was():
    run = Run("run-1")
    assert replace(run, id="run-2").id == "run-2"
    assert run.id == "run-1"


def test_a_field_that_does_not_exist_is_refused():
    with pytest.raises(TypeError, match="`Run` has no field 'naem'"):
        replace(Run("run-1"), naem="x")


def test_copies_are_frozen_too():
    step = replace(Step("s", "plan", 0, 0, 0, "worker"), round=1)
    with pytest.raises(AttributeError, match="immutable type"):
        step.round = 2
