"""Checks that a pattern cannot make: checksums, and examples of secrets. Each decides if a match counts."""

from __future__ import annotations

import re
from collections.abc import Callable

Accepts = Callable[[str], bool]

_PLACEHOLDER = (
    *(
        "example",
        "placeholder",
        "changeme",
        "change-me",
        "change_me",
        "redacted",
        "dummy",
        "sample",
        "xxxx",
        "****",
        "...",
        "…",
    ),
    *(
        "your-",
        "your_",
        "yourpass",
        "insert",
        "todo",
        "notreal",
        "not-real",
        "fake",
        "0000000000",
        "1234567890",
        "abcdef",
    ),
)
_CODE = frozenset("(){}<>[]$%`")
_ROLES = frozenset(
    [
        "abuse",
        "admin",
        "billing",
        "contact",
        "dpo",
        "feedback",
        "git",
        "hello",
        "help",
        "hostmaster",
        "info",
        "jobs",
        "legal",
        "mail",
        "marketing",
        "media",
        "no-reply",
        "noreply",
        "office",
        "orders",
        "postmaster",
        "press",
        "privacy",
        "root",
        "sales",
        "security",
        "service",
        "support",
        "team",
        "webmaster",
    ]
)
_IBAN_CHARS = {
    "AT": 20,
    "BE": 16,
    "CH": 21,
    "DE": 22,
    "DK": 18,
    "ES": 24,
    "FI": 18,
    "FR": 27,
    "GB": 22,
    "IE": 22,
    "IT": 27,
}
_IBAN_CHARS |= {
    "LU": 20,
    "NL": 18,
    "NO": 15,
    "PL": 28,
    "PT": 25,
    "SE": 24,
    "CZ": 24,
    "GR": 27,
    "HU": 28,
    "RO": 24,
    "TR": 26,
}
_TEST_CARDS = frozenset(
    {"4111111111111111", "4242424242424242", "5555555555554444", "378282246310005", "4012888888881881"}
)
_EXAMPLE_SSN = frozenset({"078-05-1120", "123-45-6789", "219-09-9999", "111-11-1111"})


def real(text: str) -> bool:
    """Return False for a placeholder and for one repeated character, which documentation writes in place of a
    secret.
    """
    low = text.lower()
    return not any(word in low for word in _PLACEHOLDER) and len(set(low)) > 4


def password(text: str) -> bool:
    """Return True for a real password: at least letters and digits, and neither code nor a variable."""
    has_both = any(char.isdigit() for char in text) and any(char.isalpha() for char in text)
    return has_both and real(text) and not _CODE & set(text) and not _environment(text)


def url_password(text: str) -> bool:
    """Return True for a real password that is no variable."""
    plain = text.lower() not in ("password", "pass", "secret", "pwd", "token")
    return plain and not _CODE & set(text) and not any(word in text.lower() for word in _PLACEHOLDER)


def _environment(text: str) -> bool:
    return text.startswith(("os.", "env.", "process.", "settings.", "config.", "secrets.", "vault:", "sha256:", "/"))


def person(text: str) -> bool:
    """Return True for a person's e-mail address: no role, no example's domain, no file name with an @ in it."""
    local, _, domain = text.lower().rpartition("@")
    example = re.search(
        r"(?:^|\.)(?:example\.(?:com|org|net|edu)|[\w-]+\.(?:example|test|invalid|local)|localhost)$", domain
    )
    file = domain.rpartition(".")[2] in ("png", "jpg", "jpeg", "svg", "webp", "gif", "css", "js", "py", "service")
    return example is None and not file and local.partition("+")[0] not in _ROLES


def card(text: str) -> bool:
    """Return True for a payment card's number, by length, first digit and check digit (Luhn). The networks' published
    test numbers do not count.
    """
    digits = [int(char) for char in text if char.isdigit()]
    number = "".join(map(str, digits))
    if not 13 <= len(digits) <= 19 or number[0] not in "3456" or number in _TEST_CARDS or len(set(digits)) < 4:
        return False
    doubled = [digit if place % 2 == 0 else digit * 2 - 9 * (digit > 4) for place, digit in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


def iban(text: str) -> bool:
    """Return True for an account's number: its country's length and check digits (ISO 13616, modulo 97)."""
    plain = text.replace(" ", "").upper()
    if len(plain) != _IBAN_CHARS.get(plain[:2], 0):
        return False
    return int("".join(str(int(char, 36)) for char in plain[4:] + plain[:4])) % 97 == 1


def ssn(text: str) -> bool:
    """Return True for a possible United States social security number that is no published example."""
    area, group, serial = text.split("-")
    given = area not in ("000", "666") and area < "900" and group != "00" and serial != "0000"
    return given and text not in _EXAMPLE_SSN


def phone(text: str) -> bool:
    """Return True for a telephone number of 8 to 15 digits (ITU E.164). Numbers kept for fiction do not count."""
    digits = "".join(char for char in text if char.isdigit())
    return 8 <= len(digits) <= 15 and "55501" not in digits and len(set(digits)) > 3


def encoded_host(link: str) -> bool:
    """Return True if a label of its host is no word: encoded data has digits among its letters."""
    labels = link.partition("://")[2].split(".")
    return any(len(label) >= 40 and sum(char.isdigit() for char in label) >= 4 for label in labels)
