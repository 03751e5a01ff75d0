"""Patterns that are looked for together find what each finds alone, and a text without a hit is read once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.policies.guardrails import compiled
from fabric.policies.guardrails.compiled import NamedPattern, PatternGroup, compile_pattern
from fabric.policies.guardrails.rules import RULES
from tests.fabric.policies.guardrails.test_corpora import lines

SHIPPED = tuple(one for rule in RULES for one in compiled.compile_patterns(rule.name))
LINES = [line for rule in RULES for kind in ("positive", "negative") for line in lines(rule.name, kind)]


def differs(patterns, found, text):
    """Tell whether the group leaves out a pattern that matches, or looks for all where none does."""
    matches = [one for one in patterns if one.pattern.search(text) is not None]
    return bool(matches) != bool(found.list_candidates(text))


def test_a_group_of_all_shipped_patterns_agrees_with_each_on_every_line():
    found = PatternGroup(SHIPPED)
    assert [line for line in LINES if differs(SHIPPED, found, line)] == []


@given(st.lists(st.sampled_from(LINES), max_size=3), st.text(max_size=40), st.randoms(use_true_random=False))
def test_it_agrees_on_pieces_of_lines(chosen, between, random):
    whole = between.join(chosen)
    cut = whole[random.randint(0, len(whole)) :]
    assert not differs(SHIPPED, PatternGroup(SHIPPED), cut.encode("utf-8", "replace").decode())


@pytest.mark.parametrize(
    ("patterns", "text"),
    [
        (("other", r"^secret$"), "secret"),
        (("(?i)other", "secret"), "secret"),
        (("Other", "(?i)secret"), "SECRET"),
        ((r"a|b", "cd"), "cd"),
        ((r"(a)(b)", r"(c)"), "c"),
        ((r"\Qa.b", r"\Qx\Ey"), "xy"),
        ((r"\Qa.b", "secret"), "secret"),
        (("x{1000}y{1000}" * 20, "secret"), "secret"),
    ],
)
def test_own_patterns_do_not_change_each_other(patterns, text):
    """The last of them matches the text, so the group must look for it."""
    own = tuple(NamedPattern(f"own{n}", compile_pattern(one)) for n, one in enumerate(patterns))
    assert own[-1].pattern.search(text) is not None
    assert own[-1] in PatternGroup(own).list_candidates(text)


def test_no_pattern_is_looked_for_in_a_text_without_a_hit():
    assert PatternGroup(SHIPPED).list_candidates("The weather is fine.") == ()
