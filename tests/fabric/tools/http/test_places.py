"""Where the arguments of an HTTP tool travel, and what its headers take from the environment."""

import json

import pytest

from fabric.core.events.inputs import ToolFinished
from fabric.core.spec.tools import ToolSpec
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause
from fabric.http.transport import Gate
from fabric.tools.functions.permits import Permits
from fabric.tools.runner import ToolRunner, problems
from simulator.endpoint import ScriptedEndpoint, Step
from tests.fabric.tools.asking import run

ANY = {"type": "object"}
DONE = Step(body=b'{"done": true}', content_type="application/json")


def sent(args, path="/pets/{id}", variables=(), environment=None, **changed):
    """One call of a tool whose arguments have places, and what came of it."""
    with ScriptedEndpoint([DONE]) as endpoint:
        target = f"http://{endpoint.authority}{path}"
        spec = ToolSpec(name="act", kind="http", parameters=ANY, target=target, **changed)
        allowed = frozenset(one.replace("HERE", endpoint.authority) for one in variables)
        port = ToolRunner(
            gate=Gate.trust_hosts([endpoint.authority]),
            permits=Permits(variables=allowed, environment=environment or {}),
        )
        try:
            return run(spec, args, port), endpoint.received
        finally:
            port.close()


def test_each_argument_travels_where_it_is_said_to():
    places = {"id": "path", "tags": "query", "full": "query", "X-Trace": "header", "pet": "body"}
    args = {"id": "a b/c?d#é", "tags": ["x", "y&z"], "full": True, "X-Trace": "t 1", "pet": [1, {"n": None}]}
    result, received = sent(args, path="/pets/{id}/tags?v=2", method="PUT", places=places)
    assert result.result == {"done": True}
    (one,) = received
    assert (one.method, one.path) == ("PUT", "/pets/a%20b%2Fc%3Fd%23%C3%A9/tags?v=2&tags=x&tags=y%26z&full=true")
    assert one.body == [1, {"n": None}]
    assert one.headers["x-trace"] == "t 1"
    assert one.idempotency_key == "key-1"


def test_arguments_without_a_place_travel_as_before():
    _, received = sent({"id": 7, "a": 1, "b": "x"}, method="POST", places={"id": "path"})
    assert (received[0].path, received[0].body) == ("/pets/7", {"a": 1, "b": "x"})
    _, received = sent({"id": 7, "a": 1, "b": "x"}, method="GET", places={"id": "path"})
    assert (received[0].path, received[0].body) == ("/pets/7?a=1&b=x", None)


def test_a_body_that_is_not_given_is_not_sent():
    _, received = sent({"id": 1}, method="POST", places={"id": "path", "pet": "body"})
    assert received[0].body is None
    assert "content-type" not in received[0].headers


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"id": ".."}, "the argument id is part of the address's path and cannot be '..'"),
        ({"id": "."}, "cannot be '.'"),
        ({"id": ""}, "cannot be ''"),
        ({}, "the argument id is part of the address's path and is missing"),
        ({"id": [1]}, "the arguments of this tool travel in the URL"),
        ({"id": 1, "X-Trace": "a\r\nHost: evil"}, "the argument X-Trace travels as a header, which is printable ASCII"),
        ({"id": 1, "X-Trace": "é"}, "printable ASCII"),
        ({"id": 1, "q": [{"a": 1}]}, "the arguments of this tool travel in the URL"),
    ],
)
def test_an_argument_cannot_leave_its_place(args, said):
    places = {"id": "path", "X-Trace": "header", "q": "query"}
    result, received = sent(args, method="GET", places=places)
    assert isinstance(result, ToolFinished)
    assert said in result.error
    assert received == []


def test_a_header_comes_from_the_environment_where_the_operator_allows_it():
    how = {"method": "GET", "path": "/", "headers_from": {"Authorization": "CRM"}, "environment": {"CRM": "Bearer s"}}
    result, received = sent({}, variables=["CRM@HERE"], **how)
    assert (result.result, received[0].headers["authorization"]) == ({"done": True}, "Bearer s")
    for variables in ([], ["CRM"], ["CRM@other.example:443"]):
        result, received = sent({}, variables=variables, **how)
        assert (result.cause, result.outcome) == (Cause.BAD_CONFIGURATION, Outcome.REJECTED)
        assert "is sent the variable CRM, which is not allowed" in result.message
        assert received == []


def test_a_variable_that_is_not_set_is_told():
    result, received = sent({}, method="GET", path="/", headers_from={"X-Key": "CRM"}, variables=["CRM@HERE"])
    assert (result.cause, result.outcome, received) == (Cause.BAD_CONFIGURATION, Outcome.REJECTED, [])
    assert "the variable CRM is not set in this process's environment" in result.message


def judged(places, path="/x", method="POST", properties=("id", "a"), required=("id",), **changed):
    parameters = {"type": "object", "properties": {name: {} for name in properties}, "required": list(required)}
    given = {"name": "act", "kind": "http", "description": "D", "parameters": parameters, "method": method}
    return problems(ToolSpec(**(given | {"target": f"https://x.example{path}", "places": places} | changed)))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"places": {}, "path": "/{id}"}, "has {id} in its target; say `places: {id: path}`, or take it out"),
        ({"places": {"id": "path"}}, "has 'id' in the path, and no {id} in its target"),
        ({"places": {"id": "path"}, "path": "/{id}", "required": ()}, "has 'id' in the path, so it has to be required"),
        ({"places": {"id": "body", "a": "query"}, "method": "GET"}, "has a body, which GET has not"),
        ({"places": {"id": "body", "a": "body"}}, "has several bodies (id, a)"),
        ({"places": {"id": "body"}}, "has a whole body, so say in `places` where 'a' travels"),
        ({"places": {"b": "query"}}, "says where 'b' travels, which is none of its parameters"),
        ({"places": {"Host": "header"}, "properties": ("Host",), "required": ()}, "the argument 'Host' as a header"),
        (
            {"places": {"Cookie": "header"}, "properties": ("Cookie",), "required": ()},
            "the argument 'Cookie' as a header",
        ),
        ({"places": {}, "headers_from": {"X-Key": "K"}}, "x.example:443 is sent the variable K, which is not allowed"),
        (
            {"places": {"id": "query"}, "kind": "callable", "target": "json.dumps"},
            "has places, which only kind http has",
        ),
    ],
)
def test_what_does_not_go_together_is_not_published(how, said):
    found = judged(**how)
    assert said in found[0]
    assert len(found) == 1


def test_what_goes_together_is():
    assert judged({"id": "path", "a": "query"}, path="/{id}/x", method="GET") == []
    assert judged({"id": "path", "a": "body"}, path="/{id}/x") == []


def test_places_are_stored():
    spec = ToolSpec(name="act", kind="http", places={"id": "path"})
    assert ToolSpec.model_validate(json.loads(spec.model_dump_json())) == spec
