"""Passkeys that lie: an authenticator of the test signs what no browser would send. The truth in a browser is in tests/e2e/people/test_passkeys.py."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from django.contrib.auth.models import User
from fido2 import cbor
from fido2.cose import ES256

from fabric.models import SecondFactor
from fabric.services.actors import owner_ensure
from fabric.services.errors import Refused
from fabric.services.people.sign_in.passkeys import passkey_add, passkey_asked, passkey_new, passkey_use
from tests.people import fresh, member

pytestmark = pytest.mark.django_db
HOST, ORIGIN = "fabric.example.org", "https://fabric.example.org"
PRESENT, VERIFIED, ATTESTED = 0x01, 0x04, 0x40


def coded(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


class Authenticator:
    """One with one key, which does as it is told (WebAuthn 6, 7)."""

    def __init__(self, user: User) -> None:
        self.key, self.id, self.handle = ec.generate_private_key(ec.SECP256R1()), b"i" * 32, str(user.pk).encode()
        self.count = 1

    def makes(self, options: str) -> str:
        """The answer to an offer to make a passkey."""
        public = cbor.encode(dict(ES256.from_cryptography_key(self.key.public_key())))
        made = bytes(16) + len(self.id).to_bytes(2, "big") + self.id + public
        data = self._data(PRESENT | VERIFIED | ATTESTED, HOST) + made
        attested = cbor.encode({"fmt": "none", "attStmt": {}, "authData": data})
        client = self._client("webauthn.create", options, ORIGIN)
        return self._answer(clientDataJSON=coded(client), attestationObject=coded(attested))

    def shows(
        self, options: str, *, origin: str = ORIGIN, host: str = HOST, flags: int = PRESENT | VERIFIED, by: str = ""
    ) -> str:
        """The answer to a question for one. ``by``: another user's handle."""
        self.count += 1
        data, client = self._data(flags, host), self._client("webauthn.get", options, origin)
        signature = self.key.sign(data + sha256(client).digest(), ec.ECDSA(SHA256()))
        return self._answer(
            clientDataJSON=coded(client), authenticatorData=coded(data), signature=coded(signature),
            userHandle=coded(by.encode() or self.handle),
        )  # fmt: skip

    def _answer(self, **response: str) -> str:
        named = {"id": coded(self.id), "rawId": coded(self.id), "type": "public-key", "clientExtensionResults": {}}
        return json.dumps({**named, "response": response})

    def _client(self, kind: str, options: str, origin: str) -> bytes:
        said = {"type": kind, "challenge": json.loads(options)["challenge"], "origin": origin, "crossOrigin": False}
        return json.dumps(said).encode()

    def _data(self, flags: int, host: str) -> bytes:
        return sha256(host.encode()).digest() + bytes([flags]) + self.count.to_bytes(4, "big")


@pytest.fixture
def vera(settings: Any) -> User:
    owner_ensure()
    settings.FABRIC_PUBLIC_URL, settings.FABRIC_ORIGINS = ORIGIN, (ORIGIN,)
    return member("vera")


@pytest.fixture
def hers(vera: User) -> Authenticator:
    made = Authenticator(vera)
    options, state = passkey_new(vera)
    assert len(passkey_add(actor=fresh(vera), user=vera, state=state, answer=made.makes(options))) == 10
    return made


def test_it_signs_in_again_and_again(vera: User, hers: Authenticator) -> None:
    for _ in range(2):
        options, state = passkey_asked()
        assert passkey_use(state=state, answer=hers.shows(options)) == vera
    assert SecondFactor.objects.get().counter == 3


def lies(hers: Authenticator, options: str) -> dict[str, Callable[[], str]]:
    return {
        "another origin": lambda: hers.shows(options, origin="https://fabric.example.org.evil.example"),
        "another host": lambda: hers.shows(options, host="evil.example"),
        "not verified": lambda: hers.shows(options, flags=PRESENT),
        "not present": lambda: hers.shows(options, flags=VERIFIED),
        "another user": lambda: hers.shows(options, by="1"),
        "another challenge": lambda: hers.shows(passkey_asked()[0]),
        "another key": lambda: _with_another_key(hers, options),
        "a copy": lambda: _a_copy(hers, options),
        "no answer": lambda: "[]",
    }


def _with_another_key(hers: Authenticator, options: str) -> str:
    hers.key = ec.generate_private_key(ec.SECP256R1())
    return hers.shows(options)


def _a_copy(hers: Authenticator, options: str) -> str:
    SecondFactor.objects.update(counter=hers.count + 1)
    return hers.shows(options)


LIES = tuple(lies(None, ""))  # type: ignore[arg-type]


@pytest.mark.parametrize("lie", LIES)
def test_what_is_not_so_signs_no_one_in(hers: Authenticator, lie: str) -> None:
    options, state = passkey_asked()
    answer = lies(hers, options)[lie]()
    before = SecondFactor.objects.values_list("counter", "used_at").get()
    with pytest.raises(Refused, match="no passkey that is known here"):
        passkey_use(state=state, answer=answer)
    assert SecondFactor.objects.values_list("counter", "used_at").get() == before


def test_a_challenge_counts_once_and_for_what_it_was_made(vera: User, hers: Authenticator) -> None:
    options, state = passkey_asked()
    passkey_use(state=state, answer=hers.shows(options))
    with pytest.raises(Refused):
        passkey_use(state=state, answer=hers.shows(options))
    options, state = passkey_new(vera)
    with pytest.raises(Refused):
        passkey_use(state=state, answer=hers.shows(options))
    other = Authenticator(vera)
    other.id = b"o" * 32
    with pytest.raises(Refused):
        passkey_add(
            actor=fresh(member("ben")), user=User.objects.get(username="ben"), state=state, answer=other.makes(options)
        )
    assert SecondFactor.objects.count() == 1


def test_one_that_counts_nothing_is_taken_as_it_is(vera: User, hers: Authenticator) -> None:
    """Passkeys that are synchronised say 0 for ever."""
    SecondFactor.objects.update(counter=0)
    for _ in range(2):
        options, state = passkey_asked()
        hers.count = -1
        assert passkey_use(state=state, answer=hers.shows(options)) == vera
