"""Random draws without a generator: keyed by (run seed, purpose, command id), so every process draws the same."""

from __future__ import annotations

from hashlib import blake2b


def unit(seed: int, purpose: str, key: str) -> float:
    """A number in [0, 1), uniform over keys; the same arguments give the same number anywhere (design.md 2, idea 2)."""
    raw = blake2b(f"{seed}|{purpose}|{key}".encode(), digest_size=8).digest()
    return (int.from_bytes(raw, "big") >> 11) / 9_007_199_254_740_992.0
