"""Refuses names of people and programs that could be mistaken for another one, or for the system itself
(docs/specification/roles.md).

Journals and the audit stream show a name without further identification. So each name has one spelling (NFKC), the
letters of one script, and the digits 0 to 9: ``оwner`` with a Cyrillic ``о`` is refused.
"""

from __future__ import annotations

import unicodedata

from fabric.core.people.eligibility import ALONE, PROGRAM, SYSTEM
from fabric.core.people.roles import Role

COMMAND_LINE = "command_line"
"""Channel of an act at the machine itself."""
RESERVED = frozenset({SYSTEM, COMMAND_LINE, PROGRAM, ALONE, "anonymous", "parent", "unknown", *Role})
"""Words that journals and the audit stream have for something else, and the roles that carry rights."""
_LOOKS = str.maketrans("01аеорсухіѕјԛԝһοαρνικτυ", "olaeopcyxisjqwhoapviktu")
"""Digits and letters of Cyrillic and Greek by the Latin letter that they look like."""
_SEPARATORS = str.maketrans("", "", "._+-@")
TOGETHER = {"HIRAGANA": "JAPANESE", "KATAKANA": "JAPANESE", "KATAKANA-HIRAGANA": "JAPANESE", "CJK": "JAPANESE"}
"""Scripts that one language writes together."""


def name_problem(name: str) -> str:
    """Return why a name is not allowed, in one sentence; "" if it is. Whether it is taken is checked elsewhere."""
    if unicodedata.normalize("NFKC", name) != name:
        return "a name is written with plain letters, as a keyboard has them: choose another one"
    if any(sign.isnumeric() and sign not in "0123456789" for sign in name):
        return "the digits of a name are 0 to 9: choose another one"
    scripts = sorted({_script(sign) for sign in name if sign.isalpha()})
    if len(scripts) > 1:
        mixed = " and ".join(one.capitalize() for one in scripts)
        return f"a name has the letters of one script, and this one mixes {mixed}: choose another one"
    if alike(name).translate(_SEPARATORS) in _RESERVED:
        return f"{name} means something else in journals and in the audit stream: choose another name"
    return ""


def alike(name: str) -> str:
    """Return a key that is equal for two names that look alike at a glance."""
    return name.casefold().translate(_LOOKS)


_RESERVED = frozenset(alike(one).translate(_SEPARATORS) for one in RESERVED)


def _script(letter: str) -> str:
    first = unicodedata.name(letter, "UNKNOWN").partition(" ")[0]
    return TOGETHER.get(first, first)
