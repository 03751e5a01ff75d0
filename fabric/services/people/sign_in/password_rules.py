"""Rules for passwords (NIST SP 800-63B-4 3.1.1.2): long enough and not easily guessed; any characters are allowed.

A password that alone signs in has 15 characters; where every user needs a second factor, 8. Django's list of 20,000
common passwords has 48 of 15 characters or more. So the usual ways to lengthen one are checked too: one piece
repeated, rows of the keyboard, a common one with signs around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import CommonPasswordValidator
from django.core.exceptions import ValidationError
from django.views.decorators.debug import sensitive_variables

from fabric.models import Workspace

ALONE_CHARS_MIN, WITH_FACTOR_CHARS_MIN = 15, 8
PRODUCT = ("fabricflow", "fabric", "flow")
WORD_CHARS_MIN = 4
LEFT_CHARS_MIN = 8
"""Least number of characters of a password outside words of its context."""
ROWS = (
    "abcdefghijklmnopqrstuvwxyz",
    "01234567890",
    "qwertyuiop",
    "qwertzuiop",
    "asdfghjkl",
    "zxcvbnm",
    "1q2w3e4r5t6y7u8i9o0p",
    "q1w2e3r4t5y6u7i8o9p0",
    "1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik",
)
RUN_CHARS_MIN = 4


def chars_min() -> int:
    """Return the least length of a password."""
    return WITH_FACTOR_CHARS_MIN if settings.FABRIC_SECOND_FACTOR == "required" else ALONE_CHARS_MIN


class LengthValidator:
    """Requires a long enough password."""

    @sensitive_variables("password")
    def validate(self, password: str, user: User | None = None) -> None:
        """Raise ValidationError for a password that is too short."""
        if len(password) < chars_min():
            message = f"This password is too short: it has {len(password)} characters, give it {chars_min()} or more. Several words make a good one."
            raise ValidationError(message, code="password_too_short")

    def get_help_text(self) -> str:
        """Return the rule in words."""
        return f"At least {chars_min()} characters, of any kind: several words, with spaces, make a good one."


class ContextValidator:
    """Refuses passwords made of the name, the product or the workspace."""

    @sensitive_variables("password", "left")
    def validate(self, password: str, user: User | None = None) -> None:
        """Raise ValidationError for a password of which too little is left without those words."""
        left = _plain(password)
        whole = len(left)
        for word in sorted(_words(user), key=len, reverse=True):
            left = left.replace(word, "")
        if len(left) < LEFT_CHARS_MIN and len(left) < whole:
            message = "This password is made of your name, the workspace's or the product's: choose words that have nothing to do with them."
            raise ValidationError(message, code="password_of_context")

    def get_help_text(self) -> str:
        """Return the rule in words."""
        return "Not made of your name, the workspace's or the product's."


class GuessedValidator:
    """Refuses passwords that attackers try first."""

    @sensitive_variables("password", "plain", "core")
    def validate(self, password: str, user: User | None = None) -> None:
        """Raise ValidationError for a common password, also with signs around it, for repetition, and for rows of
        letters or keys.
        """
        plain = password.casefold().strip()
        core = re.sub(r"^[\W\d_]+|[\W\d_]+$", "", plain)
        if plain in _common() or core in _common() or _repeats(plain) or _is_rows(_plain(password)):
            message = "This password is among those that are tried first: choose another one, such as several words that do not belong together."
            raise ValidationError(message, code="password_too_common")

    def get_help_text(self) -> str:
        """Return the rule in words."""
        return "None of those that are tried first: common ones, one piece repeated, rows of the keyboard."


def _words(user: User | None) -> set[str]:
    names = [user.username, user.email.partition("@")[0], user.email] if user is not None else []
    texts: Iterable[str] = [*PRODUCT, *names, *Workspace.objects.filter(drills_of=None).values_list("name", flat=True)]
    words = {_plain(text) for text in texts} | {_plain(part) for text in texts for part in re.split(r"[\W_]+", text)}
    return {word for word in words if len(word) >= WORD_CHARS_MIN}


def _plain(text: str) -> str:
    return "".join(sign for sign in text.casefold() if sign.isalnum())


def _repeats(text: str) -> bool:
    """Return True if the text repeats one piece of at most half its length."""
    return any(
        (text[:size] * (len(text) // size + 1))[: len(text)] == text for size in range(1, max(len(text) // 2, 1) + 1)
    )


def _is_rows(text: str) -> bool:
    """Return True if the text is made of rows, forwards or backwards, except for some characters."""
    at, odd = 0, 0
    while at < len(text):
        run = max(_run(text, at, row) for row in _ROWS)
        if run < RUN_CHARS_MIN:
            odd, run = odd + 1, 1
        at += run
    return bool(text) and odd < LEFT_CHARS_MIN // 2


def _run(text: str, at: int, row: str) -> int:
    """Return the number of characters from here on that follow a row."""
    length = 0
    while at + length < len(text) and text[at : at + length + 1] in row:
        length += 1
    return length


_ROWS = (*ROWS, *(row[::-1] for row in ROWS))


@lru_cache(maxsize=1)
def _common() -> frozenset[str]:
    return frozenset(CommonPasswordValidator().passwords)
