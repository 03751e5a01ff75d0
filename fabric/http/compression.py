"""Unpacks bodies piece by piece, requested or not, so that a bomb never fills the memory (RFC 9110, 8.4)."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import brotli
import zstandard

PIECE = 65_536
"""Bytes that are unpacked at a time; brotli may give twice as many, zstd thirty times."""
WINDOW_MAX = 2**23
"""Largest window of a zstd stream, in bytes (RFC 9659)."""
ZSTD_BYTES = 64
"""Packed bytes that zstd gets at a time. They unpack to 2 MB at most, since four bytes make no more than one block of
128 kB.
"""
LAYERS_MAX = 3
"""Largest number of packings of one body, one inside the other."""


GZIP_MARK = b"\x1f\x8b"
"""First bytes of gzip; no text has them."""


class NotUnpacked(Exception):
    """A packed body that cannot be read. The message goes on from "the answer "."""

    def __init__(self, message: str, *, too_large: bool = False) -> None:
        super().__init__(message)
        self.too_large = too_large


class Packing(Protocol):
    """Unpacks one layer."""

    def unpack(self, packed: bytes) -> Iterator[bytes]:
        """Yield the unpacked bytes, in pieces. Raises NotUnpacked, and its library's errors for unreadable bytes."""

    def is_whole(self) -> bool:
        """Return True where the end was there."""


class _Gzip:
    """One member or several, one after another (RFC 1952, 2.2)."""

    def __init__(self) -> None:
        self._engine = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._head = b""
        self._plain = self._begun = False

    def unpack(self, packed: bytes) -> Iterator[bytes]:
        if not self._begun:
            self._head += packed
            if len(self._head) < len(GZIP_MARK):
                return
            packed, self._begun = self._head, True
            # A proxy that unpacked the body has left the header as it was.
            self._plain = packed.lstrip()[:1] in (b"{", b"[", b"<", b'"')
        if self._plain:
            yield packed
            return
        while packed:
            if self._engine.eof:
                packed = packed.lstrip(b"\0")  # Padding, which gzip passes over too.
                if not packed:
                    return
                self._engine = zlib.decompressobj(zlib.MAX_WBITS | 16)
            yield from _inflate(self._engine, packed)
            packed = self._engine.unused_data

    def is_whole(self) -> bool:
        return self._plain or self._engine.eof


class _Deflate:
    """A stream with zlib's head, as specified, or without, as many servers send it."""

    def __init__(self) -> None:
        self._head = b""
        self._engine = zlib.decompressobj()
        self._begun = False

    def unpack(self, packed: bytes) -> Iterator[bytes]:
        if not self._begun:
            self._head += packed
            if len(self._head) < 2:
                return
            packed, self._begun = self._head, True
            if packed[0] & 0x0F != zlib.DEFLATED or int.from_bytes(packed[:2]) % 31:
                self._engine = zlib.decompressobj(-zlib.MAX_WBITS)
        if not self._engine.eof:
            yield from _inflate(self._engine, packed)
            packed = self._engine.unused_data
        if self._engine.eof and packed:
            raise zlib.error("there is more behind the end")

    def is_whole(self) -> bool:
        return self._engine.eof


class _Brotli:
    def __init__(self) -> None:
        self._engine = brotli.Decompressor()

    def unpack(self, packed: bytes) -> Iterator[bytes]:
        piece = self._engine.process(packed, output_buffer_limit=PIECE)
        yield piece
        while len(piece) >= PIECE or not self._engine.can_accept_more_data():
            piece = self._engine.process(b"", output_buffer_limit=PIECE)
            yield piece

    def is_whole(self) -> bool:
        return bool(self._engine.is_finished())


class _Zstd:
    """One frame or several, one after another (RFC 8878, 3)."""

    def __init__(self) -> None:
        self._engine = self._new()

    def _new(self) -> zstandard.ZstdDecompressionObj:
        return zstandard.ZstdDecompressor(max_window_size=WINDOW_MAX).decompressobj(write_size=PIECE)

    def unpack(self, packed: bytes) -> Iterator[bytes]:
        for start in range(0, len(packed), ZSTD_BYTES):
            part = packed[start : start + ZSTD_BYTES]
            while part:
                if self._engine.eof:
                    self._engine = self._new()
                yield self._engine.decompress(part)
                part = self._engine.unused_data if self._engine.eof else b""

    def is_whole(self) -> bool:
        return self._engine.eof


PACKINGS: Mapping[str, Callable[[], Packing]] = {
    "gzip": _Gzip,
    "x-gzip": _Gzip,
    "deflate": _Deflate,
    "br": _Brotli,
    "zstd": _Zstd,
}
"""Packings by the name in ``Content-Encoding``."""


def _inflate(engine: zlib._Decompress, packed: bytes) -> Iterator[bytes]:
    while True:
        piece = engine.decompress(packed, PIECE)
        yield piece
        packed = engine.unconsumed_tail
        if engine.eof or (not packed and len(piece) < PIECE):
            return


class Unpacker:
    """Unpacks one body that was packed with ``encodings``, in that order. No layer of it may have more than ``most``
    bytes.
    """

    def __init__(self, encodings: Sequence[str], most: int) -> None:
        self._name, self._most = ", ".join(encodings)[:60], most
        if unknown := [one for one in encodings if one not in PACKINGS]:
            raise NotUnpacked(f"is packed in a way that is not known here ({unknown[0][:20]!r}); it is not read")
        if len(encodings) > LAYERS_MAX:
            raise NotUnpacked(f"is packed {len(encodings)} times; at most {LAYERS_MAX} layers are unpacked")
        self._layers = [PACKINGS[one]() for one in reversed(encodings)]
        self._sizes = [0] * (len(encodings) + 1)

    def unpack(self, packed: bytes) -> Iterator[bytes]:
        """Yield the bytes that can be read now, in pieces. Raises NotUnpacked."""
        try:
            yield from self._unpack_layer(0, packed)
        except (zlib.error, brotli.error, zstandard.ZstdError):
            raise NotUnpacked(
                f"says that it is packed ({self._name}), but cannot be unpacked; it is not read"
            ) from None

    def end(self) -> None:
        """Raise NotUnpacked where the end of a layer is missing. An empty body is not packed."""
        if self._sizes[0] and not all(layer.is_whole() for layer in self._layers):
            raise NotUnpacked(f"is packed ({self._name}) and ends before it is whole; it is not read")

    def _unpack_layer(self, layer: int, data: bytes) -> Iterator[bytes]:
        self._sizes[layer] += len(data)
        if self._sizes[layer] > self._most:
            sentence = f"is larger than {self._most:,} bytes when it is unpacked; the rest is not read"
            raise NotUnpacked(sentence, too_large=True)
        if layer == len(self._layers):
            yield data
            return
        for piece in self._layers[layer].unpack(data):
            if piece:
                yield from self._unpack_layer(layer + 1, piece)
