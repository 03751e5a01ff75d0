"""The bundle's own Ed25519 agrees with the library's, on signatures that are right and on all that are nearly so."""

import random

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fabric.secrets.signing import read_signer, verify_signature
from fabric.selectors.runs.export.bundle_verify import L, P, is_signed


def test_the_standard_s_own_examples():
    """RFC 8032, 7.1, tests 1 to 3."""
    examples = [
        ("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "", "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"),
        ("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72", "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"),
        ("fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82", "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"),
    ]  # fmt: skip
    for public, message, signature in examples:
        assert is_signed(bytes.fromhex(public), bytes.fromhex(message), bytes.fromhex(signature))


def test_it_agrees_with_the_library(tmp_path):
    rng = random.Random(7)
    for _ in range(25):
        signer = read_signer(tmp_path, rng.randbytes(32).hex())
        public, message = bytes.fromhex(signer.public), rng.randbytes(rng.randrange(200))
        signature = signer.sign(message)
        assert is_signed(public, message, signature)
        for what in range(3):
            parts = [bytearray(public), bytearray(message + b"x"), bytearray(signature)]
            place = rng.randrange(len(parts[what]))
            parts[what][place] ^= 1 << rng.randrange(8)
            key, text, name = (bytes(part) for part in parts)
            assert is_signed(key, text, name) == verify_signature(key.hex(), name, text), (what, place)
            assert not is_signed(key, text, name)


def test_what_is_no_point_and_what_is_too_large():
    assert not is_signed(b"", b"", b"")
    assert not is_signed(b"\xff" * 32, b"", b"\0" * 64)
    assert not is_signed((P + 1).to_bytes(32, "little"), b"", b"\0" * 64)
    key = Ed25519PrivateKey.from_private_bytes(b"\7" * 32)
    signature = key.sign(b"m")
    large = (int.from_bytes(signature[32:], "little") + L).to_bytes(32, "little")
    public = key.public_key().public_bytes_raw()
    assert is_signed(public, b"m", signature)
    assert not is_signed(public, b"m", signature[:32] + large), "one signature has one form"
