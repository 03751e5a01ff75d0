"""MCP servers in a fabric: what an author is told at reading and at publication, and that fabrics without any are what they were."""

import json

import pytest

from fabric.core.spec.fabric import FabricSpec
from fabric.http.transport import Gate
from fabric.services.errors import Refused
from fabric.services.fabrics.publication.rules import publication_problems, publication_warnings
from fabric.services.fabrics.yaml.document import fabric_dump, fabric_read
from fabric.services.installation.facts import InstallationFacts
from fabric.tools.functions.permits import Permits
from tests.fabric.services.world import SMALL

FILES = {"name": "files", "transport": "stdio", "command": "mcp-files", "args": ["/srv/docs"]}
CRM = {"name": "crm", "transport": "http", "url": "https://crm.example/mcp"}
TOOL = {
    "name": "look",
    "kind": "mcp",
    "target": "files/read",
    "description": "Reads.",
    "parameters": {"type": "object"},
}


def tree(*servers, tools=()):
    found = fabric_read(SMALL).spec.model_dump(mode="json", by_alias=True)
    return found | {"mcp_servers": list(servers), "tools": [*found["tools"], *tools]}


def told(*servers, allowed=(), variables=(), tools=()):
    where = InstallationFacts(gate=Gate(), permits=Permits(tuple(allowed), frozenset(variables)))
    problems = publication_problems(FabricSpec.model_validate(tree(*servers, tools=tools)), where)
    return [(one.path, one.sentence) for one in problems if one.path.startswith(("mcp_servers", "tools"))]


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (FILES | {"url": "https://x.example"}, "transport stdio has no url; leave it out"),
        (CRM | {"command": "x", "args": ["y"]}, "transport http has no command and no args; leave it out"),
        ({"name": "files", "transport": "stdio"}, "transport stdio needs command"),
        ({"name": "crm", "transport": "http"}, "transport http needs url"),
        (FILES | {"variables": ["NO-NAME"]}, "variables"),
        (CRM | {"headers_from": {"Bad Header": "X"}}, "headers_from"),
    ],
)
def test_a_server_that_is_none_is_told(server, said):
    with pytest.raises(Refused, match="mcp_servers.0") as refused:
        fabric_read(json.dumps(tree(server)))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("servers", "tool", "path", "said"),
    [
        ((FILES, FILES), TOOL, "mcp_servers.1.name", "'files' is there twice"),
        (
            (FILES,),
            TOOL | {"target": "files"},
            "tools.1.target",
            "'files' names no tool of an MCP server; write SERVER/TOOL",
        ),
        ((FILES,), TOOL | {"target": "crm/x"}, "tools.1.target", "no MCP server is named 'crm'; there are: files"),
        ((), TOOL, "tools.1.target", "no MCP server is named 'files'; the fabric has no MCP servers"),
    ],
)
def test_servers_and_tools_name_each_other(servers, tool, path, said):
    with pytest.raises(Refused) as refused:
        fabric_read(json.dumps(tree(*servers, tools=[tool])))
    assert f"{path}: {said}" in str(refused.value)


@pytest.mark.parametrize(
    ("server", "allowed", "variables", "said"),
    [
        (FILES, [], [], "the command 'mcp-files /srv/docs' is not allowed"),
        (FILES, [("mcp-files",)], [], "is not allowed"),
        (FILES, [("mcp-files", "/srv")], [], "is not allowed"),
        (FILES, [("mcp-files", "/srv/docs")], [], ""),
        (FILES, [("mcp-files", "...")], [], ""),
        (FILES | {"args": []}, [("mcp-files", "...")], [], ""),
        (FILES | {"variables": ["KEY"]}, [("mcp-files", "...")], ["KEY@crm.example:443"], "is given the variable KEY"),
        (FILES | {"variables": ["KEY"]}, [("mcp-files", "...")], ["KEY"], ""),
        (CRM, [], [], ""),
        (CRM | {"url": "http://10.0.0.1/mcp"}, [], [], "plain http"),
        (CRM | {"headers_from": {"Authorization": "KEY"}}, [], ["KEY"], "is sent the variable KEY"),
        (CRM | {"headers_from": {"Authorization": "KEY"}}, [], ["KEY@other.example:443"], "is sent the variable KEY"),
        (CRM | {"headers_from": {"Authorization": "KEY"}}, [], ["KEY@crm.example:443"], ""),
        (CRM | {"headers_from": {"Host": "KEY"}}, [], ["KEY@crm.example:443"], "Host is not a fabric's to set"),
    ],
)
def test_what_the_operator_does_not_allow_is_not_published(server, allowed, variables, said):
    found = told(server, allowed=allowed, variables=variables)
    assert [path for path, _ in found] == (["mcp_servers.0"] if said else [])
    assert all(said in sentence for _, sentence in found)


def test_a_tool_of_a_server_is_declared_as_all_are():
    bare = {"name": "look", "kind": "mcp", "target": "files/read"}
    found = told(FILES, allowed=[("mcp-files", "...")], tools=[bare])
    assert [sentence for _, sentence in found] == [
        "tool 'look' says nothing of its arguments; give `parameters`, a JSON schema",
        "tool 'look' has no description; models choose tools by it",
    ]


def test_a_server_without_tools_is_doubtful():
    spec = FabricSpec.model_validate(tree(FILES, CRM, tools=[TOOL]))
    found = [one for one in publication_warnings(spec) if one.path.startswith("mcp_servers")]
    assert [(one.path, one.sentence) for one in found] == [
        ("mcp_servers.1", "MCP server 'crm' has no tool that is declared")
    ]


def test_a_fabric_with_servers_reads_back():
    spec = FabricSpec.model_validate(tree(FILES, tools=[TOOL]))
    assert fabric_read(fabric_dump(spec)).spec == spec
