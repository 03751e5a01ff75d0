"""`manage.py fabric mcp` and `fabric openapi`: declarations of tools to paste into a fabric."""

import json
import sys

import pytest

from fabric.core.spec.fabric import FabricSpec
from fabric.services.fabrics.yaml.document import fabric_read
from fabric.services.fabrics.yaml.tree import read_yaml
from tests.fabric.management.console import command
from tests.fabric.services.importers.openapi.documents import shop
from tests.fabric.services.world import SMALL
from tests.fabric.tools.mcp.worlds import MODULE, http, permits, served, stdio

SERVERS = json.dumps(
    {"mcp_servers": [{"name": "things", "transport": "stdio", "command": sys.executable, "args": list(MODULE)}]}
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "servers.yaml"
    path.write_text(SERVERS)
    return path


@pytest.fixture
def allowed(settings):
    settings.FABRIC_MCP_COMMANDS = permits(stdio()).commands


def test_what_a_server_offers_is_written_so_that_it_can_be_pasted(actor, file, allowed):
    done = command("fabric", "mcp", str(file))
    assert (done.code, done.err) == (0, "")
    tree = read_yaml(done.out).value
    tools = {tool["name"]: tool for tool in tree["tools"]}
    assert [tools[name]["effect"] for name in ("add", "echo", "fail")] == ["read_only", "irreversible", "irreversible"]
    assert tools["add"]["target"] == "things/add"
    assert tools["add"]["parameters"]["required"] == ["a"]
    assert "# add: the server says that it changes nothing; believe it only where you believe the server" in done.out
    assert "# fail: the server says nothing of what it changes, so each call needs a review" in done.out
    fabric = fabric_read(SMALL).spec.model_dump(mode="json", by_alias=True)
    spec = FabricSpec.model_validate(
        fabric | {"mcp_servers": tree["mcp_servers"], "tools": [*fabric["tools"], *tree["tools"]]}
    )
    assert spec.mcp_servers == (stdio(),)


def test_as_json_a_line_for_each_server(actor, file, allowed):
    done = command("fabric", "mcp", str(file), "things", "--json")
    assert done.last["server"]["name"] == "things"
    assert {one["tool"]["name"] for one in done.last["tools"]} >= {"add", "never"}
    assert done.last["left_out"] == []


def test_resources_and_prompts_are_named_beside_the_tools(actor, file, allowed):
    done = command("fabric", "mcp", str(file))
    (reading,) = [one for one in read_yaml(done.out).value["tools"] if one["target"] == "things/resources/read"]
    assert (reading["name"], reading["effect"]) == ("read_things", "read_only")
    assert reading["description"] == "Reads a resource by its address: notes://today, notes://{day}/{n} (a template)."
    assert "#   notes://today (text/plain): What is to be done today." in done.out.splitlines()
    assert "#   tidy (room): How a room is tidied." in done.out.splitlines()


def test_resources_and_prompts_as_json(actor, file, allowed):
    done = command("fabric", "mcp", str(file), "--json")
    assert [(one["uri"], one["template"]) for one in done.last["resources"]] == [
        ("notes://today", False),
        ("notes://{day}/{n}", True),
    ]
    assert [(one["name"], one["required"]) for one in done.last["prompts"]] == [("tidy", ["room"])]


def test_a_server_at_an_address(actor, settings):
    with served() as where:
        refused = command("fabric", "mcp", f"http://{where}/mcp")
        settings.FABRIC_ALLOWED_HOSTS = (where,)
        done = command("fabric", "mcp", f"http://{where}/mcp")
    assert (refused.code, refused.out) == (2, "")
    assert "FABRIC_ALLOWED_HOSTS" in refused.err
    (server,) = read_yaml(done.out).value["mcp_servers"]
    assert server["url"] == http(where).url


@pytest.mark.parametrize(
    ("text", "more", "said"),
    [
        (SERVERS, [], "is not allowed; have the operator add it to FABRIC_MCP_COMMANDS"),
        (SERVERS, ["files"], "no MCP server is named 'files'; there are: things"),
        ("name: x", [], "servers.yaml declares no mcp_servers; add the group, or name an address"),
        ("mcp_servers: [{name: x}]", [], "servers.yaml, mcp_servers.0.transport: "),
        ("a: [", [], "servers.yaml: "),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(actor, file, text, more, said):
    file.write_text(text)
    done = command("fabric", "mcp", str(file), *more)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_an_openapi_document_is_written_so_that_it_can_be_pasted(actor, tmp_path):
    path = tmp_path / "shop.json"
    path.write_text(json.dumps(shop()))
    done = command("fabric", "openapi", str(path), "--operation", "getPet", "addPet", "--base", "https://other.example")
    assert (done.code, done.err) == (0, "left out: paths./pets.head: no tool asks with HEAD\n")
    tools = read_yaml(done.out).value["tools"]
    assert [tool["name"] for tool in tools] == ["get_pet", "add_pet"]
    assert tools[0]["target"] == "https://other.example/pets/{petId}"
    told = command("fabric", "openapi", str(path), "--json").last
    assert (told["title"], told["base"], len(told["tools"])) == ("Pet shop", "https://eu.shop.example/v1", 4)
    assert {"path": "paths./pets.head", "reason": "no tool asks with HEAD"} in told["left_out"]


def test_a_document_that_is_none_is_one_sentence_and_exit_code_2(actor, tmp_path):
    path = tmp_path / "shop.json"
    path.write_text('{"swagger": "2.0"}')
    done = command("fabric", "openapi", str(path))
    assert (done.code, done.out) == (2, "")
    assert done.err == "shop.json is Swagger 2.0; convert it to OpenAPI 3, which is what is read\n"
