"""Money in integer micro-dollars. Prices are micro-dollars per million tokens; every rounding is up, against us."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from fabric.core.values.frozen import value

TOKENS_PER_PRICE = 1_000_000
CACHE_WRITE_FACTOR = 2
"""Price of a cache write without a price of its own, as a multiple of the input's. It is the most that a provider
charges (Anthropic, cached for an hour).
"""


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
TOKEN_KINDS = ("input", "cached", "cache_written", "audio_in", "output", "reasoning", "audio_out")
"""All kinds of tokens: the parts of each side, and the rest of the side."""


def count_by_kind(input_tokens: int, output_tokens: int, parts: TokenParts) -> Mapping[str, int]:
    """Return a call's tokens by kind, without zeros; they add up to its input and its output."""
    of_input, of_output = parts.cached + parts.cache_written + parts.audio_in, parts.reasoning + parts.audio_out
    found = {kind: getattr(parts, kind, 0) for kind in TOKEN_KINDS}
    found |= {"input": input_tokens - of_input, "output": output_tokens - of_output}
    return {kind: tokens for kind, tokens in found.items() if tokens > 0}


@dataclass(frozen=True, slots=True)
class Price:
    """The prices of a model. ``input_usd_micros_per_mtok`` is micro-dollars for a million input tokens.

    A kind of token without a price (None) costs as much as its side, and a cache write ``CACHE_WRITE_FACTOR`` times
    the input.
    """

    input_usd_micros_per_mtok: int
    output_usd_micros_per_mtok: int
    cached_usd_micros_per_mtok: int | None = None
    cache_write_usd_micros_per_mtok: int | None = None
    audio_in_usd_micros_per_mtok: int | None = None
    reasoning_usd_micros_per_mtok: int | None = None
    audio_out_usd_micros_per_mtok: int | None = None

    def cost(self, input_tokens: int, output_tokens: int, parts: TokenParts = NO_PARTS) -> int:
        """Return the micro-dollars for that many tokens, rounded up. ``parts``: those among them that may have other
        prices.
        """
        raw = input_tokens * self.input_usd_micros_per_mtok + output_tokens * self.output_usd_micros_per_mtok
        if parts is not NO_PARTS:
            raw = max(0, raw + sum(tokens * (of_part - of_side) for tokens, of_part, of_side in self._parts(parts)))
        return -(-raw // TOKENS_PER_PRICE)

    @property
    def free(self) -> bool:
        """Return True if no token costs anything."""
        return not any(getattr(self, one.name) for one in fields(self))

    def raised_to(self, floor: Price) -> Price:
        """Return the dearer of the two for each kind of token."""
        own, least = self.of_each(), floor.of_each()
        return Price(**{name: max(own[name], least[name]) for name in own}) if self.fields_below(floor) else self

    def fields_below(self, floor: Price) -> list[str]:
        """Return the fields whose price, or its substitute, is below another's."""
        own, least = self.of_each(), floor.of_each()
        return [name for name in own if own[name] < least[name]]

    def of_each(self) -> dict[str, int]:
        """Return the price of each field, or its substitute if it has none."""
        side_in, side_out = self.input_usd_micros_per_mtok, self.output_usd_micros_per_mtok
        written = _or(self.cache_write_usd_micros_per_mtok, side_in * CACHE_WRITE_FACTOR)
        return {
            "input_usd_micros_per_mtok": side_in,
            "output_usd_micros_per_mtok": side_out,
            "cached_usd_micros_per_mtok": _or(self.cached_usd_micros_per_mtok, side_in),
            "cache_write_usd_micros_per_mtok": written,
            "audio_in_usd_micros_per_mtok": _or(self.audio_in_usd_micros_per_mtok, side_in),
            "reasoning_usd_micros_per_mtok": _or(self.reasoning_usd_micros_per_mtok, side_out),
            "audio_out_usd_micros_per_mtok": _or(self.audio_out_usd_micros_per_mtok, side_out),
        }

    def costs_by_kind(self, kinds: Mapping[str, int]) -> dict[str, int]:
        """Return the micro-dollars of so many tokens of each kind (``TOKEN_KINDS``), rounded up."""
        parts = zip(fields(TokenParts), self._parts(NO_PARTS), strict=True)
        prices = {part.name: each for part, (_, each, _) in parts}
        prices |= {"input": self.input_usd_micros_per_mtok, "output": self.output_usd_micros_per_mtok}
        return {kind: -(-tokens * prices[kind] // TOKENS_PER_PRICE) for kind, tokens in kinds.items()}

    def part_costs(self, parts: TokenParts) -> dict[str, int]:
        """Return the micro-dollars of each part that has tokens, by its name, rounded up."""
        kinds = zip(fields(TokenParts), self._parts(parts), strict=True)
        return {kind.name: -(-tokens * each // TOKENS_PER_PRICE) for kind, (tokens, each, _) in kinds if tokens}

    def _parts(self, parts: TokenParts) -> tuple[tuple[int, int, int], ...]:
        """Return ``(tokens, their price, the price of their side)`` of each part, in the order of its fields."""
        of = self.of_each()
        side_in, side_out = self.input_usd_micros_per_mtok, self.output_usd_micros_per_mtok
        return (
            (parts.cached, of["cached_usd_micros_per_mtok"], side_in),
            (parts.cache_written, of["cache_write_usd_micros_per_mtok"], side_in),
            (parts.audio_in, of["audio_in_usd_micros_per_mtok"], side_in),
            (parts.reasoning, of["reasoning_usd_micros_per_mtok"], side_out),
            (parts.audio_out, of["audio_out_usd_micros_per_mtok"], side_out),
        )

    def worst_cost(self, input_tokens: int, output_tokens: int) -> int:
        """Return the micro-dollars that a call of so many tokens may cost; all of its output may be reasoning."""
        reasoning = self.reasoning_usd_micros_per_mtok
        if reasoning is None or reasoning <= self.output_usd_micros_per_mtok:
            return self.cost(input_tokens, output_tokens)
        return self.cost(input_tokens, output_tokens, TokenParts(reasoning=output_tokens))


def _or(price: int | None, otherwise: int) -> int:
    return otherwise if price is None else price


def worst_input_tokens(prompt_bytes: int) -> int:
    """Return an upper bound of the tokens in a prompt: byte-level tokenisers never give more tokens than bytes."""
    return prompt_bytes
