"""Cases of texts: TOML."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.services.errors import Refused
from simulator.drills.library.services import importable
from tests.hostile.measured import Case
from tests.simulator.drills.management.sources import source


def scenario(text: str) -> str:
    """Return what is said of a scenario: every mistake, one a line."""
    try:
        importable(text)
    except Refused as refused:
        return "\n".join(refused.problems)
    return "it can be read"


GOOD = source()
MOST = 256 * 1024


def filled(one: str, room: int = MOST) -> str:
    """A text repeated as often as it fits."""
    return one * (room // len(one))


def numbered(form: str, room: int = MOST) -> str:
    """Lines of one form with a number in each, as many as fit."""
    longest = len(form.format(n=10**6)) + 1
    return "\n".join(form.format(n=n) for n in range(room // longest))


TOML: Mapping[str, tuple[str, str]] = {
    "parts of a table": (f"[a{filled('.a', MOST - 10)}]\n", "line 1: this key has more than 8 parts"),
    "parts of a key": (f"a{filled('.a', MOST - 10)} = 1\n", "line 1: this key has more than 8 parts"),
    "parts with spaces": (f"[a{filled(' . a', MOST - 10)}]\n", "line 1: this key has more than 8 parts"),
    "parts in quotes": ("['a'" + filled('."a"', MOST - 10) + "]\n", "line 1: this key has more than 8 parts"),
    "parts within a table": (f"a = {{ a{filled('.a', MOST - 20)} = 1 }}", "line 1: this key has more than 8 parts"),
    "parts behind a text": (
        f'b = """\n"\\""""\n[a{filled(".a", MOST - 90)}]\n',
        "line 3: this key has more than 8 parts",
    ),
    "lists": (f"a = {filled('[', MOST - 10)}", "line 1: this value is nested more than 8 deep"),
    "tables": (f"a = {filled('{a=', MOST - 10)}", "line 1: this value is nested more than 8 deep"),
    "values": (f"a = [{filled('0,', MOST - 10)}]", "line 1: the text has more than 20000 keys and values"),
    "tables of 8 parts": (numbered("[a.b.c.d.e.f.g.k{n}]"), "the text has more than 20000 keys and values"),
    "as many values as there may be": (f"a = [{'0,' * 19_990}]", "is missing"),
    "as many keys as there may be": (numbered("k{n} = 0", 199_000), "is missing"),
    "as many mistakes as there may be": (
        numbered("k{n} = 0", 199_000),
        "there are [0-9,]{6} more mistakes; mend these first",
    ),
    "as many tables as there may be": (numbered("[k{n}]", 180_000), "is missing"),
    "keys of 8 parts": (numbered("k{n}.b.c.d.e.f.g.h = 0", 60_000), "is missing"),
    "digits": (f"a = {filled('9', MOST - 10)}", "this number or name has more than 200 characters"),
    "hexadecimal digits": (f"a = 0x{filled('f', MOST - 10)}", "this number or name has more than 200 characters"),
    "a text without an end": (f'a = """{filled("x", MOST - 10)}', "this is no TOML"),
    "quotes": (filled('"', MOST), "this is no TOML"),
    "a text": (f'a = """{filled("x", MOST - 20)}"""', "is missing"),
    "escapes": (f'a = "{filled(chr(92) + "n", MOST - 20)}"', "is missing"),
    "comments": (filled("#\n", MOST), "is missing"),
}

CASES: Mapping[str, Case] = {f"TOML, {name}": Case(scenario, GOOD, *row) for name, row in TOML.items()}
