"""Reads the body of an answer: its charset, its JSON, and a web page in place of data.

JSON of tools' answers that has one meaning is read; all else is refused in one sentence. A web page is a sign-in, a
proxy's page, or an error in markup.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape
from math import isfinite

from fabric.core.texts.text import DEPTH_MAX, DIGITS_MAX, count_nesting
from fabric.core.values.units import JSON

MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte order marks; UTF-32's precede UTF-16's, which begin like them."""
CHARSETS = frozenset(
    [
        *("utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"),
        *(f"iso8859-{number}" for number in (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16)),
        *(f"cp{number}" for number in (437, 850, 852, 866, 874, 932, 949, 950, *range(1250, 1259))),
        *("koi8-r", "koi8-u", "mac-roman", "gbk", "gb18030", "big5", "big5hkscs"),
        *("euc_jp", "iso2022_jp", "euc_kr", "tis-620"),
    ]
)
"""Codecs that a server may name. All others are ignored: some are no encodings of text, others can take for ever."""
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


def read_text(body: bytes, kind: str, charset: str) -> str:
    """Return the text of a body of media type ``kind``; bytes without a character become U+FFFD. Never raises."""
    for mark, codec in MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(codec, "replace")
    return body.decode(_codec(body, kind, charset), "replace")


def _codec(body: bytes, kind: str, charset: str) -> str:
    if is_json(kind):
        # JSON is UTF-8 whatever its header is, and other UTFs show by the places of their zero bytes. (RFC 8259, 8.1;
        # RFC 4627, 3)
        seen = json.detect_encoding(body)
        if seen.startswith("utf-8") and (not charset or _is_utf8(body)):
            return "utf-8"
        if not seen.startswith("utf-8"):
            return seen
    if known := find_codec(charset):
        return known
    in_document = _named.search(body[:DOCUMENT_BYTES]) if kind.endswith(("html", "xml")) else None
    named = find_codec(in_document[1].decode("ascii", "replace")) if in_document else ""
    # A document that was read byte by byte so far is in no wide encoding, even if it names one.
    return "utf-8" if named.startswith("utf") else named or "utf-8"


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def find_codec(label: str) -> str:
    """Return the codec of a label; empty: an unsupported one."""
    if not _label.fullmatch(label):
        return ""
    try:
        name = codecs.lookup(label).name
    except LookupError:
        return ""
    name = READ_AS.get(name, name)
    return name if name in CHARSETS else ""


JSON_TYPES = frozenset(["application/json", "text/json", "application/x-json", "text/x-json"])
LINES_TYPES = frozenset(
    [
        *("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonl"),
        *("application/jsonlines", "application/x-jsonlines", "application/json-lines", "application/stream+json"),
        *("application/x-json-stream", "application/json-seq", "application/jsonl+json"),
    ]
)
"""A JSON value a line; RFC 7464 puts a record separator before each."""
GUARD = ")]}'"
"""Guards that some servers put before JSON, with or without a comma or a line's end. No JSON begins so, so each has
one meaning.
"""
MARK, SEPARATOR = "\ufeff", "\x1e"


class NotJson(ValueError):
    """Text that is no JSON, or unreadable JSON. The message continues "the answer's JSON "."""


def is_json(kind: str) -> bool:
    """Return True for a media type of one JSON value (RFC 6839, 3.1)."""
    return kind in JSON_TYPES or (kind.endswith("+json") and kind not in LINES_TYPES)


def is_json_lines(kind: str) -> bool:
    """Return True for a media type of a JSON value a line."""
    return kind in LINES_TYPES


def read_value(text: str) -> JSON:
    """Return the one JSON value in a text. Raises NotJson.

    Control characters in strings are read. NaN and infinities are left as they are; a number too large for a float
    becomes its text.
    """
    text = text.lstrip(MARK).strip()
    if text.startswith(GUARD):
        text = text[len(GUARD) :].removeprefix(",").strip()
    if count_nesting(text) > DEPTH_MAX:
        raise NotJson(f"is nested deeper than {DEPTH_MAX} levels")
    try:
        value, end = _decoder.raw_decode(text)
    except json.JSONDecodeError as error:
        cut = " (it ends too early)" if error.pos >= len(text) else ""
        raise NotJson(
            f"cannot be read at line {error.lineno}, column {error.colno}{cut}: {error.msg.lower()}"
        ) from None
    if rest := text[end:].strip():
        more = "a second value" if rest[0] in '{["' else "something else"
        raise NotJson(f"goes on with {more} behind its end at character {end:,}; one value is wanted")
    return value


