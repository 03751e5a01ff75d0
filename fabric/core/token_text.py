"""What a bearer token is made of: a prefix that secret scanners know, 256 random bits, and a checksum of those (as GitHub's tokens are made).

By the checksum a scanner tells a token from what only looks like one, and who mistyped one is told so before anybody looks it up.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from zlib import crc32

PREFIX = "ff_"
DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
"""Base 62, in the order in which they count."""
RANDOM_CHARS = 43
"""62^43 is more than 2^256."""
CHECK_CHARS = 6
"""62^6 is more than 2^32."""
PATTERN = rf"{PREFIX}[0-9A-Za-z]{{{RANDOM_CHARS + CHECK_CHARS}}}"
"""For secret scanners."""


def token_text(choice: Callable[[str], str]) -> str:
    """A new token. ``choice``: picks one of the characters it is given, so that nobody can guess which."""
    random = "".join(choice(DIGITS) for _ in range(RANDOM_CHARS))
    return f"{PREFIX}{random}{checksum(random)}"


def checksum(random: str) -> str:
    """The CRC32 of a token's random part (ISO 3309), in base 62, filled up with zeros."""
    left, found = crc32(random.encode("utf-8", "surrogatepass")), ""
    while left:
        left, digit = divmod(left, len(DIGITS))
        found = DIGITS[digit] + found
    return found.rjust(CHECK_CHARS, DIGITS[0])


def is_whole(text: str) -> bool:
    """Whether a text is a token with its checksum: one that might be known."""
    body = text.removeprefix(PREFIX)
    if not text.startswith(PREFIX) or len(body) != RANDOM_CHARS + CHECK_CHARS:
        return False
    return checksum(body[:RANDOM_CHARS]) == body[RANDOM_CHARS:]
