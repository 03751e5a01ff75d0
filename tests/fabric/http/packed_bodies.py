"""Bodies packed as servers pack them."""

import gzip
import zlib
from functools import cache

import brotli
import zstandard


def raw_deflate(body: bytes) -> bytes:
    engine = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return engine.compress(body) + engine.flush()


def zstd(body: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=19).compress(body)


PACK = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd,
}
WAYS = [*PACK.items(), ("deflate", raw_deflate)]
"""A name in Content-Encoding, and what a server does that writes it."""
BOMB_BYTES = 40_000_000


@cache
def bomb(name: str) -> bytes:
    """Few bytes that unpack to BOMB_BYTES."""
    return PACK[name](bytes(BOMB_BYTES))
