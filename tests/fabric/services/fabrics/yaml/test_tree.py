"""YAML as plain values, with places; everything that reads differently in two programs is refused."""

import pytest

from fabric.services.fabrics.yaml.tree import BYTES_MAX, TextMark, YamlProblem, read_yaml


def test_values_are_plain_and_dates_are_text():
    tree = read_yaml("a: 1\nb: [x, 2024-01-01, 0.5, true, null, off, 'true', \"1\"]\n")
    assert tree.value == {"a": 1, "b": ["x", "2024-01-01", 0.5, True, None, "off", "true", "1"]}


def test_each_value_has_its_place_and_what_is_missing_has_its_parents():
    tree = read_yaml("a: 1\nagents:\n  - name: x\n    model: big\n")
    assert tree.mark(("agents", 0, "model")) == TextMark(4, 12)
    assert tree.mark(("agents", 0, "tools", 3)) == TextMark(3, 5)
    assert tree.mark(("agents",)) == TextMark(2, 1)
    assert tree.mark(()) == TextMark(1, 1)


@pytest.mark.parametrize(
    ("text", "said", "mark"),
    [
        ("a: &x 1", "the anchor &x is not read", TextMark(1, 4)),
        ("a: &x {b: 1}", "the anchor &x is not read", TextMark(1, 4)),
        ("a: *x", "the alias *x is not read", TextMark(1, 4)),
        ("a: !!python/object:os.system x", "the tag", TextMark(1, 4)),
        ("a: 1\nb: 2\na: 3", "the key 'a' is there twice", TextMark(3, 1)),
        ("<<: {a: 1}", "merge keys", TextMark(1, 1)),
        ("%YAML 1.1\n---\na: 1", "directives", None),
        ("a: 1\n---\nb: 1", "second document", TextMark(2, 1)),
        ("a: .nan", "'.nan' is no number", TextMark(1, 4)),
        ("a: -.inf", "'-.inf' is no number", TextMark(1, 4)),
        ("a: " + "9" * 400, "is no number", TextMark(1, 4)),
        ("a: " + "9" * 5_000, "is no number", TextMark(1, 4)),
        ("? [a]\n: b", "a key must be a plain name", TextMark(1, 3)),
        ("a: [1, 2\nb: 3", "malformed", TextMark(2, 2)),
        ("a:\n\t- b", "not tabs", TextMark(2, 1)),
        ("a: b: c", "malformed", TextMark(1, 5)),
        ('a: "\\0"', "NUL", TextMark(1, 4)),
        ('a: "\\ud800"', "", None),
        ("a: \0", "NUL", None),
        ("a: \ud800", "broken Unicode", None),
        ("[" * 100_000, "nested deeper than 32 levels", TextMark(1, 33)),
        ("{a: " * 40, "nested deeper than 32 levels", TextMark(1, 129)),
        ("- 1\n" * 20_000, "more than 10,000 values", TextMark(10_000, 3)),
        ("x" * (BYTES_MAX + 1), "262,145 bytes", None),
    ],
)
def test_what_is_refused(text, said, mark):
    with pytest.raises(YamlProblem) as caught:
        read_yaml(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    if mark is not None:
        assert caught.value.mark == mark


def test_32_levels_are_read():
    value = read_yaml("[" * 32 + "1" + "]" * 32).value
    for _ in range(32):
        (value,) = value
    assert value == 1


def test_a_reader_who_changes_a_value_changes_it_for_no_one_else():
    text = "a: [{b: 1}]\nc: {d: 2}\n"
    first = read_yaml(text)
    first.value["a"][0]["b"] = 9
    first.value["c"]["e"] = 9
    assert read_yaml(text).value == {"a": [{"b": 1}], "c": {"d": 2}}
