"""Replaces pictures, sounds and other bytes in a tool's answer by their type and size.

So no base64 reaches a model as text. It finds bytes by their surroundings (a MIME type next to ``data`` or ``blob``,
a data URI, RFC 2397) or by their beginning. Any other run of base64 counts as bytes only from ``BARE_CHARS`` on:
tokens and signatures are base64 too, and pass whole.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

from fabric.core.values.units import JSON

BARE_CHARS = 4_000
"""Least number of characters of unmarked base64 that count as bytes."""
RUN_CHARS = 64
"""Least length of a run of base64 that is examined."""
UNKNOWN_TYPE = "application/octet-stream"
BEGINS: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b\x08", "application/gzip"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
)
"""Beginnings of files, with their MIME type."""
BOXES: Mapping[bytes, Mapping[bytes, str]] = {
    b"RIFF": {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"},
}
"""Files with their type at byte 8."""
_SHORT = {b"BM", b"\xff\xfb", b"ID3"}
"""Beginnings that ordinary base64 has by chance: only long runs count as such a file."""
MIME_KEYS = frozenset({"mimetype", "mime_type", "mediatype", "media_type", "contenttype", "content_type"})
DATA_KEYS = frozenset({"data", "blob", "base64", "bytes", "content", "body"})
_data_uri = re.compile(r"data:(?P<type>[\w.+-]+/[\w.+-]+)?(?:;[\w.+-]+=[^;,\s]*)*;base64,(?P<data>[A-Za-z0-9+/_=%-]+)")
_run = re.compile(rf"[A-Za-z0-9+/_-]{{{RUN_CHARS},}}(?:\r?\n[A-Za-z0-9+/_-]+)*={{0,2}}")
_whole = re.compile(r"[A-Za-z0-9+/_\s-]*={0,2}\s*")


def placeholder(kind: str, size: int) -> str:
    """Return the placeholder for bytes inside a text or a structure."""
    return f"[{kind}, {size:,} bytes, left out: it is no text]"


def build_placeholder(kind: str, size: int) -> dict[str, JSON]:
    """Return the placeholder for a whole part of a result."""
    return {"type": kind, "bytes": size, "left_out": "it is no text"}


def decoded_size(data: str) -> int:
    """Return the number of bytes in a base64 text."""
    digits = sum(1 for one in data if not one.isspace() and one != "=")
    return digits * 3 // 4


def is_text(kind: str) -> bool:
    """Return True for the MIME type of a readable format."""
    kind = kind.partition(";")[0].strip().lower()
    return kind.startswith("text/") or kind.endswith(("+json", "+xml", "/json", "/xml", "/yaml"))


def decode_base64(data: str) -> bytes | None:
    """Return the bytes of a base64 text in either alphabet, wrapped or not; None for any other text."""
    plain = "".join(data.split()).rstrip("=").translate({ord("-"): "+", ord("_"): "/"})
    if len(plain) % 4 == 1:
        return None
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except ValueError:
        return None


def replace_bytes(value: JSON) -> JSON:
    """Return a JSON value with placeholders for bytes."""
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, list):
        return [replace_bytes(one) for one in value]
    if isinstance(value, dict):
        return _object(value)
    return value


def _object(given: dict[str, JSON]) -> JSON:
    kind = next((each for name, each in given.items() if name.lower() in MIME_KEYS and isinstance(each, str)), "")
    if not kind or is_text(kind):
        return {name: replace_bytes(one) for name, one in given.items()}
    return {name: _replace_beside(name, one, kind) for name, one in given.items()}


def _replace_beside(name: str, value: JSON, kind: str) -> JSON:
    """Return a value next to the MIME type of a binary format, with its bytes replaced."""
    if isinstance(value, str) and name.lower() in DATA_KEYS and value and _whole.fullmatch(value):
        return placeholder(kind, decoded_size(value))
    return replace_bytes(value)


def readable(text: str) -> str:
    """Return a text with placeholders for data URIs and for runs of base64 that are bytes."""
    if len(text) < RUN_CHARS and "base64," not in text:
        return text
    text = _data_uri.sub(lambda found: placeholder(found["type"] or UNKNOWN_TYPE, decoded_size(found["data"])), text)
    return _run.sub(_replace_run, text)


def _replace_run(found: re.Match[str]) -> str:
    run = found[0]
    kind = find_type(run)
    return placeholder(kind, decoded_size(run)) if kind else run


def find_type(run: str) -> str:
    """Return the MIME type of a run of base64; empty for a word, a token or a text."""
    head = decode_base64(run[:RUN_CHARS]) or b""
    long = len(run) >= BARE_CHARS
    for begins, kind in BEGINS:
        if head.startswith(begins) and (long or begins not in _SHORT):
            return kind
    if (box := BOXES.get(head[:4], {}).get(head[8:12])) is not None:
        return box
    if head[4:8] == b"ftyp":
        return "video/mp4"
    return UNKNOWN_TYPE if long and _is_bytes(run) else ""


def _is_bytes(run: str) -> bool:
    """Return True for a long run of base64 bytes: it has all kinds of characters, and decodes to invalid UTF-8."""
    mixed = all(any(test(one) for one in run[:BARE_CHARS]) for test in (str.isupper, str.islower, str.isdigit))
    raw = decode_base64(run) if mixed else None
    if raw is None:
        return False
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return b"\0" in raw
