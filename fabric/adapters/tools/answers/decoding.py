"""Decodes the bytes of a body: by a byte order mark first, then by JSON's own form, the header, the document, else as UTF-8."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Mapping

from fabric.adapters.tools.answers.parsing import is_json

MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte order marks; UTF-32's stand before UTF-16's, which begin as they do."""
CHARSETS = frozenset(
    [
        *("utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"),
        *(f"iso8859-{number}" for number in (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16)),
        *(f"cp{number}" for number in (437, 850, 852, 866, 874, 932, 949, 950, *range(1250, 1259))),
        *("koi8-r", "koi8-u", "mac-roman", "gbk", "gb18030", "big5", "big5hkscs"),
        *("euc_jp", "iso2022_jp", "euc_kr", "tis-620"),
    ]
)
"""Codecs that a server may name. All others are passed over: some are no encodings of text, others can be made to take for ever."""
READ_AS: Mapping[str, str] = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "gb2312": "gbk",
    "shift_jis": "cp932",
    "utf-16": "utf-16-le",
    "utf-32": "utf-32-le",
}
"""Encodings that are read as a larger one that contains them, as browsers do (WHATWG Encoding, 4.2)."""
DOCUMENT_BYTES = 1_024
_named = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE)
_label = re.compile(r"[\w.:-]{1,40}", re.ASCII)


def text_of(body: bytes, kind: str, charset: str) -> str:
    """The text of a body of media type ``kind``; bytes without a character become U+FFFD. Never raises."""
    for mark, codec in MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(codec, "replace")
    return body.decode(_codec(body, kind, charset), "replace")


def _codec(body: bytes, kind: str, charset: str) -> str:
    if is_json(kind):
        # JSON is UTF-8 whatever its header says, and other UTFs show by where their zero bytes are. (RFC 8259, 8.1; RFC 4627, 3)
        seen = json.detect_encoding(body)
        if seen.startswith("utf-8") and (not charset or _is_utf8(body)):
            return "utf-8"
        if not seen.startswith("utf-8"):
            return seen
    if known := known_codec(charset):
        return known
    in_document = _named.search(body[:DOCUMENT_BYTES]) if kind.endswith(("html", "xml")) else None
    named = known_codec(in_document[1].decode("ascii", "replace")) if in_document else ""
    # A document that was read byte by byte so far is in no wide encoding, even if it names one.
    return "utf-8" if named.startswith("utf") else named or "utf-8"


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def known_codec(label: str) -> str:
    """The codec that a label means; empty: none that is read."""
    if not _label.fullmatch(label):
        return ""
    try:
        name = codecs.lookup(label).name
    except LookupError:
        return ""
    name = READ_AS.get(name, name)
    return name if name in CHARSETS else ""
