"""The price that a fabric states for a model."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

from pydantic import Field, ValidationInfo, WithJsonSchema, field_validator

from fabric.core.cost import Price
from fabric.core.spec_parts import SpecGroup, absent

_Dollars = Annotated[
    str,
    WithJsonSchema({"type": ["string", "number"], "description": "Dollars per million tokens, such as 0.15."}),
]


_OwnPrice = Annotated[
    str | None,
    WithJsonSchema({"anyOf": [{"type": ["string", "number"]}, {"type": "null"}], "default": None}),
]


def _own(description: str) -> Any:
    return Field(default=None, exclude_if=absent, description=description)


class ModelPrice(SpecGroup):
    """Dollars per million tokens, as decimal text: "0.15". Zero only where it is written."""

    input_usd_per_mtok: _Dollars
    output_usd_per_mtok: _Dollars
    cached_usd_per_mtok: _OwnPrice = _own("Input read from the provider's cache. None: as input.")
    cache_write_usd_per_mtok: _OwnPrice = _own("Input written to that cache. None: twice the input.")
    audio_in_usd_per_mtok: _OwnPrice = _own("Audio in the input. None: as input.")
    reasoning_usd_per_mtok: _OwnPrice = _own("Reasoning. None: as output.")
    audio_out_usd_per_mtok: _OwnPrice = _own("Audio in the output. None: as output.")

    @field_validator("*", mode="before")
    @classmethod
    def _decimal(cls, value: Any, info: ValidationInfo) -> str | None:
        if value is None and info.field_name not in ("input_usd_per_mtok", "output_usd_per_mtok"):
            return None
        text = str(value)
        try:
            amount = Decimal(text)
        except InvalidOperation:
            raise ValueError(f"{text!r} is not a price; write dollars per million tokens, such as 0.15") from None
        if not (amount.is_finite() and 0 <= amount <= 100_000):
            raise ValueError(f"{text!r} is not a price between 0 and 100000 dollars per million tokens")
        return text

    def price(self) -> Price:
        """In integer micro-dollars per million tokens, rounded up."""

        def micros(text: str) -> int:
            return int((Decimal(text) * 1_000_000).to_integral_value(rounding="ROUND_CEILING"))

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
