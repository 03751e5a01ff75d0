"""The prices that a fabric states: of a model's tokens, and of one call of a tool."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationInfo, WithJsonSchema, field_validator

from fabric.core.schema.limits import REQUIRED, Unit, declare_amount
from fabric.core.schema.parts import SpecGroup
from fabric.core.values.cost import Price

_Dollars = Annotated[
    str,
    WithJsonSchema({"type": ["string", "number"]}),
]


_OwnPrice = Annotated[
    str | None,
    WithJsonSchema({"anyOf": [{"type": ["string", "number"]}, {"type": "null"}], "default": None}),
]


def _price(default: Any, title: str, description: str) -> Any:
    return declare_amount(default, title, Unit.USD_PER_MTOK, description)


def _price_text(value: Any, unit: str, example: str) -> str:
    """Returns a price as it is written. Raises ValueError where it is none."""
    text = str(value)
    try:
        amount = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text!r} is not a price; write dollars {unit}, such as {example}") from None
    if not (amount.is_finite() and 0 <= amount <= 100_000):
        raise ValueError(f"{text!r} is not a price between 0 and 100000 dollars {unit}")
    return text


def micros(text: str) -> int:
    """Dollars as decimal text in integer micro-dollars, rounded up."""
    return int((Decimal(text) * 1_000_000).to_integral_value(rounding="ROUND_CEILING"))


def _call_price(value: Any) -> str | None:
    return None if value is None else _price_text(value, "for one call", "0.005")


CallPrice = Annotated[
    str | None,
    BeforeValidator(_call_price),
    WithJsonSchema({"anyOf": [{"type": ["string", "number"]}, {"type": "null"}], "default": None}),
]
"""Dollars for one call of a tool, as decimal text: "0.005". None: it costs nothing."""


class ModelPrice(SpecGroup):
    """Dollars per million tokens, as decimal text: "0.15". Zero only where it is written."""

    input_usd_per_mtok: _Dollars = _price(REQUIRED, "Price of input", "Dollars per million tokens, such as 0.15.")
    output_usd_per_mtok: _Dollars = _price(REQUIRED, "Price of output", "Dollars per million tokens, such as 0.15.")
    cached_usd_per_mtok: _OwnPrice = _price(
        None, "Price of cached input", "Input read from the provider's cache. None: as input."
    )
    cache_write_usd_per_mtok: _OwnPrice = _price(
        None, "Price of cache writes", "Input written to that cache. None: twice the input."
    )
    audio_in_usd_per_mtok: _OwnPrice = _price(None, "Price of audio in", "Audio in the input. None: as input.")
    reasoning_usd_per_mtok: _OwnPrice = _price(None, "Price of reasoning", "Reasoning. None: as output.")
    audio_out_usd_per_mtok: _OwnPrice = _price(None, "Price of audio out", "Audio in the output. None: as output.")

    @field_validator("*", mode="before")
    @classmethod
    def _decimal(cls, value: Any, info: ValidationInfo) -> str | None:
        if value is None and info.field_name not in ("input_usd_per_mtok", "output_usd_per_mtok"):
            return None
        return _price_text(value, "per million tokens", "0.15")

    def price(self) -> Price:
        """Return the price in integer micro-dollars per million tokens, rounded up."""

        def own(text: str | None) -> int | None:
            return None if text is None else micros(text)

        return Price(
            micros(self.input_usd_per_mtok),
            micros(self.output_usd_per_mtok),
            own(self.cached_usd_per_mtok),
            own(self.cache_write_usd_per_mtok),
            own(self.audio_in_usd_per_mtok),
            own(self.reasoning_usd_per_mtok),
            own(self.audio_out_usd_per_mtok),
        )
