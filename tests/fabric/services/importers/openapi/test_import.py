"""HTTP tools from OpenAPI documents: what is made of operations, and that everything else is told."""

import json

import pytest
from ruamel.yaml import YAML

from fabric.core.spec.fabric import FabricSpec
from fabric.http.transport import Gate
from fabric.policies.schemas.evaluators import compile_schema
from fabric.services.errors import Refused
from fabric.services.fabrics.yaml.document import fabric_read
from fabric.services.fabrics.yaml.tree import read_yaml
from fabric.services.importers.openapi import build_tools, document_at, read_document
from fabric.services.importers.tool_declarations import yaml_of
from fabric.tools.functions.permits import Permits
from fabric.tools.runner import ToolRunner, problems
from simulator.endpoint import ScriptedEndpoint, Step
from tests.fabric.services.importers.openapi.documents import shop
from tests.fabric.services.world import SMALL
from tests.fabric.tools.asking import run


def read(*changes, **how):
    return build_tools(read_document(json.dumps(shop(*changes)), origin="shop.json"), **how)


def made(found):
    return {one.tool.name: one.tool for one in found.tools}


def left(found):
    return {one.path: one.reason for one in found.left_out}


def test_each_operation_is_a_tool_with_its_place_effect_and_arguments():
    tools = made(read())
    assert list(tools) == ["list_pets", "add_pet", "get_pet", "remove_pet"]
    assert [(one.method, one.effect) for one in tools.values()] == [
        ("GET", "read_only"),
        ("POST", "irreversible"),
        ("GET", "read_only"),
        ("DELETE", "irreversible"),
    ]
    assert tools["get_pet"].target == "https://eu.shop.example/v1/pets/{petId}"
    assert tools["list_pets"].places == {"X-Trace": "header", "tags": "query", "limit": "query"}
    assert tools["add_pet"].places == {"X-Trace": "header", "body": "body"}
    assert tools["list_pets"].parameters["required"] == ["limit"]
    assert tools["get_pet"].parameters["properties"]["petId"] == {"description": "Its number.", "type": "integer"}
    assert [one.description for one in tools.values()] == [
        "Lists pets.",
        "Adds one.",
        "GET /pets/{petId}.",
        "DELETE /pets/{petId}.",
    ]


def test_schemas_are_whole_and_say_in_2020_12_what_3_0_said_in_its_own_words():
    tools = made(read())
    limit, pet = compile_schema(tools["list_pets"].parameters), compile_schema(tools["add_pet"].parameters)
    assert limit({"limit": 1}) == []
    assert limit({"limit": 0}) != []
    assert limit({"limit": 1, "more": 1}) != []
    assert pet({"body": {"name": "Rex", "example": None, "parent": {"name": "Rexa"}}}) == []
    assert pet({"body": {"name": "Rex", "parent": {}}}) != []
    assert "example" in tools["add_pet"].parameters["$defs"]["Pet"]["properties"]
    assert "Rex" not in json.dumps(tools["add_pet"].parameters)


def test_what_is_not_taken_over_is_told_with_its_path():
    assert left(read(("webhooks", {"sold": {}}))) == {
        "paths./pets.head": "no tool asks with HEAD",
        "paths./pets.get.parameters.2": "travels as a cookie, which no tool sends",
        "paths./pets.get.parameters.3": "is the header Accept, which is not an argument's to set",
        "paths./photos.put.requestBody": "takes multipart/form-data, and tools send JSON",
        "webhooks": "nothing here is called by the API",
    }


