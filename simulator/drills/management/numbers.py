"""Whole numbers of an option."""

from __future__ import annotations

from fabric.services.errors import Refused

DIGITS = 10


def number_given(option: str, given: str, least: int, most: int) -> int:
    """Return the whole number of an option. Raises Refused if it is invalid, or out of range."""
    if not given.isdecimal() or not given.isascii() or len(given) > DIGITS or not least <= int(given) <= most:
        raise Refused(
            f"{option} is {given[:40]!r}: give a whole number from {least} to {most:,}",
            code="invalid",
            field=option[2:],
        )
    return int(given)
