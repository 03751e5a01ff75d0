"""Shipped guardrails: every line of a positive corpus is found by its rule, no line of a negative one (docs/specification/gates.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric.core.spec.policies.gates import GuardrailGroup
from fabric.policies.guardrails import compiled
from fabric.policies.guardrails.rules import RULES

CORPORA = Path(compiled.__file__).parent / "corpora"
NAMES = [rule.name for rule in RULES]


def lines(rule, kind):
    return (CORPORA / f"{rule}.{kind}.txt").read_text().splitlines()


def scan(*rules, **fields):
    return compiled.scans([GuardrailGroup(rules=rules, **fields)])["finalize"]


@pytest.mark.parametrize("kind", ["positive", "negative"])
@pytest.mark.parametrize("rule", NAMES)
def test_each_rule_has_both_corpora_and_no_line_stands_twice(rule, kind):
    found = lines(rule, kind)
    assert len(found) >= 25
    assert len(set(found)) == len(found)


def test_there_is_no_corpus_without_a_rule():
    assert {path.name for path in CORPORA.iterdir()} == {
        f"{rule}.{k}.txt" for rule in NAMES for k in ("positive", "negative")
    }


@pytest.mark.parametrize("rule", NAMES)
def test_every_positive_fires(rule):
    look = scan(rule)
    assert [line for line in lines(rule, "positive") if not look({"text": line})] == []


@pytest.mark.parametrize("rule", NAMES)
def test_no_negative_fires(rule):
    look = scan(rule)
    found = {line: look({"text": line, "items": [line]}) for line in lines(rule, "negative")}
    assert {line: hits for line, hits in found.items() if hits} == {}


def test_every_pattern_is_needed_by_a_positive():
    used = {hit.rule for rule in NAMES for line in lines(rule, "positive") for hit in scan(rule)(line)}
    assert used == {f"{rule.name}.{one.name}" for rule in RULES for one in rule.patterns}


@pytest.mark.parametrize("rule", NAMES)
def test_what_is_told_of_a_hit_is_no_more_than_its_first_characters(rule):
    taken = [
        found
        for line in lines(rule, "positive")
        for one in compiled.compile_patterns(rule)
        for found in one.matches(line)
    ]
    assert len(taken) >= 25
    for found in taken:
        told = compiled.mask_hit(found)
        assert found not in told
        assert told.partition("…")[0] == found[: min(4, len(found) // 4)]


SECRET = "ghp_" + "k7Qw9Zr2" * 4 + "Tt5m"


def test_a_hit_says_where_it_is():
    hits = scan("credentials")({"text": "fine", "parts": [{"note": f"token {SECRET}"}]})
    assert [(hit.rule, hit.path) for hit in hits] == [("credentials.github_token", "parts.0.note")]


def test_a_key_that_is_a_secret_is_found_and_no_path_names_it():
    hits = scan("credentials")({"headers": {SECRET: {"deeper": SECRET}}})
    assert {hit.path for hit in hits} == {"headers.<key>", "headers.<key>.deeper"}
    assert SECRET not in str(hits)


def test_a_number_is_looked_at_like_a_text_and_a_password_behind_its_key():
    assert [hit.path for hit in scan("personal_data")({"card": 4539578763621486})] == ["card"]
    assert [hit.path for hit in scan("credentials")({"password": "Winter-Lantern-48"})] == ["password"]


def test_many_hits_are_told_up_to_ten():
    assert len(scan("credentials")([f"{SECRET}{n}" for n in range(30)])) == 10


def test_own_patterns_look_where_their_group_says():
    own = {"name": "project", "pattern": r"\bPRJ-\d{4}\b"}
    found = compiled.scans([GuardrailGroup(places=("arguments",), patterns=(own,))])
    assert set(found) == {"arguments"}
    assert [(hit.rule, hit.path, hit.excerpt) for hit in found["arguments"]({"q": "PRJ-4821 costs"})] == [
        ("project", "q", "PR…, 8 characters")
    ]


@pytest.mark.parametrize(
    ("group", "path", "said"),
    [
        (
            {"rules": ("credentials", "creds")},
            "gates.guardrails.0.rules.1",
            "no guardrail is named 'creds'; there are: ",
        ),
        (
            {"patterns": ({"name": "a", "pattern": "(open"},)},
            "gates.guardrails.0.patterns.0.pattern",
            "is no RE2 pattern",
        ),
        ({"patterns": ({"name": "a", "pattern": r"(?!x)y"},)}, "gates.guardrails.0.patterns.0.pattern", "lookaround"),
        (
            {"patterns": ({"name": "a", "pattern": r"(a)\1"},)},
            "gates.guardrails.0.patterns.0.pattern",
            "references back",
        ),
        (
            {"patterns": ({"name": "a", "pattern": "a*"},)},
            "gates.guardrails.0.patterns.0.pattern",
            "matches the empty text",
        ),
        ({}, "gates.guardrails.0", "looks for nothing"),
    ],
)
def test_what_does_not_compile_is_named_with_its_path(group, path, said):
    ((where, sentence),) = compiled.problems([GuardrailGroup(**group)])
    assert where == path
    assert said in sentence


def test_time_grows_with_the_text_alone():
    """A text on which a backtracking engine takes years ends here, and the rule finds nothing."""
    pattern = {"name": "a", "pattern": "(a+)+b"}
    assert compiled.scans([GuardrailGroup(patterns=(pattern,))])["plan"]("a" * 200_000) == []
