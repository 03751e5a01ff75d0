"""Secrets at rest: only the same installation opens one, and only for what it was sealed for."""

from __future__ import annotations

import pytest

from fabric.adapters.secret_box import SecretBox, Unsealable

SECRET = "sk-0123456789abcdef"
ABOUT = ("workspace-1", "openai", "https://api.example.org:443")
BOX = SecretBox("m" * 50, "provider keys")


def test_what_was_sealed_is_opened_and_is_not_in_what_is_kept():
    sealed = BOX.seal(SECRET, *ABOUT)
    assert BOX.open(sealed, *ABOUT) == SECRET
    assert BOX.opens(sealed, *ABOUT)
    assert SECRET.encode() not in sealed
    assert BOX.seal(SECRET, *ABOUT) != sealed


@pytest.mark.parametrize(
    "about",
    [
        ("workspace-2", *ABOUT[1:]),
        (ABOUT[0], "anthropic", ABOUT[2]),
        (*ABOUT[:2], "https://api.example.com:443"),
        ("workspace-", "1openai", ABOUT[2]),
        ABOUT[:2],
    ],
)
def test_it_does_not_open_for_anything_else(about):
    sealed = BOX.seal(SECRET, *ABOUT)
    with pytest.raises(Unsealable):
        BOX.open(sealed, *about)
    assert not BOX.opens(sealed, *about)


@pytest.mark.parametrize("other", [SecretBox("n" * 50, "provider keys"), SecretBox("m" * 50, "something else")])
def test_another_installation_and_another_purpose_do_not_open_it(other):
    with pytest.raises(Unsealable):
        other.open(BOX.seal(SECRET, *ABOUT), *ABOUT)


def test_what_was_changed_anywhere_does_not_open():
    sealed = BOX.seal(SECRET, *ABOUT)
    for at in range(len(sealed)):
        changed = bytearray(sealed)
        changed[at] ^= 1
        with pytest.raises(Unsealable):
            BOX.open(bytes(changed), *ABOUT)
    for cut in (b"", sealed[:1], sealed[:12], sealed[:-1]):
        with pytest.raises(Unsealable):
            BOX.open(cut, *ABOUT)
