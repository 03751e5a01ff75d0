"""Secrets at rest: only the same installation opens one, and only for what it was sealed for."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from fabric.secrets.key_ring import read_ring
from fabric.secrets.secret_box import SecretBox, SecretUnsealable, key_id

SECRET = "sk-0123456789abcdef"
ABOUT = ("workspace-1", "openai", "https://api.example.org:443")
OLD, NEW = "ab" * 32, "cd" * 32


def box(ring: str) -> SecretBox:
    return SecretBox(partial(read_ring, Path("nowhere"), ring))


BOX = box(OLD)


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
    with pytest.raises(SecretUnsealable):
        BOX.open(sealed, *about)
    assert not BOX.opens(sealed, *about)


def test_another_installation_does_not_open_it():
    with pytest.raises(SecretUnsealable):
        box(NEW).open(BOX.seal(SECRET, *ABOUT), *ABOUT)


def test_the_first_key_seals_and_all_open():
    both = box(f"{NEW},{OLD}")
    sealed = BOX.seal(SECRET, *ABOUT)
    assert (both.open(sealed, *ABOUT), both.newest(sealed)) == (SECRET, False)
    again = both.seal(SECRET, *ABOUT)
    assert (box(NEW).open(again, *ABOUT), both.newest(again), key_id(again) == key_id(sealed)) == (SECRET, True, False)


def test_it_does_not_open_under_the_id_of_another_key():
    sealed = box(NEW).seal(SECRET, *ABOUT)
    with pytest.raises(SecretUnsealable):
        box(f"{NEW},{OLD}").open(sealed[:1] + key_id(BOX.seal("x")) + sealed[9:], *ABOUT)


def test_what_was_changed_anywhere_does_not_open():
    sealed = BOX.seal(SECRET, *ABOUT)
    for at in range(len(sealed)):
        changed = bytearray(sealed)
        changed[at] ^= 1
        with pytest.raises(SecretUnsealable):
            BOX.open(bytes(changed), *ABOUT)
    for cut in (b"", sealed[:1], sealed[:12], sealed[:-1]):
        with pytest.raises(SecretUnsealable):
            BOX.open(cut, *ABOUT)
