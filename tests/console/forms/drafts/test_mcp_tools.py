"""The button that declares what an MCP server offers in the draft that names it."""

import pytest
from django.http import QueryDict

from console.forms.controls.edits import ButtonProblem
from console.forms.drafts.edits import changes_in
from fabric.services.errors import Refused
from fabric.services.fabrics.yaml.edits import tree_edited
from tests.fabric.tools.mcp.worlds import permits, stdio

SERVER = {"name": "things", "transport": "stdio", "command": stdio().command, "args": list(stdio().args)}


def pressed(tree, button="declare mcp_servers.0"):
    return tree_edited(tree, changes_in(tree, QueryDict(), button).edits)


@pytest.fixture
def allowed(settings):
    settings.FABRIC_MCP_COMMANDS = permits(stdio()).commands


def test_what_it_offers_is_declared_once_with_the_gravest_effect_that_it_does_not_deny(allowed):
    declared = {"name": "sum", "kind": "mcp", "target": "things/add"}
    tree = pressed({"mcp_servers": [SERVER], "tools": [declared, {"name": "echo"}]})
    tools = {one["name"]: one for one in tree["tools"]}
    assert tree["tools"][0] == declared
    assert "add" not in tools
    assert (tools["echo_2"]["target"], tools["echo_2"]["effect"]) == ("things/echo", "irreversible")
    with pytest.raises(Refused, match="every tool that 'things' offers is declared already"):
        pressed(tree)


def test_a_draft_without_tools_gets_them(allowed):
    assert "add" in {one["name"] for one in pressed({"mcp_servers": [SERVER]})["tools"]}


@pytest.mark.parametrize(
    ("tree", "button", "error", "said"),
    [
        ({"mcp_servers": [SERVER]}, "declare mcp_servers.0", Refused, "is not allowed; have the operator add it"),
        ({"mcp_servers": [{"name": "x"}]}, "declare mcp_servers.0", Refused, "this server has errors"),
        ({"mcp_servers": []}, "declare mcp_servers.0", Refused, "this server has errors"),
        ({"tools": [{"name": "x"}]}, "declare tools.0", ButtonProblem, "tools.0 is no MCP server"),
    ],
)
def test_what_cannot_be_asked_is_told(tree, button, error, said):
    with pytest.raises(error, match=said):
        pressed(tree, button)
