"""Declarations of what MCP servers offer: hints of a server never make a tool more harmless than they say."""

from itertools import product

import pytest

from fabric.core.spec.mcp import McpServer
from fabric.services.importers.mcp import declare_tools, server_at
from fabric.services.importers.tool_declarations import tool_name
from fabric.tools.mcp.offers import McpToolOffer

SERVER = McpServer(name="crm", transport="http", url="https://crm.example/mcp")
ANY = {"type": "object"}


def effect(read_only, idempotent, destructive):
    ((one,), _) = declare_tools(SERVER, [McpToolOffer("act", "Acts.", ANY, read_only, idempotent, destructive)])
    return one.tool.effect


def test_only_what_a_server_says_in_so_many_words_is_harmless():
    found = {hints: effect(*hints) for hints in product((None, False, True), repeat=3)}
    assert {hints for hints, given in found.items() if given == "read_only"} == {
        hints for hints in found if hints[0] is True
    }
    assert {hints for hints, given in found.items() if given == "idempotent"} == {
        (None, True, False),
        (False, True, False),
    }
    assert set(found.values()) == {"read_only", "idempotent", "irreversible"}


def test_names_are_made_fit_and_told_apart():
    offers = [McpToolOffer(name, "D", ANY) for name in ("getPet", "get_pet", "get pet!", "1st", "ÄÖ", "x" * 100)]
    found, _ = declare_tools(SERVER, offers)
    assert [one.tool.name for one in found] == ["get_pet", "get_pet_2", "get_pet_3", "tool_1st", "tool", "x" * 63]
    assert [one.tool.target for one in found][2:4] == ["crm/get pet!", "crm/1st"]


def test_a_tool_that_cannot_be_declared_is_left_out_and_said():
    found, left = declare_tools(
        SERVER,
        [
            McpToolOffer("bad", "D", {"type": "nonsense"}),
            McpToolOffer("n" * 600, "D", ANY),
            McpToolOffer("ok", "", ANY),
        ],
    )
    assert [one.tool.name for one in found] == ["ok"]
    assert found[0].notes[1].startswith("the server describes it with no word")
    assert [one.path[:7] for one in left] == ["crm/bad", "crm/nnn"]
    assert all(one.reason.startswith("it cannot be declared: ") for one in left)


@pytest.mark.parametrize(("url", "name"), [("https://mcp.crm.example/x", "crm"), ("http://127.0.0.1:80/", "tool_127")])
def test_a_server_at_an_address_is_called_after_its_host(url, name):
    assert server_at(url).name == name


def test_a_name_is_never_longer_than_a_name_may_be():
    taken = ["y" * 63]
    assert tool_name("y" * 80, taken) == "y" * 61 + "_2"
