"""Kinds of tokens that providers bill at prices of their own."""

from __future__ import annotations

from collections.abc import Mapping

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

KINDS = ("input", "cached", "cache_written", "audio_in", "output", "reasoning", "audio_out")
"""All kinds of tokens: the parts of each side, and what is left of the side."""


def by_kind(input_tokens: int, output_tokens: int, parts: TokenParts) -> Mapping[str, int]:
    """A call's tokens by kind, those that it has; they add up to its input and its output."""
    of_input, of_output = parts.cached + parts.cache_written + parts.audio_in, parts.reasoning + parts.audio_out
    found = {kind: getattr(parts, kind, 0) for kind in KINDS}
    found |= {"input": input_tokens - of_input, "output": output_tokens - of_output}
    return {kind: tokens for kind, tokens in found.items() if tokens > 0}