@pytest.mark.parametrize(
    ("path", "value", "where", "reason"),
    [
        (
            "paths /pets get parameters",
            [{"name": "seen", "in": "cookie", "required": True, "schema": {}}],
            "paths./pets.get",
            "it cannot be called without paths./pets.get.parameters.0, which travels as a cookie",
        ),
        (
            "paths /pets get parameters",
            [{"name": "f", "in": "query", "required": True, "style": "deepObject", "schema": {"type": "object"}}],
            "paths./pets.get",
            "which is written in a way that no tool writes (style deepObject, explode true)",
        ),
        ("paths /pets get parameters", [7], "paths./pets.get.parameters.0", "is no parameter"),
        (
            "paths /pets get parameters",
            [{"$ref": "other.yaml#/x"}],
            "paths./pets.get.parameters.0",
            "refers to another document (other.yaml#/x)",
        ),
        (
            "paths /pets get parameters",
            [{"$ref": "#/components/nothing"}],
            "paths./pets.get.parameters.0",
            "refers to #/components/nothing, which is not there",
        ),
        (
            "components parameters PetId",
            {"$ref": "#/components/parameters/PetId"},
            "paths./pets/{petId}.get.parameters.0",
            "lead on and on",
        ),
        (
            "components securitySchemes key",
            {"type": "apiKey", "in": "query", "name": "k"},
            "paths./pets.get.security",
            "wants a key in the query",
        ),
        ("components securitySchemes key", {"type": "mutualTLS"}, "paths./pets.get.security", "wants mutualTLS"),
        ("paths /pets get", 7, "paths./pets.get", "is no operation"),
        ("paths /pets/{petId} get parameters", [], "paths./pets/{petId}.get", "it has {petId} in its target"),
        ("components schemas Limit", {"type": "nonsense"}, "paths./pets.get", "the schema does not compile"),
        ("components schemas Limit", 7, "paths./pets.get", "which is no schema"),
        (
            "components schemas Limit",
            {"enum": ["x" * 200_000]},
            "paths./pets.get",
            "bytes as a schema; at most 100,000",
        ),
    ],
)
def test_an_operation_that_no_tool_can_be_made_of_is_left_out_and_the_others_are_not(path, value, where, reason):
    found = read((path, value))
    assert reason in left(found)[where]
    assert len(found.tools) >= 1


def test_a_schema_that_goes_on_and_on_is_left_out():
    deep: dict = {"type": "string"}
    for _ in range(61):
        deep = {"type": "array", "items": deep}
    text = json.dumps(shop()).replace('"requestBodies": {"Pet"', '"x": {"Pet"')
    found = build_tools(read_document(text, origin="shop.json"))
    assert left(found)["paths./pets.post.requestBody"] == "refers to #/components/requestBodies/Pet, which is not there"
    with pytest.raises(Refused, match="nested deeper than"):
        read_document(json.dumps(shop(("components schemas Limit", deep))), origin="shop.json")


def test_who_asks_is_said_by_the_name_of_a_variable_alone():
    found = read()
    assert made(found)["list_pets"].headers_from == {"Authorization": "PET_SHOP_KEY"}
    assert made(found)["get_pet"].headers_from == {}
    assert (
        found.tools[0].notes[-1] == "the operator allows it with FABRIC_TOOL_VARIABLES=PET_SHOP_KEY@eu.shop.example:443"
    )
    keyed = read(("components securitySchemes key", {"type": "apiKey", "in": "header", "name": "X-Key"}))
    assert made(keyed)["list_pets"].headers_from == {"X-Key": "PET_SHOP_KEY"}
    either = read(("security", [{"none": []}, {"key": []}]))
    assert made(either)["list_pets"].headers_from == {"Authorization": "PET_SHOP_KEY"}
    assert made(read(("security", [{}, {"key": []}])))["list_pets"].headers_from == {}


def test_what_is_written_can_be_published_as_it_is():
    found = read()
    tree = read_yaml(yaml_of(found.tools)).value
    fabric = fabric_read(SMALL).spec.model_dump(mode="json", by_alias=True)
    spec = FabricSpec.model_validate(fabric | {"tools": [*fabric["tools"], *tree["tools"]]})
    permits = Permits(variables=frozenset({"PET_SHOP_KEY@eu.shop.example:443"}))
    assert [problems(tool, Gate(), permits) for tool in spec.tools[1:]] == [[]] * 4
    assert spec.tools[1:] == tuple(one.tool for one in found.tools)


