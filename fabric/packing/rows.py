"""How a journal row's header and payload lie in the database: packed by zstd under a small dictionary of what they have in common.

Everything above the tables, the chain of hashes too, goes by the bytes as they were before. Packing is no check: what was changed in the
database unpacks to something else, or not at all, and the hashes of its run say so.
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
"""What says that it unpacks to more is left packed, and what is larger is stored as it is."""
NEWEST = 1
"""The number of the dictionary that is packed under."""


def pinned(content: bytes, digest: str) -> bytes:
    """A dictionary that is the one rows were packed under. RuntimeError for another: it would read none of them."""
    if sha256(content).hexdigest() != digest:
        raise RuntimeError(
            "a dictionary in fabric/packing is not the one that journal rows were packed under; put the file back as it was released"
        )
    return content


DICTIONARIES: Mapping[int, bytes] = {1: pinned(dictionary_1.CONTENT, dictionary_1.SHA256)}
"""Every dictionary there ever was, by the number that is in its frames. None is changed, none taken out."""

# Prepared once: threads may share it, but it must not be prepared a second time.
_NEWEST = zstandard.ZstdCompressionDict(DICTIONARIES[NEWEST])
_NEWEST.precompute_compress(level=LEVEL)


class _Contexts(threading.local):
    """What packs and unpacks: not safe from two threads, and worth keeping."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=LEVEL, dict_data=_NEWEST, write_checksum=False)
        self.decompressors = {
            number: zstandard.ZstdDecompressor(dict_data=zstandard.ZstdCompressionDict(content))
            for number, content in DICTIONARIES.items()
        }


_contexts = _Contexts()


def pack(raw: bytes) -> bytes:
    """JSON as it is stored: packed, or as it is where that is no longer."""
    if len(raw) > MAX_BYTES:
        return raw
    packed = _contexts.compressor.compress(raw)
    # What looks packed and is not could not be told apart.
    return packed if len(packed) < len(raw) or raw.startswith(MAGIC) else raw


def unpack(stored: bytes) -> bytes:
    """What was packed. Whatever is not packed, or cannot be unpacked, as it is stored: it is the hashes that judge it."""
    if not stored.startswith(MAGIC):
        return stored
    try:
        frame = zstandard.get_frame_parameters(stored)
        decompressor = _contexts.decompressors.get(frame.dict_id)
        # A frame without a size says the largest there is.
        if decompressor is None or frame.content_size > MAX_BYTES:
            return stored
        return decompressor.decompress(stored, allow_extra_data=False)
    except zstandard.ZstdError:
        return stored
