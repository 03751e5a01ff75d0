"""Patterns of a policy match the address that a server reads, not the spelling of an author."""

import pytest

from fabric.core.spec.mcp import McpServer
from fabric.core.spec.tools import ToolSpec
from fabric.core.workspace_policy.policy import find_subject, list_hosts, pattern_covers, patterns_meet, read_host


def http(target):
    return ToolSpec(name="pay", kind="http", target=target)


@pytest.mark.parametrize(
    "target",
    [
        "https://api.bank.com/pay/now",
        "https://API.Bank.com/pay/now",
        "https://api.bank.com./pay/now",
        "https://api.bank.com:443/pay/now",
        "https://u:p@api.bank.com/pay/now",
        "https://api.bank.com//pay/./now",
        "https://api.bank.com/other/../pay/now",
        "https://api.bank.com/%70ay/now",
        "https://api.bank.com/pay%2Fnow?x=1",
        "https://api.bank.com/pay/now#there",
        "https:\\\\api.bank.com\\pay\\now",
        "http://api.bank.com/PAY/now",
        "https://api.bank.com/{what}/now",
        "https://api.bank.com/pay/{id}",
    ],
)
def test_a_spelling_does_not_hide_what_an_http_tool_reaches(target):
    assert patterns_meet("http:api.bank.com/pay/now", find_subject(http(target)))


@pytest.mark.parametrize(
    "target", ["https://api.bank.com:8443/pay/now", "https://xapi.bank.com/pay/now", "https://api.bank.com/payments"]
)
def test_another_place_is_another_subject(target):
    assert not patterns_meet("http:api.bank.com/pay/now", find_subject(http(target)))


def test_an_mcp_tool_goes_by_its_server_and_not_by_the_name_that_the_author_gave_it():
    servers = (
        McpServer(name="harmless", transport="http", url="https://Bank.com/mcp"),
        McpServer(name="local", transport="stdio", command="npx", args=("-y", "bank")),
    )
    tool = ToolSpec(name="look", kind="mcp", target="harmless/transfer")
    assert find_subject(tool, servers) == "mcp:bank.com/mcp#transfer"
    assert (
        find_subject(ToolSpec(name="look", kind="mcp", target="local/transfer"), servers) == "mcp:npx -y bank#transfer"
    )
    assert list(list_hosts(tool, servers)) == ["bank.com"]


def test_a_callable_and_a_built_in_go_by_the_operators_name():
    assert find_subject(ToolSpec(name="look", kind="callable", target="payments.refund")) == "callable:payments.refund"
    assert find_subject(ToolSpec(name="read", target="http_get")) == "builtin:http_get"
    reads = ToolSpec(name="http_get", allowed_hosts=("A.example.com", "*.example.org"))
    assert list(list_hosts(reads)) == ["a.example.com", "*.example.org"]


@pytest.mark.parametrize(
    ("pattern", "subject", "met", "covered"),
    [
        ("http:h/a*", "http:h/abc", True, True),
        ("http:h/*c", "http:h/a*", True, False),
        ("http:h/*", "http:h/*/x", True, True),
        ("http:h/a", "http:h/*", True, False),
        ("http:h/a", "http:h/b*", False, False),
        ("*", "", True, True),
        ("a*b*c", "a*c", True, False),
        ("a", "a*", True, False),
        ("a.c", "abc", False, False),
    ],
)
def test_patterns_meet_what_may_fit_and_cover_what_must(pattern, subject, met, covered):
    assert (patterns_meet(pattern, subject), pattern_covers(pattern, subject)) == (met, covered)


def test_patterns_of_many_stars_are_held_in_time_that_is_a_product():
    assert not patterns_meet("*a" * 250, "a*" * 240 + "b")


def test_an_address_that_is_none_has_no_host():
    assert (read_host("https://[broken"), read_host("https://bücher.example/x")) == ("", "xn--bcher-kva.example")