def test_a_tool_that_was_made_does_what_the_operation_says():
    with ScriptedEndpoint([Step(body=b"{}", content_type="application/json")]) as endpoint:
        tools = made(read(base=f"http://{endpoint.authority}/v1", wanted=["addPet"]))
        permits = Permits(
            variables=frozenset({f"PET_SHOP_KEY@{endpoint.authority}"}), environment={"PET_SHOP_KEY": "Bearer s"}
        )
        port = ToolRunner(gate=Gate.trust_hosts([endpoint.authority]), permits=permits)
        assert run(tools["add_pet"], {"body": {"name": "Rex"}, "X-Trace": "t"}, port).error == ""
        port.close()
    (one,) = endpoint.received
    assert (one.method, one.path, one.body) == ("POST", "/v1/pets", {"name": "Rex"})
    assert (one.headers["authorization"], one.headers["x-trace"]) == ("Bearer s", "t")


def test_operations_are_chosen_by_id_or_by_method_and_path():
    assert list(made(read(wanted=["getPet", "DELETE /pets/{petId}"]))) == ["get_pet", "remove_pet"]
    with pytest.raises(Refused, match=r"shop.json has no operation 'nothing'; there are: putPhoto, removePet, addPet"):
        read(wanted=["nothing"])


def test_version_3_1_keeps_its_own_words():
    changes = [("openapi", "3.1.0"), ("components schemas Limit", {"type": ["integer", "null"], "exclusiveMinimum": 0})]
    tools = made(
        read(
            *changes,
            (
                "paths /pets get parameters",
                [
                    {
                        "name": "limit",
                        "in": "query",
                        "schema": {"$ref": "#/components/schemas/Limit", "description": "How many."},
                    }
                ],
            ),
        )
    )
    assert tools["list_pets"].parameters["properties"]["limit"] == {"description": "How many.", "$ref": "#/$defs/Limit"}
    assert compile_schema(tools["list_pets"].parameters)({"limit": 0}) != []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "is no OpenAPI document"),
        ("{", "is no JSON: "),
        ("a: [", "is neither JSON nor YAML: "),
        ("a: &x 1\nb: *x", "has YAML aliases"),
        ('{"swagger": "2.0"}', "is Swagger 2.0"),
        ('{"info": {}}', "shop.yaml, openapi: is missing"),
        ('{"openapi": "4.0.0"}', "shop.yaml, openapi: is '4.0.0'; 3.0 and 3.1 are read"),
        ('{"openapi": "3.1.0", "paths": []}', "shop.yaml, paths: has to be a group of paths"),
        ('{"openapi": "3.1.0", "paths": {}}', "shop.yaml, paths: there is no operation"),
        (
            '{"openapi": "3.1.0", "paths": {"/a": {"get": {}}}}',
            "paths./a.get: the document names no address of the API; give it with --base",
        ),
    ],
)
def test_a_document_that_is_none_is_told_in_one_sentence(text, said):
    with pytest.raises(Refused) as refused:
        build_tools(read_document(text, origin="shop.yaml"))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_yaml_is_read_with_its_numbers_as_names(tmp_path):
    file = tmp_path / "shop.yaml"
    with file.open("w") as out:
        YAML().dump(shop(("paths /pets get responses", {200: {"description": "ok"}})), out)
    assert len(build_tools(document_at(str(file), Gate())).tools) == 4
    with pytest.raises(Refused, match="cannot be read: No such file"):
        document_at(str(tmp_path / "nothing.yaml"), Gate())


def test_a_document_at_an_address_is_held_to_the_rules_of_addresses_and_its_server_may_be_a_path():
    with ScriptedEndpoint(
        [Step(body=json.dumps(shop(("servers", [{"url": "/v2"}]))).encode(), content_type="application/json")]
    ) as endpoint:
        url = f"http://{endpoint.authority}/openapi.json"
        with pytest.raises(Refused, match="FABRIC_ALLOWED_HOSTS"):
            document_at(url, Gate())
        found = build_tools(document_at(url, Gate.trust_hosts([endpoint.authority])))
    assert made(found)["list_pets"].target == f"http://{endpoint.authority}/v2/pets"
