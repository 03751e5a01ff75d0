"""An installation registers names for graphs: found by dotted path once, listed, and each mistake is one sentence."""

from __future__ import annotations

import pytest

from fabric.policies.graph_rules import RulesUnusable, build_registry

HERE = "tests.fabric.policies.sample_rules"


def test_a_module_that_ends_the_process_while_it_loads_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "ends_all.py").write_text("raise SystemExit(2)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(
        RulesUnusable, match=r"'ends_all.RULES', which cannot be imported \(SystemExit: 2\): correct it"
    ):
        build_registry(("ends_all.RULES",))


def test_all_that_are_named_stand_in_one():
    found = build_registry((f"{HERE}.ROUTING", f"{HERE}.ODD"))
    assert found.conditions.names == ("late", "none", "raises")
    assert found.targets.names == ("last", "text")
    assert build_registry(()).conditions.names == ()


@pytest.mark.parametrize(
    ("paths", "sentence"),
    [
        ((f"{HERE}.NOTHING",), f"FABRIC_GRAPH_RULES has '{HERE}.NOTHING', but {HERE} has no NOTHING: correct it"),
        (
            ("no.such.RULES",),
            "FABRIC_GRAPH_RULES has 'no.such.RULES', which cannot be imported (ModuleNotFoundError: No module named 'no'): correct it",
        ),
        (
            (f"{HERE}.NO_REGISTRY",),
            f"FABRIC_GRAPH_RULES has '{HERE}.NO_REGISTRY', which is of type dict: name a Registry of fabric.core.graph.registry",
        ),
        (
            (f"{HERE}.ROUTING", f"{HERE}.AGAIN"),
            f"FABRIC_GRAPH_RULES has '{HERE}.AGAIN', which cannot stand beside the others: a condition is registered as 'late' already; give this one another name",
        ),
    ],
)
def test_a_path_that_names_none_is_one_sentence(paths, sentence):
    with pytest.raises(RulesUnusable) as refused:
        build_registry(paths)
    assert str(refused.value) == sentence
