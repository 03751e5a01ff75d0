"""A provider of identities lies, or sends what is not for us: it signs no person in. The truth is in tests/peers/test_oidc.py."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from fabric.adapters.people.oidc import OidcProvider
from fabric.adapters.people.oidc_answers import OidcAway, OidcRefused

KEY, OTHER = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"}), RSAKey.generate_key(2048, {"kid": "one"})
NONCE = "n" * 43


class Liar:
    """A provider that answers as a test says. ``said``: what it answers at a path."""

    def __init__(self) -> None:
        self.said: dict[str, tuple[int, Any]] = {}
        self.asked: list[str] = []
        liar = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                liar.asked.append(self.path)
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, body = liar.said.get(self.path, (404, {}))
                raw = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            do_GET = do_POST = _answer  # noqa: N815 - As http.server looks for them.

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        self.said["/.well-known/openid-configuration"] = (200, self.metadata())
        self.said["/keys"] = (200, {"keys": [KEY.as_dict(private=False)]})
        self.said["/me"] = (200, {"sub": "ada", "email": "ada@example.org", "email_verified": True, "groups": ["a"]})

    def metadata(self, **more: Any) -> dict[str, Any]:
        where = {name: f"{self.issuer}/{path}" for name, path in PATHS.items()}
        return {"issuer": self.issuer, **where, **more}

    def token(self, key: Any = KEY, alg: str = "RS256", **claims: Any) -> str:
        now = int(time.time())
        usual = {"iss": self.issuer, "aud": "fabric", "sub": "ada", "iat": now, "exp": now + 60, "nonce": NONCE}
        kept = {name: value for name, value in {**usual, **claims}.items() if value is not None}
        return jwt.encode({"alg": alg, "kid": "one"}, kept, key, algorithms=[alg])

    def gives(self, token: Any, **more: Any) -> None:
        self.said["/token"] = (200, {"id_token": token, "access_token": "at", "token_type": "Bearer", **more})

    def asks(self) -> Any:
        provider = OidcProvider(self.issuer, "fabric", "a-secret-that-is-long-enough-for-hs256")
        return provider.exchange("code", back="http://127.0.0.1/back", nonce=NONCE, verifier="v" * 43)


PATHS = {
    "authorization_endpoint": "auth",
    "token_endpoint": "token",
    "jwks_uri": "keys",
    "userinfo_endpoint": "me",
}


@pytest.fixture
def liar() -> Iterator[Liar]:
    found = Liar()
    thread = Thread(target=found.server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join(10)


def test_what_is_true_is_taken(liar: Liar) -> None:
    liar.gives(liar.token(), refresh_token="rt")
    known = liar.asks()
    assert (known.subject, known.email, known.groups, known.refresh) == ("ada", "ada@example.org", {"a"}, "rt")
    assert "rt" not in repr(known)


def unsigned(liar: Liar) -> str:
    head, body, _ = liar.token().split(".")
    return f"eyJhbGciOiJub25lIn0.{body}."


LIES: dict[str, Any] = {
    "another issuer": lambda liar: liar.token(iss="https://evil.example"),
    "another audience": lambda liar: liar.token(aud="somebody-else"),
    "several audiences without an authorized party": lambda liar: liar.token(aud=["fabric", "other"]),
    "another audience by way of us": lambda liar: liar.token(aud="somebody-else", azp="fabric"),
    "another party": lambda liar: liar.token(aud=["fabric", "other"], azp="other"),
    "another nonce": lambda liar: liar.token(nonce="x" * 43),
    "no nonce": lambda liar: liar.token(nonce=None),
    "over": lambda liar: liar.token(exp=int(time.time()) - 3_600),
    "no end": lambda liar: liar.token(exp=None),
    "no subject": lambda liar: liar.token(sub=None),
    "made tomorrow": lambda liar: liar.token(iat=int(time.time()) + 86_400),
    "another key": lambda liar: liar.token(key=OTHER),
    "no signature": unsigned,
    "signed by our secret": lambda liar: liar.token(
        key=OctKey.import_key("a-secret-that-is-long-enough-for-hs256"), alg="HS256"
    ),
    "another access token": lambda liar: liar.token(at_hash="AAAAAAAAAAAAAAAAAAAAAA"),
    "no token": lambda liar: "",
    "rubbish": lambda liar: "a.b.c",
}


@pytest.mark.parametrize("lie", LIES)
def test_what_is_not_for_us_signs_no_one_in(liar: Liar, lie: str) -> None:
    liar.gives(LIES[lie](liar))
    with pytest.raises(OidcRefused):
        liar.asks()


def test_what_is_told_of_another_person_is_not_used(liar: Liar) -> None:
    liar.gives(liar.token())
    liar.said["/me"] = (200, {"sub": "eve", "groups": ["leads"]})
    with pytest.raises(OidcRefused, match="another person"):
        liar.asks()


def test_who_answers_a_refresh_has_to_be_the_same(liar: Liar) -> None:
    provider = OidcProvider(liar.issuer, "fabric", "secret")
    liar.gives(liar.token(nonce=None))
    assert provider.refresh_claims("rt", "ada").refresh == "rt", "one that is not replaced goes on"
    with pytest.raises(OidcRefused, match="another person"):
        provider.refresh_claims("rt", "eve")
    liar.said["/token"] = (400, {"error": "invalid_grant"})
    with pytest.raises(OidcRefused, match="invalid_grant"):
        provider.refresh_claims("rt", "ada")


def test_an_unchecked_address_is_none(liar: Liar) -> None:
    for said in (False, "true", None):
        liar.gives(liar.token(email="ada@example.org", email_verified=said, groups=[]))
        assert liar.asks().email == ""


def test_groups_that_were_left_out_are_not_taken_for_none(liar: Liar) -> None:
    """Microsoft Entra names a place for them where they are too many."""
    liar.gives(liar.token(_claim_names={"groups": "src1"}, _claim_sources={"src1": {"endpoint": "https://x"}}))
    liar.said["/me"] = (200, {"sub": "ada"})
    with pytest.raises(OidcRefused, match="too many groups"):
        liar.asks()


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": None},
        {"jwks_uri": "ftp://127.0.0.1/keys"},
        {"jwks_uri": "http://127.0.0.1:9/keys"},
    ],
)
def test_a_provider_that_is_not_what_it_says_is_away(liar: Liar, metadata: dict[str, Any]) -> None:
    liar.gives(liar.token())
    liar.said["/.well-known/openid-configuration"] = (200, liar.metadata(**metadata))
    with pytest.raises(OidcAway):
        liar.asks()


def test_an_encrypted_provider_leads_to_no_address_in_the_clear() -> None:
    from fabric.adapters.people.oidc import _is_safe

    assert not _is_safe("http://login.example.org/token", "https://login.example.org")
    assert _is_safe("https://login.example.org/token", "https://login.example.org")


def test_a_server_that_fails_is_away_and_not_a_no(liar: Liar) -> None:
    provider = OidcProvider(liar.issuer, "fabric", "secret")
    liar.said["/token"] = (503, {})
    with pytest.raises(OidcAway):
        provider.refresh_claims("rt", "ada")


@pytest.mark.parametrize(
    ("status", "error", "what"),
    [
        (400, "invalid_grant", OidcRefused),
        (401, "invalid_client", OidcAway),
        (400, "temporarily_unavailable", OidcAway),
        (429, "slow_down", OidcAway),
    ],
)
def test_only_one_error_is_about_the_person(liar: Liar, status: int, error: str, what: type[Exception]) -> None:
    """RFC 6749 5.2."""
    provider = OidcProvider(liar.issuer, "fabric", "secret")
    liar.said["/token"] = (status, {"error": error})
    with pytest.raises(what):
        provider.refresh_claims("rt", "ada")


def test_another_key_is_looked_for_once_a_minute(liar: Liar) -> None:
    provider = OidcProvider(liar.issuer, "fabric", "secret")
    liar.gives(liar.token())
    ask = {"back": "http://127.0.0.1/back", "nonce": NONCE, "verifier": "v" * 43}
    provider.exchange("code", **ask)
    newer = RSAKey.generate_key(2048, {"kid": "two"})
    liar.said["/keys"] = (200, {"keys": [newer.as_dict(private=False)]})
    now = int(time.time())
    claims = {"iss": liar.issuer, "aud": "fabric", "sub": "ada", "iat": now, "exp": now + 60, "nonce": NONCE}
    liar.gives(jwt.encode({"alg": "RS256", "kid": "two"}, claims, newer))
    with pytest.raises(OidcRefused):
        provider.exchange("code", **ask)
    assert liar.asked.count("/keys") == 1
    provider._looked_at -= 61
    assert provider.exchange("code", **ask).subject == "ada"
    assert liar.asked.count("/keys") == 2
