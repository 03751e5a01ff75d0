"""What tools reach, as patterns are held against it: by what a server reads, and not by what an author writes."""

import pytest

from fabric.core.spec_mcp import McpServer
from fabric.core.spec_tools import ToolSpec
from fabric.core.workspace_policy.subjects import covers, host_of, hosts_of, meets, subject_of


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
    assert meets("http:api.bank.com/pay/now", subject_of(http(target)))


@pytest.mark.parametrize(
    "target", ["https://api.bank.com:8443/pay/now", "https://xapi.bank.com/pay/now", "https://api.bank.com/payments"]
)
def test_another_place_is_another_subject(target):
    assert not meets("http:api.bank.com/pay/now", subject_of(http(target)))


def test_an_mcp_tool_goes_by_its_server_and_not_by_the_name_that_the_author_gave_it():
    servers = (
        McpServer(name="harmless", transport="http", url="https://Bank.com/mcp"),
        McpServer(name="local", transport="stdio", command="npx", args=("-y", "bank")),
    )
    tool = ToolSpec(name="look", kind="mcp", target="harmless/transfer")
    assert subject_of(tool, servers) == "mcp:bank.com/mcp#transfer"
    assert subject_of(ToolSpec(name="look", kind="mcp", target="local/transfer"), servers) == "mcp:npx -y bank#transfer"
    assert list(hosts_of(tool, servers)) == ["bank.com"]


def test_a_callable_and_a_built_in_go_by_the_operators_name():
    assert subject_of(ToolSpec(name="look", kind="callable", target="payments.refund")) == "callable:payments.refund"
    assert subject_of(ToolSpec(name="read", target="http_get")) == "builtin:http_get"
    reads = ToolSpec(name="http_get", allowed_hosts=("A.example.com", "*.example.org"))
    assert list(hosts_of(reads)) == ["a.example.com", "*.example.org"]


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
    assert (meets(pattern, subject), covers(pattern, subject)) == (met, covered)


def test_patterns_of_many_stars_are_held_in_time_that_is_a_product():
    assert not meets("*a" * 250, "a*" * 240 + "b")


def test_an_address_that_is_none_has_no_host():
    assert (host_of("https://[broken"), host_of("https://bücher.example/x")) == ("", "xn--bcher-kva.example")
