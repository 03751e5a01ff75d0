import pytest

from fabric.core.schema.payloads import AGENT_OUTPUT, json_schema
from fabric.policies.schemas.evaluators import PROBLEMS_MAX, SchemaProblem, compile_schema, evaluators_digest


@pytest.mark.parametrize("name", AGENT_OUTPUT)
def test_the_engine_s_own_schemas_compile(name):
    assert compile_schema(json_schema(name))({}) != []


def test_each_problem_is_a_path_and_a_sentence():
    check = compile_schema(json_schema("plan"))
    plan = {"briefs": [{"agent": 7, "instructions": "x"}, {"agent": "a"}], "exit_criteria": []}
    assert check(plan) == [
        'briefs[0].agent: 7 is not of type "string"',
        'briefs[1]: "instructions" is a required property',
        "exit_criteria: [] has less than 1 item",
    ]
    assert check({"briefs": [{"agent": "a", "instructions": "x"}], "exit_criteria": ["done"]}) == []


def test_problems_are_bounded_in_number_and_length():
    check = compile_schema({"items": {"type": "string"}})
    assert len(check(list(range(100)))) == PROBLEMS_MAX
    (only,) = compile_schema({"type": "string"})([["x" * 10_000]])
    assert len(only) < 400


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "nope"}, "does not compile"),
        ({"$ref": "#/nope"}, "does not compile"),
        ({"$ref": "https://example.org/schema.json"}, "does not compile"),
        ({"$ref": "file:///etc/passwd"}, "does not compile"),
        ({"pattern": "(?=look)"}, "does not compile"),
        ({"minimum": float("nan")}, "does not compile"),
        ({"x": object()}, "is no JSON"),
    ],
)
def test_a_schema_that_is_none_is_refused_with_one_sentence(schema, said):
    with pytest.raises(SchemaProblem) as caught:
        compile_schema(schema)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_file_is_read_for_a_schema(tmp_path):
    (tmp_path / "other.json").write_text('{"type": "string"}')
    with pytest.raises(SchemaProblem):
        compile_schema({"$ref": (tmp_path / "other.json").as_uri()})


def test_a_pattern_that_explodes_elsewhere_is_linear_here():
    check = compile_schema({"pattern": "^(a+)+$"})
    assert check("a" * 100_000 + "!") != []


def test_what_cannot_be_read_does_not_fit():
    (said,) = compile_schema({"required": ["b"]})({"a": "\ud800"})
    assert "cannot be checked" in said
    said.encode()


def test_a_schema_may_refer_to_itself():
    check = compile_schema({"properties": {"next": {"$ref": "#"}}, "required": ["n"]})
    assert check({"n": 1, "next": {}}) == ['next: "n" is a required property']


def test_the_digest_is_of_the_rules_and_not_of_their_order():
    one, same = (
        compile_schema({"type": "object", "required": ["a"]}),
        compile_schema({"required": ["a"], "type": "object"}),
    )
    other = compile_schema({"type": "object"})
    assert one is same
    assert one.digest != other.digest
    assert evaluators_digest([("x", one), ("y", other)]) == evaluators_digest([("y", other), ("x", one)])
    assert evaluators_digest([("x", one), ("y", other)]) != evaluators_digest([("x", other), ("y", one)])
