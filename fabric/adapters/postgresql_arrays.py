"""PostgreSQL arrays in the binary wire format, each packed once from a column of values.

Quoting text arrays took more than half of a bare journal writer's time (performance.md, "How to get there" 10). Format: PostgreSQL
source, ``array_send``: dimensions, a flag for nulls, the element's type; the length and lower bound; each element after its length.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct

_HEAD = Struct("!iiI")
_DIMENSION = Struct("!ii")
_LENGTH = Struct("!i")
_BIGINT = Struct("!iq")
_DOUBLE = Struct("!id")
_NULL = _LENGTH.pack(-1)
_TRUE = _LENGTH.pack(1) + b"\1"
_FALSE = _LENGTH.pack(1) + b"\0"


def texts(values: Sequence[str | None]) -> bytes:
    """``text[]``. UnicodeEncodeError for a lone surrogate: text is cleaned before it comes here."""
    return _array(25, len(values), _lengthed(None if value is None else value.encode() for value in values))


def byteas(values: Sequence[bytes | None]) -> bytes:
    """``bytea[]``."""
    return _array(17, len(values), _lengthed(values))


def bigints(values: Sequence[int | None]) -> bytes:
    """``bigint[]``."""
    pack = _BIGINT.pack
    return _array(20, len(values), [_NULL if value is None else pack(8, value) for value in values])


def doubles(values: Sequence[float | None]) -> bytes:
    """``double precision[]``."""
    pack = _DOUBLE.pack
    return _array(701, len(values), [_NULL if value is None else pack(8, value) for value in values])


def bools(values: Sequence[bool | None]) -> bytes:
    """``boolean[]``."""
    return _array(16, len(values), [_TRUE if value else _NULL if value is None else _FALSE for value in values])


def _lengthed(values: Iterable[bytes | None]) -> list[bytes]:
    pack = _LENGTH.pack
    parts: list[bytes] = []
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            parts.append(pack(len(value)))
            parts.append(value)
    return parts


def _array(element: int, length: int, parts: list[bytes]) -> bytes:
    if not length:
        return _HEAD.pack(0, 0, element)
    # The flag may say that there are nulls when there are none: the elements tell for themselves.
    return b"".join([_HEAD.pack(1, 1, element), _DIMENSION.pack(length, 1), *parts])
