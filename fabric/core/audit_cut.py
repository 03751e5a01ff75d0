"""A cut: what a signed marker in place of removed audit lines says, byte by byte. Without it the chain would have a gap that means tampering."""

from __future__ import annotations

import msgspec

from fabric.core.fingerprint import encode
from fabric.core.frozen import value

FORMAT = 1


@value(kw_only=True)
class CutBody:
    """What a marker signs. The chain came to it with ``prev`` and goes on from it with ``head``."""

    workspace: str
    first: int
    """Place of the first line that is gone..."""
    last: int
    """...and of the last one."""
    prev: str
    """Hash before the first, in hex."""
    head: str
    """Hash of the last, in hex."""
    at: int
    key: str
    """The public key whose signature it bears, in hex."""
    format: int = FORMAT


_read = msgspec.json.Decoder(CutBody).decode


def cut_bytes(body: CutBody) -> bytes:
    """What is signed: canonical JSON."""
    return encode(msgspec.to_builtins(body) | {"format": body.format})


def cut_read(raw: bytes) -> CutBody:
    """The body of a marker; ValueError for bytes that are none."""
    try:
        body = _read(raw)
    except msgspec.DecodeError as error:
        raise ValueError(f"its body cannot be read: {error}") from error
    if body.format != FORMAT:
        raise ValueError(f"it is of format {body.format}, this program knows {FORMAT}: upgrade it")
    return body
