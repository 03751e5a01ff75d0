"""Packs a journal row's header and payload for the database: zstd with a small dictionary of their common parts.

All other code, the chain of hashes too, uses the unpacked bytes. Packing is no check: a row that was changed in the
database unpacks to something else, or not at all, and its run's hashes show it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from hashlib import sha256

import zstandard

from fabric.packing import dictionary_1

MAGIC = b"\x28\xb5\x2f\xfd"
"""First bytes of a zstd frame. JSON never begins so: a row without them is not packed."""
LEVEL = 3
MAX_BYTES = 64 * 1_024 * 1_024
"""Largest unpacked size: a frame with a larger one stays packed, and a larger value is stored as it is."""
NEWEST = 1
"""Number of the dictionary for packing."""


def check_dictionary(content: bytes, digest: str) -> bytes:
    """Return a dictionary if it is the one that packed the rows. Raises RuntimeError for another: it would read none
    of them.
    """
    if sha256(content).hexdigest() != digest:
        raise RuntimeError(
            "a dictionary in fabric/packing is not the one that journal rows were packed under; put the file back as it was released"
        )
    return content


DICTIONARIES: Mapping[int, bytes] = {1: check_dictionary(dictionary_1.CONTENT, dictionary_1.SHA256)}
"""Every dictionary that ever existed, by the number in its frames. None is changed, none removed."""

# Prepared once: threads may share it, but it must not be prepared a second time.
_NEWEST = zstandard.ZstdCompressionDict(DICTIONARIES[NEWEST])
_NEWEST.precompute_compress(level=LEVEL)


class _Contexts(threading.local):
    """Contexts that pack and unpack: not safe from two threads, and worth keeping."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=LEVEL, dict_data=_NEWEST, write_checksum=False)
        self.decompressors = {
            number: zstandard.ZstdDecompressor(dict_data=zstandard.ZstdCompressionDict(content))
            for number, content in DICTIONARIES.items()
        }


_contexts = _Contexts()


def pack(raw: bytes) -> bytes:
    """Return JSON as it is stored: packed, or unchanged where that is no longer."""
    if len(raw) > MAX_BYTES:
        return raw
    packed = _contexts.compressor.compress(raw)
    # A value that only looks packed could not be told apart.
    return packed if len(packed) < len(raw) or raw.startswith(MAGIC) else raw


def unpack(stored: bytes) -> bytes:
    """Return the unpacked value. A value that is not packed, or cannot be unpacked, is returned as stored: the
    hashes judge it.
    """
    if not stored.startswith(MAGIC):
        return stored
    try:
        frame = zstandard.get_frame_parameters(stored)
        decompressor = _contexts.decompressors.get(frame.dict_id)
        # A frame without a size reports the largest one.
        if decompressor is None or frame.content_size > MAX_BYTES:
            return stored
        return decompressor.decompress(stored, allow_extra_data=False)
    except zstandard.ZstdError:
        return stored
