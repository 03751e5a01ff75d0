"""Each number of a fabric is declared once, with everything that pages, files and the reference say of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from console.launch.processes.data_directory import ROOT
from fabric.core.schema.limits import Unit, find_limit, find_unit, map_bounds
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.flow_policy import FlowPolicy, policy_fields, policy_limit
from fabric.core.spec.policies.loop_limits import LOOP_NAMES
from fabric.core.spec.policies.stages import StagePolicy
from fabric.core.workspace_policy.policy import KeyCapGiven, PolicyCaps

NO_LIMITS = {"Transition.order", "ModelSpec.context_tokens"}
"""Numbers that stop nothing: an order among rules, and what the page of models says."""
ANY_NUMBER = {"FailureSignature.limit", "FailureSignature.restart_limit"}
"""Limits without bounds: of these every number means something, as their description says."""


def models(root: type[BaseModel], found: dict[str, type[BaseModel]] | None = None) -> dict[str, type[BaseModel]]:
    """Every group of fields that a value of a type may hold, by name."""
    found = {} if found is None else found
    if root.__name__ in found:
        return found
    found[root.__name__] = root
    for field in root.model_fields.values():
        for part in parts(field.annotation):
            if isinstance(part, type) and issubclass(part, BaseModel):
                models(part, found)
    return found


def parts(annotation: Any) -> Iterator[Any]:
    """A type and all the types within it."""
    yield annotation
    for one in get_args(annotation):
        yield from parts(one)


def holds_a_number(annotation: Any) -> bool:
    """Return True if a value of the type is one number, or a table of numbers."""
    args = get_args(annotation)
    if annotation in (int, float):
        return True
    if getattr(annotation, "__origin__", None) is dict:
        return holds_a_number(args[1])
    if isinstance(annotation, type) or getattr(annotation, "__origin__", None) in (tuple, frozenset, list):
        return False
    return any(holds_a_number(one) for one in args)


NUMBERS: dict[str, FieldInfo] = {
    f"{owner}.{name}": field
    for owner, model in (models(FabricSpec) | models(PolicyCaps) | models(KeyCapGiven)).items()
    for name, field in model.model_fields.items()
    if holds_a_number(field.annotation)
}


def test_there_are_numbers_in_every_part_of_a_fabric() -> None:
    assert len(NUMBERS) > 120
    assert {"Limits.turns", "StageLimits.turns", "Limits.max_visits", "Breaker.cooldown_s", "Rung.times"} <= set(
        NUMBERS
    )
    assert {"McpServer.connect_s", "GraphTopology.ttl_s", "MemorySpec.keys", "Team.run_tokens"} <= set(NUMBERS)


@pytest.mark.parametrize("name", sorted(set(NUMBERS) - NO_LIMITS))
def test_a_limit_has_title_unit_description_bounds_source_and_what_happens_there(name: str) -> None:
    declared = find_limit(NUMBERS[name])
    assert declared is not None
    assert declared.title[:1].isupper()
    assert declared.description.endswith(".")
    assert declared.stops
    assert not declared.stops.endswith(".")
    assert "docs/" not in declared.source or (ROOT / declared.source.rpartition(" ")[2]).is_file()
    assert bool(map_bounds(NUMBERS[name])) == (name not in ANY_NUMBER)


def test_what_is_no_limit_is_still_there() -> None:
    assert set(NUMBERS) >= NO_LIMITS
    assert not [name for name in NO_LIMITS if find_limit(NUMBERS[name])]


def test_every_field_of_the_policy_has_a_title_and_a_description() -> None:
    assert not [path for path, field in policy_fields() if not (field.title and field.description)]
    with pytest.raises(KeyError):
        policy_limit("fan_in.mode")


def test_descriptions_leave_the_unit_to_the_unit() -> None:
    """A page shows dollars where a file has micro-dollars."""
    assert not [name for name, field in NUMBERS.items() if "micro-dollars" in (field.description or "")]


def test_no_two_limits_of_a_group_have_one_title() -> None:
    for model in models(FabricSpec).values():
        titles = [field.title for field in model.model_fields.values() if find_limit(field)]
        assert len(titles) == len(set(titles)), model


def test_a_stage_has_the_words_and_bounds_of_its_fabric() -> None:
    for group, field in StagePolicy.model_fields.items():
        own = field.annotation
        if not (isinstance(own, type) and issubclass(own, BaseModel)):
            continue
        whole = FlowPolicy.model_fields[group].annotation
        assert isinstance(whole, type)
        assert issubclass(whole, BaseModel)
        for name, one in own.model_fields.items():
            of_fabric = whole.model_fields[name]
            assert (one.title, one.description) == (of_fabric.title, of_fabric.description), (group, name)
            assert map_bounds(one) == map_bounds(of_fabric), (group, name)
            assert (find_limit(one), find_unit(one)) == (find_limit(of_fabric), find_unit(of_fabric)), (group, name)


def test_a_detectors_threshold_is_called_like_the_detector() -> None:
    titles = {field.title for field in FlowPolicy.model_fields["loop_detector"].annotation.model_fields.values()}  # type: ignore[union-attr]
    missing = {name for name, one in LOOP_NAMES.items() if one.name.capitalize() not in titles}
    assert missing == {"near_identical_calls"}, "it has the threshold of identical calls"


def test_every_unit_is_used() -> None:
    prices = {Unit.USD_PER_MTOK, Unit.USD_A_CALL}
    assert {find_unit(field) for field in NUMBERS.values()} | prices >= set(Unit)


DECLARED = ("fabric/core/spec", "fabric/core/graph", "fabric/core/workspace_policy", "fabric/core/schema/limits.py")


def tables(tree: ast.AST) -> Iterator[str]:
    """The texts that stand as values in the tables of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for value in node.values:
                yield from (
                    one.value for one in ast.walk(value) if isinstance(one, ast.Constant) and isinstance(one.value, str)
                )


@pytest.mark.parametrize("package", ["fabric", "console", "simulator"])
def test_no_other_table_of_the_product_names_a_limit(package: str) -> None:
    titles = {declared.title for field in NUMBERS.values() if (declared := find_limit(field))}
    titles = {title for title in titles if " " in title}
    found = [
        (str(path.relative_to(ROOT)), text)
        for path in sorted(Path(ROOT, package).rglob("*.py"))
        if not str(path.relative_to(ROOT)).startswith(DECLARED)
        for text in tables(ast.parse(path.read_text()))
        if text in titles
    ]
    assert found == []