def list_values(text: str) -> list[JSON]:
    """Return the JSON values of the lines. Raises NotJson, which names the line."""
    values = []
    for number, line in enumerate(text.lstrip(MARK).split("\n"), start=1):
        if line := line.strip(f"{SEPARATOR} \t\r"):
            try:
                values.append(read_value(line))
            except NotJson as error:
                raise NotJson(f"is one value a line, and line {number:,} {error}") from None
    return values


def _integer(digits: str) -> int:
    if len(digits) > DIGITS_MAX:
        raise NotJson(f"has a number of {len(digits):,} digits; at most {DIGITS_MAX:,} are read")
    return int(digits)


def _number(digits: str) -> float | str:
    value = float(digits)
    return value if isfinite(value) else digits[:DIGITS_MAX]


_decoder = json.JSONDecoder(strict=False, parse_int=_integer, parse_float=_number)

LOOKED_AT_CHARS = 20_000
TITLE_CHARS = 100
SHORT_CHARS = 600
"""Largest number of characters of a page that asks to sign in, where it mentions that."""
_frame = re.compile(r"<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_before = (("<!--", "-->"), ("<?", "?>"))
"""Beginnings and ends of parts that may precede a page."""
_unseen = re.compile(r"<(script|style|noscript)\b.*?(?:</\1\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_tag = re.compile(r"<[^<>]*>")
_title = re.compile(r"<title[^<>]*>([^<]*)", re.IGNORECASE)
_heading = re.compile(r"<h[1-3][^<>]*>([^<]*)", re.IGNORECASE)
_password = re.compile(
    r"<input\b[^<>]*\btype\s*=\s*[\"']?password|name\s*=\s*[\"']?saml(?:request|response)", re.IGNORECASE
)
_words = re.compile(
    r"\b(?:log|sign)[\s-]*(?:in|on)\b|\blogin\b|\bauthenticat|\bsession (?:has )?(?:expired|timed out)|\banmeld|\bconnexion\b|\bse connecter\b|\biniciar sesi|\baccedi\b"
    r"|\binloggen\b|войти|вход в|登录|登入|ログイン|로그인",
    re.IGNORECASE,
)
_path = re.compile(
    r"(?:^|[/._-])(?:log|sign)[._-]?(?:in|on)\b|/(?:sso|saml2?|oauth2?|auth|authorize|cas|adfs)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page: its title or first heading, and True if it asks to sign in."""

    title: str
    signs_in: bool

    def __str__(self) -> str:
        """Return ``a page to sign in ("Title")``."""
        noun = "a page to sign in" if self.signs_in else "a web page"
        return f'{noun} ("{self.title}")' if self.title else noun


def find_page(text: str) -> WebPage | None:
    """Return the page in a text; None: there is none. A piece of markup without the frame of a page is none."""
    text = text[:LOOKED_AT_CHARS]
    if not _frame.match(text, _find_first_tag(text)):
        return None
    found = _title.search(text) or _heading.search(text)
    title = " ".join(unescape(found[1]).split())[:TITLE_CHARS] if found else ""
    said = visible(text)
    asks = bool(_password.search(text) or _words.search(title) or (len(said) <= SHORT_CHARS and _words.search(said)))
    return WebPage(title, asks)


def _find_first_tag(text: str) -> int:
    """Return the place of the first tag, behind comments and declarations."""
    start, found = 0, True
    while found:
        while start < len(text) and (text[start].isspace() or text[start] == "\ufeff"):
            start += 1
        found = False
        for opens, closes in _before:
            if text.startswith(opens, start) and (end := text.find(closes, start)) >= 0:
                start, found = end + len(closes), True
    return start


def visible(text: str) -> str:
    """Return the words of markup, on one line."""
    return " ".join(unescape(_tag.sub(" ", _unseen.sub(" ", text[:LOOKED_AT_CHARS]))).split())


def leads_to_sign_in(path: str) -> bool:
    """Return True where an address's path looks like a sign-in page."""
    return _path.search(path) is not None
