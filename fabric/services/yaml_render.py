"""JSON values as YAML text in the style of ``fabric_dump``: groups and lists in block style, dashes two spaces in, long text as literal blocks.

What it writes, ``read_yaml`` reads back as the same value of the same type.
"""

from __future__ import annotations

import json
import re
from typing import Any

JSON = Any

_SAFE = "\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff"
_UNSAFE = re.compile(f"[^{_SAFE}]")
"""What is written as an escape: control characters, line and paragraph separators, the byte order mark."""
_LITERAL = re.compile(f"[{_SAFE}\t]+(?:\n[{_SAFE}\t]*)*")
_NO_PLAIN = re.compile(r"[-?:,\[\]{}#&*!|>'\"%@`=~ ]|\.\.\.|$")
"""How text begins that would not be taken for text, or not for one that is short."""
_NO_PLAIN_WITHIN = re.compile(r":(?: |$)| #| $")
_NO_PLAIN_IN_FLOW = re.compile(r"[,\[\]{}]")
_OF_ANOTHER_TYPE = re.compile(
    r"null|true|false|yes|no|on|off|[-+]?\.?[0-9][0-9a-fx_o.:,+-]*|[-+]?\.(?:inf|nan)|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*",
    re.IGNORECASE,
)
"""Text that some YAML program takes for a number, a truth value, nothing or a date."""


def scalar_text(value: JSON, *, quote: str = "", flow: bool = False) -> str:
    """A scalar on one line. ``quote``: how text is quoted where it can be chosen; ``flow``: it stands in a collection in flow style."""
    if isinstance(value, str):
        return _string(value, quote, flow)
    if isinstance(value, float):
        digits, exponent, power = repr(value).partition("e")
        # A float without a point is text to a program of YAML 1.1.
        return f"{digits}{'' if '.' in digits else '.0'}{exponent}{power}"
    return json.dumps(value)


def _string(value: str, quote: str, flow: bool) -> str:
    if quote == '"' or _UNSAFE.search(value):
        text = json.dumps(value, ensure_ascii=False)
        return _UNSAFE.sub(_escaped, text)
    if quote == "'" or not _is_plain(value, flow):
        return "'" + value.replace("'", "''") + "'"
    return value


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _is_plain(value: str, flow: bool) -> bool:
    return not (
        _NO_PLAIN.match(value)
        or _NO_PLAIN_WITHIN.search(value)
        or _OF_ANOTHER_TYPE.fullmatch(value)
        or (flow and _NO_PLAIN_IN_FLOW.search(value))
    )


def flow_text(value: JSON, quote: str = "") -> str:
    """A value on one line, collections in flow style. ``quote`` as for a scalar, names included."""
    if isinstance(value, dict):
        fields = (
            f"{scalar_text(name, quote=quote, flow=True)}: {flow_text(item, quote)}" for name, item in value.items()
        )
        return f"{{{', '.join(fields)}}}"
    if isinstance(value, list):
        return f"[{', '.join(flow_text(item, quote) for item in value)}]"
    return scalar_text(value, quote=quote, flow=True)


def on_one_line(value: JSON) -> bool:
    """Whether block style writes a value on one line: scalars, and what is empty."""
    return not value if isinstance(value, dict | list) else not is_literal(value)


def is_literal(value: JSON) -> bool:
    """Whether a value is text of several lines that a literal block holds as it is."""
    if not isinstance(value, str) or "\n" not in value or not _LITERAL.fullmatch(value):
        return False
    body = value.removesuffix("\n")
    # Space at the beginning would be taken for the indentation, and lines at the end that are empty for what stands between two fields.
    return not value[0].isspace() and bool(body.rpartition("\n")[2].strip())


def literal_head(value: str) -> str:
    """The indicator of a literal block."""
    return "|" if value.endswith("\n") else "|-"


def literal_lines(value: str, column: int) -> list[str]:
    """The lines of a literal block, ``column`` spaces in."""
    return [" " * column + line if line else "" for line in value.removesuffix("\n").split("\n")]


def entry_lines(head: str, value: JSON, column: int) -> list[str]:
    """One entry of a collection in block style. ``head``: its name with the colon, or its dash; ``column``: how many spaces it stands in."""
    lead = " " * column + head
    if on_one_line(value):
        return [f"{lead} {flow_text(value) if isinstance(value, dict | list) else scalar_text(value)}"]
    if isinstance(value, str):
        return [f"{lead} {literal_head(value)}", *literal_lines(value, column + 2)]
    lines = block_lines(value, column + 2)
    if head == "-":
        return [f"{lead} {lines[0].lstrip(' ')}", *lines[1:]]
    return [lead, *lines]


def block_lines(value: JSON, column: int) -> list[str]:
    """The lines of a group or list in block style that is not empty, ``column`` spaces in."""
    if isinstance(value, dict):
        return [line for name, item in value.items() for line in entry_lines(f"{scalar_text(name)}:", item, column)]
    return [line for item in value for line in entry_lines("-", item, column)]


def document_text(value: JSON) -> str:
    """A whole document, without the line break at its end."""
    if isinstance(value, dict | list) and value:
        return "\n".join(block_lines(value, 0))
    return flow_text(value)
