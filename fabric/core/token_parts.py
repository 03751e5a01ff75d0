"""Kinds of tokens that providers bill at prices of their own."""

from __future__ import annotations

from fabric.core.frozen import value


@value(kw_only=True)
class TokenParts:
    """Tokens that have prices of their own. The first three are part of the input, the others of the output."""

    cached: int = 0
    """Input read from the provider's prompt cache."""
    cache_written: int = 0
    """Input written to that cache."""
    audio_in: int = 0
    reasoning: int = 0
    audio_out: int = 0


NO_PARTS = TokenParts()
