"""A certified provider of identities as a process, and a browser of a person who signs in there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx

from tests.peers.processes import node, package, served
from tests.servers.ports import free_port

SCRIPT = Path(__file__).with_name("oidc_server.mjs")
SECRET = "a-secret-of-the-tests"
HOPS_MAX = 20


@dataclass(frozen=True, slots=True)
class OidcServer:
    """The provider."""

    issuer: str
    accounts: Path

    def has(self, **people: Mapping[str, Any]) -> None:
        """From now on these people are there and no others."""
        self.accounts.write_text(json.dumps(people))


@contextmanager
def oidc_server(folder: Path, back: str) -> Iterator[OidcServer]:
    """The provider, from its first answer to the end of the block."""
    port, accounts = free_port(), folder / "accounts.json"
    accounts.write_text("{}")
    command = [node(), str(SCRIPT), package("oidc-provider", "lib", "index.js"), str(port), str(accounts), back]
    issuer = f"http://127.0.0.1:{port}"
    with served(command, f"{issuer}/.well-known/openid-configuration", folder):
        yield OidcServer(issuer, accounts)


def sign_in_at(address: str, who: str, back: str, cookies: httpx.Cookies | None = None) -> str:
    """Where the provider leads back to, after a person has signed in and agreed on its own pages."""
    with httpx.Client(cookies=cookies, timeout=20, trust_env=False) as browser:
        answer = browser.get(address)
        for _ in range(HOPS_MAX):
            to = answer.headers.get("location", "")
            if to.startswith(back):
                return to
            if to:
                answer = browser.get(urljoin(str(answer.url), to))
                continue
            form = re.search(r'<form[^>]* action="([^"]+)"', answer.text)
            prompt = re.search(r'name="prompt" value="([^"]+)"', answer.text)
            assert form, answer.text[:2_000]
            assert prompt, answer.text[:2_000]
            typed = {"login": who, "password": "any"} if prompt[1] == "login" else {}
            answer = browser.post(urljoin(str(answer.url), form[1]), data={"prompt": prompt[1], **typed})
    raise AssertionError("the provider leads around in circles")
