"""Money in integer micro-dollars. Prices are micro-dollars per million tokens; every rounding is up, against us."""

from __future__ import annotations

from dataclasses import dataclass

TOKENS_PER_PRICE = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs. ``input_usd_micros_per_mtok`` is micro-dollars for a million input tokens."""

    input_usd_micros_per_mtok: int
    output_usd_micros_per_mtok: int

    def cost(self, input_tokens: int, output_tokens: int) -> int:
        """Micro-dollars for that many tokens, rounded up."""
        raw = input_tokens * self.input_usd_micros_per_mtok + output_tokens * self.output_usd_micros_per_mtok
        return -(-raw // TOKENS_PER_PRICE)


def worst_input_tokens(prompt_bytes: int) -> int:
    """An upper bound of the tokens in a prompt: byte-level tokenisers never give more tokens than bytes."""
    return prompt_bytes
