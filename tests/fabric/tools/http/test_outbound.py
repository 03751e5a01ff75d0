import asyncio
import ipaddress

import httpx2
import pytest

from fabric.http.transport import DENIED, ExchangeRefused, Gate, VettedTransport, explain_denial
from simulator.endpoint import ScriptedEndpoint, Step

PRIVATE = [
    "0.0.0.0",
    "10.1.2.3",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.168.1.1",
    "198.18.0.1",
    "203.0.113.7",
    "224.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::8.8.8.8",
    "168.63.129.16",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:0:10.0.0.1",
    "64:ff9b::a00:1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "fc00::1",
    "fd12:3456::1",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "nonsense",
]
PUBLIC = ["8.8.8.8", "172.32.0.1", "192.167.255.255", "100.63.255.255", "2606:2800:220:1::1", "::ffff:8.8.8.8"]

RANGES = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "168.63.129.16/32",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "::/128",
    "::/96",
    "::1/128",
    "::ffff:0:0:0/96",
    "64:ff9b::/96",
    "64:ff9b:1::/48",
    "100::/64",
    "2001::/23",
    "2001:db8::/32",
    "2002::/16",
    "3fff::/20",
    "5f00::/16",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
]
"""The registries once more, so that a row that is missing there is noticed here."""


@pytest.mark.parametrize("address", PRIVATE)
def test_no_private_address_may_be_asked(address):
    assert explain_denial(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_may_be_asked(address):
    assert explain_denial(address) == ""


def test_every_special_range_is_denied_at_both_ends_and_says_why():
    assert sorted(str(network) for network, _ in DENIED) == sorted(RANGES)
    for network in map(ipaddress.ip_network, RANGES):
        assert explain_denial(str(network[0])), network
        assert explain_denial(str(network[-1])), network


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://example.org/", "plain http"),
        ("https://127.0.0.1/", "loopback"),
        ("https://127.1/", "no usual IP address"),
        ("https://0x7f000001/", "no usual IP address"),
        ("https://2130706433/", "no usual IP address"),
        ("https://0177.0.0.1/", "is no URL"),
        ("https://1.2.3.4./", "no usual IP address"),
        ("https://localhost/", "loopback"),
        ("https://api.localhost./", "loopback"),
        ("https://[::1]/", "loopback"),
        ("https://[::ffff:10.0.0.1]/", "private"),
        ("https://169.254.169.254/latest/meta-data", "cloud metadata"),
        ("https://user:word@example.org/", "user name or password"),
        ("ftp://example.org/", "no http or https URL"),
        ("file:///etc/passwd", "no http or https URL"),
        ("//example.org/", "no http or https URL"),
        ("https://", "no http or https URL"),
        ("https:\\\\example.org", "no http or https URL"),
        ("", "no http or https URL"),
        ("https://exa mple.org/", "is no host name"),
        ("https://exam%2fple.org/", "is no host name"),
        ("https://a..b/", "is no host name"),
    ],
)
def test_what_may_not_be_asked_is_said_before_a_name_is_looked_up(url, said):
    assert said in Gate().problem(url)


def test_an_ordinary_address_passes():
    assert Gate().problem("https://example.org:8443/a?b=c") == ""


def test_the_operator_s_list_is_of_hosts_with_ports():
    gate = Gate.trust_hosts([" 127.0.0.1:9 ", "[::1]:8000", "Ollama.internal:11434", ""])
    for url in ("http://127.0.0.1:9/", "http://[::1]:8000/", "http://ollama.internal:11434/v1", "https://127.0.0.1:9/"):
        assert gate.problem(url) == ""
    for url in ("http://127.0.0.1:10/", "http://127.0.0.1/", "http://ollama.internal/"):
        assert gate.problem(url)


class Names:
    """A resolver over a table that counts how often it is asked and may change its mind."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), 0

    async def __call__(self, host, port):
        self.asked += 1
        found = self.answers[min(self.asked, len(self.answers)) - 1]
        if not found:
            raise OSError("no such name")
        return found


def fetch(gate, url, server=None):
    """GET through the transport; ``server`` stands where the network begins."""

    async def go():
        transport = VettedTransport(gate, max_bytes=1_000)
        if server is not None:
            transport._inner = httpx2.MockTransport(server)
        async with httpx2.AsyncClient(transport=transport, trust_env=False) as client:
            return await client.get(url)

    return asyncio.run(go())


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["93.184.216.34", "10.0.0.1"], ["::ffff:127.0.0.1"]])
def test_a_public_name_that_leads_inside_is_not_connected_to(addresses):
    with (
        ScriptedEndpoint([Step(body=b"secret")]) as inside,
        pytest.raises(ExchangeRefused, match="which is not public"),
    ):
        fetch(Gate(resolve=Names(addresses)), f"https://rebind.example:{inside.authority.split(':')[1]}/")
    assert inside.received == []


def test_the_connection_goes_to_the_vetted_address_of_the_only_look_up():
    names, seen = Names(["93.184.216.34", "93.184.216.35"], ["127.0.0.1"]), []

    async def pieces():
        yield b"ok"

    def server(request):
        seen.append(request)
        return httpx2.Response(200, content=pieces())

    assert fetch(Gate(resolve=names), "https://example.org/path", server).text == "ok"
    assert names.asked == 1
    assert seen[0].url == "https://93.184.216.34/path"
    assert seen[0].headers["host"] == "example.org"
    assert seen[0].extensions["sni_hostname"] == "example.org"


def test_a_trusted_host_is_asked_by_its_own_name():
    with ScriptedEndpoint([Step(body=b"inside", content_type="text/plain")]) as endpoint:
        names = Names([])
        assert fetch(Gate.trust_hosts([endpoint.authority], names), f"http://{endpoint.authority}/").text == "inside"
        assert names.asked == 0


def test_a_name_without_address_is_an_os_error():
    with pytest.raises(OSError, match="no such name"):
        fetch(Gate(resolve=Names([])), "https://example.org/")
