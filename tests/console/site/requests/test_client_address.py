"""The server believes a header that any client can write as far as trusted proxies wrote it."""

import pytest
from django.test import RequestFactory

from console.site.requests.client_address import build_address

PROXIES = ("10.0.0.0/8", "::1")


@pytest.mark.parametrize(
    ("seen", "forwarded", "proxies", "address"),
    [
        ("203.0.113.5", "6.6.6.6", (), "203.0.113.5"),
        ("127.0.0.1", "6.6.6.6", (), "127.0.0.1"),
        ("203.0.113.5", "6.6.6.6", PROXIES, "203.0.113.5"),
        ("10.0.0.1", "198.51.100.7", PROXIES, "198.51.100.7"),
        ("10.0.0.1", "6.6.6.6, 198.51.100.7", PROXIES, "198.51.100.7"),
        ("::1", "6.6.6.6, 198.51.100.7, 10.9.9.9", PROXIES, "198.51.100.7"),
        ("10.0.0.1", "", PROXIES, "10.0.0.1"),
        ("10.0.0.1", "not an address", PROXIES, "10.0.0.1"),
        ("10.0.0.1", "10.0.0.2", PROXIES, "10.0.0.2"),
        ("10.0.0.1", "10.0.0.3," * 1_000, PROXIES, "10.0.0.1"),
        ("", "6.6.6.6", PROXIES, ""),
    ],
)
def test_who_asks(settings, seen, forwarded, proxies, address):
    settings.FABRIC_TRUSTED_PROXIES = proxies
    request = RequestFactory().get("/", REMOTE_ADDR=seen, HTTP_X_FORWARDED_FOR=forwarded)
    assert build_address(request) == address


def test_up_starts_a_server_that_believes_no_header():
    import socket

    from console.launch.up import _children
    from console.web_server import SERVED

    with socket.socket() as listener:
        web, _ = _children(listener)
    assert web.command[1:3] == ["-m", "console.web_server"]
    assert SERVED["proxy_headers"] is False
