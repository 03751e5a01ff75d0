import pytest

from fabric.core.spec.tools import ToolSpec
from fabric.core.values.taxonomy import Cause
from fabric.http.transport import Gate
from fabric.policies.schemas.evaluators import compile_schema
from fabric.tools.runner import BUILTINS, build_validator, offers, problems
from tests.fabric.tools.asking import DOCUMENTS, run

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("name", "args", "field", "value"),
    [
        ("read_document", {"name": "report.md"}, "text", DOCUMENTS[0].text),
        ("search_documents", {"query": "costs", "limit": 1}, "query", "costs"),
        ("calculator", {"expression": "6 * 7"}, "value", "42"),
    ],
)
def test_each_builtin_runs(name, args, field, value):
    assert run(ToolSpec(name=name), args).result[field] == value


def test_a_builtin_may_go_by_another_name():
    spec = ToolSpec(name="look-up", target="read_document", description="Reads the reports.")
    assert run(spec, {"name": "plan.md"}).result["name"] == "plan.md"
    offer = offers(spec)
    assert (offer.name, offer.description) == ("look-up", "Reads the reports.")
    assert offer.parameters == BUILTINS["read_document"].parameters


def test_every_builtin_is_offered_with_words_and_a_schema_that_compiles():
    for name in BUILTINS:
        offer = offers(ToolSpec(name=name))
        assert len(offer.description) > 40
        compile_schema(offer.parameters)
        assert all("description" in field for field in offer.parameters["properties"].values())


def test_http_get_is_offered_with_its_hosts():
    assert (
        "Allowed hosts: example.org." in offers(ToolSpec(name="http_get", allowed_hosts=("example.org",))).description
    )


@pytest.mark.parametrize(
    ("name", "args", "said"),
    [
        ("read_document", {}, '"name" is a required property'),
        ("read_document", {"name": 7}, "name: 7 is not of type"),
        ("read_document", {"name": "x", "start": -1}, "start: -1 is less than"),
        ("search_documents", {"query": "x", "limit": 1_000}, "limit: 1000 is greater than"),
        ("calculator", {"expression": "1", "precision": 2}, "precision"),
        ("calculator", {"expression": ""}, "expression"),
        ("http_get", {"url": "https://example.org", "method": "DELETE"}, "method"),
    ],
)
def test_arguments_are_checked_before_anything_runs(name, args, said):
    result = run(ToolSpec(name=name), args)
    assert result.error.startswith("the arguments do not fit: ")
    assert said in result.error


def test_a_builtin_s_own_error_is_data():
    assert "attached are: report.md, plan.md" in run(ToolSpec(name="read_document"), {"name": "x"}).error
    assert run(ToolSpec(name="calculator"), {"expression": "1/0"}).error == "the expression divides by zero"


def test_an_unknown_builtin_is_a_configuration_error():
    result = run(ToolSpec(name="teleport"), {})
    assert result.cause is Cause.BAD_CONFIGURATION
    assert "there is no built-in 'teleport'; there are: ask_person, calculator, http_get" in result.message


def test_nothing_runs_after_the_deadline():
    result = run(ToolSpec(name="calculator"), {"expression": "1"}, within_s=-1)
    assert (result.cause, result.billed) == (Cause.TIMEOUT, False)


def test_a_document_store_that_fails_is_told():
    def documents():
        raise RuntimeError("the database is away")

    assert "the database is away" in run(ToolSpec(name="read_document"), {"name": "x"}, documents=documents).error


def test_the_arguments_validator_is_the_one_of_the_offer():
    assert build_validator(ToolSpec(name="calculator"))({}) == ['"expression" is a required property']
    assert build_validator(ToolSpec(name="x", kind="callable"))({"any": 1}) == []


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"name": "teleport"}, "there is no built-in 'teleport'"),
        ({"name": "x", "target": "teleport"}, "there is no built-in 'teleport'"),
        ({"name": "calculator", "effect": "mutating"}, "declared mutating, but the built-in calculator is read_only"),
        ({"name": "calculator", "parameters": SCHEMA}, "are fixed"),
        ({"name": "calculator", "allowed_hosts": ["a.org"]}, "only http_get knows"),
        ({"name": "http_get"}, "allows no host"),
        ({"name": "http_get", "allowed_hosts": ["10.0.0.1"]}, "not public (private)"),
        ({"name": "x", "kind": "http", "description": "D", "parameters": SCHEMA}, "has no target; give a URL"),
        (
            {"name": "x", "kind": "http", "description": "D", "parameters": SCHEMA, "target": "http://10.0.0.1/"},
            "plain http",
        ),
        (
            {"name": "x", "kind": "callable", "description": "D", "parameters": SCHEMA},
            "give the operator's name for a function",
        ),
        (
            {
                "name": "x",
                "kind": "callable",
                "description": "D",
                "parameters": {"type": "nope"},
                "target": "add",
            },
            "the schema does not compile",
        ),
        ({"name": "x", "kind": "callable", "description": "D", "target": "add"}, "give `parameters`"),
        ({"name": "x", "kind": "callable", "parameters": SCHEMA, "target": "add"}, "has no description"),
    ],
)
def test_what_keeps_a_tool_from_publication_is_said(spec, said):
    found = problems(ToolSpec(**spec))
    assert len(found) == 1
    assert said in found[0]
    assert repr(spec["name"]) in found[0]


@pytest.mark.parametrize(
    "spec",
    [
        {"name": "read_document"},
        {"name": "look", "target": "search_documents"},
        {"name": "http_get", "allowed_hosts": ["example.org", "10.0.0.1:80", "example.org:8443"]},
        {"name": "x", "kind": "http", "description": "D", "parameters": SCHEMA, "target": "http://10.0.0.1/"},
        {"name": "x", "kind": "callable", "description": "D", "parameters": SCHEMA, "target": "add"},
    ],
)
def test_a_tool_without_problems(spec):
    assert problems(ToolSpec(**spec), Gate.trust_hosts(["10.0.0.1:80"])) == []
